// Package path finds the parts of the path from this host to a peer that this host can see:
// the interface that packets leave by, the interfaces that it is built on or leads through,
// and the other end of the link.
//
// It starts from what package facts read, and queries the system for the rest: where a tunnel
// leads, which member of a bond or bridge is in use, what is at the other end of a veth.
// Parts that are not visible are reported as such, with the reason.
package path

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// system provides what a system reports beyond the facts. Its methods return false if the
// system does not report it.
type system interface {
	// remote returns where a tunnel leads for packets to inner.
	remote(name string, inner netip.Addr) (netip.Addr, bool)
	// route returns the interface and the router, "" for none, on the path to an address.
	route(to netip.Addr) (name, gateway string, ok bool)
	// active returns the active member of a bond that uses one at a time.
	active(name string) (string, bool)
	// port returns the member of a bridge that leads to a neighbour.
	port(name string, neighbour netip.Addr) (string, bool)
	// other returns the other end of a veth, if it is in this network namespace.
	other(name string) (string, bool)
	// hardware returns the hardware address of a neighbour.
	hardware(neighbour netip.Addr) (string, bool)
}

// maxHops bounds the parts of a path.
const maxHops = 16

// Read returns the path from this host to the peer of its route, as in f.
func Read(f model.HostFacts) []model.Hop { return trace(f, here()) }

// trace follows the path of f with the help of s.
func trace(f model.HostFacts, s system) []model.Hop {
	if f.Route == nil {
		return nil
	}
	name, ok := f.Route.Interface.Get()
	peer, err := netip.ParseAddr(f.Route.Peer)
	if !ok || err != nil {
		return nil
	}
	t := tracer{facts: f, system: s, inner: peer}
	gateway := f.Route.Gateway
	t.interfaces(name, next(peer, gateway.Or("")))
	if n, known := f.Route.MTU.Get(); known && len(t.hops) > 0 && n < t.hops[0].MTU.Or(0) {
		t.note(&t.hops[0], "the route says MTU "+strconv.Itoa(n))
	}
	last := len(t.hops) > 0 && t.hops[len(t.hops)-1].Kind == model.HopLoopback
	if last || t.blind {
		return t.hops
	}
	if t.gateway != nil {
		gateway = fact.Known(*t.gateway, "the route of the tunnel")
		peer = t.peer
	}
	return append(t.hops, t.beyond(peer, gateway)...)
}

// next returns the neighbour to which a packet to peer is addressed.
func next(peer netip.Addr, gateway string) netip.Addr {
	if a, err := netip.ParseAddr(gateway); err == nil {
		return a
	}
	return peer
}

// tracer follows a path.
type tracer struct {
	facts  model.HostFacts
	system system
	hops   []model.Hop
	seen   []string
	blind  bool       // the rest is not visible
	inner  netip.Addr // destination of the packets, at the end of all tunnels so far
	// gateway and peer are of the path that carries a tunnel, if one was found.
	gateway *string
	peer    netip.Addr
}

// interfaces follows the interfaces from name down to the lowest one.
func (t *tracer) interfaces(name string, neighbour netip.Addr) {
	for name != "" && len(t.hops) < maxHops && !slices.Contains(t.seen, name) {
		t.seen = append(t.seen, name)
		n, known := t.nic(name)
		h := model.Hop{
			Kind: kindOf(n, name), Name: name, MTU: n.MTU, Rate: n.Media.Speed, Duplex: n.Media.Duplex,
		}
		if !known {
			const why = "the host does not list it"
			h.MTU, h.Rate, h.Duplex = fact.Unknown[int](why), fact.Unknown[units.BitRate](why), fact.Unknown[string](why)
		}
		if n.Radio != nil {
			h.Note = n.Radio.String()
		}
		on := ""
		on, neighbour = t.follow(&h, n, neighbour)
		t.hops = append(t.hops, h)
		name = on
	}
}

// follow returns where h leads: the next interface and the neighbour there, "" for none.
func (t *tracer) follow(h *model.Hop, n model.NIC, neighbour netip.Addr) (string, netip.Addr) {
	switch h.Kind {
	case model.HopVLAN:
		if len(n.Below) == 1 {
			return n.Below[0], neighbour
		}
	case model.HopBond:
		return t.bond(h, n), neighbour
	case model.HopBridge:
		if port, ok := t.system.port(h.Name, neighbour); ok {
			h.To = port
			return port, neighbour
		}
		if len(n.Below) == 1 {
			return n.Below[0], neighbour
		}
		t.note(h, "which of its ports leads on is not visible: "+strings.Join(n.Below, ", "))
		t.blind = true
	case model.HopVeth:
		other, ok := t.system.other(h.Name)
		if !ok {
			t.note(h, "its other end is in another network namespace, as of a container or its host: what comes next is not visible")
			break
		}
		h.To = other
		if m, _ := t.nic(other); m.Master.Or("") != "" {
			return m.Master.Or(""), neighbour
		}
	case model.HopVXLAN, model.HopTunnel, model.HopWireGuard, model.HopTailscale:
		return t.tunnel(h)
	case model.HopDevice, model.HopWireless, model.HopLoopback, model.HopVirtual, model.HopNeighbour, model.HopNetwork:
	}
	return "", neighbour
}

