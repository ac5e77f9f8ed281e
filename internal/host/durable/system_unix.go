//go:build unix

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes the whole-file lock of flock(2), which ends with the open file, or
// returns ErrLocked.
func Lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// Close gives the lock of f up, if it has it, and closes f. A process that is being
// started holds the open file too, until it becomes another program.
func Close(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// SyncDir has the names in dir on disk, as far as its file system can: some sync
// no directory (CIFS, FUSE, 9P) and say EINVAL, ENOTSUP or ENOSYS, which is no
// reason to leave undone what the names are for.
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
