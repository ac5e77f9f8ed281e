# linerate: see README.md. Everything here runs on a fresh machine with Go and make.
SHELL := /bin/bash
GO ?= go
BIN := bin/linerate
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
GOLANGCI := v2.15.0

export CGO_ENABLED ?= 0

.PHONY: all release release-test site build demo test truth slow full race abuse lint bench judge tuning fleet-test detection sine cross wine vm test-vm test-vm-short dist fuzz clean

all: build

build: ## linerate in bin/, and beside it the agent that it copies to other hosts: two static programs
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/linerate
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)-agent ./cmd/linerate-agent

demo: build ## the main job, in the built-in lab: find the limit, fix it, prove it, undo it
	./$(BIN) demo

# Tests with random input draw the same input each time here, and anew in make slow.
test: build ## right or wrong, in minutes and without luck; installs or names the foreign programs that it talks to
	@scripts/foreign
	RAPID_SEED=$${RAPID_SEED:-1} scripts/gotest -timeout 15m -p 6 -- ./...
	@scripts/foreign --report

truth: build ## measurements against a known truth: rates, delays, clocks; a majority of several tries decides; FOLDERS=internal/lab for some
	@scripts/foreign
	scripts/tier truth $(FOLDERS)

slow: build ## what is right or wrong and takes long: foreign programs in every mode, abuse, simulations; FOLDERS=cmd/linerate for some
	@scripts/foreign --emulators
	scripts/tier slow $(FOLDERS)

full: ## everything, in about four hours, with a closing table, before an issue is called resolved; goes on after a stop
	scripts/full

# Where goroutines share what they own, and the detector can be borne. The tests of deploy
# and of the watchdog, which copy and start this program again and again, take four minutes
# each with it; and netlink 1.3.1, which facts are read with, reads two bytes behind its
# generic header. SQLite, which is translated from C, is not instrumented: it took most of
# the time of the hub's tests.
RACY := $(addprefix ./internal/control/,access agent audit experiment runner session tuner wire/...) \
	./internal/host/journal ./internal/measure/budget ./internal/measure/accept ./internal/measure/responsiveness ./internal/app/hub

race: ## the race detector where goroutines share state (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -gcflags='github.com/ncruces/go-sqlite3-wasm/...=-race=false' -short -timeout 10m -p 2 $(RACY)

abuse: ## bad clients against linerate serve: every way in turn for LINERATE_HOSTILE=10m, a mix for LINERATE_ABUSE=60s
	$(GO) test -tags slow -timeout 90m -run Abuse -v ./cmd/linerate

lint: ## go vet, gofmt, golangci-lint at a pinned version, code that nothing calls
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "gofmt would change these"; exit 1; }
	$(GO) vet -tags "slow truth vm" ./...
	@test "$$(bin/golangci-lint version --short 2>/dev/null)" = "$(GOLANGCI:v%=%)" || GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	@! git ls-files '*.fail' | grep . || { echo "inputs that random tests found become named cases, and these files go"; exit 1; }
	bin/golangci-lint run --allow-parallel-runners ./...
	cd release && GOFLAGS=-mod=mod ../bin/golangci-lint run --allow-parallel-runners ./...
	scripts/dead

vm: ## the images of the machine lab, in LINERATE_VM or the user's cache: a Debian root and two kernels (as root, on Debian)
	scripts/vm

test-vm: vm ## whole machines in QEMU: what docs/systems.md tells, which SYSTEMS=-update writes; CARDS=e1000,pcnet looks at some cards, RANDOM=500 sets at random, RUN=. does all that there is
	$(GO) test -tags vm -timeout 120m -p 1 -parallel 4 -count 1 -v -run '$(or $(RUN),$(if $(RANDOM),TestRandom,$(if $(CARDS),TestCards,TestCards|TestFreeBSD)))' ./internal/lab/machine -args $(SYSTEMS) $(if $(CARDS),-cards.only=$(CARDS)) $(if $(RANDOM),-random=$(RANDOM))

test-vm-short: ## two cards and one reset, where make vm has made the images; a FreeBSD beside Debian, where LINERATE_FREEBSD names one
	$(GO) test -tags vm -timeout 12m -p 1 -count 1 -v -run 'TestCards|TestFreeBSDAgainstLinux' ./internal/lab/machine -args -cards.two

