package watchdog

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
