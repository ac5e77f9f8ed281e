package sockio

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Send and Receive are raw send(2) and recv(2) on a connected socket: the Go scheduler does not
// see them, so it does not give the thread's processor to another thread, and the thread need
// not reacquire it. They are for threads that do nothing else: a blocking call keeps a
// processor of the runtime, see package goruntime. They are not inlined, so that the runtime can
// stop the thread at each entry.

// Send writes b with flags; a closed peer raises no signal.
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

// Receive reads into b with flags; 0 bytes without an error are EOF.
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
