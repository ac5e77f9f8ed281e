package watchdog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/durable/durabletest"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// stubborn is the link mode of a driver that keeps negotiating when set to a fixed gigabit
// mode, like Linux e1000 and e1000e.
type stubborn struct {
	text   string
	writes []string
}

func (s *stubborn) Read(context.Context) (string, error) { return s.text, nil }

func (s *stubborn) Check(context.Context, string) error { return nil }

func (s *stubborn) Write(_ context.Context, raw string) error {
	s.writes = append(s.writes, raw)
	if s.text = raw; strings.HasPrefix(raw, "autoneg=off speed=1000") {
		s.text = "autoneg=on advertise=1000baseT/Full"
	}
	return nil
}

// TestALinkModeIsWrittenWhole: three settings of one mode are a single write, and undo writes
// the text before.
func TestALinkModeIsWrittenWhole(t *testing.T) {
	const before = "autoneg=on advertise=100baseT/Full,1000baseT/Full (supported=100baseT/Full,1000baseT/Full; now=1000/full)"
	card := &stubborn{text: before}
	j := must.Get(journal.Dir{Path: stateDir, FS: (&durabletest.Disk{}).Process(nil)}.Open(""))(t)
	defer func() { _ = j.Close() }()
	m := newMachine(Config{Host: hostknob.Host{Interface: "eth0", Index: catalogue(), Backend: func(hostknob.Place) (hostknob.Backend, error) { return card, nil }}, sys: quiet(nil)}, j)
	tx := m.begin()
	changes, err := tx.apply(t.Context(), []model.Assignment{
		{Host: model.Near, Knob: "nic.media.autoneg", Value: "off"},
		{Host: model.Near, Knob: "nic.media.speed", Value: "100"},
		{Host: model.Near, Knob: "nic.media.duplex", Value: "full"},
	}, time.Now().Add(time.Minute), func() error { return nil })
	must.Need(t, err == nil && len(changes) == 3, "%+v, %v", changes, err)
	must.True(t, len(card.writes) == 1 && card.writes[0] == "autoneg=off speed=100 duplex=full", "written: %q", card.writes)
	for _, c := range changes {
		must.True(t, c.Old == before && c.New == "autoneg=off speed=100 duplex=full", "%+v", c)
	}
	must.OK(t, must.Err(m.takeBack(t.Context(), func(journal.Unfinished) bool { return true })))
	_, err = m.recover(t.Context())
	must.True(t, err == nil && card.text == before, "after undo: %q, %v", card.text, err)
}

// linkless is the link mode of a card whose driver reports no speed for a forced mode while
// the link is down, as Intel's do, and whose link goes down for a while after each change.
type linkless struct {
	mode   string
	up     time.Time // when the link comes back
	takes  time.Duration
	writes []string
}

const cardModes = " (supported=10baseT/Half,100baseT/Full)"

func (l *linkless) Read(context.Context) (string, error) {
	if time.Now().Before(l.up) && strings.HasPrefix(l.mode, "autoneg=off") {
		return "autoneg=off" + cardModes, nil
	}
	return l.mode + cardModes, nil
}

func (l *linkless) Check(context.Context, string) error { return nil }

func (l *linkless) Write(_ context.Context, raw string) error {
	l.mode, _, _ = strings.Cut(raw, " (")
	l.up = time.Now().Add(l.takes)
	l.writes = append(l.writes, l.mode)
	return nil
}

