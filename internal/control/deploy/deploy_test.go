package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestParseSystem(t *testing.T) {
	for _, c := range []struct {
		name, machine string
		want          system
	}{
		{"Linux", "x86_64", system{"linux", "amd64"}},
		{"Linux", "aarch64\r", system{"linux", "arm64"}},
		{"Linux", "armv7l", system{"linux", "arm"}},
		{"Linux", "i686", system{"linux", "386"}},
		{"Linux", "armv6l", system{"linux", "arm"}},
		{"Linux", "riscv64", system{"linux", "riscv64"}},
		{"Linux", "ppc64le", system{"linux", "ppc64le"}},
		{"Linux", "s390x", system{"linux", "s390x"}},
		{"Linux", "mips", system{"linux", "mipsle"}},
		{"FreeBSD", "amd64", system{"freebsd", "amd64"}},
		{"FreeBSD", "arm64", system{"freebsd", "arm64"}},
		{"Darwin", "arm64", system{"darwin", "arm64"}},
		{"MINGW64_NT-10.0-22631", "x86_64", system{"windows", "amd64"}},
		{"CYGWIN_NT-10.0", "x86_64", system{"windows", "amd64"}},
		{"windows", "AMD64", system{"windows", "amd64"}},
		{"windows", "ARM64", system{"windows", "arm64"}},
	} {
		must.Equal(t, parseSystem(c.name, c.machine, true), c.want, "%s %s", c.name, c.machine)
		must.True(t, c.want.known() == (c.want.arch != "386"), "%s: known %v", c.want, c.want.known())
	}
	must.Equal(t, (system{"windows", "arm64"}).distFile("linerate-agent"), "linerate-agent-windows-arm64.exe")
	must.True(t, !parseSystem("Linux", "mips", false).known(), "an agent for the other order of bytes")
}

// FuzzSystem: no output of a far host becomes a path.
func FuzzSystem(f *testing.F) {
	f.Add("Linux", "x86_64")
	f.Add("../..", "x")
	f.Fuzz(func(t *testing.T, name, machine string) {
		s := parseSystem(name, machine, len(name)%2 == 0)
		must.Need(t, !s.plain() || !strings.ContainsAny(s.distFile("linerate"), "/\\ \n:"), "%q", s.distFile("linerate"))
	})
}

// TestCksum compares with the program.
func TestCksum(t *testing.T) {
	// By the specification's algorithm: the result is the complement of 0, for the length 0.
	must.Equal(t, cksum(nil), 4294967295, "empty")
	must.SkipIf(t, must.Err(exec.LookPath("cksum")) != nil, "needs cksum, a program of POSIX")
	rapid.Check(t, func(rt *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(rt, "data")
		cmd := exec.CommandContext(t.Context(), "cksum")
		cmd.Stdin = bytes.NewReader(data)
		out := must.Get(cmd.Output())(rt)
		if want := strings.Fields(string(out))[0]; want != strconv.FormatUint(uint64(cksum(data)), 10) {
			rt.Fatalf("%d bytes: %s, want %s", len(data), strconv.FormatUint(uint64(cksum(data)), 10), want)
		}
	})
}

// TestFind: the agent beside the program is copied, one for another system is not, and the
// program itself may be the installed one.
func TestFind(t *testing.T) {
	test := must.Get(os.ReadFile(must.Get(os.Executable())(t)))(t)
	here := system{runtime.GOOS, runtime.GOARCH}
	dir := t.TempDir()
	self, agent := filepath.Join(dir, "linerate"), filepath.Join(dir, "linerate-agent"+here.suffix())
	o := Options{Self: self, Cache: t.TempDir()}
	must.Do(t, os.WriteFile(self, test, 0o700))
	must.Same(t, must.Get(find(here, o))(t), []string{self})
	must.Do(t, os.WriteFile(agent, []byte("#!/bin/sh"), 0o700))
	must.Same(t, must.Get(find(here, o))(t), []string{self}, "with a file that is no agent")
	must.Do(t, os.WriteFile(agent, test, 0o700))
	must.Same(t, must.Get(find(here, o))(t), []string{agent, self})

	link := filepath.Join(t.TempDir(), "linerate")
	must.Do(t, os.Symlink(self, link))
	must.Same(t, must.Get(find(here, Options{Self: link, Cache: o.Cache}))(t), []string{agent, link}, "by a link")

	other := system{"linux", "s390x"}
	must.Say(t, must.Err(find(other, o)), "there is no linerate for that here")
	must.Do(t, os.WriteFile(filepath.Join(dir, other.distFile("linerate-agent")), test, 0o700))
	must.Say(t, must.Err(find(other, o)), "is for "+here.String())
}

// TestFlags: the agent's flags come after its name in every shell.
func TestFlags(t *testing.T) {
	d := &deployment{o: Options{Flags: []string{"--at-boot"}}}
	for _, c := range []struct {
		r    remote
		want string
	}{
		{remote{path: "/x"}, "--at-boot"},
		{remote{path: "/d/x", dir: "/d"}, "--at-boot --remove /d"},
	} {
		must.Equal(t, d.flags(c.r), c.want)
	}
	d.o.Flags = nil
	must.Equal(t, d.flags(remote{path: "/d/x", dir: "/d"}), "--remove /d", "without flags")
	for flags, want := range map[string]string{"--at-boot": "($f,'agent --at-boot')", "": "($f,'agent')"} {
		must.Contain(t, windowsStart("a", "b", strings.Fields(flags)), want)
	}
}