// bond notes how a bond spreads packets, and returns the member that leads on.
func (t *tracer) bond(h *model.Hop, n model.NIC) string {
	if active, ok := t.system.active(h.Name); ok {
		h.To = active
		t.note(h, "one member at a time")
		return active
	}
	if len(n.Below) == 0 {
		t.note(h, "it has no members")
		t.blind = true
		return ""
	}
	t.note(h, strings.TrimSpace("one flow takes one of "+strings.Join(n.Below, ", ")+" "+parenthesis(n.Bond.Or(""))))
	return n.Below[0]
}

// tunnel finds where a tunnel leads, and follows the path that carries it.
func (t *tracer) tunnel(h *model.Hop) (string, netip.Addr) {
	to, ok := t.system.remote(h.Name, t.inner)
	if !ok {
		t.blind = true
		t.note(h, cmp.Or(map[model.HopKind]string{
			model.HopTailscale: "whether it goes direct or by a relay is not visible; tailscale status shows it",
			model.HopWireGuard: "where it leads is not visible; wg show shows it",
		}[h.Kind], "where it leads is not visible"))
		return "", netip.Addr{}
	}
	h.To = to.String()
	name, gateway, ok := t.system.route(to)
	if !ok {
		t.note(h, "no route leads to its other end")
		t.blind = true
		return "", netip.Addr{}
	}
	t.gateway, t.peer, t.inner = &gateway, to, to
	return name, next(to, gateway)
}

// beyond returns what is behind the last interface: the neighbour, and, if that is a router,
// a network that is not visible from here.
func (t *tracer) beyond(peer netip.Addr, gateway fact.Of[string]) []model.Hop {
	const unseen = "not visible from here"
	hop := func(kind model.HopKind, name, note string) model.Hop {
		return model.Hop{Kind: kind, Name: name, Note: note,
			MTU: fact.Unknown[int](unseen), Rate: fact.Unknown[units.BitRate](unseen), Duplex: fact.Unknown[string](unseen)}
	}
	router, known := gateway.Get()
	if !known {
		return []model.Hop{hop(model.HopNetwork, "", "whether a router is on the way is not visible: "+gateway.Reason())}
	}
	at := next(peer, router)
	note := ""
	if mac, ok := t.system.hardware(at); ok {
		note = "at " + mac
	}
	if router == "" {
		return []model.Hop{hop(model.HopNeighbour, peer.String(), strings.TrimSpace("on the same link "+note))}
	}
	return []model.Hop{hop(model.HopNeighbour, router, strings.TrimSpace("router "+note)), hop(model.HopNetwork, "", unseen)}
}

func (t *tracer) nic(name string) (model.NIC, bool) {
	for _, n := range t.facts.NICs {
		if n.Name == name {
			return n, true
		}
	}
	return model.NIC{}, false
}

func (t *tracer) note(h *model.Hop, text string) {
	if h.Note != "" {
		h.Note += "; "
	}
	h.Note += text
}

// kindOf returns the kind of an interface, by the facts, its addresses and its name.
func kindOf(n model.NIC, name string) model.HopKind {
	kind := n.Kind.Or("")
	if isTailscale(n, name) {
		return model.HopTailscale
	}
	switch kind {
	case "device", "wireless", "loopback", "vlan", "bond", "bridge", "veth", "wireguard", "vxlan":
		return model.HopKind(kind)
	case "team", "lagg":
		return model.HopBond
	case "macvlan", "ipvlan", "macvtap", "ipvtap", "macsec":
		return model.HopVLAN // over one parent, like a VLAN
	case "epair":
		return model.HopVeth
	case "tun", "tuntap", "tap", "gre", "gretap", "ip6gre", "ip6gretap", "erspan", "ipip", "sit", "ip6tnl", "vti", "vti6", "geneve", "xfrm", "ppp", "ipsec":
		return model.HopTunnel
	case "":
		return model.HopDevice
	}
	return model.HopVirtual
}

// isTailscale reports whether an interface is Tailscale's: a TUN device with an address of
// its range (RFC 6598, all of it).
func isTailscale(n model.NIC, name string) bool {
	tun := slices.Contains([]string{"tun", "tuntap"}, n.Kind.Or(""))
	if tun && strings.HasPrefix(name, "tailscale") {
		return true
	}
	return tun && slices.ContainsFunc(n.Addresses, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && (netip.MustParsePrefix("100.64.0.0/10").Contains(p.Addr()) || netip.MustParsePrefix("fd7a:115c:a1e0::/48").Contains(p.Addr()))
	})
}

func parenthesis(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}
