//go:build unix

package persist

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// readOnly reports whether the file system of a directory is read-only, or that of the
// nearest existing directory above it.
func readOnly(dir string) bool {
	err := syscall.Access(dir, 2) // W_OK of access(2)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = syscall.Access(dir, 2)
	}
	return errors.Is(err, syscall.EROFS)
}

// owner returns the owner of the file.
func owner(info fs.FileInfo) (uid, gid int) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), int(s.Gid)
	}
	return os.Getuid(), os.Getgid()
}

// chown gives f an owner, unless it has that one already: without root only that works.
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
