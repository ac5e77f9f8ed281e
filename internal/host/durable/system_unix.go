//go:build unix

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes the whole-file lock of flock(2), which ends when the open file does, or returns
// ErrLocked.
func Lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// Close releases the lock of f, if it has one, and closes f. A process that is being started
// also holds the open file, until it executes another program.
func Close(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// SyncDir syncs the names in dir to disk, as far as its file system can: some cannot sync a
// directory (CIFS, FUSE, 9P) and return EINVAL, ENOTSUP or ENOSYS, which SyncDir ignores.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	for _, none := range []error{unix.EINVAL, unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS, unix.ENOTTY} {
		if errors.Is(err, none) {
			err = nil
		}
	}
	return errors.Join(err, d.Close())
}
