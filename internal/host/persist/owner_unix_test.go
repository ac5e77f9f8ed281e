//go:build unix

package persist_test

import (
	"fmt"
	"io/fs"
	"syscall"
)

func ownerText(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "?"
	}
	return fmt.Sprintf("%d:%d", s.Uid, s.Gid)
}
