// Package referee finds the real programs with which tests compare what linerate reads and
// writes: netplan, NetworkManager, ifupdown, udev, TuneD.
//
// If installed, they would take over the machine. So the environment variable
// LINERATE_REFEREES names a folder with their packages unpacked, as by dpkg -x;
// scripts/foreign makes one.
package referee

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Root returns the folder of unpacked packages, "" for none.
func Root() string { return os.Getenv("LINERATE_REFEREES") }

// Program returns the first program of names that exists: in the unpacked packages, or on
// this machine. A name may be a path. If there is none, it skips the test.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, n := range names {
		if Root() != "" {
			for _, dir := range []string{"usr/bin", "usr/sbin", "bin", "sbin", ""} {
				p := filepath.Join(Root(), dir, n)
				if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
					return p
				}
			}
		}
		for _, dir := range []string{"", "/usr/sbin/", "/sbin/"} {
			if dir != "" && strings.Contains(n, "/") {
				continue
			}
			if p, err := exec.LookPath(dir + n); err == nil {
				return p
			}
		}
	}
	t.Skipf("none of %s is installed", strings.Join(names, ", "))
	return ""
}

// Command returns a command that finds the libraries of the unpacked packages.
func Command(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	if Root() == "" {
		return cmd
	}
	libs, err := filepath.Glob(filepath.Join(Root(), "usr/lib/*-linux-gnu"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Environ(), "LD_LIBRARY_PATH="+strings.Join(libs, ":"))
	return cmd
}

// Version returns the longest number that a program prints for --version: 252.39 of "systemd
// 252 (252.39-1~deb12u2)".
func Version(t testing.TB, program string) string {
	t.Helper()
	out, err := Command(t, program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`\d+(\.\d+)*`).FindAllString(string(out), 2)
	return slices.MaxFunc(all, func(a, b string) int { return len(a) - len(b) })
}
