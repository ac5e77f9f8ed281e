package link

import (
	"fmt"
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestAround: which links an MTU changes as well, with stacked bonds, bridges and VLANs.
func TestAround(t *testing.T) {
	host := []node{
		{name: "eno1", mtu: 1500, master: "bond0"}, {name: "eno2", mtu: 1400, master: "bond0"},
		{name: "bond0", kind: "bond", mtu: 1500, master: "br0"},
		{name: "tap0", kind: "tun", mtu: 1500, master: "br0"}, {name: "tap1", kind: "tun", mtu: 9000, master: "br0"},
		{name: "br0", kind: "bridge", mtu: 1500}, {name: "br0.7", kind: "vlan", mtu: 1500, parent: "br0"}, {name: "br0.8", kind: "vlan", mtu: 1300, parent: "br0"},
		{name: "mac0", kind: "macvlan", mtu: 1500, parent: "br0.7"}, {name: "v0", kind: "veth", mtu: 1500, parent: "eno1"},
	}
	for _, c := range []struct {
		link  string
		mtu   int
		wants string // before | after, or a part of the refusal
	}{
		{"br0", 9000, "eno1 eno2 bond0 tap0 |"},
		{"br0.8", 9000, "eno1 eno2 bond0 tap0 br0 |"},
		{"br0.8", 1400, "|"},
		{"mac0", 9000, "eno1 eno2 bond0 tap0 br0 br0.7 |"},
		{"br0", 1400, "mac0 br0.7 |"},
		{"bond0", 1280, "mac0 br0.7 br0.8 br0 | eno1 eno2"},
		{"br0", 1500, "|"},
		{"tap0", 1400, "mac0 br0.7 br0 |"},
		{"tap0", 9000, "|"},
		{"eno1", 9000, "eno1 is a port of bond0, which gives it its MTU: set that of bond0"},
		{"v0", 9000, "|"},
		{"absent", 9000, "|"},
	} {
		before, after, err := around(host, c.link, c.mtu)
		got := names(before) + "|" + names(after)
		if err != nil {
			got = err.Error()
		}
		got = strings.TrimSpace(strings.Replace(got, "|", "| ", 1))
		must.True(t, got == c.wants, "%s %d: %q, want %q", c.link, c.mtu, got, c.wants)
		for _, m := range append(before, after...) {
			must.True(t, m.MTU == c.mtu, "%s %d: %+v", c.link, c.mtu, m)
		}
	}
}

func names(all []Member) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s ", m.Link)
	}
	return b.String()
}
