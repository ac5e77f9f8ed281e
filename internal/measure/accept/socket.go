package accept

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Socket replies from the address that a datagram was sent to, as RFC 1122 section 4.1.3.5
// demands of a host with several addresses: a client's connected socket accepts nothing from
// another address. If the system does not report that address, routing chooses the source.
type Socket struct {
	*net.UDPConn
	reports bool   // the system reports the destination of datagrams
	oob     []byte // control messages of the last datagram
	room    []byte
}

// New returns a Socket over c, on which a server listens.
func New(c *net.UDPConn) *Socket {
	s := &Socket{UDPConn: c, room: make([]byte, max(len(ipv4.NewControlMessage(ipv4.FlagDst)), len(ipv6.NewControlMessage(ipv6.FlagDst|ipv6.FlagInterface))))}
	if s.isIPv4() {
		s.reports = ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst, true) == nil
	} else {
		s.reports = ipv6.NewPacketConn(c).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true) == nil
	}
	return s
}

func (s *Socket) isIPv4() bool {
	at, ok := s.LocalAddr().(*net.UDPAddr)
	return ok && at.IP.To4() != nil
}

// Read reads a datagram.
func (s *Socket) Read(b []byte) (int, netip.AddrPort, error) {
	if !s.reports {
		return s.ReadFromUDPAddrPort(b)
	}
	n, oobn, _, from, err := s.ReadMsgUDPAddrPort(b, s.room)
	s.oob = s.room[:oobn]
	return n, from, err
}

// Local is an address of this host, with the control messages that select it as source.
type Local struct {
	Addr    netip.Addr // not valid if unknown
	Control []byte
}

// Asked returns the destination address of the last datagram.
func (s *Socket) Asked() Local {
	if !s.reports {
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
		if dst.IsLinkLocalUnicast() { // useless without its interface
			out.IfIndex = m.IfIndex
		}
	}
	addr, ok := netip.AddrFromSlice(dst)
	if addr = addr.Unmap(); !ok || addr.IsUnspecified() || addr.IsMulticast() {
		return Local{}
	}
	if addr.Is4() { // also on a dual-stack socket
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
