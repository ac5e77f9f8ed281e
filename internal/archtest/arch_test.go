// Package archtest holds the test of the import rules in docs/architecture.md:
// the folder list is the architecture, and imports point toward core.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"linerate/internal/must"
)

// layers says which layers of this module a layer may import besides itself.
// A longer prefix wins over a shorter one. The linter's rules are made from this
// table and the next two.
var layers = []struct {
	prefix string
	may    []string
}{
	{"internal/core", []string{"internal/core", "internal/fault", "internal/regex"}},
	{"internal/fault", nil},
	{"internal/regex", nil},
	{"internal/panics", nil},
	{"internal/tail", nil},
	{"internal/must", nil},
	{"internal/truth", nil},
	{"internal/confined", nil},
	{"internal/measure", []string{"internal/core", "internal/fault", "internal/regex", "internal/measure", "internal/panics"}},
	{"internal/host", []string{"internal/core", "internal/fault", "internal/regex", "internal/host", "internal/panics", "internal/tail"}},
	{"internal/host/canary", []string{"internal/core", "internal/fault", "internal/regex", "internal/host/knob/linkid", "internal/measure/engine", "internal/measure/sockio", "internal/panics"}}, // its packets leave as data do
	{"internal/control", []string{"internal/core", "internal/fault", "internal/regex", "internal/measure", "internal/host", "internal/control", "internal/panics", "internal/tail"}},
	{"internal/control/session", []string{"internal/core", "internal/fault", "internal/regex", "internal/panics", "internal/control/session", "internal/control/wire"}}, // what two hosts say to each other is no host's
	{"internal/lab", []string{"internal/core", "internal/fault", "internal/regex", "internal/control/wire", "internal/lab", "internal/tail"}},
	{"internal/app", []string{"internal/core", "internal/fault", "internal/regex", "internal/control", "internal/lab", "internal/measure", "internal/host", "internal/panics", "internal/app"}},
	{"internal/store", []string{"internal/core", "internal/fault", "internal/regex", "internal/store"}},
	{"internal/report", []string{"internal/core", "internal/fault", "internal/regex", "internal/report"}},
	{"docs", nil},
	{"internal/ui", []string{"internal", "docs"}},
	{"internal/ui/config", []string{"internal/core", "internal/fault", "internal/regex", "internal/ui/config"}},
	{"internal/ui/agent", []string{"internal/core", "internal/fault", "internal/regex", "internal/control", "internal/measure", "internal/host", "internal/app"}}, // small: no store, no report
	{"internal/archtest", nil},
	{"cmd/linerate", []string{"internal/ui/cli"}},
	{"cmd/linerate-agent", []string{"internal/ui/agent"}},
	{"bench", []string{"internal", "bench"}},
}

// restricted modules and packages, and the only folders that may import them.
var restricted = []struct {
	path string
	may  []string
}{
	{"golang.org/x/sys", []string{"internal/measure/sockio", "internal/measure/tcpinfo", "internal/measure/tcpbulk", "internal/measure/iperf3/peer", "internal/measure/datagram", "internal/measure/hops", "internal/measure/udpflow", "internal/measure/reqresp", "internal/measure/filecopy", "internal/measure/plane", "internal/measure/enginetest", "internal/host", "internal/lab", "internal/ui/live"}},
	{"charm.land", []string{"internal/ui/live"}},
	{"github.com/vishvananda/netlink", []string{"internal/measure/enginetest", "internal/host", "internal/lab"}},
	{"github.com/mdlayher/netlink", []string{"internal/host"}},
	{"github.com/mdlayher/genetlink", []string{"internal/host/radio"}},
	{"linerate/internal/measure/enginetest", []string{"tests"}},
	{"linerate/internal/must", []string{"tests"}},
	{"linerate/internal/truth", []string{"tests"}},
	{"linerate/internal/confined", []string{"tests"}},
	{"linerate/internal/host/referee", []string{"tests"}},
	{"linerate/internal/report/browsertest", []string{"tests"}},
	{"github.com/chromedp", []string{"internal/report/browsertest"}},
	{"os/exec", []string{"internal/confined", "internal/report/browsertest", "internal/control/wire", "internal/control/tuner", "internal/host/knob", "internal/host/watchdog", "internal/host/persist", "internal/host/files", "internal/host/atboot", "internal/host/command", "internal/host/radio", "internal/host/referee", "internal/lab", "internal/ui/opener", "internal/store/postgres/postgrestest", "bench"}},
	{"database/sql", []string{"internal/store"}},
	{"github.com/ncruces", []string{"internal/store"}},
	{"github.com/jackc", []string{"internal/store"}},
	{"linerate/internal/store/postgres/postgrestest", []string{"tests", "bench"}},
	{"github.com/spf13/cobra", []string{"internal/ui/cli", "internal/ui/agent"}},
	{"github.com/goccy/go-yaml", []string{"internal/ui/config", "internal/host/files"}},
	{"connectrpc.com/connect", []string{"internal/control"}},
	{"gonum.org/v1/gonum", []string{"internal/core/stats"}},
	{"golang.org/x/image", []string{"internal/report/raster"}},
}

