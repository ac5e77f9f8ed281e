package deploy

import (
	"fmt"
	"strings"
)

// system is a system and a CPU by Go's names.
type system struct{ os, arch string }

// built are the systems that `make dist` builds linerate for, each for amd64
// and arm64.
var built = [...]string{"linux", "freebsd", "darwin", "windows"}

// parseSystem reads what uname -s and uname -m say, for example "Linux" and
// "x86_64", "FreeBSD" and "amd64", "Darwin" and "arm64", or "MINGW64_NT-10.0-22631"
// and "x86_64" from a POSIX shell on Windows.
func parseSystem(name, machine string) system {
	s := system{os: strings.ToLower(strings.TrimSpace(name)), arch: strings.ToLower(strings.TrimSpace(machine))}
	for _, prefix := range []string{"mingw", "msys", "cygwin", "windows"} {
		if strings.HasPrefix(s.os, prefix) {
			s.os = "windows"
		}
	}
	switch a := s.arch; {
	case a == "x86_64", a == "amd64", a == "x64":
		s.arch = "amd64"
	case a == "aarch64", a == "arm64", a == "armv8b", a == "armv8l":
		s.arch = "arm64"
	case a == "i386", a == "i486", a == "i586", a == "i686", a == "x86":
		s.arch = "386"
	case strings.HasPrefix(a, "armv"):
		s.arch = "arm"
	}
	return s
}

// known reports whether make dist builds for s.
func (s system) known() bool {
	for _, os := range built {
		if s.os == os && (s.arch == "amd64" || s.arch == "arm64") {
			return true
		}
	}
	return false
}

// plain reports whether s may be part of a file name.
func (s system) plain() bool {
	word := func(w string) bool {
		return w != "" && len(w) < 32 && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
	}
	return word(s.os) && word(s.arch)
}

// file is the program's name on the far host.
func (s system) file() string {
	if s.os == "windows" {
		return "linerate.exe"
	}
	return "linerate"
}

// distFile is the name that make dist gives to the program for s.
func (s system) distFile() string {
	name := fmt.Sprintf("linerate-%s-%s", s.os, s.arch)
	if s.os == "windows" {
		name += ".exe"
	}
	return name
}

// String is Go's way to write it.
func (s system) String() string { return s.os + "/" + s.arch }
