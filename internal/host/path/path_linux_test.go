package path

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"linerate/internal/core/model"
	"linerate/internal/host/facts"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// has adds a link, and reports false, with a named skip, where the kernel has no such
// thing.
func has(t *testing.T, l netlink.Link, address string) bool {
	t.Helper()
	if err := netlink.LinkAdd(l); err != nil {
		t.Logf("skipped: this kernel makes no %s: %v", l.Type(), err)
		return false
	}
	if address != "" {
		a, err := netlink.ParseAddr(address)
		if err == nil {
			err = netlink.AddrAdd(l, a)
		}
		must.Do(t, err)
	}
	must.Do(t, netlink.LinkSetUp(l))
	return true
}

func link(t *testing.T, name string) netlink.Link {
	t.Helper()
	return must.Get(netlink.LinkByName(name))(t)
}

func attrs(name string, mtu int) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name, a.MTU = name, mtu
	return a
}

// way is the way to peer in words.
func way(t *testing.T, peer string) (string, []model.Hop) {
	t.Helper()
	hops := Read(facts.Read(t.Context(), nil, model.Near, peer, ""))
	var words []string
	for _, h := range hops {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s", h.Kind, h.Name)))
	}
	return strings.Join(words, " > "), hops
}

// TestReadInNamespace builds links of every kind that this kernel makes, and reads the
// ways that lead over them.
func TestReadInNamespace(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	if !has(t, &netlink.Veth{LinkAttrs: attrs("va", 1500), PeerName: "vb"}, "10.1.0.1/24") {
		t.Skip("this kernel makes no veth: there is nothing to build on")
	}
	must.Do(t, netlink.LinkSetUp(link(t, "vb")))
	neighbour := &netlink.Neigh{LinkIndex: link(t, "va").Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
		IP: net.ParseIP("10.1.0.2"), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
	must.Do(t, netlink.NeighSet(neighbour))
	got, hops := way(t, "10.1.0.2")
	must.True(t, got == "veth va > neighbour 10.1.0.2" && hops[0].To == "vb" && strings.Contains(hops[1].Note, "02:00:00:00:00:09") && !hops[1].MTU.IsKnown(), "veth: %s, %+v", got, hops)
	if has(t, &netlink.Vxlan{LinkAttrs: attrs("vx", 1450), VxlanId: 7, Group: net.ParseIP("10.1.0.2"), Port: 4789}, "10.2.0.1/24") {
		got, hops := way(t, "10.2.0.2")
		must.True(t, got == "vxlan vx > veth va > neighbour 10.1.0.2" && hops[0].To == "10.1.0.2" && hops[0].MTU.Or(0) == 1450,
			"VXLAN: %s, %+v", got, hops)
	}
	if has(t, &netlink.Vlan{LinkAttrs: func() netlink.LinkAttrs {
		a := attrs("va.5", 1496)
		a.ParentIndex = link(t, "va").Attrs().Index
		return a
	}(), VlanId: 5}, "10.3.0.1/24") {
		got, _ := way(t, "10.3.0.2")
		must.True(t, got == "vlan va.5 > veth va > neighbour 10.3.0.2", "VLAN: %s", got)
	}
	if has(t, &netlink.Bridge{LinkAttrs: attrs("br", 1500)}, "10.4.0.1/24") {
		must.Need(t, has(t, &netlink.Veth{LinkAttrs: attrs("p0", 1500), PeerName: "q0"}, "") && has(t, &netlink.Veth{LinkAttrs: attrs("p1", 1500), PeerName: "q1"}, ""), "no more veths")
		for _, name := range []string{"p0", "p1"} {
			must.Do(t, netlink.LinkSetMaster(link(t, name), link(t, "br")))
		}
		got, hops := way(t, "10.4.0.2")
		must.True(t, got == "bridge br" && strings.Contains(hops[0].Note, "not visible"), "a bridge that does not know: %s, %+v", got, hops)
	}
	if has(t, netlink.NewLinkBond(attrs("bo", 1500)), "10.5.0.1/24") {
		got, _ := way(t, "10.5.0.2")
		must.True(t, strings.HasPrefix(got, "bond bo"), "bond: %s", got)
	}
	if has(t, &netlink.Wireguard{LinkAttrs: attrs("wg", 1420)}, "10.6.0.1/24") {
		got, hops := way(t, "10.6.0.2")
		must.True(t, got == "wireguard wg" && strings.Contains(hops[0].Note, "not visible"), "WireGuard: %s, %+v", got, hops)
	}
	got, _ = way(t, "10.1.0.1")
	must.True(t, got == "loopback lo", "this host itself: %s", got)
}
