// Package link reads and writes attributes of a network interface over
// rtnetlink (Linux).
package link

import (
	"fmt"
	"slices"
)

// Member is the MTU that another interface needs for one to have its own.
type Member struct {
	Link string
	MTU  int // bytes
}

// node is an interface as Around sees it.
type node struct {
	name   string
	kind   string // "bridge", "bond", "vlan"; the kernel's name
	mtu    int
	master string // bridge or bond that it is a port of
	parent string // of an interface on top of one other, such as a VLAN
}

// Around returns the interfaces of this network namespace that must change with the MTU of
// device: those to set before it, and those to set after it. was has the MTUs that interfaces
// had before the present change, if different from now. On systems other than Linux it
// returns none.
//
// The rules are the kernel's: the MTU of a VLAN is never above that of its parent
// (vlan_dev_change_mtu of net/8021q/vlan_dev.c), and is reduced for good when the parent's is
// lowered (vlan_device_event of net/8021q/vlan.c); a bridge drops packets that are too large
// for a port (is_skb_forwardable of net/core/dev.c); a bond gives its ports its own MTU
// (bond_change_mtu of drivers/net/bonding/bond_main.c).
func Around(device string, mtu int, was map[string]int) (before, after []Member, err error) {
	all, err := nodes()
	if err != nil {
		return nil, nil, err
	}
	for i, n := range all {
		if old, ok := was[n.name]; ok {
			all[i].mtu = old
		}
	}
	return around(all, device, mtu)
}

func around(all []node, device string, mtu int) (before, after []Member, err error) {
	at := slices.IndexFunc(all, func(n node) bool { return n.name == device })
	if at < 0 {
		return nil, nil, nil // setting it will report the error
	}
	t := tower{all: all, mtu: mtu}
	d := all[at]
	if m := t.find(d.master); m.bonds() && m.mtu != mtu {
		return nil, nil, fmt.Errorf("%s is a port of %s, which gives it its MTU: set that of %s", device, m.name, m.name)
	}
	if err := t.below(d); err != nil {
		return nil, nil, err
	}
	t.above(d)
	for _, n := range t.all {
		if d.bonds() && n.master == d.name && n.mtu > mtu { // lowered by the bond, or after it
			after = append(after, Member{n.name, mtu})
		}
	}
	return t.first, after, nil
}

// tower collects what must change before an interface gets an MTU.
type tower struct {
	all   []node
	mtu   int
	first []Member
}

func (t *tower) find(name string) node {
	for _, n := range t.all {
		if n.name == name {
			return n
		}
	}
	return node{}
}

func (n node) bonds() bool { return n.kind == "bond" || n.kind == "team" }

func (n node) stands() bool { return slices.Contains([]string{"vlan", "macvlan", "macvtap"}, n.kind) }

func (t *tower) add(n node) {
	if m := (Member{n.name, t.mtu}); !slices.Contains(t.first, m) {
		t.first = append(t.first, m)
	}
}

// below adds the ports and parents whose MTU is too small, the lowest first.
func (t *tower) below(d node) error {
	for _, n := range t.all {
		part := n.master == d.name || d.stands() && d.parent == n.name
		if !part || n.mtu >= t.mtu {
			continue
		}
		if m := t.find(n.master); m.bonds() && m.name != d.name {
			return fmt.Errorf("%s is made of %s, a port of %s, which gives it its MTU of %d: raise that first", d.name, n.name, m.name, m.mtu)
		}
		if err := t.below(n); err != nil {
			return err
		}
		t.add(n)
	}
	return nil
}

// above adds the interfaces on top whose MTU is too large, the highest first.
func (t *tower) above(d node) {
	for _, n := range t.all {
		on := n.stands() && n.parent == d.name || n.kind == "bridge" && n.name == d.master
		if on && n.mtu > t.mtu {
			t.above(n)
			t.add(n)
		}
	}
}
