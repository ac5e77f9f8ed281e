package wire

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawIO is read or write on a non-blocking file that bypasses the scheduler: the call returns
// at once, and the scheduler's two hand-overs would cost as much again.
func rawIO(call uintptr, fd int, buf []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// shortWait is the longest wait that keeps its scheduler slot. A longer one releases it, since
// stopping the world has to wait for raw calls.
const shortWait = 200 * time.Microsecond

// poll waits until one of fds is readable or d has passed; forever if d < 0.
func poll(fds []unix.PollFd, d time.Duration) {
	var ts *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		ts = &t
	}
	// ppoll(2) reports errors through revents too, and an interrupted or refused wait only
	// makes the caller check once more: no error to handle.
	call := unix.Syscall6
	if d >= 0 && d <= shortWait {
		call = unix.RawSyscall6
	}
	_, _, _ = call(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)),
		uintptr(unsafe.Pointer(ts)), 0, 0, 0)
}
