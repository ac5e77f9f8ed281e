package datagram

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fair is the queue that holds each packet until its time (net/sched/sch_fq.c, since 4.20).
const fair = "fq"

// paceByKernel requests departure times (SO_TXTIME), which with the monotonic clock need no
// privilege. The option alone does nothing: the queue of the interface must support it. So it
// looks up the route to the peer, in the network namespace of the calling thread.
func (s *native) paceByKernel() (string, error) {
	peer, err := address(unix.Getpeername(s.fd))
	if err != nil {
		return "", fmt.Errorf("find peer: %w", err)
	}
	own, err := address(unix.Getsockname(s.fd))
	if err != nil {
		return "", fmt.Errorf("find own address: %w", err)
	}
	link, err := egress(own, peer)
	if err != nil {
		return "", fmt.Errorf("find interface to %v: %w", peer, err)
	}
	queues, err := queuesOf(link)
	if err != nil {
		return "", fmt.Errorf("find queue of interface %d: %w", link, err)
	}
	if kind := leaf(queues); kind != fair {
		return "", fmt.Errorf("the queue of interface %d is %s: only %s holds datagrams back: %w",
			link, kind, fair, errors.ErrUnsupported)
	}
	if err := s.takeDepartures(); err != nil {
		return "", errors.Join(err, errors.ErrUnsupported)
	}
	return fair, nil
}

// takeDepartures makes the kernel accept a departure time with each datagram.
func (s *native) takeDepartures() error {
	// struct sock_txtime, include/uapi/linux/net_tstamp.h.
	option := [2]uint32{unix.CLOCK_MONOTONIC, 0}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&option)), unsafe.Sizeof(option))
	return os.NewSyscallError("setsockopt SO_TXTIME",
		unix.SetsockoptString(s.fd, unix.SOL_SOCKET, unix.SO_TXTIME, string(b)))
}

// address returns the address of one end of a socket.
func address(sa unix.Sockaddr, err error) (netip.Addr, error) {
	if err != nil {
		return netip.Addr{}, err
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr), nil
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap(), nil
	}
	return netip.Addr{}, fmt.Errorf("address family of %T is not known", sa)
}

// egress returns the interface that the kernel uses for packets from own to peer.
func egress(own, peer netip.Addr) (int32, error) {
	family := byte(unix.AF_INET)
	if peer.Is6() {
		family = unix.AF_INET6
	}
	bits := byte(peer.BitLen())
	request := []byte{family, bits, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0} // struct rtmsg
	request = appendAttribute(request, unix.RTA_DST, peer.AsSlice())
	request = appendAttribute(request, unix.RTA_SRC, own.AsSlice())
	var link int32
	err := ask(unix.RTM_GETROUTE, 0, request, func(kind uint16, b []byte) {
		if kind == unix.RTM_NEWROUTE {
			link = parseRoute(b)
		}
	})
	if err == nil && link == 0 {
		err = errors.New("the kernel names none")
	}
	return link, err
}

// queuesOf returns the queues of an interface.
func queuesOf(link int32) ([]queue, error) {
	request := make([]byte, queueHeader)
	var out []queue
	err := ask(unix.RTM_GETQDISC, unix.NLM_F_DUMP, request, func(kind uint16, b []byte) {
		if q, ok := parseQueue(b); ok && kind == unix.RTM_NEWQDISC && q.link == link {
			out = append(out, q)
		}
	})
	return out, err
}
