// Package mdns lets clients find a linerate serve by its name on the local network, by
// DNS-Based Service Discovery over multicast DNS (RFC 6762, RFC 6763) over IPv4 and IPv6.
//
//	PTR  _linerate._tcp.local       -> nas._linerate._tcp.local
//	SRV  nas._linerate._tcp.local   -> port, linerate-PIN.local
//	TXT  nas._linerate._tcp.local   -> pin=PIN
//	A    linerate-PIN.local         -> the address on that network, or with IPv6 AAAA
//
// Any host on the network can forge all of that. So an answer is a hint where to connect and
// never a proof: the client requires the server to have the key of a pin that it knows from
// before or from a person. A server answers only on the link of the question and only by
// multicast, so that a forged question cannot make it send to another address or beyond the
// link.
package mdns

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// service is the type of linerate's own protocol, which is not registered.
const service = "_linerate._tcp.local."

// Limits of received messages.
const (
	maxMessage = 9000 // bytes (RFC 6762 section 17)
	maxRecords = 64   // of a message that are read
	maxName    = 63   // bytes of a label (RFC 1035 section 2.3.4)
	pinBytes   = sha256.Size
	timeToLive = 120 // s, of records with a host name (RFC 6762 section 10)
)

// port is the source and destination port of questions and answers (RFC 6762 section 3).
const port = 5353

// group returns the multicast address on an interface.
func (n network) group() *net.UDPAddr {
	if n.six {
		return &net.UDPAddr{IP: net.ParseIP("ff02::fb"), Port: port, Zone: n.Name}
	}
	return &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: port}
}

// open joins the group on the network. It sends with hop limit 255, which some receivers require
// as a sign of the local link (RFC 6762 section 11).
func (n network) open() (*net.UDPConn, error) {
	const hops = 255
	protocol := "udp4"
	if n.six {
		protocol = "udp6"
	}
	conn, err := net.ListenMulticastUDP(protocol, &n.Interface, n.group())
	if err != nil {
		return nil, err
	}
	if n.six {
		_ = ipv6.NewPacketConn(conn).SetMulticastHopLimit(hops) // most do not check it
	} else {
		_ = ipv4.NewPacketConn(conn).SetMulticastTTL(hops)
	}
	return conn, nil
}

// Server is an announced linerate serve.
type Server struct {
	Name string // of its host, a label: letters, digits, blanks and signs of any script
	Port int
	Pin  string // base64url SHA-256 of its public key
	// Addr is the address that it answered from; Announce ignores it.
	Addr netip.Addr
}

// Label returns the label under which a host can be found: the part of its name before the
// first dot, "" if that is not possible.
func Label(host string) string {
	label, _, _ := strings.Cut(strings.TrimSuffix(host, ".local"), ".")
	if label = strings.TrimSpace(label); !plain(label) {
		return ""
	}
	return label
}

// plain reports whether s is a label that is safe to show.
func plain(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '.' || r == '\\' || r == '\uFFFD' })
}

// checked returns an error unless s is valid.
func (s Server) checked() error {
	pin, err := base64.RawURLEncoding.DecodeString(s.Pin)
	if err != nil || len(pin) != pinBytes || !plain(s.Name) || s.Port < 1 || s.Port > 65535 {
		return errors.New("not a server that can be named")
	}
	return nil
}

// target returns the host name of the records. It is derived from the key, since the system's
// own host name belongs to the system's responder.
func (s Server) target() string {
	sum := sha256.Sum256([]byte(s.Pin))
	return "linerate-" + hex.EncodeToString(sum[:6]) + ".local."
}

// question returns the query for all servers.
func question() ([]byte, error) {
	name, err := dnsmessage.NewName(service)
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}}}
	return m.Pack()
}

// asks reports whether a message is a query for servers.
func asks(b []byte) bool {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || h.Response {
		return false
	}
	for range maxRecords {
		q, err := p.Question()
		if err != nil {
			return false
		}
		if strings.EqualFold(q.Name.String(), service) && (q.Type == dnsmessage.TypePTR || q.Type == dnsmessage.TypeALL) {
			return true
		}
	}
	return false
}

