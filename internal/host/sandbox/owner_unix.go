//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

func ownerOf(path string) (User, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return User{}, false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.Uid == 0 {
		return User{}, false
	}
	u := User{UID: int(s.Uid), GID: int(s.Gid)}
	if u.GID == 0 {
		u.GID = u.UID // a group without rights, like that of dynamic users
	}
	return u, true
}
