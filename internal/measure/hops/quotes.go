package hops

import (
	"encoding/binary"
	"net/netip"
)

// quotes parses a message of a raw ICMP socket, which begins with an IPv4 header but with no
// IPv6 header. It reports whether the message is an error about a UDP datagram from near to far
// (RFC 792; RFC 4443 section 3).
func quotes(b []byte, near, far netip.AddrPort) (answer, bool) {
	const udp = 17 // IANA protocol number
	six := near.Addr().Is6()
	if !six {
		b = b[header(b, six):]
	}
	if len(b) < 8 {
		return answer{}, false
	}
	kind, code, b := b[0], b[1], b[8:]
	length := header(b, six)
	if length == 0 || len(b) < length+8 {
		return answer{}, false
	}
	known, tooBig := kind == 3 || kind == 11 && code == 0, kind == 3 && code == 4
	protocol, from, to := b[9], b[12:16], b[16:20]
	if six {
		known, tooBig = kind == 1 || kind == 2 || kind == 3 && code == 0, kind == 2
		protocol, from, to = b[6], b[8:24], b[24:40]
	}
	b = b[length:]
	ours := known && protocol == udp &&
		near == end(from, binary.BigEndian.Uint16(b)) && far == end(to, binary.BigEndian.Uint16(b[2:]))
	return answer{quote: b[8:], tooBig: tooBig}, ours
}

func end(address []byte, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(address)
	return netip.AddrPortFrom(a, port)
}

// header returns the length of the IP header that b begins with, IPv6 if six is true; 0 if
// there is none.
func header(b []byte, six bool) int {
	switch {
	case six && len(b) >= 40 && b[0]>>4 == 6:
		return 40
	case !six && len(b) >= 20 && b[0]>>4 == 4 && b[0]&15 >= 5 && len(b) >= 4*int(b[0]&15):
		return 4 * int(b[0]&15)
	}
	return 0
}

// echoed parses the reply buffer of a Windows call, ICMP_ECHO_REPLY or ICMPV6_ECHO_REPLY_LH
// (ipexport.h). It reports whether there was an answer.
func echoed(b []byte, six bool) (answer, bool) {
	const (
		success                 = 0
		netUnreachable          = 11002 // IP_DEST_NET_UNREACHABLE; followed by host,
		portUnreachable         = 11005 // protocol and port unreachable
		tooBig                  = 11009 // IP_PACKET_TOO_BIG
		expired                 = 11013 // IP_TTL_EXPIRED_TRANSIT
		sixAddress, sixStatus   = 6, 28 // in a packed structure, after the port and the flow
		fourAddress, fourStatus = 0, 4
	)
	address, status := b[fourAddress:fourAddress+4], b[fourStatus:]
	if six {
		address, status = b[sixAddress:sixAddress+16], b[sixStatus:]
	}
	from, _ := netip.AddrFromSlice(address)
	s := binary.LittleEndian.Uint32(status)
	known := s == success || s >= netUnreachable && s <= portUnreachable || s == tooBig || s == expired
	return answer{from: from, tooBig: s == tooBig}, known && !from.IsUnspecified()
}
