package link_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/link"
)

func open(t *testing.T, device, name string) *link.Attribute {
	t.Helper()
	a, err := link.Open(device, name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// dummy makes an interface in the test's own namespace.
func dummy(t *testing.T, name string) netlink.Link {
	t.Helper()
	l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1500, TxQLen: 1000}, PeerName: name + "p"}
	if err := netlink.LinkAdd(l); err != nil {
		t.Fatalf("make interface %s: %v", name, err)
	}
	return l
}

func TestConformanceInNamespace(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	dummy(t, "kt0")
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

func TestMTUThatEndsIPv6IsRefused(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	l := dummy(t, "kt0")
	address, err := netlink.ParseAddr("2001:db8::1/64")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(l, address); err != nil {
		t.Skipf("this kernel has no IPv6: %v", err)
	}
	mtu := open(t, "kt0", link.MTU)
	if err := mtu.Check(t.Context(), "1279"); err == nil || !strings.Contains(err.Error(), "IPv6") {
		t.Errorf("Check(1279) with an IPv6 address = %v, want a refusal that says why", err)
	}
	if err := mtu.Check(t.Context(), "1280"); err != nil {
		t.Errorf("Check(1280) = %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := link.Open("eth0", "colour"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("unknown attribute = %v, want it to wrap errors.ErrUnsupported", err)
	}
	if _, err := link.Open("a-name-that-is-too-long", link.MTU); err == nil {
		t.Error("a name longer than the kernel's was accepted")
	}
}
