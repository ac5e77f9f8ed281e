package sockio

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Send and Receive are send(2) and recv(2) on a connected socket, raw: the
// scheduler is not told and hands the thread's processor to nobody else, which
// is what its way back costs. They are for threads that do nothing but that: a
// call that blocks keeps a processor of the runtime, see package quiet. They are
// not inlined, so that each entry is a place where the runtime can stop the
// thread.

// Send writes b with flags; no signal tells of a closed peer.
//
//go:noinline
func Send(fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// Receive reads into b with flags; 0 bytes without an error are the end.
//
//go:noinline
func Receive(fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// Again reports whether a call returned without a result and may be repeated.
func Again(e syscall.Errno) bool { return e == syscall.EINTR || e == syscall.EAGAIN }
