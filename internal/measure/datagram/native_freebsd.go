package datagram

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/sockio"
)

// native is a socket outside the Go runtime: its own descriptor, which one thread serves with
// raw calls, one datagram each: this kernel has no call for many datagrams (sendmmsg(3) is a
// loop in its C library) and cuts no trains. A thread that has to wait does so in poll(2), see
// package sockio.
type native struct{ fd int }

// newNative takes over c. On a machine with one core no thread can keep the CPU: package net
// serves the socket there.
func newNative(c *net.UDPConn, o Options, _ int) (socket, error) {
	if runtime.NumCPU() == 1 {
		return newPortable(c, o)
	}
	fd, err := sockio.Duplicate(c)
	s := &native{fd: fd}
	if err = errors.Join(err, c.Close()); err == nil {
		err = s.setUp(o)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// setUp requests the buffers. This kernel refuses a size above 8/9 of kern.ipc.maxsockbuf
// instead of granting the maximum (sbreserve, sys/kern/uipc_sockbuf.c).
func (s *native) setUp(o Options) error {
	want := int(o.RecvBuffer)
	err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, want)
	for err != nil && want > leastBuffer {
		want /= 2
		err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, want)
	}
	if o.SendBuffer != 0 {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, int(o.SendBuffer)); err != nil {
			return fmt.Errorf("set send buffer: %w", err)
		}
	}
	return nil
}

func (*native) threads() int    { return 1 }
func (*native) waiting() string { return "blocking thread" }
func (*native) cuts(int) bool   { return false }

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
		_, errno := sockio.Send(s.fd, b, unix.MSG_DONTWAIT)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return os.NewSyscallError("send", errno)
		}
		return nil
	}
}

func (s *native) poll(b []byte) (int, error) {
	n, errno := sockio.Receive(s.fd, b, unix.MSG_DONTWAIT)
	switch errno {
	case 0:
		return n, nil
	case unix.EBADF, unix.ENOTSOCK:
		return 0, os.NewSyscallError("recv", errno)
	default: // nothing arrived, or an error of an earlier datagram
		return 0, nil
	}
}

func (*native) pathMTU() fact.Of[int] {
	return fact.Unknown[int]("freebsd does not report it for a socket")
}
func (*native) dropped() fact.Of[int64] {
	return fact.Unknown[int64]("freebsd does not count by socket")
}

func (s *native) recvBuffer() fact.Of[units.Bytes] {
	n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return fact.Unknown[units.Bytes](os.NewSyscallError("getsockopt SO_RCVBUF", err).Error())
	}
	return fact.Known(units.Bytes(n), "SO_RCVBUF")
}

func readRecvBuffer(c *net.UDPConn) fact.Of[units.Bytes] {
	out, err := sockio.OnDescriptor(c, func(fd uintptr) (fact.Of[units.Bytes], error) { return (&native{fd: int(fd)}).recvBuffer(), nil })
	if err != nil {
		return fact.Unknown[units.Bytes](err.Error())
	}
	return out
}

func (*native) paceByKernel() (string, error) {
	return "", errors.Join(errors.ErrUnsupported, errors.New("freebsd takes no time of departure for a datagram"))
}

// single sends the datagrams of a buffer, one per call.
type single struct {
	fd   int
	buf  []byte
	size int
}

func (s *native) prepareSend(buf []byte, size int) transmitter { return &single{s.fd, buf, size} }

func (t *single) send(n int, _ bool) (int, outcome, error) {
	for i := range n {
		if _, errno := sockio.Send(t.fd, t.buf[i*t.size:][:t.size], unix.MSG_DONTWAIT); errno != 0 {
			if i > 0 {
				return i, fine, nil // the next call hits the same error
			}
			return sendFailed(errno)
		}
	}
	return n, fine, nil
}

func (*single) sendAt([]int64) (int, outcome, error) { return 0, broken, errors.ErrUnsupported }

