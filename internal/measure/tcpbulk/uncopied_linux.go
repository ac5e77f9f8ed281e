package tcpbulk

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// discard has recv(2) count and drop the payload instead of copying it (tcp(7): MSG_TRUNC).
const discard = unix.MSG_TRUNC

// hold puts the payload into a file in memory, from whose pages sendFile sends.
func hold(block []byte) (int, error) {
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	for rest := block; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			_ = unix.Close(fd)
			return -1, fmt.Errorf("write %d bytes to memory: %w", len(block), err)
		}
		rest = rest[n:]
	}
	return fd, nil
}

// sendFile sends the first n bytes of a file without copying them (sendfile(2)). It is raw for
// the reasons of sockio.Send.
//
//go:noinline
func sendFile(fd, file int, n int64) (int, syscall.Errno) {
	var from uintptr // a long of the kernel's
	sent, _, errno := syscall.RawSyscall6(unix.SYS_SENDFILE, uintptr(fd), uintptr(file), uintptr(unsafe.Pointer(&from)), uintptr(n), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sent), 0
}
