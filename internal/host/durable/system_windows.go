package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks one byte far behind the text, which stays readable so: Windows keeps
// others from reading a locked range. It ends with the open file, or returns
// ErrLocked.
func Lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// Close gives the lock of f up, if it has it, and closes f: Windows leaves open when
// the end of a file ends its locks.
func Close(f *os.File) error {
	err := windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
	if errors.Is(err, windows.ERROR_NOT_LOCKED) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// SyncDir does nothing: NTFS journals its names, and Windows flushes no directory.
func SyncDir(string) error { return nil }
