package facts

import (
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/knob/ethtool"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// add makes an interface, or reports why it cannot be made here.
func add(t *testing.T, l netlink.Link) bool {
	t.Helper()
	if err := netlink.LinkAdd(l); err != nil {
		t.Logf("no %s here: %v", l.Type(), err)
		return false
	}
	return true
}

func attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

func nicByName(t *testing.T, all []model.NIC, name string) model.NIC {
	t.Helper()
	for _, n := range all {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("%s is not told", name)
	return model.NIC{}
}

// TestNICsInNamespace reads a veth that is a bridge's port and carries a VLAN,
// a dummy, and the loopback of a real kernel.
func TestNICsInNamespace(t *testing.T) { knobtest.InNamespace(t, testNICsInNamespace) }

func testNICsInNamespace(t *testing.T) {
	veth := &netlink.Veth{LinkAttrs: attrs("fv0"), PeerName: "fv1"}
	veth.MTU = 1400
	must.SkipIf(t, !add(t, veth), "this kernel makes no veth pair")
	bridge := add(t, &netlink.Bridge{LinkAttrs: attrs("fbr0")})
	if bridge {
		must.Do(t, netlink.LinkSetMaster(must.Get(netlink.LinkByName("fv0"))(t), &netlink.Bridge{LinkAttrs: attrs("fbr0")}))
	}
	parent := must.Get(netlink.LinkByName("fv1"))(t)
	tagged := &netlink.Vlan{LinkAttrs: attrs("fv1.7"), VlanId: 7}
	tagged.ParentIndex = parent.Attrs().Index
	vlan := add(t, tagged)
	dummy := add(t, &netlink.Dummy{LinkAttrs: attrs("fd0")})
	for _, name := range []string{"fv0", "fv1"} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		must.Do(t, err)
	}
	must.Do(t, netlink.AddrAdd(parent, must.Get(netlink.ParseAddr("192.0.2.9/28"))(t)))

	first := "fv1"
	if vlan {
		first = "fv1.7"
	}
	all, err := ReadNICs(t.Context(), nil, first)
	// the kernel brings a pair up a moment after the request (net/core/link_watch.c)
	for begun := time.Now(); err == nil && !nicByName(t, all, "fv1").Up.Or(false) && time.Since(begun) < time.Minute; {
		all, err = ReadNICs(t.Context(), nil, first)
	}
	must.Do(t, err)
	must.True(t, all[0].Name == first && (!vlan || all[1].Name == "fv1"), "the path's interface and its parent are not first: %s, %s", all[0].Name, all[1].Name)
	v := nicByName(t, all, "fv1")
	must.True(t, v.Kind.Or("") == "veth" && v.Driver.Or("") == "veth" && v.Up.Or(false) && v.Bus.Kind.Or("") == "virtual" && !v.Bus.Allows.IsKnown(), "veth: %+v", v)
	must.True(t, slices.Contains(v.Addresses, "192.0.2.9/28") && v.MTUMin.Or(0) == 68 && v.MTUMax.Or(0) == 65535 && !v.Media.Speed.IsKnown() && v.Qdisc.Or("") == "noqueue", "veth: %+v", v)
	offloads, known := v.Offloads.Get()
	i := slices.IndexFunc(offloads, func(o model.Offload) bool { return o.Name == "tx-tcp-segmentation" })
	must.True(t, known && i >= 0 && offloads[i].On && !offloads[i].Fixed, "offloads of a veth: %v", offloads)
	p := nicByName(t, all, "fv0")
	must.True(t, (!bridge || p.Master.Or("") == "fbr0") && p.MTU.Or(0) == 1400, "port: %+v", p)
	if bridge {
		b := nicByName(t, all, "fbr0")
		must.True(t, b.Kind.Or("") == "bridge" && slices.Equal(b.Below, []string{"fv0"}) && !b.VLAN.IsKnown() && !b.Bond.IsKnown(), "bridge: %+v", b)
	}
	if vlan {
		n := nicByName(t, all, "fv1.7")
		must.True(t, n.VLAN.Or(0) == 7 && slices.Equal(n.Below, []string{"fv1"}), "VLAN: %+v", n)
	}
	if dummy {
		d := nicByName(t, all, "fd0")
		must.True(t, !d.Up.Or(true) && d.Master.Or("x") == "" && d.Kind.Or("") == "dummy", "dummy: %+v", d)
	}
	n := nicByName(t, all, "fv0")
	must.True(t, !n.Offloads.IsKnown() && n.Offloads.Reason() != "", "offloads of what is not on the way: %+v", n.Offloads)
	lo := nicByName(t, all, "lo")
	must.True(t, lo.Kind.Or("") == "loopback" && !lo.MAC.IsKnown() && all[len(all)-1].Name == "lo", "loopback: %+v", lo)
}

// TestOrderOfInterfaces: the path's interface, its parts, devices that are up, other devices,
// virtual ones, the loopback.
func TestOrderOfInterfaces(t *testing.T) {
	at := func(name string, index, parent, master int, flags net.Flags) netlink.LinkAttrs {
		return netlink.LinkAttrs{Name: name, Index: index, ParentIndex: parent, MasterIndex: master, Flags: flags}
	}
	r := nicReader{links: []netlink.Link{
		&netlink.Device{LinkAttrs: at("lo", 1, 0, 0, net.FlagUp|net.FlagLoopback)},
		&netlink.Veth{LinkAttrs: at("veth0", 2, 5, 0, net.FlagUp)},
		&netlink.Device{LinkAttrs: at("eth9", 3, 0, 0, 0)},
		&netlink.Device{LinkAttrs: at("eth2", 4, 0, 0, net.FlagUp)},
		&netlink.Device{LinkAttrs: at("eth0", 5, 0, 7, net.FlagUp)},
		&netlink.Device{LinkAttrs: at("eth1", 6, 0, 7, net.FlagUp)},
		&netlink.Bond{LinkAttrs: at("bond0", 7, 0, 0, net.FlagUp)},
		&netlink.Vlan{LinkAttrs: at("bond0.7", 8, 7, 0, net.FlagUp), VlanId: 7},
		&netlink.Dummy{LinkAttrs: at("dummy0", 9, 0, 0, 0)},
	}}
	for first, want := range map[string][]string{
		"bond0":   {"bond0", "eth0", "eth1", "eth2", "eth9", "veth0", "bond0.7", "dummy0", "lo"},
		"bond0.7": {"bond0.7", "bond0", "eth2", "eth0", "eth1", "eth9", "veth0", "dummy0", "lo"},
		"":        {"eth2", "eth0", "eth1", "eth9", "veth0", "bond0", "bond0.7", "dummy0", "lo"},
	} {
		got := lists.Each(r.chosen(first), func(l netlink.Link) string { return l.Attrs().Name })
		must.True(t, slices.Equal(got, want), "%q first: %q, want %q", first, got, want)
	}
	below := r.below(r.byName("veth0"))
	must.True(t, below == nil, "a veth is made of %q", below)
}

func TestBondInNamespace(t *testing.T) { knobtest.InNamespace(t, testBondInNamespace) }

func testBondInNamespace(t *testing.T) {
	b := netlink.NewLinkBond(attrs("fbond0"))
	b.Mode = netlink.BOND_MODE_802_3AD
	must.SkipIf(t, !add(t, b), "this kernel makes no bond (module bonding)")
	n := nicByName(t, must.Get(ReadNICs(t.Context(), nil, ""))(t), "fbond0")
	must.True(t, n.Bond.Or("") == "802.3ad" && n.Kind.Or("") == "bond", "%+v", n)
}

func TestManyInterfacesInNamespace(t *testing.T) {
	knobtest.InNamespace(t, testManyInterfacesInNamespace)
}

func testManyInterfacesInNamespace(t *testing.T) {
	for i := range maxNICs + 3 {
		must.SkipIf(t, !add(t, &netlink.Veth{LinkAttrs: attrs("fm" + string(rune('A'+i))), PeerName: "fn" + string(rune('A'+i))}), "this kernel makes no veth pair")
	}
	last := "fm" + string(rune('A'+maxNICs+2))
	all, err := ReadNICs(t.Context(), nil, last)
	must.True(t, err == nil && len(all) == maxNICs && all[0].Name == last, "%d interfaces, %v, the first is %s", len(all), err, all[0].Name)
}

// TestRouteInNamespace: the attributes that a route sets, and a gateway.
func TestRouteInNamespace(t *testing.T) { knobtest.InNamespace(t, testRouteInNamespace) }

func testRouteInNamespace(t *testing.T) {
	must.SkipIf(t, !add(t, &netlink.Veth{LinkAttrs: attrs("fr0"), PeerName: "fr1"}), "this kernel makes no veth pair")
	l := must.Get(netlink.LinkByName("fr0"))(t)
	must.Do(t, errors.Join(netlink.AddrAdd(l, must.Get(netlink.ParseAddr("192.0.2.1/24"))(t)), netlink.LinkSetUp(l)))
	_, far, _ := net.ParseCIDR("198.51.100.0/24")
	must.Do(t, netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: far, Gw: net.ParseIP("192.0.2.254"), MTU: 1300, InitCwnd: 20, AdvMSS: 1200}))
	r := Read(t.Context(), nil, model.Near, "198.51.100.7", "").Route
	must.Need(t, r != nil && r.Peer == "198.51.100.7" && r.Interface.Or("") == "fr0" && r.Source.Or("") == "192.0.2.1" && r.Gateway.Or("") == "192.0.2.254" && r.MTU.Or(0) == 1300, "%+v", r)
	must.True(t, r.Metrics["initcwnd"] == "20" && r.Metrics["advmss"] == "1200" && len(r.Metrics) == 2, "metrics %v", r.Metrics)
	near := Read(t.Context(), nil, model.Near, "192.0.2.7", "").Route
	must.True(t, near.Gateway.Or("x") == "" && near.MTU.Or(0) == 1500 && near.MTU.Source() == "interface" && near.Metrics == nil, "on the link: %+v", near)
	none := Read(t.Context(), nil, model.Near, "203.0.113.1", "").Route
	must.True(t, !none.Interface.IsKnown() && none.Interface.Reason() != "", "no route leads there: %+v", none)
}

