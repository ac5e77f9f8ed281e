// Package durable is what files need that neither a crash nor another user may
// spoil: the lock that lets one process write, names that are on disk, directories
// that nobody else may write.
package durable

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"linerate/internal/fault"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("in use by another linerate")

// Missing returns the directories that files need and that are not there, each
// once and after the one that holds it. at, unless nil, says where the path of a
// file lies.
func Missing(files []string, at func(string) string) []string {
	var all []string
	for _, f := range files {
		var chain []string
		for dir := filepath.Dir(f); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			real := dir
			if at != nil {
				real = at(dir)
			}
			if _, err := os.Lstat(real); !errors.Is(err, fs.ErrNotExist) {
				break
			}
			chain = append(chain, dir)
		}
		for _, dir := range slices.Backward(chain) {
			if !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all
}

// ErrUntrusted says that another user could replace what lies in a directory.
var ErrUntrusted = fault.Cause(fault.Unsupported, "others could replace what lies there")

// Trusted fails where this process is root's and another user could replace what
// lies in dir, and so have root undo, remove or run what that user has written.
// It wraps ErrUntrusted then. Other users may have their state where they like.
// A directory that is not there is trusted as far as what would hold it is: check
// again when it was made.
func Trusted(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return Private(dir)
}

// Private fails where another user than root and this one could replace what lies
// in dir: by writing to it, to a directory above it, or to one through which its
// symbolic links lead. It wraps ErrUntrusted then. Windows leaves the rights on
// directories to their owners, and is always content.
func Private(dir string) error { return private(dir) }

// Sum is the SHA-256 of a text, in hexadecimal.
func Sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// Fill writes a file by fill and syncs it. Only its owner may open it until it is complete
// and has its mode. The path should be a temporary name, because no reader knows that.
func Fill(path string, mode fs.FileMode, fill func(f *os.File) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// newSuffix is of files that are not complete.
const newSuffix = ".new"

// Write writes data to path, whatever was there, and syncs it. The path should be a
// temporary name. The name itself may not be on disk yet: see SyncDir.
func Write(files FS, path string, data []byte, mode fs.FileMode) error {
	return write(files, path, data, mode, os.O_TRUNC)
}

// Create has data on disk under a new name. The error wraps fs.ErrExist where
// there is a file of that name.
func Create(files FS, path string, data []byte, mode fs.FileMode) error {
	if err := write(files, path, data, mode, os.O_EXCL); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			_ = files.Remove(path) // part of it, on a full disk
		}
		return err
	}
	return files.SyncDir(filepath.Dir(path))
}

// Replace has data on disk under a name, in one step: after a crash there is the
// old file or the new one. What a crash leaves beside it the next call writes
// over, and Discard removes.
func Replace(files FS, path string, data []byte, mode fs.FileMode) error {
	next := path + newSuffix
	err := Write(files, next, data, mode)
	if err == nil {
		err = files.Rename(next, path)
	}
	if err != nil {
		_ = files.Remove(next)
		return err
	}
	return files.SyncDir(filepath.Dir(path))
}

// Discard removes what a crash in Replace of a name left beside it.
func Discard(files FS, path string) { _ = files.Remove(path + newSuffix) }

func write(files FS, path string, data []byte, mode fs.FileMode, flag int) error {
	f, err := files.Open(path, os.O_WRONLY|os.O_CREATE|flag, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
