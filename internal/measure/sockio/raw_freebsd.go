package sockio

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patienceMillis is the longest that Send, Receive and Ready wait, in milliseconds.
const patienceMillis = 100

// Send and Receive are raw send(2) and recv(2) on a connected socket, as on Linux: the Go
// scheduler does not see them. They never block in the socket: if a signal interrupts a read
// this kernel restarts it, with a new timeout (SA_RESTART, sbwait in sys/kern/uipc_sockbuf.c),
// so that the Go runtime could wait for the thread forever. Waiting happens in poll(2), which
// always returns on a signal.

// Send writes b with flags; a closed peer raises no signal. Without MSG_DONTWAIT it waits for
// room, at most 100 ms, and returns EAGAIN if there is none.
func Send(fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	return patient(sendto, fd, b, flags, unix.POLLOUT)
}

// Receive reads into b with flags; 0 bytes without an error are EOF. It waits like Send.
func Receive(fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	return patient(recvfrom, fd, b, flags, unix.POLLIN)
}

func patient(call func(int, []byte, uintptr) (int, syscall.Errno), fd int, b []byte, flags uintptr, event int16) (int, syscall.Errno) {
	n, errno := call(fd, b, flags|unix.MSG_DONTWAIT)
	if errno != unix.EAGAIN || flags&unix.MSG_DONTWAIT != 0 {
		return n, errno
	}
	if errno := Ready(fd, event); errno != 0 {
		return 0, errno
	}
	return call(fd, b, flags|unix.MSG_DONTWAIT)
}

// Ready waits for an event of poll(2), at most 100 ms. EAGAIN means that there was none, EINTR
// that a signal arrived.
//
//go:noinline
func Ready(fd int, event int16) syscall.Errno {
	p := unix.PollFd{Fd: int32(fd), Events: event}
	n, _, errno := syscall.RawSyscall(unix.SYS_POLL, uintptr(unsafe.Pointer(&p)), 1, patienceMillis)
	switch {
	case errno != 0:
		return errno
	case n == 0:
		return unix.EAGAIN
	}
	return 0
}

//go:noinline
func sendto(fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

//go:noinline
func recvfrom(fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// Again reports whether a call returned without a result and may be repeated.
func Again(e syscall.Errno) bool { return e == syscall.EINTR || e == syscall.EAGAIN }
