//go:build linux || freebsd

package plane

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"linerate/internal/measure/sockio"

	"golang.org/x/sys/unix"
)

// pollsPerLook is how many empty polls pass between two readings of the clock: at some 150 ns
// each, one every 0.15 ms.
const pollsPerLook = 1 << 10

// socket is a connection outside the Go runtime.
type socket struct {
	fd          int
	spin        bool
	flags       uintptr // of each call: MSG_DONTWAIT when polling
	polls       int
	moved       int64 // bytes sent and received
	got         int64 // bytes received
	interrupted atomic.Bool

	quiet    time.Duration
	progress time.Time // last progress seen
	until    time.Time // end of the total bound
	seen     int64     // moved at that time
	queue    int       // bytes in the send queue at that time
}

func newWire(c *net.TCPConn, spin bool) (wire, error) {
	if !raw() {
		return newPoller(c), nil
	}
	fd, err := Detach(c)
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd, spin: spin}
	if spin {
		s.flags = unix.MSG_DONTWAIT
	}
	if err := Block(fd); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *socket) waiting() string {
	if s.spin {
		return "polling thread"
	}
	return "blocking thread"
}

func (s *socket) received() int64 { return s.got }

func (s *socket) limit(quiet, total time.Duration) {
	now := time.Now()
	s.quiet, s.progress, s.until, s.seen, s.queue = quiet, now, now.Add(total), s.moved, -1
}

// wait is called after a call that moved nothing. It returns nil to repeat the call.
func (s *socket) wait() error {
	if s.spin {
		if s.polls++; s.polls%pollsPerLook != 0 {
			return nil
		}
	}
	return s.look()
}

// look checks the bounds.
func (s *socket) look() error {
	if s.interrupted.Load() {
		return ErrInterrupted
	}
	now := time.Now()
	if !now.Before(s.until) {
		return ErrStalled
	}
	// Acknowledged data is progress too: up to a send buffer of payload waits in the kernel
	// while no call returns.
	queue, err := unix.IoctlGetInt(s.fd, sendQueue)
	if err != nil {
		queue = s.queue
	}
	if s.moved != s.seen || queue != s.queue && s.queue >= 0 {
		s.progress = now
	}
	s.seen, s.queue = s.moved, queue
	if now.Sub(s.progress) >= s.quiet {
		return ErrStalled
	}
	return nil
}

// failed converts the error of a call to ours; nil is to retry.
func (s *socket) failed(call string, errno syscall.Errno) error {
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return s.wait()
	case s.interrupted.Load():
		return ErrInterrupted
	}
	return os.NewSyscallError(call, errno)
}

func (s *socket) send(b []byte) error {
	for len(b) > 0 {
		n, errno := sockio.Send(s.fd, b, s.flags)
		if errno != 0 {
			if err := s.failed("send", errno); err != nil {
				return err
			}
			continue
		}
		s.moved += int64(n)
		b = b[n:]
	}
	return nil
}

func (s *socket) receive(b []byte) error { return s.receiveRest(b, len(b)) }

// receiveRest receives b, the rest of a message of whole bytes.
func (s *socket) receiveRest(b []byte, whole int) error {
	for len(b) > 0 {
		n, errno := sockio.Receive(s.fd, b, s.flags)
		if errno != 0 {
			if err := s.failed("receive", errno); err != nil {
				return err
			}
			continue
		}
		if n == 0 {
			return s.end(whole - len(b))
		}
		s.moved += int64(n)
		s.got += int64(n)
		b = b[n:]
	}
	return nil
}

// end returns the error for a connection that ended after got bytes of a message.
func (s *socket) end(got int) error {
	switch {
	case s.interrupted.Load():
		return ErrInterrupted
	case got > 0:
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// exchange sends and receives until out is sent; then it only needs to receive the rest.
func (s *socket) exchange(out, in []byte) error {
	whole := len(in)
	for {
		n, errno := sockio.Send(s.fd, out, s.flags|unix.MSG_DONTWAIT)
		if errno != 0 && errno != syscall.EAGAIN && errno != syscall.EINTR {
			return s.failed("send", errno)
		}
		if out = out[n:]; len(out) == 0 {
			s.moved += int64(n)
			return s.receiveRest(in, whole)
		}
		got := 0
		if len(in) > 0 {
			got, errno = sockio.Receive(s.fd, in, s.flags|unix.MSG_DONTWAIT)
			if got == 0 && errno == 0 {
				return s.end(whole - len(in))
			}
			if errno != 0 && errno != syscall.EAGAIN && errno != syscall.EINTR {
				return s.failed("receive", errno)
			}
			in = in[got:]
		}
		s.moved += int64(n + got)
		s.got += int64(got)
		if n+got == 0 {
			if err := s.ready(len(in) > 0); err != nil {
				return err
			}
		}
	}
}

// ready waits until the socket is writable or, if receiving is true, readable.
func (s *socket) ready(receiving bool) error {
	if s.spin {
		return s.wait()
	}
	events := int16(unix.POLLOUT)
	if receiving {
		events |= unix.POLLIN
	}
	n, errno := poll(&unix.PollFd{Fd: int32(s.fd), Events: events})
	if n > 0 {
		return nil // the next call reports an error state
	}
	if errno == 0 || errno == syscall.EINTR {
		return s.look()
	}
	return os.NewSyscallError("ppoll", errno)
}

// interrupt shuts the connection down, so that blocked calls return at once.
func (s *socket) interrupt() {
	s.interrupted.Store(true)
	// It fails only if the connection has ended already.
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
}

func (s *socket) linger(seconds int) {
	// It fails only on a descriptor that is no socket.
	_ = unix.SetsockoptLinger(s.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(seconds)})
}

func (s *socket) close() error { return unix.Close(s.fd) }

// poll is raw, as sockio.Send is.
//
//go:noinline
func poll(p *unix.PollFd) (int, syscall.Errno) {
	limit := unix.NsecToTimespec(int64(Patience))
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(p)), 1,
		uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