// impure are the standard packages that package core must not import: it is
// what can be computed on paper.
var impure = []string{
	"bufio", "context", "crypto/rand", "database/sql", "log", "log/slog", "net", "net/http", "os", "os/exec",
	"os/signal", "path/filepath", "runtime", "sync", "syscall", "testing", "unsafe",
}

type listed struct {
	ImportPath string
	Imports    []string
	Doc        string
	Name       string
	GoFiles    []string
}

// list asks the Go tool for every package of the module as built for goos.
func list(t *testing.T, goos string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Doc,Name,GoFiles", "linerate/...")
	cmd.Env = append(cmd.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off") // a workspace may add modules with rules of their own
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.Need(t, err == nil, "go list for %s: %v\n%s", goos, err, stderr.String())
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, "linerate/")
		all = append(all, p)
	}
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func withinAny(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return within(path, f) })
}

func TestImports(t *testing.T) {
	for _, goos := range []string{"linux", "freebsd", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			packages := list(t, goos)
			must.Need(t, len(packages) >= 20, "only %d packages found: the test looks in the wrong place", len(packages))
			for _, p := range packages {
				checkLayer(t, p)
				checkRestricted(t, p)
				checkPure(t, p)
			}
		})
	}
}

func checkLayer(t *testing.T, p listed) {
	t.Helper()
	best, known := -1, false
	for i, l := range layers {
		if within(p.ImportPath, l.prefix) && (best < 0 || len(l.prefix) > len(layers[best].prefix)) {
			best, known = i, true
		}
	}
	if !known {
		t.Errorf("%s is in no layer: add it to docs/architecture.md and to this test", p.ImportPath)
		return
	}
	for _, imp := range p.Imports {
		own, ok := strings.CutPrefix(imp, "linerate/")
		must.True(t, !ok || withinAny(own, layers[best].may), "%s imports %s, which %s may not", p.ImportPath, own, layers[best].prefix)
	}
}

func checkRestricted(t *testing.T, p listed) {
	t.Helper()
	for _, r := range restricted {
		for _, imp := range p.Imports {
			must.True(t, !within(imp, r.path) || withinAny(p.ImportPath, r.may), "%s imports %s, which only %s may", p.ImportPath, imp, strings.Join(r.may, ", "))
		}
	}
}

func checkPure(t *testing.T, p listed) {
	t.Helper()
	if !within(p.ImportPath, "internal/core") {
		return
	}
	for _, imp := range p.Imports {
		must.True(t, !slices.Contains(impure, imp), "%s imports %s: core does no input or output", p.ImportPath, imp)
	}
}

// TestPackageDocs holds the rule that every package says in one sentence what
// it owns.
func TestPackageDocs(t *testing.T) {
	for _, p := range list(t, "linux") {
		must.True(t, len(p.GoFiles) == 0 || p.Doc != "", "%s has no package doc", p.ImportPath)
	}
}

