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

// target is one system and processor.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// program is the name of the program there.
func (t target) program() string {
	if t.os == "windows" {
		return "linerate.exe"
	}
	return "linerate"
}

// everywhere is every system that linerate is for.
func everywhere() []target {
	var all []target
	for _, system := range []string{"linux", "freebsd", "darwin", "windows"} {
		all = append(all, target{system, "amd64"}, target{system, "arm64"})
	}
	return all
}

// targetsOf reads a list such as linux/amd64,windows/arm64; "" is all.
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

// build builds the program of every target, and that of this machine, which prints
// its own completions and unit.
func (r *release) build(ctx context.Context) error {
	for _, t := range append(slices.Clone(r.targets), target{runtime.GOOS, runtime.GOARCH}) {
		if _, err := os.Stat(r.binary(t)); err == nil {
			continue
		}
		if err := r.compile(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

// binary is the program of a target.
func (r *release) binary(t target) string { return filepath.Join(r.work, t.os+"-"+t.arch, t.program()) }

// compile builds one. Nothing of this machine gets into it: no path, no state of the
// checkout, no number of the build, no flags from its environment.
func (r *release) compile(ctx context.Context, t target) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags=-s -w -buildid= -X main.version="+r.version, "-o", r.binary(t), "./cmd/linerate")
	cmd.Dir = r.tree
	cmd.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// prints is what the program of this machine prints.
func (r *release) prints(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.binary(target{runtime.GOOS, runtime.GOARCH}), args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("linerate %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
