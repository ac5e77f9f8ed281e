package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// newSuffix is of files that are not complete.
const newSuffix = ".new"

// Write has data on disk under a name that nobody reads yet, whatever was there.
// The name itself may not be: see SyncDir.
func Write(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, os.O_TRUNC)
}

// Create has data on disk under a new name. The error wraps fs.ErrExist where
// there is a file of that name.
func Create(path string, data []byte, mode fs.FileMode) error {
	if err := write(path, data, mode, os.O_EXCL); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			_ = os.Remove(path) // part of it, on a full disk
		}
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Replace has data on disk under a name, in one step: after a crash there is the
// old file or the new one. What a crash leaves beside it the next call writes
// over, and Discard removes.
func Replace(path string, data []byte, mode fs.FileMode) error {
	next := path + newSuffix
	err := Write(next, data, mode)
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Discard removes what a crash in Replace of a name left beside it.
func Discard(path string) { _ = os.Remove(path + newSuffix) }

func write(path string, data []byte, mode fs.FileMode, flag int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
