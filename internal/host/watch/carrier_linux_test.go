package watch

import (
	"testing"

	"github.com/vishvananda/netlink"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// TestCarrierDown: a link that is lost for a moment is counted, however short.
func TestCarrierDown(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here"}, PeerName: "there"}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Skip(err)
	}
	up(t, "here")
	up(t, "there")
	w := watching(t, "here")
	before := reading(t, w)
	must.Equal(t, find(Delta(before, reading(t, w)), "nic_carrier_down", "here"), 0, "times although nothing happened")
	there := must.Get(netlink.LinkByName("there"))(t)
	for range 2 {
		must.Do(t, netlink.LinkSetDown(there))
		must.Do(t, netlink.LinkSetUp(there))
	}
	n := find(Delta(before, reading(t, w)), "nic_carrier_down", "here")
	must.True(t, n == 2, "counted %d of 2", n)
}
