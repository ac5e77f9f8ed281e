//go:build linux || freebsd || darwin

package filecopy

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allocate returns n bytes of page-aligned anonymous memory, and the function that frees them.
func allocate(n int64) ([]byte, func() error, error) {
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	return b, func() error { return unix.Munmap(b) }, nil
}

// lock locks f for this process. It returns false if another process, or another open of f,
// holds the lock; if wait is true it waits instead.
func lock(f *os.File, wait bool) (bool, error) {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// syncFolder makes the names in dir durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// temporaryFolders returns the temporary folders that survive a reboot, hier(7).
func temporaryFolders() []string { return []string{"/var/tmp"} }

// writable returns an error if this user cannot create a file in folder, access(2).
func writable(folder string) error {
	if err := unix.Access(folder, unix.W_OK); err != nil {
		return &os.PathError{Op: "write into", Path: folder, Err: err}
	}
	return nil
}
