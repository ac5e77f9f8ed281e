// Package durable protects files from crashes and other users: a lock that lets one process
// write, names synced to disk, directories that no other user may write.
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

// ErrLocked reports that another process holds the lock.
var ErrLocked = errors.New("in use by another linerate")

// Missing returns the missing directories of files, each once and after its parent. at,
// unless nil, maps the path of a file to its real place.
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

// ErrUntrusted reports that another user could replace files in a directory.
var ErrUntrusted = fault.Cause(fault.Unsupported, "others could replace what lies there")

// Trusted returns an error that wraps ErrUntrusted if this process is root's and another user
// could replace files in dir, and so make root undo, remove or run what that user wrote.
// Users other than root may keep their state anywhere. A directory that does not exist is
// trusted if its parent is: check again after making it.
func Trusted(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return Private(dir)
}

// Private returns an error that wraps ErrUntrusted if a user other than root and this one
// could replace files in dir: by writing to it, to a directory above it, or to one that its
// symbolic links lead through. Windows leaves the rights on directories to their owners;
// there Private returns nil.
func Private(dir string) error { return private(dir) }

// Sum returns the SHA-256 of a text, in hexadecimal.
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

// newSuffix is the suffix of incomplete files.
const newSuffix = ".new"

// Write writes data to path, replacing what is there, and syncs it. The path should be a
// temporary name. The name itself may not be on disk yet: see SyncDir.
func Write(files FS, path string, data []byte, mode fs.FileMode) error {
	return write(files, path, data, mode, os.O_TRUNC)
}

// Create writes data to disk under a new name. The error wraps fs.ErrExist if there is a file
// of that name.
func Create(files FS, path string, data []byte, mode fs.FileMode) error {
	if err := write(files, path, data, mode, os.O_EXCL); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			_ = files.Remove(path) // part of it, on a full disk
		}
		return err
	}
	return files.SyncDir(filepath.Dir(path))
}

// Replace replaces a file on disk atomically: after a crash there is the old file or the new
// one. A crash may leave a temporary file, which the next call overwrites and Discard
// removes.
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

// Discard removes the temporary file that a crash in Replace may have left.
func Discard(files FS, path string) { _ = files.Remove(path + newSuffix) }

func write(files FS, path string, data []byte, mode fs.FileMode, flag int) error {
	f, err := files.Open(path, os.O_WRONLY|os.O_CREATE|flag, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
