package datagram

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bounds of a train: UDP_MAX_SEGMENTS (include/linux/udp.h, 64 until 6.9 raised it), and the
// largest packet minus the longest headers.
const (
	maxTrain      = 64
	maxTrainBytes = 65535 - 40 - 8
)

// controlSpace holds one control message with 8 bytes, aligned as the kernel requires.
const controlSpace = 24

// batch sends the datagrams of a buffer with sendmmsg.
type batch struct {
	fd      int
	size    int
	msgs    []unix.Mmsghdr
	iovs    []unix.Iovec
	control []byte // controlSpace for each message
	train   unix.Msghdr
	cut     []byte // control message of the train
	whole   unix.Iovec
}

func (s *native) prepareSend(buf []byte, size int) transmitter {
	// With this option the call that sends a datagram returns its error: without it the kernel
	// hides that one of its own queues was full (udp_send_skb, net/ipv4/udp.c). A failure to
	// set it does not matter.
	if s.v6 {
		_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	} else {
		_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
	}
	n := len(buf) / size
	b := &batch{
		fd: s.fd, size: size,
		msgs: make([]unix.Mmsghdr, n), iovs: make([]unix.Iovec, n), control: make([]byte, n*controlSpace),
		cut: make([]byte, controlSpace),
	}
	for i := range b.msgs {
		b.iovs[i].Base = &buf[i*size]
		b.iovs[i].SetLen(size)
		b.msgs[i].Hdr.Iov = &b.iovs[i]
		b.msgs[i].Hdr.SetIovlen(1)
		putControl(b.control[i*controlSpace:], unix.SOL_SOCKET, unix.SCM_TXTIME, 8)
	}
	b.whole.Base = &buf[0]
	b.train.Iov = &b.whole
	b.train.SetIovlen(1)
	putControl(b.cut, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2)
	*(*uint16)(unsafe.Pointer(&b.cut[unix.CmsgLen(0)])) = uint16(size)
	b.train.Control = &b.cut[0]
	b.train.SetControllen(unix.CmsgSpace(2))
	return b
}

// putControl writes the header of a control message with n bytes of data.
func putControl(b []byte, level, kind int32, n int) {
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(n))
}

func (b *batch) send(n int, cut bool) (int, outcome, error) {
	if cut && n > 1 {
		b.whole.SetLen(n * b.size)
		if errno := sendmsg(b.fd, &b.train); errno != 0 {
			return sendFailed(errno, true)
		}
		return n, fine, nil
	}
	taken, errno := sendmmsg(b.fd, b.msgs[:n])
	if errno != 0 {
		return sendFailed(errno, false)
	}
	return taken, fine, nil
}

func (b *batch) sendAt(times []int64) (int, outcome, error) {
	for i, at := range times {
		*(*int64)(unsafe.Pointer(&b.control[i*controlSpace+unix.CmsgLen(0)])) = at
		b.msgs[i].Hdr.Control = &b.control[i*controlSpace]
		b.msgs[i].Hdr.SetControllen(unix.CmsgSpace(8))
	}
	return b.send(len(times), false)
}

// sendFailed maps an error of a send to an outcome.
func sendFailed(e syscall.Errno, train bool) (int, outcome, error) {
	switch {
	case e == unix.EINTR || e == unix.EAGAIN:
		return 0, again, nil
	case train && uncuttable(e):
		return 0, uncut, e
	case e == unix.ECONNREFUSED:
		return 0, portClosed, e
	case passing(e):
		return 0, refused, e
	}
	return 0, broken, os.NewSyscallError("sendmmsg", e)
}

// uncuttable reports whether e means that the kernel cannot cut the train. EIO: the device has
// no checksum offload (udp_send_skb, net/ipv4/udp.c).
func uncuttable(e syscall.Errno) bool {
	return e == unix.EINVAL || e == unix.EIO || e == unix.EMSGSIZE || e == unix.EOPNOTSUPP
}

// passing reports whether e may be temporary: no room, no route, a filter.
func passing(e syscall.Errno) bool {
	return e == unix.ENOBUFS || e == unix.ENOMEM || e == unix.EMSGSIZE ||
		e == unix.EPERM || e == unix.EACCES ||
		e == unix.ENETUNREACH || e == unix.EHOSTUNREACH || e == unix.ENETDOWN || e == unix.EHOSTDOWN ||
		e == unix.EADDRNOTAVAIL || e == unix.ENODEV || e == unix.EPROTO
}

// The calls are raw: the Go scheduler does not see them and gives the thread's processor to no
// other goroutine. They are not inlined, so that the runtime can stop the thread at each entry.

//go:noinline
func sendmsg(fd int, m *unix.Msghdr) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), unix.MSG_NOSIGNAL)
	return e
}

//go:noinline
func sendmmsg(fd int, m []unix.Mmsghdr) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(m))),
		uintptr(len(m)), unix.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// cuts checks that the kernel has UDP_SEGMENT (since 4.18). Segments must fit the path MTU: the
// kernel does not fragment them.
func (s *native) cuts(size int) bool {
	mtu, known := s.pathMTU().Get()
	if !known || size+s.overhead > mtu || 2*size > maxTrainBytes {
		return false
	}
	_, err := unix.GetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	return err == nil
}
