package watchdog

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/durable/durabletest"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/linkid"
	"linerate/internal/must"
)

// fate is what happens to an interface between a change and its undo.
type fate struct {
	name   string
	links  func(was linkid.ID) []linkid.ID // the system's interfaces afterwards
	at     string                          // its name afterwards; "" if it is gone
	others []string                        // names that belong to another interface afterwards
}

func fates() []fate {
	as := func(was linkid.ID, name string) linkid.ID {
		was.Name = name
		return was
	}
	other := func(was linkid.ID, name string) linkid.ID {
		was.Name, was.Index, was.Bus = name, was.Index+10, ""
		if was.MAC != "" {
			was.MAC = "02:00:00:00:00:99"
		}
		return was
	}
	return []fate{
		{"as it was", func(w linkid.ID) []linkid.ID { return []linkid.ID{w, other(w, "eth9")} }, "eth0", []string{"eth9"}},
		{"renamed", func(w linkid.ID) []linkid.ID { return []linkid.ID{as(w, "lan0")} }, "lan0", nil},
		{"renamed, its name another's", func(w linkid.ID) []linkid.ID { return []linkid.ID{other(w, "eth0"), as(w, "lan0")} }, "lan0", []string{"eth0"}},
		{"replaced", func(w linkid.ID) []linkid.ID { return []linkid.ID{other(w, "eth0")} }, "", []string{"eth0"}},
		{"replaced by another driver", func(w linkid.ID) []linkid.ID {
			o := as(w, "eth0")
			o.Driver = "tun"
			return []linkid.ID{o}
		}, "", []string{"eth0"}},
		{"gone", func(linkid.ID) []linkid.ID { return nil }, "", nil},
	}
}