// TestReadMachineHere: a Linux that runs tests knows its processors and memory.
func TestReadMachineHere(t *testing.T) {
	m := ReadMachine(t.Context())
	must.True(t, m.Threads.Or(0) >= 1 && m.Memory.Or(0) >= 64<<20 && (m.Virtual.IsKnown() || strings.Contains(m.Virtual.Reason(), "tells")), "%+v", m)
}

// TestPathInNamespace: of two interfaces, the one that routes to the peer.
func TestPathInNamespace(t *testing.T) { knobtest.InNamespace(t, testPathInNamespace) }

func testPathInNamespace(t *testing.T) {
	for name, network := range map[string]string{"fa0": "192.0.2.1/24", "fb0": "198.51.100.1/24"} {
		l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1400, TxQLen: 1000}, PeerName: name + "p"}
		must.Do(t, netlink.LinkAdd(l))
		must.Do(t, netlink.AddrAdd(l, must.Get(netlink.ParseAddr(network))(t)))
		must.Do(t, netlink.LinkSetUp(l))
	}
	f := Read(t.Context(), nil, model.Near, "198.51.100.7", "")
	must.True(t, f.Interface.Or("") == "fb0" && f.MTU.Or(0) == 1400 && f.Address == "198.51.100.1" && f.Interface.Source() == "rtnetlink", "Read = %+v", f)
	must.Contain(t, f.LinkRate.Reason(), "virtual", "a veth has the rate %v", f.LinkRate)
	must.True(t, f.Qdisc.Or("") == "noqueue" && f.Congestion.IsKnown(), "qdisc %v (%s), congestion %v", f.Qdisc.Or(""), f.Qdisc.Reason(), f.Congestion)
	f = Read(t.Context(), nil, model.Near, "203.0.113.1", "")
	must.True(t, !f.Interface.IsKnown() && f.Interface.Reason() != "", "no route leads to 203.0.113.1, yet %+v", f)
}

