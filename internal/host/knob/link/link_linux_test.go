package link_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/link"
	"linerate/internal/must"
)

func open(t *testing.T, device, name string) *link.Attribute {
	t.Helper()
	return must.Get(link.Open(device, name))(t)
}

// dummy makes the interface kt0 in the test's network namespace.
func dummy(t *testing.T) netlink.Link {
	t.Helper()
	l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "kt0", MTU: 1500, TxQLen: 1000}, PeerName: "kt0p"}
	must.Dof(t, netlink.LinkAdd(l), "make interface")
	return l
}

func TestConformanceInNamespace(t *testing.T) { knobtest.InNamespace(t, testConformanceInNamespace) }

func testConformanceInNamespace(t *testing.T) {
	dummy(t)
	t.Run("mtu", func(t *testing.T) {
		knobtest.Run(t, knobtest.Case{
			Backend: open(t, "kt0", link.MTU), Other: "9000",
			Bad: []string{"", "nine", "-1", "67", "70000"}, Absent: open(t, "kt9", link.MTU),
		})
	})
	t.Run("txqlen", func(t *testing.T) {
		knobtest.Run(t, knobtest.Case{
			Backend: open(t, "kt0", link.TxQLen), Other: "77",
			Bad: []string{"", "x", "4294967296"}, Absent: open(t, "kt9", link.TxQLen),
		})
	})
}

func TestSegmentSizesInNamespace(t *testing.T) { knobtest.InNamespace(t, testSegmentSizesInNamespace) }

func testSegmentSizesInNamespace(t *testing.T) {
	dummy(t)
	for name, other := range map[string]string{link.GSOMax: "32768", link.GROMax: "16384"} {
		t.Run(name, func(t *testing.T) {
			knobtest.Run(t, knobtest.Case{
				Backend: open(t, "kt0", name), Other: other, Bad: []string{"", "x", "-1", "1"}, Absent: open(t, "kt9", name),
			})
		})
	}
}

func TestFacts(t *testing.T) { knobtest.InNamespace(t, testFacts) }

func testFacts(t *testing.T) {
	l := dummy(t)
	// veth: ETH_MIN_MTU to ETH_MAX_MTU (Linux drivers/net/veth.c veth_setup).
	for name, want := range map[string]string{link.MinMTU: "68", link.MaxMTU: "65535", link.Up: "0"} {
		must.Equal(t, must.Get(open(t, "kt0", name).Read(t.Context()))(t), want, "%s", name)
		must.Is(t, open(t, "kt0", name).Check(t.Context(), "1"), errors.ErrUnsupported, "Check of the fact %s", name)
	}
	peer := must.Get(netlink.LinkByName("kt0p"))(t)
	for _, one := range []netlink.Link{l, peer} {
		must.Do(t, netlink.LinkSetUp(one))
	}
	for late := time.Now().Add(5 * time.Second); time.Now().Before(late); { // the kernel reports the carrier asynchronously
		if got, err := open(t, "kt0", link.Up).Read(t.Context()); got == "1" && err == nil {
			return
		}
		runtime.Gosched()
	}
	t.Error("a link that is up on both ends does not read as up")
}

func TestMTUThatEndsIPv6IsRefused(t *testing.T) {
	knobtest.InNamespace(t, testMTUThatEndsIPv6IsRefused)
}

func testMTUThatEndsIPv6IsRefused(t *testing.T) {
	err := netlink.AddrAdd(dummy(t), must.Get(netlink.ParseAddr("2001:db8::1/64"))(t))
	must.SkipIf(t, err != nil, "this kernel has no IPv6: %v", err)
	mtu := open(t, "kt0", link.MTU)
	must.Say(t, mtu.Check(t.Context(), "1279"), "IPv6", "Check(1279) with an IPv6 address")
	must.OK(t, mtu.Check(t.Context(), "1280"), "Check(1280)")
}

func TestOpenRefuses(t *testing.T) {
	must.Is(t, must.Err(link.Open("eth0", "colour")), errors.ErrUnsupported, "unknown attribute")
	must.Fail(t, must.Err(link.Open("a-name-that-is-too-long", link.MTU)), "a name longer than the kernel's was accepted")
}
