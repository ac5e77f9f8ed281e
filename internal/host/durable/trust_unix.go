//go:build unix

package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"linerate/internal/fault"
)

// maxLinks is the most symbolic links in a path: MAXSYMLINKS of Linux and the BSDs is no
// more.
const maxLinks = 40

// private walks dir from the root, element by element and through every symbolic link, since
// a user who may change one of them chooses where it leads.
func private(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	w := walk{dir: dir, self: os.Geteuid()}
	// The owner of / rules the machine: in a user namespace root's files have the overflow
	// user ID (user_namespaces(7)).
	if info, err := os.Lstat("/"); err == nil {
		w.root, _ = ownerOf(info)
	}
	return w.to(abs)
}

// walk is one check of a path.
type walk struct {
	dir        string // as given, for messages
	self, root int
	links      int
}

// to checks an absolute path, whose last element holds our files.
func (w *walk) to(abs string) error {
	at, rest := "/", strings.Split(strings.Trim(filepath.Clean(abs), "/"), "/")
	if err := w.check(at, abs == "/"); err != nil {
		return err
	}
	for len(rest) > 0 && rest[0] != "" {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // its parent was checked
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if err := w.check(next, len(rest) == 0); err != nil {
				return err
			}
			at = next
			continue
		}
		if err := w.owned(next, info); err != nil {
			return err
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if w.links++; w.links > maxLinks {
			return w.refuse("it leads through too many symbolic links")
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(at, target)
		}
		return w.to(filepath.Join(append([]string{target}, rest...)...))
	}
	return nil
}

// check checks one directory. In one with the sticky bit users cannot replace each other's
// files, but any user may create one first.
func (w *walk) check(dir string, last bool) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := w.owned(dir, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 && (last || info.Mode()&fs.ModeSticky == 0) {
		return w.refuse("%s may be written by others", dir)
	}
	return nil
}

func (w *walk) owned(name string, info fs.FileInfo) error {
	uid, ok := ownerOf(info)
	if !ok || uid == 0 || uid == w.self || uid == w.root {
		return nil
	}
	return w.refuse("%s belongs to another user (uid %d)", name, uid)
}

func (w *walk) refuse(format string, a ...any) error {
	return fault.WithHint(fmt.Errorf("directory %s: %s: %w", w.dir, fmt.Sprintf(format, a...), ErrUntrusted),
		"root keeps its state only where no other user may write: leave out --state and LINERATE_STATE for root's own directory, or name one below it")
}

func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}
