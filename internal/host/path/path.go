// Package path finds the parts of the way from this host to a peer that this host can
// see: the interface that packets leave by, what that is made of or leads through, and
// who is at the other end of the link.
//
// It starts from what package facts read and asks the system for the rest: where a
// tunnel leads, which member of a bond or bridge is in use, what is at the other end
// of a veth. What cannot be seen is said to be so, with the reason.
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

// system is what a system tells beyond the facts. Its methods report false where it
// does not tell.
type system interface {
	// remote is where a tunnel leads for packets to inner.
	remote(name string, inner netip.Addr) (netip.Addr, bool)
	// route is the interface and the router, "" for none, on the way to an address.
	route(to netip.Addr) (name, gateway string, ok bool)
	// active is the member of a bond that carries, of one that uses one at a time.
	active(name string) (string, bool)
	// port is the member of a bridge behind which a neighbour is.
	port(name string, neighbour netip.Addr) (string, bool)
	// other is the other end of a veth, where it is of this network namespace.
	other(name string) (string, bool)
	// hardware is the hardware address of a neighbour.
	hardware(neighbour netip.Addr) (string, bool)
}

// maxHops bounds the parts of a way.
const maxHops = 16

// Read returns the way from this host to the peer of its route, as f has it.
func Read(f model.HostFacts) []model.Hop { return trace(f, here()) }

// trace follows the way of f with what s tells.
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

// next is whose hardware address a packet to peer bears.
func next(peer netip.Addr, gateway string) netip.Addr {
	if a, err := netip.ParseAddr(gateway); err == nil {
		return a
	}
	return peer
}

// tracer follows a way.
type tracer struct {
	facts  model.HostFacts
	system system
	hops   []model.Hop
	seen   []string
	blind  bool       // what comes next is not visible
	inner  netip.Addr // whom packets are for, at the end of all tunnels so far
	// gateway and peer are of the way that carries a tunnel, where one was found.
	gateway *string
	peer    netip.Addr
}

// interfaces follows the interfaces from name on to the one that is no other's.
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

// follow says what h leads to: the next interface and the neighbour there, "" for none.
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

// bond says how a bond spreads packets, and which member leads on.
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

// tunnel says where a tunnel leads, and follows what carries it.
func (t *tracer) tunnel(h *model.Hop) (string, netip.Addr) {
	to, ok := t.system.remote(h.Name, t.inner)
	if !ok {
		t.blind = true
		t.note(h, cmp.Or(map[model.HopKind]string{
			model.HopTailscale: "whether it goes direct or by a relay is not visible; tailscale status tells",
			model.HopWireGuard: "where it leads is not visible; wg show tells",
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

// beyond is what lies behind the last interface: the neighbour, and where that is a
// router, a network that nobody here sees.
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

// kindOf says what an interface is, by what made it, its addresses and its name.
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
		return model.HopVLAN // over one parent, as a VLAN is
	case "epair":
		return model.HopVeth
	case "tun", "tuntap", "tap", "gre", "gretap", "ip6gre", "ip6gretap", "erspan", "ipip", "sit", "ip6tnl", "vti", "vti6", "geneve", "xfrm", "ppp", "ipsec":
		return model.HopTunnel
	case "":
		return model.HopDevice
	}
	return model.HopVirtual
}

// isTailscale reports whether an interface is one of Tailscale: a TUN device with an
// address of the range that it gives out (RFC 6598, of which it uses all).
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
