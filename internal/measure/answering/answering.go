// Package answering has the UDP socket of a server, which answers from the address that it was
// asked at.
package answering

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Socket is a socket that answers from the address that a datagram was sent to, as
// RFC 1122 section 4.1.3.5 demands of a host with several: a client's socket is connected,
// and takes nothing from another address. Where the system does not say which address
// that was, it answers from the one that routing chooses.
type Socket struct {
	*net.UDPConn
	told bool   // the system says to which address a datagram was sent
	oob  []byte // what it said of the last one
	room []byte
}

// New returns the socket over c, which a server listens on.
func New(c *net.UDPConn) *Socket {
	s := &Socket{UDPConn: c, room: make([]byte, max(len(ipv4.NewControlMessage(ipv4.FlagDst)), len(ipv6.NewControlMessage(ipv6.FlagDst|ipv6.FlagInterface))))}
	if s.isIPv4() {
		s.told = ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst, true) == nil
	} else {
		s.told = ipv6.NewPacketConn(c).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true) == nil
	}
	return s
}

func (s *Socket) isIPv4() bool {
	at, ok := s.LocalAddr().(*net.UDPAddr)
	return ok && at.IP.To4() != nil
}

// Read reads a datagram.
func (s *Socket) Read(b []byte) (int, netip.AddrPort, error) {
	if !s.told {
		return s.ReadFromUDPAddrPort(b)
	}
	n, oobn, _, from, err := s.ReadMsgUDPAddrPort(b, s.room)
	s.oob = s.room[:oobn]
	return n, from, err
}

// Local is an address of this host, with the control messages that send from it.
type Local struct {
	Addr    netip.Addr // not valid where it is not known
	Control []byte
}

// Asked returns the address that the last datagram was sent to.
func (s *Socket) Asked() Local {
	if !s.told {
		return Local{}
	}
	var dst net.IP
	out := ipv6.ControlMessage{}
	if s.isIPv4() {
		var m ipv4.ControlMessage
		if m.Parse(s.oob) == nil {
			dst = m.Dst
		}
	} else {
		var m ipv6.ControlMessage
		if m.Parse(s.oob) == nil {
			dst = m.Dst
		}
		if dst.IsLinkLocalUnicast() { // of no use without its interface
			out.IfIndex = m.IfIndex
		}
	}
	addr, ok := netip.AddrFromSlice(dst)
	if addr = addr.Unmap(); !ok || addr.IsUnspecified() || addr.IsMulticast() {
		return Local{}
	}
	if addr.Is4() { // also on a socket of both families
		return Local{addr, (&ipv4.ControlMessage{Src: dst}).Marshal()}
	}
	out.Src = dst
	return Local{addr, out.Marshal()}
}

// Send sends b from l to another host.
func (s *Socket) Send(b []byte, l Local, to netip.AddrPort) error {
	if len(l.Control) > 0 {
		_, _, err := s.WriteMsgUDPAddrPort(b, l.Control, to)
		return err
	}
	_, err := s.WriteToUDPAddrPort(b, to)
	return err
}
