package tcpinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Of include/uapi/linux/mptcp.h, since 5.16.
const (
	solMPTCP     = 284
	mptcpInfos   = 2 // MPTCP_TCPINFO: struct tcp_info of each subflow
	mptcpAddrs   = 3 // MPTCP_SUBFLOW_ADDRS: two struct sockaddr_storage of each, ours first
	mptcpHeader  = 16
	mptcpElement = 256 // the kernel fills as much as it has; the two addresses exactly
	mostSubflows = 16  // a connection has at most 8 beside its first (MPTCP_SUBFLOWS_MAX, net/mptcp/pm_kernel.c)
)

// subflowRoom is a buffer for the kernel's answer: struct mptcp_subflow_data and its elements.
type subflowRoom [mptcpHeader + mostSubflows*mptcpElement]byte

// ask fills r with the answer to option, and returns the number of subflows in it.
func (r *subflowRoom) ask(fd uintptr, option int) (int, error) {
	*(*[4]uint32)(unsafe.Pointer(r)) = [4]uint32{mptcpHeader, 0, 0, mptcpElement}
	size := uint32(len(r))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, solMPTCP, uintptr(option), uintptr(unsafe.Pointer(r)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("read subflows: %w", errno)
	}
	return int(min((*(*[4]uint32)(unsafe.Pointer(r)))[1], mostSubflows)), nil
}

func readSubflows(fd uintptr, out []Subflow) ([]Subflow, error) {
	var infos, addrs subflowRoom
	// Two requests: a subflow may come or go between them.
	for range 3 {
		n, err := infos.ask(fd, mptcpInfos)
		if err != nil {
			return nil, err
		}
		m, err := addrs.ask(fd, mptcpAddrs)
		if err != nil {
			return nil, err
		}
		if n != m {
			continue
		}
		for i := range n {
			at := mptcpHeader + i*mptcpElement
			s := Subflow{Near: parseSockaddr(addrs[at:]), Far: parseSockaddr(addrs[at+mptcpElement/2:]), Info: parse(infos[at : at+mptcpElement])}
			if !s.Near.Addr().IsUnspecified() { // an ended subflow has lost its address
				out = append(out, s)
			}
		}
		return out, nil
	}
	return nil, errors.New("read subflows: they come and go")
}

// parseSockaddr parses struct sockaddr_in or sockaddr_in6; for others it returns the zero
// value.
func parseSockaddr(b []byte) netip.AddrPort {
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:])).Unmap(), port)
	}
	return netip.AddrPort{}
}
