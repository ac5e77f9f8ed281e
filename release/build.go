package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// target is one operating system and CPU architecture.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// suffix returns the suffix of program names on the target.
func (t target) suffix() string {
	if t.os == "windows" {
		return ".exe"
	}
	return ""
}

// agentOnly returns the Linux architectures that only have the agent program.
func agentOnly() []target {
	var all []target
	for _, arch := range []string{"arm", "mipsle", "riscv64", "ppc64le", "s390x"} {
		all = append(all, target{"linux", arch})
	}
	return all
}

// everywhere returns every target that linerate supports.
func everywhere() []target {
	var all []target
	for _, system := range []string{"linux", "freebsd", "darwin", "windows"} {
		all = append(all, target{system, "amd64"}, target{system, "arm64"})
	}
	return all
}

// targetsOf parses a list such as linux/amd64,windows/arm64; "" is all.
func targetsOf(text string) ([]target, error) {
	all := everywhere()
	if text == "" {
		return all, nil
	}
	var some []target
	for word := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(all, func(t target) bool { return t.String() == strings.TrimSpace(word) })
		if i < 0 {
			return nil, fmt.Errorf("-targets: %q is none of %v", word, all)
		}
		if !slices.Contains(some, all[i]) {
			some = append(some, all[i])
		}
	}
	return some, nil
}

// build builds the programs of every target, and linerate for this machine, which prints its
// own completions and unit.
func (r *release) build(ctx context.Context) error {
	here := target{runtime.GOOS, runtime.GOARCH}
	for _, t := range append(slices.Clone(r.targets), here) {
		if err := r.compile(ctx, t, "linerate"); err != nil {
			return err
		}
	}
	for _, t := range r.agents() {
		if err := r.compile(ctx, t, "linerate-agent"); err != nil {
			return err
		}
	}
	return nil
}

// agents returns the targets that have an agent: the release's own and, for a whole release,
// those with only an agent.
func (r *release) agents() []target {
	if len(r.targets) < len(everywhere()) {
		return r.targets
	}
	return append(slices.Clone(r.targets), agentOnly()...)
}

// binary returns the path of a target's linerate.
func (r *release) binary(t target) string { return r.programFile(t, "linerate") }

func (r *release) programFile(t target, program string) string {
	return filepath.Join(r.work, t.os+"-"+t.arch, program+t.suffix())
}

// programs returns both programs of a target.
func (r *release) programs(t target) ([]file, error) {
	var both []file
	for _, name := range []string{"linerate", "linerate-agent"} {
		data, err := os.ReadFile(r.programFile(t, name))
		if err != nil {
			return nil, err
		}
		both = append(both, file{name + t.suffix(), 0o755, data})
	}
	return both, nil
}

// compile builds a program unless it is already built. The result does not depend on this
// machine: it contains no path, no state of the checkout, no build number, and no flags from
// the environment.
func (r *release) compile(ctx context.Context, t target, program string) error {
	out := r.programFile(t, program)
	if _, err := os.Stat(out); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags=-s -w -buildid= -X main.version="+r.version, "-o", out, "./cmd/"+program)
	cmd.Dir = r.tree
	cmd.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOARM=6", "GOMIPS=softfloat", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s of %s: %w\n%s", program, t, err, text)
	}
	return nil
}

// prints returns the output of this machine's linerate.
func (r *release) prints(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.binary(target{runtime.GOOS, runtime.GOARCH}), args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("linerate %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