// TestFoldersAreDescribed: docs/architecture.md names every folder that holds code.
func TestFoldersAreDescribed(t *testing.T) {
	b := must.Get(os.ReadFile(filepath.Join(module, "docs", "architecture.md")))(t)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9/]+)`").FindAllStringSubmatch(string(b), -1) {
		named[path.Base(m[1])] = true
	}
	for _, p := range list(t, "linux") {
		must.True(t, !within(p.ImportPath, "internal") || len(p.GoFiles) == 0 || named[path.Base(p.ImportPath)],
			"docs/architecture.md does not name %s", p.ImportPath)
	}
}

// What the generated part of .golangci.yml stands between.
const (
	rulesBegin = "      # Written by: go test ./internal/archtest -run LinterKnowsTheRules -update\n"
	rulesEnd   = "      # End of what is written from internal/archtest.\n"
)

// TestLinterKnowsTheRules: the import rules are written once, in arch_test.go.
// The linter's, which show up in an editor, are made from them.
func TestLinterKnowsTheRules(t *testing.T) {
	path := filepath.Join(module, ".golangci.yml")
	text := must.Get(os.ReadFile(path))(t)
	before, rest, ok1 := strings.Cut(string(text), rulesBegin)
	_, after, ok2 := strings.Cut(rest, rulesEnd)
	must.Need(t, ok1 && ok2, "%s lacks the lines that its rules stand between", path)
	want := before + rulesBegin + depguard() + rulesEnd + after
	switch {
	case want == string(text):
	case must.Updating():
		must.Do(t, os.WriteFile(path, []byte(want), 0o644))
	default:
		t.Errorf("%s has other import rules than arch_test.go: run go test ./internal/archtest -run LinterKnowsTheRules -update", path)
	}
}

// depguard returns the import rules in the words of that linter. In its list mode
// "lax" all is allowed that is not denied, and the longer of two prefixes wins.
func depguard() string {
	var b strings.Builder
	b.WriteString("      rules:\n")
	for _, l := range layers {
		var deny, allow []string
		for _, o := range topFolders() {
			if withinAny(o, l.may) {
				continue
			}
			deny = append(deny, o)
			for _, may := range l.may {
				if within(may, o) {
					allow = append(allow, may)
				}
			}
		}
		if len(deny) == 0 {
			continue
		}
		files := []string{"**/" + l.prefix + "/**", "!$test"}
		for _, inner := range layers {
			if inner.prefix != l.prefix && within(inner.prefix, l.prefix) {
				files = append(files, "!**/"+inner.prefix+"/**")
			}
		}
		guardRule(&b, l.prefix, files)
		if len(allow) > 0 {
			b.WriteString("          allow:\n")
			for _, p := range allow {
				fmt.Fprintf(&b, "            - linerate/%s\n", p)
			}
		}
		b.WriteString("          deny:\n")
		for _, p := range deny {
			denied(&b, "linerate/"+p, l.prefix+" may not import it")
		}
		if l.prefix == "internal/core" {
			for _, p := range impure {
				denied(&b, p+"$", "core does no input or output")
			}
		}
	}
	for _, r := range restricted {
		files := []string{"$all", "!$test"}
		for _, may := range r.may {
			if may != "tests" {
				files = append(files, "!**/"+may+"/**")
			}
		}
		guardRule(&b, r.path, files)
		b.WriteString("          deny:\n")
		denied(&b, r.path, "only "+strings.Join(r.may, ", ")+" may import it")
	}
	return b.String()
}

// topFolders are the folders whose imports are ruled, without those inside others.
func topFolders() []string {
	var out []string
	for _, l := range layers {
		if strings.HasPrefix(l.prefix, "internal/") && strings.Count(l.prefix, "/") == 1 && !slices.Contains(out, l.prefix) {
			out = append(out, l.prefix)
		}
	}
	return out
}

func guardRule(b *strings.Builder, name string, files []string) {
	fmt.Fprintf(b, "        %s:\n          files: [", strings.NewReplacer("/", "-", ".", "-").Replace(name))
	for i, f := range files {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%q", f)
	}
	b.WriteString("]\n          list-mode: lax\n")
}

func denied(b *strings.Builder, path, why string) {
	fmt.Fprintf(b, "            - {pkg: %q, desc: %q}\n", path, why)
}
