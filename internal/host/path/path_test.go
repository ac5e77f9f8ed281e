package path

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// scripted is a system with answers given by the test.
type scripted struct {
	remotes, actives, ports, others, macs map[string]string
	routes                                map[string][2]string
}

func (s scripted) remote(n string, _ netip.Addr) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s.remotes[n])
	return a, err == nil
}
func (s scripted) route(to netip.Addr) (string, string, bool) {
	r, ok := s.routes[to.String()]
	return r[0], r[1], ok
}
func (s scripted) active(n string) (string, bool) { v, ok := s.actives[n]; return v, ok }
func (s scripted) port(n string, at netip.Addr) (string, bool) {
	v, ok := s.ports[n+" "+at.String()]
	return v, ok
}
func (s scripted) other(n string) (string, bool) { v, ok := s.others[n]; return v, ok }
func (s scripted) hardware(at netip.Addr) (string, bool) {
	v, ok := s.macs[at.String()]
	return v, ok
}

func nic(name, kind string, mtu int, below ...string) model.NIC {
	return model.NIC{Name: name, Kind: fact.Known(kind, "test"), MTU: fact.Known(mtu, "test"), Below: below,
		Media: model.Media{Speed: fact.Known(units.BitRate(1e9), "test"), Duplex: fact.Known("full", "test")}}
}

func hostFacts(device, peer, gateway string, nics ...model.NIC) model.HostFacts {
	return model.HostFacts{NICs: nics, Route: &model.Route{
		Peer: peer, Interface: fact.Known(device, "test"), Gateway: fact.Known(gateway, "test"), MTU: fact.Unknown[int]("no route has one"),
	}}
}

// TestTrace follows routes of every kind.
func TestTrace(t *testing.T) {
	eth := nic("eth0", "device", 1500)
	tail := nic("utun3", "tun", 1280)
	tail.Addresses = []string{"100.101.102.103/32"}
	port := nic("veth1", "veth", 1500)
	port.Master = fact.Known("br0", "test")
	mode := nic("bond0", "bond", 9000, "eth0", "eth1")
	mode.Bond = fact.Known("802.3ad", "test")
	for name, c := range map[string]struct {
		facts model.HostFacts
		tells scripted
		want  string // kinds and names
		notes []string
	}{
		"a card to a neighbour": {hostFacts("eth0", "10.0.0.2", "", eth), scripted{macs: map[string]string{"10.0.0.2": "02:00:00:00:00:02"}},
			"device eth0 > neighbour 10.0.0.2", []string{"on the same link at 02:00"}},
		"a router":          {hostFacts("eth0", "203.0.113.9", "10.0.0.254", eth), scripted{}, "device eth0 > neighbour 10.0.0.254 > network ", []string{"router"}},
		"a VLAN":            {hostFacts("eth0.5", "10.0.0.2", "", nic("eth0.5", "vlan", 1496, "eth0"), eth), scripted{}, "vlan eth0.5 > device eth0 > neighbour 10.0.0.2", nil},
		"a bond of many":    {hostFacts("bond0", "10.0.0.2", "", mode, eth), scripted{}, "bond bond0 > device eth0 > neighbour 10.0.0.2", []string{"one flow takes one of eth0, eth1 (802.3ad)"}},
		"a bond with spare": {hostFacts("bond0", "10.0.0.2", "", mode, eth, nic("eth1", "device", 1500)), scripted{actives: map[string]string{"bond0": "eth1"}}, "bond bond0 > device eth1 > neighbour 10.0.0.2", []string{"one member at a time"}},
		"a bridge that knows": {hostFacts("br0", "10.0.0.2", "", nic("br0", "bridge", 1500, "eth0", "tap0"), eth), scripted{ports: map[string]string{"br0 10.0.0.2": "eth0"}},
			"bridge br0 > device eth0 > neighbour 10.0.0.2", nil},
		"a bridge that does not": {hostFacts("br0", "10.0.0.2", "", nic("br0", "bridge", 1500, "eth0", "tap0"), eth), scripted{}, "bridge br0", []string{"not visible: eth0, tap0"}},
		"a container":            {hostFacts("eth0", "10.0.0.2", "172.17.0.1", nic("eth0", "veth", 1500)), scripted{}, "veth eth0 > neighbour 172.17.0.1 > network ", []string{"another network namespace"}},
		"a veth into a bridge": {hostFacts("veth0", "10.0.0.2", "", nic("veth0", "veth", 1500), port, nic("br0", "bridge", 1500, "eth0"), eth),
			scripted{others: map[string]string{"veth0": "veth1"}}, "veth veth0 > bridge br0 > device eth0 > neighbour 10.0.0.2", nil},
		"VXLAN over a router": {hostFacts("vx0", "10.9.0.2", "", nic("vx0", "vxlan", 1450), eth),
			scripted{remotes: map[string]string{"vx0": "198.51.100.7"}, routes: map[string][2]string{"198.51.100.7": {"eth0", "10.0.0.254"}}},
			"vxlan vx0 > device eth0 > neighbour 10.0.0.254 > network ", nil},
		"VXLAN without a way": {hostFacts("vx0", "10.9.0.2", "", nic("vx0", "vxlan", 1450)), scripted{remotes: map[string]string{"vx0": "198.51.100.7"}}, "vxlan vx0", []string{"no route"}},
		"WireGuard":           {hostFacts("wg0", "10.9.0.2", "", nic("wg0", "wireguard", 1420)), scripted{}, "wireguard wg0", []string{"wg show shows it"}},
		"Tailscale":           {hostFacts("utun3", "100.101.0.1", "", tail), scripted{}, "tailscale utun3", []string{"relay is not visible"}},
		"loopback":            {hostFacts("lo", "127.0.0.1", "", nic("lo", "loopback", 65536)), scripted{}, "loopback lo", nil},
		"a circle":            {hostFacts("a", "10.0.0.2", "", nic("a", "vlan", 1500, "b"), nic("b", "vlan", 1500, "a")), scripted{}, "vlan a > vlan b > neighbour 10.0.0.2", nil},
		"nobody lists it":     {hostFacts("eth7", "10.0.0.2", ""), scripted{}, "device eth7 > neighbour 10.0.0.2", nil},
		"no route":            {model.HostFacts{}, scripted{}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var words, notes []string
			for _, h := range trace(c.facts, c.tells) {
				words = append(words, fmt.Sprintf("%s %s", h.Kind, h.Name))
				notes = append(notes, h.Note)
			}
			must.Equal(t, strings.Join(words, " > "), c.want)
			for _, note := range c.notes {
				must.Contain(t, strings.Join(notes, "\n"), note, "%q", notes)
			}
		})
	}
}

// TestRouteMTU: a route with its own MTU reports it; an MTU that the system does not report
// is unknown.
func TestRouteMTU(t *testing.T) {
	f := hostFacts("eth0", "10.0.0.2", "", nic("eth0", "device", 9000))
	f.Route.MTU = fact.Known(1400, "route")
	f.Route.Gateway = fact.Unknown[string]("not available on plan9")
	got := trace(f, scripted{})
	must.True(t, len(got) == 2 && strings.Contains(got[0].Note, "1400") && got[0].MTU.Or(0) == 9000 && got[1].Kind == model.HopNetwork && !got[1].MTU.IsKnown() && strings.Contains(got[1].Note, "plan9"), "%+v", got)
}
