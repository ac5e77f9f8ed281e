//go:build linux || freebsd

package tcpinfo

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const infoBytes = 512 // later kernels append fields

func read(fd uintptr) (Info, error) {
	var b [infoBytes]byte
	n, err := getsockopt(fd, unix.TCP_INFO, b[:])
	if err != nil {
		return Info{}, fmt.Errorf("read tcp_info: %w", err)
	}
	return parse(b[:n]), nil
}

func congestion(fd uintptr) (string, error) {
	// TCP_CA_NAME_MAX of Linux, include/net/tcp.h, and of FreeBSD, sys/netinet/tcp.h.
	var b [16]byte
	n, err := getsockopt(fd, unix.TCP_CONGESTION, b[:])
	if err != nil {
		return "", fmt.Errorf("read congestion control: %w", err)
	}
	return unix.ByteSliceToString(b[:n]), nil
}

// getsockopt reads a TCP option into b, which must not be empty, and returns how many bytes the
// kernel wrote, at most len(b).
func getsockopt(fd uintptr, option int, b []byte) (int, error) {
	n := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.IPPROTO_TCP, uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return 0, errno
	}
	return min(int(n), len(b)), nil
}
