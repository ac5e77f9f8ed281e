package serve

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"linerate/internal/control/wire/mdns"
)

// mostHosts is the most names and addresses in a link, to keep it short.
const mostHosts = 4

// somewhere returns addresses to look up the default routes with; nothing is sent to them:
// TEST-NET-1 of RFC 5737, and the documentation prefix of RFC 3849.
func somewhere() []string { return []string{"192.0.2.1:9", "[2001:db8::1]:9"} }

// LinkHosts returns the hosts of the join link: the user's choice, or the listening address,
// or the ways to reach this host: the addresses of its default routes, its name and its other
// addresses.
func LinkHosts(given string, addr net.Addr) []string {
	if given != "" {
		return []string{given}
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		return []string{tcp.IP.String()}
	}
	var out []string
	add := func(host string) {
		if host != "" && !slices.Contains(out, host) && len(out) < mostHosts {
			out = append(out, host)
		}
	}
	for _, to := range somewhere() {
		if c, err := new(net.Dialer).DialContext(context.Background(), "udp", to); err == nil { // looks up the route, and sends nothing
			if own := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr(); reachable(own) {
				add(own.Unmap().String())
			}
			_ = c.Close()
		}
	}
	if name, err := os.Hostname(); err == nil {
		add(name)
	}
	addrs, _ := net.InterfaceAddrs() // without them the name must do
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && reachable(p.Addr()) {
			add(p.Addr().Unmap().String())
		}
	}
	if len(out) == 0 {
		return []string{"localhost"}
	}
	return out
}

// reachable reports whether other hosts may reach an address without naming an interface.
func reachable(a netip.Addr) bool {
	return a.IsValid() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified() && !a.IsMulticast()
}

// announce announces this server on the local network. A failure is only reported.
func (s *Server) announce(ctx context.Context) {
	name, err := os.Hostname()
	label := mdns.Label(name)
	if err == nil && label == "" {
		err = fmt.Errorf("%q is no name to be found by", name)
	}
	if err == nil {
		err = mdns.Announce(ctx, mdns.Server{Name: label, Port: s.own.Addr().(*net.TCPAddr).Port, Pin: s.identity.Pin()})
	}
	if err != nil {
		s.say("")(fmt.Sprintf("not announced on this network: %v", err))
	}
}

// AnnouncedAs returns the name of this server on the local network, "" if it is not
// announced.
func (s *Server) AnnouncedAs() string {
	name, err := os.Hostname()
	if err != nil || !s.c.Announce {
		return ""
	}
	return mdns.Label(name)
}
