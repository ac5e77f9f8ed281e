package sockio

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uncut sets IP_MTU_DISCOVER to IP_PMTUDISC_PROBE (ip(7)).
func uncut(fd uintptr, six bool) error {
	level, option, value := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	if six {
		level, option, value = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	}
	if err := unix.SetsockoptInt(int(fd), level, option, value); err != nil {
		return fmt.Errorf("keep packets whole: %w", err)
	}
	return nil
}

// pathMTU reads IP_MTU (ip(7)) or IPV6_MTU (ipv6(7)).
func pathMTU(fd uintptr, six bool) int {
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if six {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	mtu, err := unix.GetsockoptInt(int(fd), level, option)
	if err != nil {
		return 0
	}
	return mtu
}

func setMark(fd uintptr, six bool, mark byte) error {
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if six {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	return unix.SetsockoptInt(int(fd), level, option, int(mark))
}

func tellMarks(fd uintptr, six bool) error {
	level, option := unix.IPPROTO_IP, unix.IP_RECVTOS
	if six {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS
	}
	return unix.SetsockoptInt(int(fd), level, option, 1)
}

// markMessage returns an IP_TOS message, ip(7), or IPV6_TCLASS, ipv6(7). On a dual-stack socket
// an IPv4 address takes that of IPv4 (Linux 6.1 net/ipv6/udp.c udpv6_sendmsg).
func markMessage(mark byte, six bool) []byte {
	b := make([]byte, unix.CmsgSpace(4))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.IPPROTO_IP, unix.IP_TOS
	if six {
		h.Level, h.Type = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(b[unix.CmsgLen(0):], uint32(mark))
	return b
}

func mark(oob []byte) (byte, bool) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, false
	}
	for _, m := range all {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TOS
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_TCLASS
		if (v4 || v6) && len(m.Data) > 0 {
			return m.Data[0], true
		}
	}
	return 0, false
}
