package datagram

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/sockio"
)

// native is a socket outside the Go runtime: its own blocking descriptor, which no event loop
// watches. Its timeout also makes calls interruptible: with a timeout the kernel returns EINTR
// on a signal instead of restarting the call (signal(7)), so that the Go runtime can stop the
// thread although it does not know that the thread is in the kernel.
type native struct {
	fd       int
	v6       bool // of the socket; its peer may still be an IPv4 address
	overhead int  // bytes of headers per datagram
}

// newNative takes over c, whose datagrams have overhead bytes of headers.
func newNative(c *net.UDPConn, o Options, overhead int) (socket, error) {
	fd, err := sockio.Duplicate(c)
	s := &native{fd: fd, overhead: overhead}
	if err = errors.Join(err, c.Close()); err == nil {
		err = s.setUp(o)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *native) setUp(o Options) error {
	domain, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_DOMAIN", err)
	}
	s.v6 = domain == unix.AF_INET6
	limit := unix.NsecToTimeval(int64(patience))
	err = errors.Join(
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetNonblock(s.fd, false))
	if err != nil {
		return fmt.Errorf("make socket blocking: %w", err)
	}
	if err := s.setBuffer(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, int(o.RecvBuffer)); err != nil {
		return fmt.Errorf("set receive buffer: %w", err)
	}
	if o.SendBuffer != 0 {
		if err := s.setBuffer(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, int(o.SendBuffer)); err != nil {
			return fmt.Errorf("set send buffer: %w", err)
		}
	}
	return nil
}

// setBuffer requests size bytes, beyond the system's bound if permitted.
func (s *native) setBuffer(force, plain, size int) error {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, size) == nil {
		return nil
	}
	return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, plain, size)
}

func (*native) threads() int    { return 1 }
func (*native) waiting() string { return "blocking thread" }

// interrupt wakes a waiting receiver.
func (s *native) interrupt() { _ = unix.Shutdown(s.fd, unix.SHUT_RD) }

func (s *native) close() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

func (s *native) write(b []byte) error {
	for {
		err := unix.Send(s.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("send", err)
		}
	}
}

func (s *native) poll(b []byte) (int, error) {
	// With IP_RECVERR, errors of earlier datagrams wait in a queue that takes room from the
	// receive buffer.
	for {
		var one [1]byte
		if _, errno := recvfrom(s.fd, one[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT); errno != 0 {
			break
		}
	}
	n, errno := recvfrom(s.fd, b, unix.MSG_DONTWAIT)
	switch errno {
	case 0:
		return n, nil
	case unix.EBADF, unix.ENOTSOCK:
		return 0, os.NewSyscallError("recv", errno)
	default: // nothing arrived, or an error of an earlier datagram
		return 0, nil
	}
}

// recvfrom is a raw call that allocates nothing: senders poll while they measure.
//
//go:noinline
func recvfrom(fd int, b []byte, flags int) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

func (s *native) pathMTU() fact.Of[int] {
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if s.v6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	mtu, err := unix.GetsockoptInt(s.fd, level, option)
	if err != nil {
		return fact.Unknown[int](os.NewSyscallError("getsockopt IP_MTU", err).Error())
	}
	return fact.Known(mtu, "IP_MTU")
}

func (s *native) recvBuffer() fact.Of[units.Bytes] {
	n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return fact.Unknown[units.Bytes](os.NewSyscallError("getsockopt SO_RCVBUF", err).Error())
	}
	return fact.Known(units.Bytes(n), "SO_RCVBUF")
}

// dropped reads the ninth counter of SO_MEMINFO, SK_MEMINFO_DROPS
// (include/uapi/linux/sock_diag.h, since 4.12).
func (s *native) dropped() fact.Of[int64] {
	const drops = 8
	var info [drops + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	switch {
	case errno != 0:
		return fact.Unknown[int64](os.NewSyscallError("getsockopt SO_MEMINFO", errno).Error())
	case uintptr(size) < unsafe.Sizeof(info):
		return fact.Unknown[int64]("SO_MEMINFO does not count drops")
	}
	return fact.Known(int64(info[drops]), "SO_MEMINFO")
}

func readRecvBuffer(c *net.UDPConn) fact.Of[units.Bytes] {
	out, err := sockio.OnDescriptor(c, func(fd uintptr) (fact.Of[units.Bytes], error) { return (&native{fd: int(fd)}).recvBuffer(), nil })
	if err != nil {
		return fact.Unknown[units.Bytes](err.Error())
	}
	return out
}

// sleep sleeps for d or a little longer, less if a signal arrives. The Go scheduler does not
// see it: the thread keeps its processor.
//
//go:noinline
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}

// sharpen makes the thread's sleeps end on time instead of up to 50 us late
// (PR_SET_TIMERSLACK, prctl(2)); blunt undoes that.
func sharpen() { syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, 1, 0) }
func blunt()   { syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, 0, 0) }

// kernelClock returns the monotonic clock that the kernel paces by, in ns.
func kernelClock() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("datagram: no monotonic clock: " + err.Error())
	}
	return ts.Nano()
}
