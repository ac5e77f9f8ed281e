package deploy

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// find returns the file of a linerate for s on this machine.
func find(s system, o Options) (string, error) {
	if !s.plain() {
		return "", &Problem{text: fmt.Sprintf("the far host is of an unknown kind: %q", s), Hint: "start linerate serve there", err: errors.ErrUnsupported}
	}
	self := o.Self
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return "", fmt.Errorf("find this program: %w", err)
		}
	}
	if s == (system{runtime.GOOS, runtime.GOARCH}) {
		return running(self), nil
	}
	cache := o.Cache
	if cache == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(dir, "linerate")
		}
	}
	dirs := []string{filepath.Dir(self), filepath.Join(filepath.Dir(self), "dist")}
	if cache != "" {
		dirs = append(dirs, filepath.Join(cache, "dist", o.Version))
	}
	for _, dir := range dirs {
		file := filepath.Join(dir, s.distFile())
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := isFor(file, s); err != nil {
			return "", &Problem{text: fmt.Sprintf("the far host is %s: %v", s, err), Hint: "make dist builds the right one", err: err}
		}
		return file, nil
	}
	return "", missing(s, dirs)
}

// running is the file of the running program: where it was replaced or removed
// meanwhile, Linux still has it.
func running(self string) string {
	const link = "/proc/self/exe"
	target, err := os.Readlink(link)
	if exe, xerr := os.Executable(); err == nil && xerr == nil && exe == self && strings.HasSuffix(target, " (deleted)") {
		return link
	}
	return self
}

func missing(s system, dirs []string) error {
	places := make([]string, len(dirs))
	for i, d := range dirs {
		places[i] = filepath.Join(d, s.distFile())
	}
	p := &Problem{
		text: fmt.Sprintf("the far host is %s, and there is no linerate for that here", s),
		Hint: fmt.Sprintf("make dist, in linerate's source, builds one for each system; put it at one of\n  %s\nor install linerate on that host", strings.Join(places, "\n  ")),
		err:  fs.ErrNotExist,
	}
	if !s.known() {
		p.Hint, p.err = "linerate is built for linux, freebsd, darwin and windows, on amd64 and arm64", errors.ErrUnsupported
	}
	return p
}

// isFor fails unless a file is a Go program for s: one copied by mistake would
// say no more than "exec format error".
func isFor(file string, s system) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	var got system
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS":
			got.os = setting.Value
		case "GOARCH":
			got.arch = setting.Value
		}
	}
	if got != s {
		return fmt.Errorf("%s is for %s", file, got)
	}
	return nil
}
