package durable

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"linerate/internal/core/lists"
)

// FS has the file operations needed for files that must survive a crash. Tests use one in
// memory that can lose what was not synced.
type FS interface {
	// Open opens a file as os.OpenFile does.
	Open(path string, flag int, mode fs.FileMode) (File, error)
	// Read returns the whole file.
	Read(path string) ([]byte, error)
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	Rename(from, to string) error
	Remove(path string) error
	// MakeDir makes a directory for this user alone, with its parents.
	MakeDir(dir string) error
	// SyncDir syncs the names in a directory to disk.
	SyncDir(dir string) error
	// Trusted is the function Trusted.
	Trusted(dir string) error
}

// File is an open file of an FS.
type File interface {
	io.Writer
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	// Lock is the function Lock.
	Lock() error
	Close() error
}

// OS is the file system of this machine.
type OS struct{}

type osFile struct{ *os.File }

// Lock is the function Lock.
func (f osFile) Lock() error { return Lock(f.File) }

// Close is the function Close.
func (f osFile) Close() error { return Close(f.File) }

// Open is os.OpenFile.
func (OS) Open(path string, flag int, mode fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Read is os.ReadFile.
func (OS) Read(path string) ([]byte, error) { return os.ReadFile(path) }

// List returns the names in a directory, sorted.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := lists.Each(entries, func(e os.DirEntry) string { return e.Name() })
	return names, err
}

// Rename is os.Rename.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is os.Remove.
func (OS) Remove(path string) error { return os.Remove(path) }

// MakeDir makes a directory for this user alone, with its parents, and syncs its name.
func (OS) MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// SyncDir is the function SyncDir.
func (OS) SyncDir(dir string) error { return SyncDir(dir) }

// Trusted is the function Trusted.
func (OS) Trusted(dir string) error { return Trusted(dir) }