// TestLinkFates undoes interface settings of every mechanism that has them, after each fate
// of the interface, after a crash or a confirmation, with and without a restart of the
// machine: the interface that was changed is restored under any name, and no other one is
// touched.
func TestLinkFates(t *testing.T) {
	card := linkid.ID{Name: "eth0", Index: 2, MAC: "02:00:00:00:00:01", Driver: "ixgbe", Bus: "0000:03:00.0"}
	kinds := map[string]linkid.ID{"card": card, "virtual": {Name: "eth0", Index: 2, Driver: "veth"}}
	settings := map[model.KnobID][2]string{
		"link.mtu": {"1500", "9000"}, "txqueuelen": {"1000", "10"}, "nic.ring.rx": {"512", "4096"}, "nic.offload.tso": {"tso=on", "tso=off"},
		"qdisc": {"default (pfifo_fast)", "fq (handle 8001: options 00)"}, "route.initcwnd": {"0", "32"}, "rx.gro_flush_timeout": {"0", "20000"},
	}
	cases := 0
	for id, text := range settings {
		_, ok := knob.NewIndex().ByID(id)
		must.Need(t, ok, "no knob %s", id)
		for kind, was := range kinds {
			for _, f := range fates() {
				for _, confirmed := range []bool{false, true} {
					for _, restarted := range []bool{false, true} {
						cases++
						t.Run(fmt.Sprintf("%s/%s/%s/confirmed=%v/restarted=%v", id, kind, f.name, confirmed, restarted), func(t *testing.T) {
							fatal(t, id, text, was, f, confirmed, restarted)
						})
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
	must.True(t, cases >= 100, "%d cases, want 100 at least", cases)
}

func fatal(t *testing.T, id model.KnobID, text [2]string, was linkid.ID, f fate, confirmed, restarted bool) {
	old, ours := text[0], text[1]
	at := func(link string) hostknob.Place {
		_, p, err := hostknob.Host{Interface: link, Route: "10.0.0.0/24", Index: catalogue()}.Place(id)
		must.Do(t, err)
		return p
	}
	memory := &knobtest.Memory{}
	for _, name := range append(f.others, f.at) {
		if name != "" {
			memory.Set(at(name), ours) // by coincidence another interface holds the same value
		}
	}
	disk := &durabletest.Disk{}
	j := must.Get(journal.Dir{Path: stateDir, FS: disk.Process(nil)}.Open(""))(t)
	defer func() { _ = j.Close() }()
	sys := quiet(disk)
	sys.links = func() ([]linkid.ID, error) { return f.links(was), nil }
	m := newMachine(Config{Host: hostknob.Host{Backend: memory.Open, Index: catalogue()}, sys: sys}, j)
	origin := m.origin
	if restarted {
		origin.Boot = "the run before"
	}
	records := []journal.Record{
		{Kind: journal.KindIntent, Transaction: "t", Number: 1, Intent: &journal.Intent{
			Host: model.Near, Knob: id, Place: at("eth0"), Old: old, New: ours, Origin: origin, Link: &was,
		}},
		{Kind: journal.KindApplied, Transaction: "t", Number: 1, Text: ours},
	}
	if confirmed {
		records = append(records, journal.Record{Kind: journal.KindConfirmed, Transaction: "t"})
	}
	for _, r := range records {
		must.Do(t, j.Append(r))
	}
	changes, err := m.recover(t.Context())
	if confirmed {
		must.True(t, len(changes) == 0 && err == nil, "recover = %+v, %v", changes, err)
		changes, err = m.takeBack(t.Context(), func(journal.Unfinished) bool { return true })
	}
	must.Need(t, err == nil && len(changes) == 1, "%+v, %v", changes, err)
	back := f.at != "" && !restarted // a restart resets such settings, so the current value is not linerate's
	c := changes[0]
	forgot := restarted && c.State == model.ChangeUndone // the interface is gone too, so nothing is left to undo
	switch {
	case forgot && (!strings.Contains(c.Detail, "the restart of the machine forgot it") || f.at == "eth0" || slices.Contains(f.others, "eth0")):
		t.Errorf("%+v", c)
	case back && c.State != model.ChangeUndone, !back && !forgot && c.State == model.ChangeUndone:
		t.Errorf("%+v", c)
	case back && f.at != "eth0" && !strings.Contains(c.Detail, "eth0 is called "+f.at+" now"):
		t.Errorf("it does not say where: %q", c.Detail)
	case f.at == "" && len(f.others) > 0 && (c.State != model.ChangeForeign || !strings.Contains(c.Detail, "eth0 is another device now: ")):
		t.Errorf("it does not say that it is another one: %+v", c)
	}
	expect := func(link, want string) {
		b, _ := memory.Open(at(link))
		must.Equal(t, must.Get(b.Read(t.Context()))(t), want, "%s holds", link)
	}
	for _, name := range f.others {
		expect(name, ours)
	}
	if back {
		expect(f.at, old)
	} else if f.at != "" {
		expect(f.at, ours)
	}
	must.Len(t, append(j.OpenIntents(), j.ConfirmedIntents()...), 0, "left open")
}

// A recovery waits for the card of a change made before a restart, at most for the given
// time, and not for an interface that it could not identify again.
func TestAwaitLinks(t *testing.T) {
	card := linkid.ID{Name: "eth0", Index: 2, MAC: "02:00:00:00:00:01", Driver: "ixgbe"}
	late := linkid.ID{Name: "eth1", Index: 7, MAC: card.MAC, Driver: card.Driver} // not renamed yet
	before, now := journal.Origin{Boot: "the run before"}, journal.Here()
	for name, c := range map[string]struct {
		of     *linkid.ID
		origin journal.Origin
		comes  int // number of the look that finds it; 0 for never
		fail   int // number of looks that fail
		looks  int
	}{
		"is there":            {&card, before, 1, 0, 1},
		"comes":               {&card, before, 3, 0, 3},
		"comes after a fault": {&card, before, 3, 2, 3},
		"never comes":         {&card, before, 0, 0, 6},
		"no restart":          {&card, now, 0, 0, 1},
		"no MAC":              {&linkid.ID{Name: "veth0", Index: 2, Driver: "veth"}, before, 0, 0, 1},
		"of no interface":     {nil, before, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			all := func() ([]linkid.ID, error) {
				looks++
				if looks <= c.fail {
					return nil, errors.New("no answer from the kernel")
				}
				if c.comes > 0 && looks >= c.comes {
					return []linkid.ID{late}, nil
				}
				return nil, nil
			}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				open := journal.Unfinished{}
				open.Link, open.Origin = c.of, c.origin
				awaitLinks(t.Context(), []journal.Unfinished{open}, 550*time.Millisecond, &system{links: all, origin: journal.Here})
				d := time.Since(began)
				must.True(t, looks == c.looks && d <= 550*time.Millisecond, "%d looks in %v, want %d", looks, d, c.looks)
			})
		})
	}
}

// TestMembers: setting the MTU of a bridge, bond, VLAN or other stacked interface also sets
// the interfaces that would otherwise drop packets or keep their MTU. Undo, expiry and the
// undo of a confirmed change restore each interface.
func TestMembers(t *testing.T) { knobtest.InNamespace(t, testMembers) }

func testMembers(t *testing.T) {
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
		set := lists.Each(changes, func(one model.Change) string { return one.Native })
		taken := append(slices.Clone(links[link]), link)
		slices.Sort(taken[:len(taken)-1])
		expect := maps.Clone(before)
		for i, name := range taken {
			taken[i], expect[name] = "mtu of "+name, "4000"
		}
		slices.Sort(set[:max(0, len(set)-1)])
		must.True(t, slices.Equal(set, taken), "%s: set %q, want %q", link, set, taken)
		got := mtus()
		must.True(t, maps.Equal(got, expect), "%s: %v, want %v", link, got, expect)
		// Another level of the same transaction starts from the first one's baseline.
		want[0].Value = "1300"
		_, err = c.Apply(t.Context(), want, time.Minute)
		must.OK(t, err, "%s", link)
		if got := mtus(); got[link] != "1300" || got["p2"] != before["p2"] && link != "p2" || got["p3"] != before["p3"] {
			t.Errorf("%s at 1300: %v", link, got)
		}
		must.Len(t, must.Get(c.Verify(t.Context()))(t), 0, "%s", link)
		if link == "br0" { // confirmed, then reverted by name
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
		got = mtus()
		must.True(t, maps.Equal(got, before), "%s: undone: %v, want %v", link, got, before)
	}
}
