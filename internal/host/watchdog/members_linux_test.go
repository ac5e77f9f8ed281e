package watchdog

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// TestMembers: an MTU of a bridge, a bond, a VLAN or a copy of an interface takes
// along what the kernel would else drop packets at or leave behind; the undo, the
// expiry and the undo of what was confirmed put each interface back.
func TestMembers(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	add := func(l netlink.Link) bool {
		err := netlink.LinkAdd(l)
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Logf("this kernel has no %s: the order is TestAround's of package link", l.Type())
			return false
		}
		must.Dof(t, err, "%s", l.Attrs().Name)
		return true
	}
	at := func(name string, mtu, master, parent int) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name, a.MTU, a.MasterIndex, a.ParentIndex = name, mtu, master, parent
		return a
	}
	index := func(name string) int { return must.Get(netlink.LinkByName(name))(t).Attrs().Index }
	add(&netlink.Bridge{LinkAttrs: at("br0", 1500, 0, 0)})
	for name, mtu := range map[string]int{"p1": 1500, "p2": 2000, "p3": 9000} {
		add(&netlink.Veth{LinkAttrs: at(name, mtu, index("br0"), 0), PeerName: name + "x"})
	}
	links := map[string][]string{"br0": {"p1", "p2"}, "p1": nil}
	if add(&netlink.Macvlan{LinkAttrs: at("copy0", 1500, 0, index("br0")), Mode: netlink.MACVLAN_MODE_BRIDGE}) {
		links["copy0"] = []string{"p1", "p2", "br0"}
	}
	if add(&netlink.Vlan{LinkAttrs: at("br0.7", 1400, 0, index("br0")), VlanId: 7}) {
		links["br0.7"] = []string{"p1", "p2", "br0"}
	}
	bond := netlink.NewLinkBond(at("bond0", 1500, 0, 0))
	bond.Mode = netlink.BOND_MODE_ACTIVE_BACKUP
	if add(bond) {
		add(&netlink.Veth{LinkAttrs: at("s1", 1500, 0, 0), PeerName: "s1x"})
		must.Do(t, netlink.LinkSetMasterByIndex(must.Get(netlink.LinkByName("s1"))(t), index("bond0")))
		links["bond0"] = []string{"s1"}
	}
	mtus := func() map[string]string {
		all := make(map[string]string)
		for _, l := range must.Get(netlink.LinkList())(t) {
			all[l.Attrs().Name] = fmt.Sprint(l.Attrs().MTU)
		}
		return all
	}
	before := mtus()
	for _, link := range slices.Sorted(maps.Keys(links)) {
		b, dir := bench{host: hostknob.Host{Interface: link}}, t.TempDir()
		c := start(t, b, dir)
		want := []model.Assignment{{Host: model.Near, Knob: "link.mtu", Value: "4000"}}
		changes, err := c.Apply(t.Context(), want, time.Minute)
		must.Dof(t, err, "%s", link)
		var set []string
		for _, one := range changes {
			set = append(set, one.Native)
		}
		taken := append(slices.Clone(links[link]), link)
		slices.Sort(taken[:len(taken)-1])
		expect := maps.Clone(before)
		for i, name := range taken {
			taken[i], expect[name] = "mtu of "+name, "4000"
		}
		if slices.Sort(set[:max(0, len(set)-1)]); !slices.Equal(set, taken) {
			t.Errorf("%s: set %q, want %q", link, set, taken)
		}
		got := mtus()
		must.True(t, maps.Equal(got, expect), "%s: %v, want %v", link, got, expect)
		// Another level of the same transaction begins where the first one did.
		want[0].Value = "1300"
		if _, err = c.Apply(t.Context(), want, time.Minute); err != nil {
			t.Errorf("%s: %v", link, err)
		}
		if got := mtus(); got[link] != "1300" || got["p2"] != before["p2"] && link != "p2" || got["p3"] != before["p3"] {
			t.Errorf("%s at 1300: %v", link, got)
		}
		if bad, err := c.Verify(t.Context()); err != nil || len(bad) > 0 {
			t.Errorf("%s: %v, %v", link, bad, err)
		}
		if link == "br0" { // kept by a person, and taken back by name
			cfg := Config{Dir: dir, Host: b.host, Command: os.Args[:1]}
			must.Do(t, Confirm(t.Context(), cfg, c.Transaction()))
			records, _, err := journal.Read(dir)
			must.Do(t, err)
			own := slices.DeleteFunc(journal.ConfirmedIntents(records), func(u journal.Unfinished) bool { return u.Member })
			must.True(t, len(own) != 0 && !slices.ContainsFunc(own, func(u journal.Unfinished) bool { return u.Place.Target != "br0" }), "confirmed: %+v", own)
			_ = c.Close()
			must.Get(Revert(t.Context(), cfg))(t)
		} else if _, err := c.Undo(t.Context()); err != nil {
			t.Errorf("%s: %v", link, err)
		}
		_ = c.Close()
		if got := mtus(); !maps.Equal(got, before) {
			t.Errorf("%s: undone: %v, want %v", link, got, before)
		}
	}
}
