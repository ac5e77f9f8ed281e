package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks one byte far behind the text, which so stays readable: Windows keeps others from
// reading a locked range. The lock ends with the open file. If another process has it, Lock
// returns ErrLocked.
func Lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// Close releases the lock of f, if it has one, and closes f: Windows does not say when
// closing a file releases its locks.
func Close(f *os.File) error {
	err := windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
	if errors.Is(err, windows.ERROR_NOT_LOCKED) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// SyncDir does nothing: NTFS journals its names, and Windows does not flush directories.
func SyncDir(string) error { return nil }
