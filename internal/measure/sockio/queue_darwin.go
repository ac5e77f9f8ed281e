package sockio

import "golang.org/x/sys/unix"

// soNWrite is SO_NWRITE of sys/socket.h: bytes in the send buffer, sent or not.
const soNWrite = 0x1024

func unacknowledged(fd uintptr) (int, error) {
	return unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, soNWrite)
}

func limitUnsent(uintptr, int) error { return nil }
