//go:build vm

package machine

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// short returns a folder whose path is short, for sockets.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm") //nolint:usetesting // the path of t.TempDir is too long for a socket
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// bsd boots a FreeBSD with cards, or skips with what is missing.
func bsd(ctx context.Context, t *testing.T, name, dir string, address, files map[string]string, more string, cards ...Card) *Machine {
	t.Helper()
	if what := MissingFreeBSD(); what != "" {
		t.Skip(what)
	}
	cfg := must.Get(FreeBSD(ctx, name, dir, address, files))(t)
	cfg.Cards = cards
	cfg.Append += " " + more
	m := must.Get(Start(ctx, cfg))(t)
	t.Cleanup(m.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console of %s: %s", name, last(m.Console(), 3000))
		}
	})
	return m
}

// do runs a program that has to succeed, and returns what it printed.
func do(ctx context.Context, t *testing.T, m *Machine, args ...string) string {
	t.Helper()
	r := must.Get(m.Run(ctx, args...))(t)
	must.Need(t, r.Code == 0, "%q: code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	return r.Stdout
}

// TestFreeBSDSettings runs in FreeBSD what sets every setting of the catalogue that its
// kernel has, and puts it back; and the tests of packages that have code of their own
// for FreeBSD. Each of them is a program of tests, built here.
func TestFreeBSDSettings(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if what := MissingFreeBSD(); what != "" {
		t.Skip(what)
	}
	told(t, "every setting")
	dir := short(t)
	files := map[string]string{}
	packages := []string{
		"internal/host/knob", "internal/host/knob/sysctl", "internal/host/knob/ifioctl", "internal/host/watch", "internal/host/kmsg", "internal/host/kenv", "internal/host/journal",
		"internal/measure/hops", "internal/measure/tcpinfo", "internal/measure/sockio", "internal/measure/plane",
	}
	for _, p := range packages {
		program := must.Get(BuildTests(ctx, "freebsd", dir, p))(t)
		files["t/"+p+"/test"] = program
		must.Do(t, tree(files, "../../../"+p+"/testdata", "t/"+p+"/testdata"))
	}
	m := bsd(ctx, t, "settings", dir, map[string]string{"em0": "10.0.0.9/24"}, files, "", Card{Model: "e1000", MAC: "52:54:00:00:00:09"})
	must.Do(t, m.Wait(ctx))
	for _, p := range packages {
		t.Run(p, func(t *testing.T) {
			args := []string{"in", "/t/" + p, "./test", "-test.short", "-test.timeout=4m"}
			if p == "internal/host/knob" {
				args = append(args, "-test.v", "-test.run=TestEverySetting|TestPause")
			}
			if p == "internal/measure/plane" {
				args = append(args, "-test.skip=TestExchangeNeverDeadlocks") // whose 10 s are not enough in emulation
			}
			if p == "internal/host/journal" {
				args = append(args, "-test.run=TestOrigin") // the others need no kernel of their own
			}
			if p == "internal/host/watch" {
				args = append(args, "-test.skip=TestDocument") // which reads the tree's docs
			}
			r, err := m.Run(ctx, append([]string{"env", "LINERATE_MACHINE=em0"}, args...)...)
			if err != nil || r.Code != 0 {
				t.Fatalf("code %d, %v\n%s%s", r.Code, err, last(r.Stdout, 8000), last(r.Stderr, 2000))
			}
			t.Log(r.Stdout)
		})
	}
}

// tree adds the files below from to files, as below to.
func tree(files map[string]string, from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return nil //nolint:nilerr // no testdata
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[to+strings.TrimPrefix(path, from)] = path
		}
		return err
	})
}
