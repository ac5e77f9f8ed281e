package deploy

import (
	"fmt"
	"slices"
	"strings"
)

// system is an operating system and a CPU, by Go's names.
type system struct{ os, arch string }

// built are the systems for which `make dist` builds linerate, each for amd64 and arm64.
var built = [...]string{"linux", "freebsd", "darwin", "windows"}

// agents are the CPUs for which only the agent program is built, on Linux.
var agents = [...]string{"arm", "mipsle", "riscv64", "ppc64le", "s390x"}

// parseSystem parses the output of uname -s and uname -m, for example "Linux" and "x86_64",
// "FreeBSD" and "amd64", "Darwin" and "arm64", or "MINGW64_NT-10.0-22631" and "x86_64" from a
// POSIX shell on Windows. little reports a little-endian host, which uname does not show for
// MIPS.
func parseSystem(name, machine string, little bool) system {
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
	case a == "mips" && little:
		s.arch = "mipsle"
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
	return s.os == "linux" && slices.Contains(agents[:], s.arch)
}

// plain reports whether s may be part of a file name.
func (s system) plain() bool {
	word := func(w string) bool {
		return w != "" && len(w) < 32 && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
	}
	return word(s.os) && word(s.arch)
}

// suffix returns the end of a program's file name.
func (s system) suffix() string {
	if s.os == "windows" {
		return ".exe"
	}
	return ""
}

// file returns the program's name on the far host.
func (s system) file() string { return "linerate" + s.suffix() }

// distFile returns the name that make dist gives a program for s.
func (s system) distFile(program string) string {
	return fmt.Sprintf("%s-%s-%s%s", program, s.os, s.arch, s.suffix())
}

// String returns the form GOOS/GOARCH.
func (s system) String() string { return s.os + "/" + s.arch }
