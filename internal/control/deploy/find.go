package deploy

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"linerate/internal/fault"
)

// find returns the files on this machine that can serve as an agent on s: first the one to
// copy, then ones that are equally good if already installed. The agent program alone is a
// third of linerate's size, so it is copied if it is there and from the same build.
func find(s system, o Options) ([]string, error) {
	if !s.plain() {
		return nil, fault.New(fault.Unsupported, fmt.Errorf("the far host is of an unknown kind: %q", s), "start linerate serve there")
	}
	self := o.Self
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
	}
	cache := o.Cache
	if cache == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(dir, "linerate")
		}
	}
	dirs := []string{filepath.Dir(self), filepath.Join(filepath.Dir(self), "dist")}
	if target, err := filepath.EvalSymlinks(self); err == nil && target != self { // as package managers install it
		dirs = append(dirs, filepath.Dir(target), filepath.Join(filepath.Dir(target), "dist"))
	}
	if cache != "" {
		dirs = append(dirs, filepath.Join(cache, "dist", o.Version))
	}
	own := s == (system{runtime.GOOS, runtime.GOARCH})
	var files []string
	names := []string{s.distFile("linerate-agent"), s.distFile("linerate")}
	if own {
		names = []string{"linerate-agent" + s.suffix(), names[0]}
	}
	for _, name := range names {
		for _, dir := range dirs {
			file := filepath.Join(dir, name)
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			switch err := isFor(file, s); {
			case errors.Is(err, errOtherBuild):
				continue
			case err != nil && !own:
				return nil, fault.New(fault.Unreachable, fmt.Errorf("the far host is %s: %w", s, err), "make dist builds the right one")
			case err == nil:
				files = append(files, file)
			}
		}
	}
	if own {
		files = append(files, running(self))
	}
	if len(files) == 0 {
		return nil, missing(s, dirs)
	}
	return files, nil
}

// running returns the file of the running program: Linux still has it even if it was replaced
// or removed meanwhile.
func running(self string) string {
	const link = "/proc/self/exe"
	target, err := os.Readlink(link)
	if exe, xerr := os.Executable(); err == nil && xerr == nil && exe == self && strings.HasSuffix(target, " (deleted)") {
		return link
	}
	return self
}

func missing(s system, dirs []string) error {
	err := fmt.Errorf("the far host is %s, and there is no linerate for that here", s)
	if !s.known() {
		return fault.New(fault.Unsupported, err, "linerate is built for linux, freebsd, darwin and windows, on amd64 and arm64; its agent also for linux on arm, mipsle, riscv64, ppc64le and s390x")
	}
	places := make([]string, len(dirs))
	for i, d := range dirs {
		places[i] = filepath.Join(d, s.distFile("linerate-agent"))
	}
	return fault.New(fault.Unreachable, err, "make dist, in linerate's source, builds one for each system; put it at one of\n  %s\nor install linerate on that host", strings.Join(places, "\n  "))
}

// errOtherBuild reports a program built from another commit than this one.
var errOtherBuild = errors.New("of another build")

// isFor returns an error unless file is a Go program for s: one copied by mistake would only
// say "exec format error". The error is errOtherBuild for a program of another commit, if both
// commits are known.
func isFor(file string, s system) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if got := (system{setting(info, "GOOS"), setting(info, "GOARCH")}); got != s {
		return fmt.Errorf("%s is for %s", file, got)
	}
	if own, ok := debug.ReadBuildInfo(); ok && setting(own, commit) != "" && setting(info, commit) != "" && setting(own, commit) != setting(info, commit) {
		return errOtherBuild
	}
	return nil
}

const commit = "vcs.revision" // the key of a build setting

func setting(info *debug.BuildInfo, key string) string {
	i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
	if i < 0 {
		return ""
	}
	return info.Settings[i].Value
}
