package sockio

import (
	"os"

	"golang.org/x/sys/unix"
)

// giveTo changes the owner of the socket's inode and with it sk_uid (Linux 4.10,
// net/socket.c sockfs_setattr).
func giveTo(fd uintptr, uid, gid int) error {
	return os.NewSyscallError("fchown socket", unix.Fchown(int(fd), uid, gid))
}
