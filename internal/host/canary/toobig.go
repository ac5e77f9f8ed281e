package canary

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// tooBig is a packet that a router or this host refused because of its size.
type tooBig struct {
	router netip.Addr // sender of the report; not valid if unknown
	mtu    int        // MTU of the next link in bytes; 0 if not reported
}

// Error describes the report.
func (t *tooBig) Error() string {
	who, what := "a router", ""
	if t.router.IsValid() {
		who = "router " + t.router.String()
	}
	if t.mtu > 0 {
		what = fmt.Sprintf(": MTU %d", t.mtu)
	}
	return "too big, says " + who + what
}

// Types and codes of the messages, and the offset of the quoted packet.
const (
	unreachable4, needsFragments4 = 3, 4 // RFC 792, RFC 1191 section 4
	packetTooBig6                 = 2    // RFC 4443 section 3.2
	quotedAt                      = 8
	minMTU                        = 68 // RFC 791 section 3.2: a smaller MTU is wrong
)

// parseTooBig parses an ICMP message, from its type on, that reports as too big the echo
// request that begins with request. It returns nil for any other message.
//
//	03 04 xx xx 00 00 05 dc 45 00 ... 08 00 xx xx id id sq sq   MTU 1500
func parseTooBig(message []byte, six bool, from netip.Addr, request []byte) *tooBig {
	if len(message) < quotedAt+header4 || len(request) < header {
		return nil
	}
	quoted := message[quotedAt:]
	var mtu, inner int
	switch {
	case six && message[0] == packetTooBig6:
		mtu, inner = int(binary.BigEndian.Uint32(message[4:])), header6
	case !six && message[0] == unreachable4 && message[1] == needsFragments4:
		mtu, inner = int(binary.BigEndian.Uint16(message[6:])), int(quoted[0]&15)*4
	default:
		return nil
	}
	// The checksum is not compared: the system has filled in that of ICMPv6.
	if len(quoted) < inner+header || inner < header4 || quoted[inner] != request[0] || string(quoted[inner+4:inner+header]) != string(request[4:header]) {
		return nil
	}
	if mtu < minMTU || mtu > 65535 {
		mtu = 0
	}
	return &tooBig{router: from.Unmap(), mtu: mtu}
}