func TestLinkRate(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	nic := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "eth0", Index: 3, HardwareAddr: mac}}
	for name, c := range map[string]struct {
		ifindex, speed string
		link           netlink.Link
		want           units.BitRate // 0 is unknown
		reason         string
	}{
		"gigabit":           {"3", "1000", nic, 1e9, ""},
		"fast":              {"3", "400000", nic, 400e9, ""},
		"down":              {"3", "-1", nic, 0, "reports no speed"},
		"no answer":         {"3", "", nic, 0, "reports no speed"},
		"sysfs of others":   {"4", "1000", nic, 0, "sysfs does not show eth0"},
		"veth claims speed": {"3", "10000", &netlink.Veth{LinkAttrs: nic.LinkAttrs}, 0, "virtual"},
		"tap claims speed":  {"3", "10", &netlink.Tuntap{LinkAttrs: nic.LinkAttrs}, 0, "virtual"},
		"vlan":              {"3", "1000", &netlink.Vlan{LinkAttrs: nic.LinkAttrs}, 1e9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "eth0")
			must.Do(t, os.Mkdir(dir, 0o755))
			for file, text := range map[string]string{"ifindex": c.ifindex, "address": mac.String(), "speed": c.speed} {
				must.Do(t, os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644))
			}
			got := linkRate(root, c.link)
			must.True(t, got.Or(0) == c.want && strings.Contains(got.Reason(), c.reason), "linkRate = %v (%s), want %v", got.Or(0), got.Reason(), c.want)
		})
	}
}

func TestRootQdisc(t *testing.T) {
	at := func(parent uint32, kind string) netlink.Qdisc {
		return &netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{Parent: parent}, QdiscType: kind}
	}
	for want, all := range map[string][]netlink.Qdisc{
		"":                nil,
		"fq":              {at(netlink.HANDLE_INGRESS, "ingress"), at(netlink.HANDLE_ROOT, "fq")},
		"mq of fq_codel":  {at(netlink.HANDLE_ROOT, "mq"), at(1, "fq_codel"), at(2, "fq_codel")},
		"mq of fq, pfifo": {at(netlink.HANDLE_ROOT, "mq"), at(1, "fq"), at(2, "pfifo")},
	} {
		must.Equal(t, rootQdisc(all), want, "rootQdisc")
	}
}

