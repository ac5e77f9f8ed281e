package ethtool_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/ethtool"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// devices makes a veth pair, a tap and a bridge in the test's own namespace.
func devices(t *testing.T) {
	t.Helper()
	attrs := func(name string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name = name
		return a
	}
	veth := attrs("kt0")
	veth.NumTxQueues, veth.NumRxQueues = 2, 2
	for _, l := range []netlink.Link{
		&netlink.Veth{LinkAttrs: veth, PeerName: "kt1"},
		&netlink.Tuntap{LinkAttrs: attrs("kt2"), Mode: netlink.TUNTAP_MODE_TAP},
		&netlink.Bridge{LinkAttrs: attrs("kt3")},
	} {
		if err := netlink.LinkAdd(l); err != nil {
			t.Logf("no %s here: %v", l.Type(), err)
		}
	}
}

func exists(name string) bool { return must.Err(netlink.LinkByName(name)) == nil }

// openOn opens a setting over generic netlink, or over the older request.
func openOn(t *testing.T, device, name string, older bool) *ethtool.Setting {
	t.Helper()
	s := must.Get(ethtool.Open(device, name))(t)
	if older {
		s.UseRequest()
	}
	return s
}

func cases() []struct {
	device, setting, other string
	bad                    []string
} {
	return []struct {
		device, setting, other string
		bad                    []string
	}{
		{"kt0", "features.tso", "tx-tcp-segmentation=off tx-tcp6-segmentation=on", []string{"", "x", "rx-gro=on", "tx-tcp-segmentation=maybe"}},
		{"kt0", "features.gro", "rx-gro=on", []string{"", "rx-gro=2"}},
		{"kt0", "features.tx-checksum", "tx-checksum-ip-generic=off", []string{"tx-checksum-ipv4=on"}},
		{"kt3", "features.gso", "tx-generic-segmentation=off", []string{""}},
		{"kt0", "channels.tx", "1", []string{"", "x", "3", "-1"}},
		{"kt2", "coalesce.rx-frames", "16", []string{"", "x", "4294967296"}},
	}
}

// TestConformanceInNamespace tests every setting of this kernel's virtual interfaces over
// both transports.
func TestConformanceInNamespace(t *testing.T) { knobtest.InNamespace(t, testConformanceInNamespace) }

func testConformanceInNamespace(t *testing.T) {
	devices(t)
	for name, older := range map[string]bool{"generic": false, "request": true} {
		for _, c := range cases() {
			if !exists(c.device) {
				continue
			}
			t.Run(name+" "+c.setting+" of "+c.device, func(t *testing.T) {
				knobtest.Run(t, knobtest.Case{
					Backend: openOn(t, c.device, c.setting, older), Other: wanted(t, c.device, c.setting, c.other, older),
					Bad: c.bad, Absent: openOn(t, "kt9", c.setting, older),
				})
			})
		}
	}
}

// wanted completes a partial text of a feature with the fixed parts.
func wanted(t *testing.T, device, name, other string, older bool) string {
	t.Helper()
	if name != "features.tx-checksum" {
		return other
	}
	now := must.Get(openOn(t, device, name, older).Read(t.Context()))(t)
	must.SkipIf(t, now != "tx-checksum-ipv4=off(fixed) tx-checksum-ip-generic=on tx-checksum-ipv6=off(fixed)", "another veth than that of this test: %s", now)
	return "tx-checksum-ipv4=off(fixed) tx-checksum-ip-generic=off tx-checksum-ipv6=off(fixed)"
}

// TestLinkModesInNamespace sets speed and duplex of a tap, the only virtual interface that
// accepts them (Linux drivers/net/tun.c tun_set_link_ksettings).
func TestLinkModesInNamespace(t *testing.T) { knobtest.InNamespace(t, testLinkModesInNamespace) }

func testLinkModesInNamespace(t *testing.T) {
	devices(t)
	must.SkipIf(t, !exists("kt2"), "no tap here")
	knobtest.Run(t, knobtest.Case{
		Backend: openOn(t, "kt2", "linkmodes.mode", false), Other: "autoneg=off speed=100 duplex=half",
		Bad: []string{"", "autoneg=off", "autoneg=on", "autoneg=on advertise=100baseT/Full"}, Absent: openOn(t, "kt9", "linkmodes.mode", false),
	})
}

// TestTransportsAgree: the older request reports the same about an interface as generic
// netlink.
func TestTransportsAgree(t *testing.T) { knobtest.InNamespace(t, testTransportsAgree) }

func testTransportsAgree(t *testing.T) {
	devices(t)
	compared := 0
	for _, device := range []string{"kt0", "kt2", "kt3"} {
		for _, name := range []string{"features", "channels", "coalesce"} {
			a, errA := ethtool.Query(device, name, false)
			b, errB := ethtool.Query(device, name, true)
			must.Equal(t, errA == nil, errB == nil, "%s of %s: %v, and by request %v", name, device, errA, errB)
			if errA != nil {
				continue
			}
			compared++
			for field, n := range a.Numbers { // the request fills in zeros if the driver reports nothing
				must.Equal(t, b.Numbers[field], n, "%s.%s of %s: %d, and by request", name, field, device, n)
			}
			must.NoDiff(t, cmp.Diff(a.On, b.On), "%s of %s differ", name, device)
		}
	}
	must.True(t, compared >= 3, "only %d groups were compared", compared)
}

// TestADraggedFeatureIsTold: turning checksums off turns segmentation off too, and wanting
// segmentation then has no effect.
func TestADraggedFeatureIsTold(t *testing.T) { knobtest.InNamespace(t, testADraggedFeatureIsTold) }

func testADraggedFeatureIsTold(t *testing.T) {
	devices(t)
	checksum, tso := openOn(t, "kt0", "features.tx-checksum", false), openOn(t, "kt0", "features.tso", false)
	before := must.Get(tso.Read(t.Context()))(t)
	must.Do(t, checksum.Write(t.Context(), "tx-checksum-ip-generic=off"))
	must.Fail(t, tso.InForce(t.Context()), "segmentation without checksums is at work")
	now, err := tso.Read(t.Context())
	must.True(t, knob.SameText(now) == knob.SameText(before) && strings.Contains(now, "on(held)") && err == nil, "the wish was %q, is %q, %v", before, now, err)
	k, _ := knob.NewIndex().ByID("nic.offload.tso")
	must.Equal(t, must.Get(k.Decode("linux", now))(t), "0", "segmentation that is not at work reads as")
	must.OK(t, tso.Check(t.Context(), now), "what was read cannot be put back")
	must.Do(t, checksum.Write(t.Context(), "tx-checksum-ip-generic=on"))
	must.OK(t, tso.InForce(t.Context()), "InForce")
}