// sendFailed maps an error of a send to an outcome. A full queue of the interface is ENOBUFS.
func sendFailed(e syscall.Errno) (int, outcome, error) {
	switch e {
	case unix.EINTR, unix.EAGAIN:
		return 0, again, nil
	case unix.ECONNREFUSED:
		return 0, portClosed, e
	case unix.ENOBUFS, unix.ENOMEM, unix.EMSGSIZE, unix.EPERM, unix.EACCES, unix.ENETUNREACH, unix.EHOSTUNREACH,
		unix.ENETDOWN, unix.EHOSTDOWN, unix.EADDRNOTAVAIL:
		return 0, refused, e
	}
	return 0, broken, os.NewSyscallError("send", e)
}

// receivePieces is how many datagrams are received before they are processed.
const receivePieces = 64

// intake receives with recvmsg, which reports when a datagram arrived.
type intake struct {
	fd      int
	buf     []byte
	stride  int
	msg     unix.Msghdr
	iov     unix.Iovec
	control []byte
	lengths [receivePieces]int
	walls   [receivePieces]int64
}

// The form of SO_TIMESTAMP that SO_TS_CLOCK selects: a timespec (sys/socket.h).
const (
	clockRealtime = 2 // SO_TS_REALTIME
	scmRealtime   = 5 // SCM_REALTIME
)

func (s *native) prepareReceive(size int, _ bool) collector {
	// If they fail, the time after the call is used.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1)
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TS_CLOCK, clockRealtime)
	// One more byte reveals datagrams longer than agreed.
	in := &intake{fd: s.fd, stride: size + 1, control: make([]byte, 64)}
	in.buf = make([]byte, receivePieces*in.stride)
	in.msg.Iov = &in.iov
	in.msg.Iovlen = 1
	return in
}

func (in *intake) receive(wait bool) (int, outcome, error) {
	n := 0
	for n < receivePieces {
		errno := in.one(n)
		if errno == unix.EAGAIN && n == 0 && wait {
			wait = false
			if errno = sockio.Ready(in.fd, unix.POLLIN); errno == 0 {
				continue
			}
		}
		if errno == 0 {
			n++
			continue
		}
		if n > 0 {
			break
		}
		if errno == unix.EBADF || errno == unix.ENOTSOCK || errno == unix.EFAULT || errno == unix.EINVAL {
			return 0, broken, os.NewSyscallError("recvmsg", errno)
		}
		return 0, again, nil // nothing arrived, or an error of an earlier datagram
	}
	return n, fine, nil
}

// one receives datagram i if one has arrived.
func (in *intake) one(i int) syscall.Errno {
	in.iov.Base = &in.buf[i*in.stride]
	in.iov.SetLen(in.stride)
	in.msg.Control = &in.control[0]
	in.msg.Controllen = uint32(len(in.control))
	length, errno := recvmsg(in.fd, &in.msg)
	if errno != 0 {
		return errno
	}
	in.lengths[i], in.walls[i] = length, parseControl(in.control[:min(int(in.msg.Controllen), len(in.control))])
	return 0
}

func (in *intake) piece(i int) (b []byte, each int, wall int64) {
	return in.buf[i*in.stride:][:in.lengths[i]], 0, in.walls[i]
}

// parseControl returns when a datagram arrived, 0 if unknown.
func parseControl(b []byte) int64 {
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		n, data := int(h.Len), unix.CmsgLen(0)
		if n < data || n > len(b) {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == scmRealtime && n >= data+16 {
			return int64(binary.NativeEndian.Uint64(b[data:]))*1e9 + int64(binary.NativeEndian.Uint64(b[data+8:]))
		}
		b = b[min(len(b), unix.CmsgSpace(n-data)):]
	}
	return 0
}

//go:noinline
func recvmsg(fd int, m *unix.Msghdr) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), unix.MSG_DONTWAIT)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// sleep sleeps for d or a little longer, less if a signal arrives. The Go scheduler does not
// see it: the thread keeps its processor.
//
//go:noinline
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// sharpen and blunt do nothing: kern.timecounter.alloweddeviation is a system-wide setting.
func sharpen() {}
func blunt()   {}

// kernelClock is unused where the kernel does not pace.
func kernelClock() int64 { return 0 }