TARGETS ?= $(foreach os,linux freebsd darwin windows,$(os)/amd64 $(os)/arm64)
AGENTS ?= $(TARGETS) $(if $(findstring file,$(origin TARGETS)),$(addprefix linux/,arm mipsle riscv64 ppc64le s390x))
dist: ## linerate for eight systems and its agent for thirteen, in bin/dist: what is copied to hosts over ssh; TARGETS="linux/arm64 freebsd/amd64" builds these only
	@mkdir -p $(dir $(BIN))dist
	@one() { \
		os=$${2%/*} arch=$${2#*/} file=$(dir $(BIN))dist/$$1-$${2%/*}-$${2#*/}; [ $$os = windows ] && file=$$file.exe; \
		GOOS=$$os GOARCH=$$arch GOARM=6 GOMIPS=softfloat $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $$file ./cmd/$$1 && ls -l $$file || exit 1; \
	}; \
	for target in $(TARGETS); do one linerate $$target; done; \
	for target in $(AGENTS); do one linerate-agent $$target; done

release: ## all files of a release into bin/release: make release VERSION=1.2.3 (RELEASE_TARGETS=linux/amd64 for some systems)
	cd release && SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(GO) run -mod=mod . -version '$(VERSION)' -targets '$(RELEASE_TARGETS)' -out '$(or $(OUT),../bin/release)'

release-test: ## a release made twice, byte for byte; each package installed, used and removed; QUICK=quick for this system only
	@GO="$(GO)" scripts/release-test $(QUICK)

site: ## the documents as a folder of pages that need no network, in bin/site
	rm -rf $(dir $(BIN))site
	cd release && $(GO) run -mod=mod ./site -out ../$(dir $(BIN))site

bench: ## paired ratios against C peers; BENCH="-o bench/RESULTS.md" keeps them, BENCH="-quick tcp" tries one out
	bench/run $(BENCH)

SEEDS ?= 0-29
judge: build ## the diagnosis against planted limits: SEEDS=0-29, KIND=loss-middle, machines (in QEMU, see vm) or routers (the place of a full link), OUT=folder, JUDGE=-quick; goes on where it was stopped
	$(GO) build -o bin/judge-labs ./bench/judge
	bin/judge-labs -program $(BIN) -seeds $(SEEDS) -kind "$(KIND)" -out "$(or $(OUT),bin/judge)" $(JUDGE)

tuning: build ## linerate tune in badly set labs, against an exhaustive search; CASES=window-far,clean tries some; goes on after a stop
	$(GO) run ./bench/tuning -linerate $(BIN) -cases "$(CASES)" -o bench/RESULTS.md

fleet-test: build ## a fleet through its faults: real hubs, PostgreSQL and agents with simulated traffic, half an hour; HOSTS=40 TOGETHER=1 ROUNDS=60 FAULTS=40 FOR=6m for less (as root)
	$(GO) build -o bin/fleet-test ./bench/fleet
	bin/fleet-test -linerate $(BIN) $(if $(HOSTS),-hosts $(HOSTS)) $(if $(TOGETHER),-together $(TOGETHER)) $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(FAULTS),-faults $(FAULTS)) $(if $(FOR),-for $(FOR),-o bench/RESULTS.md)

detection: ## what the hub finds in simulated fleets of 24 to 1,000 hosts, an hour; HOSTS=100 without larger ones, SEED=1
	$(GO) run ./bench/detect -seed $(or $(SEED),1) $(if $(HOSTS),-hosts $(HOSTS),-o bench/RESULTS.md)

sine: build ## verdicts on a path whose rate swings slowly, 104 sessions in a quarter of an hour; goes on after a stop
	$(GO) build -o bin/sine-labs ./bench/sine
	bin/sine-labs -linerate $(BIN) -o bench/RESULTS.md

cross: ## build for every system and CPU, vet code and tests for every system
	scripts/cross

wine: ## Windows' registry and linerate.exe under Wine; LINERATE_INSTALL=all installs it
	@GO="$(GO)" scripts/wine

fuzz: ## each fuzz target for a short time; before a release FUZZTIME=60s LONGEST=70
	LONGEST=$(LONGEST) scripts/fuzz $(FUZZTIME)

clean:
	rm -rf bin
