package facts

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// TestPathInNamespace: of two interfaces, the one that routes to the peer.
func TestPathInNamespace(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	for name, network := range map[string]string{"fa0": "192.0.2.1/24", "fb0": "198.51.100.1/24"} {
		l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1400, TxQLen: 1000}, PeerName: name + "p"}
		must.Do(t, netlink.LinkAdd(l))
		a := must.Get(netlink.ParseAddr(network))(t)
		must.Do(t, netlink.AddrAdd(l, a))
		must.Do(t, netlink.LinkSetUp(l))
	}
	f := Read(t.Context(), nil, model.Near, "198.51.100.7", "")
	must.True(t, f.Interface.Or("") == "fb0" && f.MTU.Or(0) == 1400 && f.Address == "198.51.100.1" && f.Interface.Source() == "rtnetlink",
		"Read = %+v", f)
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
		"down":              {"3", "-1", nic, 0, "tells no speed"},
		"no answer":         {"3", "", nic, 0, "tells no speed"},
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

func TestRouteWithZone(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "fz0", MTU: 1500, TxQLen: 1000}, PeerName: "fz1"}
	must.Do(t, netlink.LinkAdd(l))
	for _, name := range []string{"fz0", "fz1"} {
		end := must.Get(netlink.LinkByName(name))(t)
		must.Do(t, netlink.LinkSetUp(end))
	}
	got, _, err := route(netip.MustParseAddr("fe80::77%fz1"), "")
	if err != nil {
		t.Skipf("this kernel has no IPv6 here: %v", err)
	}
	must.Equal(t, got.Attrs().Name, "fz1", "route leaves by")
}
