//go:build unix

package persist

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	"syscall"
)

// owner returns who owns the file.
func owner(info fs.FileInfo) (uid, gid int) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), int(s.Gid)
	}
	return os.Getuid(), os.Getgid()
}

// chown gives f an owner, unless it has it: without root only that works.
func chown(f *os.File, uid, gid int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if u, g := owner(info); u == uid && g == gid {
		return nil
	}
	return f.Chown(uid, gid)
}

// lockFile takes the whole-file lock of flock(2), or returns ErrLocked.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// syncDir has the names in dir on disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
