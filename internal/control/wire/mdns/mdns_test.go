package mdns

import (
	"bytes"
	"encoding/base64"
	"net"
	"net/netip"
	"strings"
	"testing"

	"linerate/internal/must"
)

func server(name string) Server {
	return Server{Name: name, Port: 5299, Pin: base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{7}, pinBytes))}
}

func TestAnswerIsRead(t *testing.T) {
	for own, from := range map[netip.Addr]netip.Addr{
		netip.MustParseAddr("10.0.0.2"): netip.MustParseAddr("10.0.0.3"),
		netip.MustParseAddr("fe80::2"):  netip.MustParseAddr("fe80::3%eth0"),
	} {
		answerIsRead(t, own, from)
	}
}

func answerIsRead(t *testing.T, own, from netip.Addr) {
	t.Helper()
	for _, name := range []string{"nas", "Büro 2", strings.Repeat("a", maxName)} {
		s := server(name)
		b := must.Get(s.answer(own))(t)
		s.Addr = from // the sender's, not the one in the message
		must.Same(t, read(b, from), []Server{s})
		must.True(t, !asks(b), "an answer asks")
	}
	q, err := question()
	must.True(t, err == nil && asks(q) && len(read(q, from)) == 0, "%v", err)
}

// TestNotAnnounced: servers that are invalid or unsafe to show are neither announced nor read.
func TestNotAnnounced(t *testing.T) {
	for _, change := range []func(*Server){
		func(s *Server) { s.Name = "" }, func(s *Server) { s.Name = "a\x1b[2J" }, func(s *Server) { s.Name = "a.b" }, func(s *Server) { s.Name = strings.Repeat("a", maxName+1) },
		func(s *Server) { s.Port = 0 }, func(s *Server) { s.Port = 70000 }, func(s *Server) { s.Pin = "x" }, func(s *Server) { s.Pin += "A" },
	} {
		s := server("nas")
		change(&s)
		must.Fail(t, must.Err(s.answer(netip.MustParseAddr("10.0.0.2"))), "announced: %+v", s)
	}
	for host, want := range map[string]string{"nas": "nas", "nas.example.org": "nas", "nas.local": "nas", "": "", "a\nb": "", ".": ""} {
		must.Equal(t, Label(host), want, "%q", host)
	}
}

// TestOnlyFromTheNetwork: only hosts on the network get an answer, so that a forged sender
// cannot make a server send elsewhere.
func TestOnlyFromTheNetwork(t *testing.T) {
	n := network{Interface: net.Interface{Index: 1}, prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24"), netip.MustParsePrefix("192.168.1.2/16")}}
	for from, want := range map[string]string{"10.0.0.9": "10.0.0.2", "192.168.200.1": "192.168.1.2"} {
		own, ok := n.has(netip.MustParseAddr(from))
		must.True(t, ok && own.String() == want, "%s: %v, %v", from, own, ok)
	}
	n6 := network{Interface: net.Interface{Index: 1, Name: "eth0"}, six: true, prefixes: []netip.Prefix{netip.MustParsePrefix("fe80::2/64"), netip.MustParsePrefix("2001:db8::2/64")}}
	for from, want := range map[string]string{"fe80::9%eth0": "fe80::2", "2001:db8::9": "2001:db8::2", "2001:db8:1::9": "", "fe80::2%eth0": "", "10.0.0.9": ""} {
		own, ok := n6.has(netip.MustParseAddr(from))
		must.True(t, ok == (want != "") && (!ok || own.String() == want), "%s: %v, %v", from, own, ok)
	}
	for _, from := range []string{"10.0.1.9", "8.8.8.8", "10.0.0.2", "2001:db8::1"} {
		_, ok := n.has(netip.MustParseAddr(from))
		must.True(t, !ok, "%s is believed", from)
	}
}

// FuzzRead: whatever a network sends, only servers with a displayable name result.
func FuzzRead(f *testing.F) {
	f.Add(must.Get(server("nas").answer(netip.MustParseAddr("10.0.0.2")))(f))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		asks(b)
		for _, s := range read(b, netip.MustParseAddr("10.0.0.3")) {
			must.True(t, s.checked() == nil && s.Addr == netip.MustParseAddr("10.0.0.3"), "%+v", s)
		}
	})
}
