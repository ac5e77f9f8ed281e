//go:build unix

package atboot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const programName = "linerate"

// executable fails where the file system of a program lets nobody run it
// (mounted noexec): access(2).
func executable(program string) error {
	if err := unix.Access(program, unix.X_OK); err != nil {
		return fmt.Errorf("nothing can be run from %s: %w", filepath.Dir(program), err)
	}
	return nil
}

// discard removes a program, also one that is running.
func discard(program string) (later string, err error) {
	if err := os.Remove(program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return "", nil
}

// trusted fails where another user than root and this one could replace what
// lies in dir: the system would run it as root.
func trusted(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to another user (uid %d): %w", dir, s.Uid, ErrUntrusted)
		}
		if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%s may be written by others: %w", dir, ErrUntrusted)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}