func TestRouteWithZone(t *testing.T) { knobtest.InNamespace(t, testRouteWithZone) }

func testRouteWithZone(t *testing.T) {
	must.Do(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "fz0", MTU: 1500, TxQLen: 1000}, PeerName: "fz1"}))
	for _, name := range []string{"fz0", "fz1"} {
		must.Do(t, netlink.LinkSetUp(must.Get(netlink.LinkByName(name))(t)))
	}
	got, _, err := route(netip.MustParseAddr("fe80::77%fz1"), "")
	must.SkipIf(t, err != nil, "this kernel has no IPv6 here: %v", err)
	must.Equal(t, got.Attrs().Name, "fz1", "route leaves by")
}

// recorded reads an answer of Linux 6.18: hexadecimal with a comment, the generic netlink
// header first.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("..", "knob", "ethtool", "testdata", "linux-6.18", name+".hex")))(t)
	var digits strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.TrimSpace(line))
		}
	}
	return must.Get(hex.DecodeString(digits.String()))(t)
}

// gigabit is a gigabit card whose partner is a switch of 100 Mbit/s.
func gigabit() ethtool.Fields {
	return ethtool.Fields{
		Numbers: map[string]uint32{"autoneg": 1, "speed": 100, "duplex": 1},
		Sets: map[string]ethtool.Bits{
			"ours": {{Name: "10baseT/Half", On: true}, {Name: "100baseT/Full", On: true}, {Name: "1000baseT/Full", On: true}, {Name: "2500baseT/Full"},
				{Name: "Autoneg", On: true}, {Name: "TP", On: true}, {Name: "Pause", On: true}},
			"peer": {{Name: "10baseT/Half", On: true}, {Name: "100baseT/Full", On: true}, {Name: "Autoneg", On: true}},
		},
	}
}

func TestMediaOf(t *testing.T) {
	m := mediaOf(gigabit())
	must.True(t, m.Speed.Or(0) == 100e6 && m.Duplex.Or("") == "full" && m.Autoneg.Or(false), "%v %v %v", m.Speed, m.Duplex, m.Autoneg)
	for name, c := range map[string]struct{ got, want []string }{
		"supported":  {m.Supported.Or(nil), []string{"10baseT/Half", "100baseT/Full", "1000baseT/Full", "2500baseT/Full"}},
		"advertised": {m.Advertised.Or(nil), []string{"10baseT/Half", "100baseT/Full", "1000baseT/Full"}},
		"partner":    {m.Partner.Or(nil), []string{"10baseT/Half", "100baseT/Full"}},
	} {
		must.True(t, slices.Equal(c.got, c.want), "%s: %q, want %q", name, c.got, c.want)
	}
}

func TestRecordedMedia(t *testing.T) {
	m := mediaOf(must.Get(ethtool.Decode("linkmodes", recorded(t, "virtio-linkmodes")))(t))
	must.True(t, !m.Speed.IsKnown() && !m.Duplex.IsKnown() && !m.Autoneg.Or(true) && !m.Partner.IsKnown() && m.Partner.Reason() != "", "%+v", m)
	m = mediaOf(must.Get(ethtool.Decode("linkmodes", recorded(t, "tap-linkmodes")))(t))
	must.True(t, m.Duplex.Or("") == "full" && m.Speed.Or(0) != 0, "%+v", m)
}

func TestRecordedOffloads(t *testing.T) {
	all := offloadsOf(must.Get(ethtool.Decode("features", recorded(t, "virtio-features")))(t))
	find := func(name string) (model.Offload, bool) {
		i := slices.IndexFunc(all, func(o model.Offload) bool { return o.Name == name })
		if i < 0 {
			return model.Offload{}, false
		}
		return all[i], true
	}
	o, ok := find("tx-tcp-segmentation")
	must.True(t, ok && o.On && !o.Fixed, "tx-tcp-segmentation: %+v, %v", o, ok)
	o, ok = find("highdma")
	must.True(t, ok && o.On && o.Fixed, "highdma: %+v, %v", o, ok)
	o, ok = find("tx-fcoe-segmentation")
	must.True(t, !ok, "what the driver has not got: %+v", o)
}

func FuzzFields(f *testing.F) {
	for _, name := range []string{"virtio-linkmodes", "tap-linkmodes", "virtio-features", "veth-features"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		modes, err := ethtool.Decode("linkmodes", b)
		must.True(t, err != nil || mediaOf(modes).Speed.Or(1) > 0, "%+v", modes)
		all, err := ethtool.Decode("features", b)
		for _, o := range offloadsOf(all) {
			must.True(t, err != nil || o.Name != "" && (o.On || !o.Fixed), "%+v", o)
		}
	})
}
