//go:build unix

package persist

import (
	"io/fs"
	"os"

	"syscall"
)

// owner returns who owns the file.
func owner(info fs.FileInfo) (uid, gid int) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), int(s.Gid)
	}
	return os.Getuid(), os.Getgid()
}

// chown gives f an owner, unless it has it: without root only that works.
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
