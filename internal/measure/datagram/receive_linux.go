package datagram

import (
	"encoding/binary"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// receiveControl holds a receive time and the size of segments.
	receiveControl = 64
	plainPieces    = 64 // per call
	// trainPieces is smaller, so that the buffers stay in the cache.
	trainPieces = 16
	trainBytes  = 65535
	// stagger keeps the buffers off the same cache lines, which a stride of a power of two
	// would put them on.
	stagger = 192
)

// intake receives with recvmmsg.
type intake struct {
	fd      int
	msgs    []unix.Mmsghdr
	iovs    []unix.Iovec
	buf     []byte
	stride  int
	control []byte
	used    int // messages whose header the kernel has changed
}

func (s *native) prepareReceive(size int, trains bool) collector {
	pieces := plainPieces
	// One more byte reveals datagrams longer than agreed.
	room := size + 1
	if trains && unix.SetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil {
		pieces, room = trainPieces, trainBytes
	}
	// If it fails, the time after the call is used.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	in := &intake{
		fd: s.fd, msgs: make([]unix.Mmsghdr, pieces), iovs: make([]unix.Iovec, pieces),
		stride: (room+63)&^63 + stagger, control: make([]byte, pieces*receiveControl),
	}
	in.buf = make([]byte, pieces*in.stride)
	for i := range in.msgs {
		in.iovs[i].Base = &in.buf[i*in.stride]
		in.iovs[i].SetLen(room)
		in.msgs[i].Hdr.Iov = &in.iovs[i]
		in.msgs[i].Hdr.SetIovlen(1)
		in.msgs[i].Hdr.Control = &in.control[i*receiveControl]
		in.msgs[i].Hdr.SetControllen(receiveControl)
	}
	return in
}

func (in *intake) receive(wait bool) (int, outcome, error) {
	for i := range in.used {
		in.msgs[i].Hdr.SetControllen(receiveControl)
	}
	in.used = 0
	flags := unix.MSG_WAITFORONE
	if !wait {
		flags = unix.MSG_DONTWAIT
	}
	n, errno := recvmmsg(in.fd, in.msgs, flags)
	if errno == 0 {
		in.used = n
		return n, fine, nil
	}
	if errno == unix.EBADF || errno == unix.ENOTSOCK || errno == unix.EFAULT || errno == unix.EINVAL {
		return 0, broken, os.NewSyscallError("recvmmsg", errno)
	}
	// Nothing arrived, or an error of an earlier datagram of ours.
	return 0, again, nil
}

func (in *intake) piece(i int) (b []byte, each int, wall int64) {
	m := &in.msgs[i]
	b = in.buf[i*in.stride:][:m.Len]
	each, wall = parseControl(in.control[i*receiveControl:][:m.Hdr.Controllen])
	return b, each, wall
}

// parseControl parses the control messages of a piece: the size of its segments (UDP_GRO,
// int32) and when it arrived (SCM_TIMESTAMPNS, timespec). An absent one is 0.
func parseControl(b []byte) (each int, wall int64) {
	const header = unix.SizeofCmsghdr
	for len(b) >= header {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		n := int(h.Len)
		if n < header || n > len(b) {
			return each, wall
		}
		data := b[header:n]
		switch {
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			each = int(binary.NativeEndian.Uint32(data))
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS && len(data) >= 16:
			wall = int64(binary.NativeEndian.Uint64(data))*1e9 + int64(binary.NativeEndian.Uint64(data[8:]))
		}
		b = b[min(len(b), unix.CmsgSpace(n-header)):]
	}
	return each, wall
}

//go:noinline
func recvmmsg(fd int, m []unix.Mmsghdr, flags int) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(m))),
		uintptr(len(m)), uintptr(flags), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}
