package route_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/route"
	"linerate/internal/must"
)

func open(t *testing.T, target, name string) *route.Metric {
	t.Helper()
	return must.Get(route.Open(target, name))(t)
}

// network makes a link with an IPv4 and an IPv6 address and default routes.
func network(t *testing.T) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "kt0"
	l := &netlink.Veth{LinkAttrs: attrs, PeerName: "kt1"}
	must.Do(t, netlink.LinkAdd(l))
	for _, a := range []string{"10.7.0.1/24", "2001:db8:7::1/64"} {
		address := must.Get(netlink.ParseAddr(a))(t)
		address.Flags = 0x02 // IFA_F_NODAD
		err := netlink.AddrAdd(l, address)
		must.SkipIf(t, err != nil, "this kernel takes no address %s: %v", a, err)
	}
	for _, name := range []string{"kt0", "kt1"} {
		must.Do(t, netlink.LinkSetUp(must.Get(netlink.LinkByName(name))(t)))
	}
	for _, gateway := range []string{"10.7.0.2", "2001:db8:7::2"} {
		one, _ := netlink.LinkByName("kt0")
		must.Do(t, netlink.RouteAdd(&netlink.Route{LinkIndex: one.Attrs().Index, Gw: netip.MustParseAddr(gateway).AsSlice(), MTU: 1450}))
	}
}

func TestConformanceInNamespace(t *testing.T) { knobtest.InNamespace(t, testConformanceInNamespace) }

func testConformanceInNamespace(t *testing.T) {
	network(t)
	for _, c := range []struct{ target, metric, other string }{
		{"10.7.0.0/24 dev kt0", "initcwnd", "20"}, {"10.7.0.0/24 dev kt0", "window", "65536"}, {"default dev kt0", "mtu", "1400"},
		{"default dev kt0", "advmss", "1200"}, {"2001:db8:7::/64 dev kt0", "initrwnd", "30"}, {"::/0 dev kt0", "mtu", "1300"},
		{"default dev kt0", "quickack", "1"}, {"default dev kt0", "rto_min", "40"},
	} {
		t.Run(c.metric+" of "+c.target, func(t *testing.T) {
			knobtest.Run(t, knobtest.Case{
				Backend: open(t, c.target, c.metric), Other: c.other, Bad: []string{"", "x", "-1", "4294967296"}, Absent: open(t, "10.9.0.0/24 dev kt0", c.metric),
			})
		})
	}
	must.Fail(t, must.Err(open(t, "default dev kt9", "mtu").Read(t.Context())), "a metric of an interface that is not there was read")
}

// TestTheRestOfTheRouteStays: ip(8) shows the same route after a metric is set and undone.
func TestTheRestOfTheRouteStays(t *testing.T) { knobtest.InNamespace(t, testTheRestOfTheRouteStays) }

func testTheRestOfTheRouteStays(t *testing.T) {
	network(t)
	ip(t, "route add 10.8.0.0/16 via 10.7.0.9 dev kt0 src 10.7.0.1 metric 77 proto 99 window 5000 advmss 1000 congctl cubic realm 5")
	ip(t, "route add 10.8.0.0/16 dev kt1 metric 78") // another interface
	ip(t, "route add 2001:db8:9::/48 via 2001:db8:7::9 dev kt0 metric 55 initcwnd 12 pref high")
	before := ip(t, "-d route show table main") + ip(t, "-6 -d route show table main")
	for _, target := range []string{"10.8.0.0/16 dev kt0", "2001:db8:9::/48 dev kt0", "default dev kt0", "10.7.0.0/24 dev kt0"} {
		for _, metric := range []string{"initcwnd", "mtu", "window"} {
			m := open(t, target, metric)
			old := must.Get(m.Read(t.Context()))(t)
			for _, v := range []string{"1298", old} {
				must.Dof(t, m.Write(t.Context(), v), "%s of %s", metric, target)
				must.True(t, v == old || strings.Contains(ip(t, "-d route show table main")+ip(t, "-6 -d route show table main"), metric+" 1298"),
					"ip does not see %s 1298 of %s", metric, target)
			}
		}
	}
	after := ip(t, "-d route show table main") + ip(t, "-6 -d route show table main")
	must.True(t, sorted(after) == sorted(before), "was\n%sis\n%s", before, after)
	ip(t, "route add 10.7.0.0/24 dev kt0 metric 5")
	must.Is(t, must.Err(open(t, "10.7.0.0/24 dev kt0", "mtu").Read(t.Context())), errors.ErrUnsupported, "one of two routes to the same place")
}

// sorted sorts the routes: the kernel moves a replaced route among those of equal rank.
func sorted(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		for j := i + 1; j < len(lines); j++ {
			if lines[j] < lines[i] {
				lines[i], lines[j] = lines[j], lines[i]
			}
		}
	}
	return strings.Join(lines, "\n")
}

func ip(t *testing.T, args string) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ip", strings.Fields(args)...).CombinedOutput()
	must.SkipIf(t, errors.Is(err, exec.ErrNotFound), "ip is not installed")
	must.Need(t, err == nil, "ip %s: %v\n%s", args, err, out)
	return string(out)
}

func TestTowards(t *testing.T) { knobtest.InNamespace(t, testTowards) }

func testTowards(t *testing.T) {
	to, _, err := route.Towards(t.Context(), netip.MustParseAddr("192.0.2.1"))
	must.True(t, errors.Is(err, fs.ErrNotExist), "without routes: %q, %v", to, err)
	network(t)
	for peer, want := range map[string]string{
		"10.7.0.2": "10.7.0.0/24", "192.0.2.1": "default", "::ffff:192.0.2.1": "default", "2001:db8:7::2": "2001:db8:7::/64", "2001:db8:8::1": "::/0",
	} {
		to, device, err := route.Towards(t.Context(), netip.MustParseAddr(peer))
		if to != want || device != "kt0" || err != nil {
			t.Errorf("%s: %q by %q, %v", peer, to, device, err)
			continue
		}
		m, err := route.Open(to+" dev "+device, "initcwnd")
		if err != nil {
			t.Errorf("%s: %v", peer, err)
			continue
		}
		must.OK(t, must.Err(m.Read(t.Context())), "%s: read a metric", peer)
	}
	if to, _, err := route.Towards(t.Context(), netip.MustParseAddr("10.7.0.1")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("to an address of this host: %q, %v", to, err) // the local table has the route
	}
}