// answer returns the records of s with the address at.
func (s Server) answer(at netip.Addr) ([]byte, error) {
	if err := s.checked(); err != nil {
		return nil, err
	}
	kind, err := dnsmessage.NewName(service)
	if err != nil {
		return nil, err
	}
	instance, err := dnsmessage.NewName(s.Name + "." + service)
	if err != nil {
		return nil, fmt.Errorf("announce %q: %w", s.Name, err)
	}
	target, err := dnsmessage.NewName(s.target())
	if err != nil {
		return nil, err
	}
	header := func(n dnsmessage.Name, t dnsmessage.Type) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: n, Type: t, Class: dnsmessage.ClassINET, TTL: timeToLive}
	}
	address := dnsmessage.Resource{Header: header(target, dnsmessage.TypeA)}
	if at.Is4() {
		address.Body = &dnsmessage.AResource{A: at.As4()}
	} else {
		address.Header.Type, address.Body = dnsmessage.TypeAAAA, &dnsmessage.AAAAResource{AAAA: at.As16()}
	}
	m := dnsmessage.Message{
		Header:  dnsmessage.Header{Response: true, Authoritative: true},
		Answers: []dnsmessage.Resource{{Header: header(kind, dnsmessage.TypePTR), Body: &dnsmessage.PTRResource{PTR: instance}}},
		Additionals: []dnsmessage.Resource{
			{Header: header(instance, dnsmessage.TypeSRV), Body: &dnsmessage.SRVResource{Port: uint16(s.Port), Target: target}},
			{Header: header(instance, dnsmessage.TypeTXT), Body: &dnsmessage.TXTResource{TXT: []string{"txtvers=1", "pin=" + s.Pin}}},
			address,
		},
	}
	return m.Pack()
}

// read returns the servers that a message announces. It skips what is malformed. The address is
// always the sender's, whatever the message says.
func read(b []byte, from netip.Addr) []Server {
	var p dnsmessage.Parser
	if h, err := p.Start(b); err != nil || !h.Response || p.SkipAllQuestions() != nil {
		return nil
	}
	found := map[string]*Server{}
	of := func(n dnsmessage.Name) *Server {
		text := n.String()
		if len(text) <= len(service)+1 || !strings.EqualFold(text[len(text)-len(service)-1:], "."+service) {
			return nil
		}
		name := text[:len(text)-len(service)-1]
		if found[name] == nil {
			found[name] = &Server{Name: name, Addr: from}
		}
		return found[name]
	}
	look := func(r dnsmessage.Resource) {
		switch body := r.Body.(type) {
		case *dnsmessage.SRVResource:
			if s := of(r.Header.Name); s != nil {
				s.Port = int(body.Port)
			}
		case *dnsmessage.TXTResource:
			if s := of(r.Header.Name); s != nil {
				for _, text := range body.TXT {
					if pin, ok := strings.CutPrefix(text, "pin="); ok {
						s.Pin = pin
					}
				}
			}
		}
	}
	left := maxRecords
	for _, next := range []func() (dnsmessage.Resource, error){p.Answer, p.Authority, p.Additional} {
		for ; left > 0; left-- {
			r, err := next()
			if errors.Is(err, dnsmessage.ErrSectionDone) {
				break
			}
			if err != nil {
				return nil
			}
			look(r)
		}
	}
	var out []Server
	for _, s := range found {
		if s.checked() == nil {
			out = append(out, *s)
		}
	}
	return out
}

// network is an interface with its IPv4 or its IPv6 addresses.
type network struct {
	net.Interface
	six      bool
	prefixes []netip.Prefix
}

// networks returns the interfaces that may have neighbours, one entry per protocol.
func networks() ([]network, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("look for networks: %w", err)
	}
	var out []network
	for _, i := range all {
		const need = net.FlagUp | net.FlagMulticast
		if i.Flags&need != need || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has gone since
		}
		for _, n := range []network{{Interface: i}, {Interface: i, six: true}} {
			for _, a := range addrs {
				if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() == n.six {
					n.prefixes = append(n.prefixes, p)
				}
			}
			if len(n.prefixes) > 0 {
				out = append(out, n)
			}
		}
	}
	return out, nil
}

// has returns this host's address on the network of from; ok is false if from is not on it,
// since such packets are not to be trusted (RFC 6762 section 11).
func (n network) has(from netip.Addr) (own netip.Addr, ok bool) {
	from = from.WithZone("") // each socket serves one interface
	for _, p := range n.prefixes {
		if p.Contains(from) {
			return p.Addr(), from != p.Addr()
		}
	}
	return own, false
}
