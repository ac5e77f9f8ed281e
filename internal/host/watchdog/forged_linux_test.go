package watchdog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/durable/durabletest"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// ledger is a host where every place holds the value that the forged record claims was
// written, and that records the writes.
type ledger struct {
	mu     sync.Mutex
	holds  string
	writes map[hostknob.Place]string
}

type entry struct {
	l *ledger
	p hostknob.Place
}

func (l *ledger) open(p hostknob.Place) (hostknob.Backend, error) { return entry{l, p}, nil }

func (e entry) Read(context.Context) (string, error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if text, ok := e.l.writes[e.p]; ok {
		return text, nil
	}
	return e.l.holds, nil
}

func (e entry) Check(context.Context, string) error { return nil }

func (e entry) Write(_ context.Context, raw string) error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.l.writes[e.p] = raw
	return nil
}

// forgedLinks and forgedRoutes are the links and routes of the host that forged records name.
func forgedLinks() []string  { return []string{"eth0", "v0.100", "lo"} }
func forgedRoutes() []string { return []string{"default", "10.0.0.0/24", "2001:db8::/32"} }

// settable returns all places that linerate set can write on that host, by knob.
func settable() map[model.KnobID][]hostknob.Place {
	all := map[model.KnobID][]hostknob.Place{}
	for _, k := range knob.Catalogue() {
		n := k.Native["linux"]
		if k.ReadOnly || n.ReadOnly || k.EffectOn("linux") == knob.EffectBoot {
			continue
		}
		for _, link := range forgedLinks() {
			for _, route := range forgedRoutes() {
				if _, p, err := (hostknob.Host{Interface: link, Route: route, Index: catalogue()}).Place(k.ID); err == nil && !slices.Contains(all[k.ID], p) {
					all[k.ID] = append(all[k.ID], p)
				}
			}
		}
	}
	return all
}

// forgedPlaces returns places that a record could name: those of every knob, with every
// mechanism, and places that linerate never sets.
func forgedPlaces() []hostknob.Place {
	natives := []string{
		"kernel.core_pattern", "kernel.modprobe", "net.ipv4.ip_forward", "../../etc/shadow", "/etc/shadow", "net/ipv4/../../kernel/core_pattern",
		"up", "features.rx", "wol.modes", "smp_affinity_list", "scaling_governor", "root", "mtu", "", "numa_node", "current_link_speed",
		`HKLM\SYSTEM\CurrentControlSet\Services\x\ImagePath`, "*SpeedDuplex", "tcp_sack", "net.ipv4.tcp_sack\x00",
	}
	targets := []string{"", "..", "../../etc", "eth0", "*", "eth0\n", "a b", "default dev eth0", "default dev ../x", "10.0.0.1/24 dev eth0", "0.0.0.0/0 dev", "/", "a:b", "averyveryverylongname"}
	var all []hostknob.Place
	for _, places := range settable() {
		all = append(all, places...)
	}
	for _, m := range append(knob.Mechanisms("linux"), knob.IfIoctl, knob.WinReg, knob.WinTCP, "shell", "") {
		for _, n := range natives {
			for _, target := range targets {
				all = append(all, hostknob.Place{Mechanism: m, Native: n, Target: target})
			}
		}
	}
	slices.SortFunc(all, func(a, b hostknob.Place) int { return strings.Compare(fmt.Sprintf("%q", a), fmt.Sprintf("%q", b)) })
	return slices.Compact(all)
}

// forge undoes one forged record and returns the resulting writes.
func forge(t *testing.T, id model.KnobID, p hostknob.Place, old string) (writes map[hostknob.Place]string, changes []model.Change, err error) {
	t.Helper()
	l := &ledger{holds: "777777", writes: map[hostknob.Place]string{}}
	m := &machine{host: hostknob.Host{Backend: l.open, Index: catalogue()}, sys: quiet(&durabletest.Disk{}), after: func(string) {}}
	o := journal.Unfinished{Transaction: "forged", Number: 1, Wrote: []string{"777777", "777777"},
		Intent: journal.Intent{Host: model.Near, Knob: id, Place: p, Old: old, New: "777777", Origin: m.origin}}
	end, err := m.undoPlace(t.Context(), []journal.Unfinished{o})
	return l.writes, changesOf([]journal.Unfinished{o}, end), err
}

// TestForgedRecords: whatever the journal says, undo writes only where linerate set would,
// and only texts that are valid for the knob.
func TestForgedRecords(t *testing.T) {
	allowed, places := settable(), forgedPlaces()
	ids := lists.Each(knob.Catalogue(), func(k knob.Knob) model.KnobID { return k.ID })
	ids = append(ids, "", "tcp.", "no.such.knob", "../../x")
	wrote := 0
	check := func(fail func(string, ...any), id model.KnobID, p hostknob.Place, old string) {
		writes, changes, err := forge(t, id, p, old)
		for at, text := range writes {
			wrote++
			if at != p || !slices.Contains(allowed[id], at) || strings.ContainsAny(text, "\n\x00") {
				fail("%s: wrote %q to %q", id, text, at)
			}
		}
		if len(writes) == 0 && err == nil && (len(changes) != 1 || changes[0].State != model.ChangeFailed) {
			fail("%s at %q with %q: neither written nor refused", id, p, old)
		}
	}
	for n, id := range ids { // every knob at its own places and at a sample of the others
		for i := n % 31; i < len(places); i += 31 {
			check(t.Errorf, id, places[i], "1")
		}
		for _, p := range allowed[id] {
			check(t.Errorf, id, p, "1")
		}
	}
	must.True(t, wrote >= 50, "%d writes: true records are refused, too", wrote)
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.OneOf(rapid.SampledFrom(places), rapid.Custom(func(rt *rapid.T) hostknob.Place {
			one := rapid.SampledFrom(places).Draw(rt, "of")
			return hostknob.Place{Mechanism: one.Mechanism, Native: one.Native + rapid.StringMatching(`[./a-z ]{0,4}`).Draw(rt, "more"), Target: one.Target + rapid.StringMatching(`[./* a-z]{0,4}`).Draw(rt, "behind")}
		})).Draw(rt, "place")
		id := rapid.SampledFrom(ids).Draw(rt, "knob")
		writes, _, _ := forge(t, id, p, rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"1", "|/tmp/x", "1\n2", "-1", "4096 87380 6291456"})).Draw(rt, "old"))
		for at, text := range writes {
			_, ok := allowed[id]
			must.True(rt, ok && at == p && !strings.ContainsAny(text, "\n\x00") && (hostknob.Host{Index: catalogue()}).Belongs(id, at, text) == nil, "%s: wrote %q to %q", id, text, at)
		}
	})
}