// TestALinkTakesItsTime: a forced mode is set once its link is up, within some seconds. A
// mode whose link never comes up, or is lost later, is undone and not mistaken for another
// program's.
func TestALinkTakesItsTime(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		before string
		takes  time.Duration // after each change
		lost   bool          // the link is lost before the undo
		set    bool
	}{
		"comes":                    {"autoneg=on advertise=100baseT/Full", 3 * time.Second, false, true},
		"never comes":              {"autoneg=on advertise=100baseT/Full", never, false, false},
		"comes and is lost":        {"autoneg=on advertise=100baseT/Full", 3 * time.Second, true, true},
		"forced before, is lost":   {"autoneg=off speed=100 duplex=full", 3 * time.Second, true, true},
		"forced before, and comes": {"autoneg=off speed=100 duplex=full", 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				card := &linkless{mode: c.before, takes: c.takes}
				j := must.Get(journal.Dir{Path: stateDir, FS: (&durabletest.Disk{}).Process(nil)}.Open(""))(t)
				defer func() { _ = j.Close() }()
				m := newMachine(Config{Host: hostknob.Host{Interface: "eth0", Index: catalogue(), Backend: func(hostknob.Place) (hostknob.Backend, error) { return card, nil }}, sys: quiet(nil)}, j)
				began := time.Now()
				_, err := m.begin().apply(t.Context(), []model.Assignment{
					{Host: model.Near, Knob: "nic.media.autoneg", Value: "off"},
					{Host: model.Near, Knob: "nic.media.speed", Value: "10"},
					{Host: model.Near, Knob: "nic.media.duplex", Value: "half"},
				}, time.Now().Add(time.Minute), func() error { return nil })
				must.True(t, (err == nil) == c.set && time.Since(began) <= linking+time.Second, "set after %v: %v", time.Since(began), err)
				if c.lost {
					card.up = time.Now().Add(never)
				}
				card.takes = time.Second
				changes, err := m.recover(t.Context())
				must.True(t, err == nil && len(changes) == 3 && card.mode == c.before && len(m.j.OpenIntents()) == 0, "after undo: %q, %+v, %v", card.mode, changes, err)
				for _, c := range changes {
					must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
				}
			})
		})
	}
}

// lines is a kernel log.
type lines []string

func (l *lines) Each(yield func(string)) error {
	for _, line := range *l {
		yield(line)
	}
	*l = nil
	return nil
}

func (l *lines) Close() error { return nil }

// logging is a place whose driver writes to the kernel log when it is set.
type logging struct {
	stubborn
	log  *lines
	says []string
}

func (g *logging) Write(ctx context.Context, raw string) error {
	*g.log = append(*g.log, g.says...)
	return g.stubborn.Write(ctx, raw)
}

// TestWhatTheKernelLogsIsTold: a fault that a driver logs during a set or an undo is reported
// with its line; other log lines are not.
func TestWhatTheKernelLogsIsTold(t *testing.T) {
	for text, want := range map[string]string{
		"WARNING: CPU: 0 PID: 730 at kernel/dma/mapping.c:533 dma_free_attrs+0x3c/0x60": "dma_free_attrs",
		"BUG: unable to handle page fault for address: 00000010":                        "page fault",
		"pcnet32 0000:00:08.0 eth0: link up":                                            "",
	} {
		log := &lines{}
		place := &logging{stubborn: stubborn{text: "32"}, log: log, says: []string{"------------[ cut here ]------------", text, "Call Trace:"}}
		if want == "" {
			place.says = []string{text}
		}
		j := must.Get(journal.Dir{Path: stateDir, FS: (&durabletest.Disk{}).Process(nil)}.Open(""))(t)
		var said bytes.Buffer
		m := newMachine(Config{Talk: &said, Host: hostknob.Host{Interface: "eth0", Index: catalogue(), Backend: func(hostknob.Place) (hostknob.Backend, error) { return place, nil }}}, j)
		m.sys.kernel = func() (kernelLog, error) { return log, nil }
		must.Get(m.begin().apply(t.Context(), []model.Assignment{{Host: model.Near, Knob: "txqueuelen", Value: "64"}}, time.Now().Add(time.Minute), func() error { return nil }))(t)
		set := said.String()
		told := strings.HasPrefix(set, KernelMark+"while txqueuelen of eth0 was set: ") && strings.Contains(set, want)
		must.True(t, told == (want != "") && strings.Count(set, "\n") <= 1, "%q: said %q", text, set)
		said.Reset()
		_, err := m.recover(t.Context())
		must.True(t, err == nil && place.text == "32", "undo: %q, %v", place.text, err)
		told = strings.HasPrefix(said.String(), KernelMark+"while txqueuelen of eth0 was put back: ")
		must.True(t, told == (want != ""), "%q: undo said %q", text, said.String())
		_ = j.Close()
	}
}

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
