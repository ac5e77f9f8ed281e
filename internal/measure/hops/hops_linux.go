package hops

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errorQueue is a UDP socket whose error queue receives the routers' answers, for any user
// (IP_RECVERR, ip(7); tracepath(8) does the same).
type errorQueue struct {
	conn *net.UDPConn
	raw  syscall.RawConn
	six  bool
	b    [512]byte
	oob  [512]byte
}

func open(ctx context.Context, c Config) (socket, error) {
	conn, err := dial(ctx, c)
	if err != nil {
		return nil, err
	}
	q := &errorQueue{conn: conn, six: c.Peer.Addr().Unmap().Is6()}
	if q.raw, err = q.conn.SyscallConn(); err == nil {
		err = q.prepare()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare socket of the trace: %w", err), conn.Close())
	}
	return q, nil
}

func (q *errorQueue) prepare() error {
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if q.six {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	var failed error
	err := q.raw.Control(func(fd uintptr) {
		failed = errors.Join(
			unix.SetsockoptInt(int(fd), level, option, 1),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	})
	return errors.Join(err, failed)
}

func (q *errorQueue) send(ttl int, b []byte) error {
	level, kind := unix.IPPROTO_IP, unix.IP_TTL
	if q.six {
		level, kind = unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT
	}
	oob := make([]byte, unix.CmsgSpace(4))
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(oob)))
	h.Level, h.Type = int32(level), int32(kind)
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(oob[unix.CmsgLen(0):], uint32(ttl))
	_, _, err := q.conn.WriteMsgUDP(b, oob, nil)
	return err
}

func (q *errorQueue) receive() (answer, error) {
	var a answer
	var failed error
	err := q.raw.Read(func(fd uintptr) bool {
		n, oobn, _, _, err := unix.Recvmsg(int(fd), q.b[:], q.oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			// The queue is empty; a datagram that arrived is not part of the trace.
			_, _, _ = unix.Recvfrom(int(fd), q.b[:], unix.MSG_DONTWAIT)
			return false
		}
		if failed = err; err == nil {
			a = answer{quote: q.b[:n], at: time.Now()}
			failed = a.read(q.oob[:oobn])
		}
		return true
	})
	return a, errors.Join(err, failed)
}

// read takes the answering address and the time from control messages.
func (a *answer) read(oob []byte) error {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for _, m := range all {
		switch level, kind := int(m.Header.Level), int(m.Header.Type); {
		case level == unix.SOL_SOCKET && kind == unix.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
			ts := (*unix.Timespec)(unsafe.Pointer(unsafe.SliceData(m.Data)))
			a.at = time.Unix(ts.Unix())
		case level == unix.IPPROTO_IP && kind == unix.IP_RECVERR, level == unix.IPPROTO_IPV6 && kind == unix.IPV6_RECVERR:
			a.from, a.tooBig = offender(m.Data)
		}
	}
	return nil
}

// offender returns the address that follows a struct sock_extended_err (SO_EE_OFFENDER,
// include/uapi/linux/errqueue.h) of an ICMP error, and whether the error is about the packet's
// size. For other errors the address is zero.
func offender(b []byte) (_ netip.Addr, tooBig bool) {
	size := int(unsafe.Sizeof(unix.SockExtendedErr{}))
	if len(b) < size+unix.SizeofSockaddrInet4 {
		return netip.Addr{}, false
	}
	e := (*unix.SockExtendedErr)(unsafe.Pointer(unsafe.SliceData(b)))
	origin := e.Origin
	if origin != unix.SO_EE_ORIGIN_ICMP && origin != unix.SO_EE_ORIGIN_ICMP6 {
		return netip.Addr{}, false
	}
	tooBig = syscall.Errno(e.Errno) == unix.EMSGSIZE
	switch address := b[size:]; binary.NativeEndian.Uint16(address) {
	case unix.AF_INET:
		return netip.AddrFrom4([4]byte(address[4:8])), tooBig
	case unix.AF_INET6:
		if len(address) >= unix.SizeofSockaddrInet6 {
			return netip.AddrFrom16([16]byte(address[8:24])).Unmap(), tooBig
		}
	}
	return netip.Addr{}, false
}

func (q *errorQueue) close() error { return q.conn.Close() }
