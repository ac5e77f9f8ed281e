package change

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// TestHeldUntilTheHostsSayItIsOver has this process ask a host whether it holds the change
// after the host's deadline has passed, as on a busy machine: the hosts' clocks start a
// little before this process's. That is the announced end and not a failure.
func TestHeldUntilTheHostsSayItIsOver(t *testing.T) {
	t.Parallel()
	const within = 2 * time.Second
	for name, answer := range map[string]struct {
		both, person bool
		setting      bool // the delay is before the second host is set: the time to decide has not begun
	}{"nobody there": {}, "nobody there, both hosts": {both: true}, "a person who says nothing": {person: true}, "set late": {both: true, setting: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "lan", answer.both)
			if answer.person {
				p.Answer = silent
			}
			var late sync.Map // by host
			due := func(side model.Host) bool {
				if !answer.setting {
					return len(p.Asked()) > 0
				}
				records, _, err := journal.Read(p.state(side.Other()))
				return err == nil && len(journal.OpenIntents(records)) > 0
			}
			p.writing = func(side model.Host, n int, _ *line, _ []byte) error {
				if _, was := late.Load(side); n == 1 && !was && due(side) {
					late.Store(side, true)
					time.Sleep(within + 300*time.Millisecond) // the fault: the request arrives late
				}
				return nil
			}
			r, err := p.do(t.Context(), within)
			if answer.person {
				must.Say(t, err, "not confirmed within 2 s: all settings are back", "%+v", r)
			} else if err != nil || r.Reason != "held for 2 s" {
				t.Errorf("%+v, %v", r, err)
			}
			must.True(t, r.Outcome == Undone && p.sacks() == "11", "%s, %s", r.Outcome, p.sacks())
			for _, h := range r.Hosts {
				must.True(t, len(h.Changes) == 1 && h.Changes[0].State == model.ChangeUndone, "%s: %+v", h.Name, h.Changes)
			}
			for _, e := range p.Events() {
				e, ok := e.(app.Trouble)
				must.True(t, !ok, "trouble: %v", e.Err)
			}
		})
	}
}

// mtus returns the MTUs of both hosts, the near one first.
func (p *pair) mtus() string {
	p.t.Helper()
	var all []string
	for _, h := range []*app.Host{p.hosts.Near, p.hosts.Far} {
		values, err := h.Client.ReadKnobs(p.t.Context(), []model.KnobID{mtuKnob})
		must.Need(p.t, !errors.Is(err, session.ErrLost), "%v", err)
		all = append(all, values[mtuKnob].Or("?"))
	}
	return strings.Join(all, " ")
}

// TestProvenMTU: a new MTU that passes is kept, with the proof.
func TestProvenMTU(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rate=1gbit,rtt=1ms,mtu=9000", true)
	p.Answer = yes
	r := must.Get(p.do(t.Context(), minute, model.Assignment{Knob: mtuKnob, Value: "4000"}))(t)
	must.Need(t, r.Outcome == Confirmed && len(r.Paths) == 2 && len(r.Transfers) == 2, "%+v", r)
	for _, w := range r.Paths {
		must.True(t, w.Passes == 4000 && w.Exact, "%+v", w)
	}
	for _, transfer := range r.Transfers {
		must.True(t, transfer.OK && (transfer.Goodput != 0 || strings.Contains(transfer.Detail, "kept arriving")), "%+v", transfer)
	}
	must.Equal(t, p.mtus(), "4000 4000")
	w := apptest.Events[app.Watching](p.Person)
	must.True(t, len(w) == 2 && w[0].Risky, "told %+v", w)
}

// TestBlackHole: larger packets vanish on the path, and the MTU is rolled back with the size
// that passes.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rate=1gbit,rtt=1ms,pathmtu=1500", true)
	p.Answer = yes
	r, err := p.do(t.Context(), minute, model.Assignment{Knob: mtuKnob, Value: "4000"})
	must.Need(t, err != nil && r.Outcome == Undone && len(p.Asked()) == 0, "%+v, %v", r, err)
	must.True(t, len(r.Paths) == 2 && r.Paths[0].Passes == 1500 && !r.Paths[0].Reported && strings.Contains(fault.HintOf(err), "link.mtu=1500 fits"),
		"%+v, hint %q", r.Paths, fault.HintOf(err))
	must.Equal(t, p.mtus(), "1500 1500")
}

// TestLargerOnOneSide changes one end's MTU: the report says that the other end's is smaller,
// and larger packets do not arrive.
func TestLargerOnOneSide(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rate=1gbit,rtt=1ms", false)
	p.Answer = yes
	r, err := p.do(t.Context(), minute, model.Assignment{Knob: mtuKnob, Value: "4000"})
	must.Len(t, apptest.Events[app.OtherMTU](p.Person), 1, "told")
	must.True(t, err != nil && r.Outcome == Undone && strings.Contains(fault.HintOf(err), "--both changes both ends") && p.mtus() == "1500 1500", "%+v, %v, hint %q, %s", r, err, fault.HintOf(err), p.mtus())
}

// TestWorkAroundWithoutARouter: without a router there is nothing to work around, and the
// error has the first cause and the reason.
func TestWorkAroundWithoutARouter(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rate=1gbit,rtt=1ms", true)
	c, _ := planned(p.hosts.Near, p.hosts.Far, model.Assignment{Knob: "tcp.sack", Value: "0"})
	c.Env, c.hosts.State = p.env, p.hosts.State
	c.Request = Request{Around: true, Within: minute}
	c.outcome = Undone
	c.lost = []lostCanary{{end: c.ends[0]}}
	c.lost[0].path.Host, c.lost[0].path.Address, c.lost[0].path.Passes = "a", p.lab.Addr(model.Near).String(), 1400
	must.Need(t, c.canGoAround(), "not tried")
	old := p.hosts.Far.Client
	p.Answer = yes
	err := c.goAround(t.Context(), errors.New("the first cause"))
	must.True(t, p.hosts.Far.Client != old, "the host got no new session")
	switch {
	case err == nil && c.outcome == Confirmed: // probing helps if the kernel supports it
		got := apptest.Events[app.Around](p.Person)
		must.True(t, len(got) == 1 && got[0].Setting.Knob == probingKnob && p.sysctl(model.Far, "tcp_mtu_probing") == "1", "told %+v", got)
	case err == nil || !strings.Contains(err.Error(), "the first cause; no work-around: "):
		t.Errorf("%s, %v", c.outcome, err)
	}
	must.True(t, !c.canGoAround(), "tried twice")
}

// TestConfirmationFails has one of two hosts fail at each point of confirming a change: then
// neither host keeps it.
func TestConfirmationFails(t *testing.T) {
	t.Parallel()
	for _, at := range []model.Host{model.Far, model.Near} {
		for _, point := range []string{"question lost", "answer lost", "watchdog killed", "watchdog killed when it has heard"} {
			t.Run(string(at)+" "+point, func(t *testing.T) {
				t.Parallel()
				p := newPair(t, "lan", true)
				p.Answer = yes
				noted := false
				p.writing = func(side model.Host, n int, c *line, b []byte) error {
					if n != 2 || !p.confirming(side, b) {
						return nil
					}
					if _, err := os.Stat(filepath.Join(p.hosts.State, PairNoteName)); err == nil {
						noted = true
					}
					switch {
					case side != at:
					case point == "question lost":
						return net.ErrClosed
					case point == "answer lost":
						c.deaf.Store(true)
					case point == "watchdog killed":
						p.kill(side, killNow)
						p.dead(side)
						p.undone(side)
					default:
						p.kill(side, "see confirmation")
					}
					return nil
				}
				r, err := p.do(t.Context(), minute)
				if point == "watchdog killed when it has heard" { // the watchdog's record counts
					must.True(t, err == nil && r.Outcome == Confirmed && p.sacks() == "00", "%+v, %v, %s", r, err, p.sacks())
					return
				}
				must.True(t, err != nil && r.Outcome == Undone && strings.Contains(err.Error(), "all settings are back") && noted,
					"%+v, noted %v, %v", r, noted, err)
				for _, h := range r.Hosts {
					must.True(t, len(h.Changes) == 1 && h.Changes[0].State == model.ChangeUndone, "%s: %+v", h.Name, h.Changes)
				}
				must.Equal(t, p.sacks(), "11", "afterwards")
				must.Is(t, must.Err(os.Stat(filepath.Join(p.hosts.State, PairNoteName))), fs.ErrNotExist, "the note")
			})
		}
	}
}

// TestFirstHostKeepsItAlone: if the second host fails and the first cannot be reached any
// more, the first keeps the change, and the error says so.
func TestFirstHostKeepsItAlone(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = yes
	failed := false
	p.writing = func(side model.Host, n int, _ *line, b []byte) error {
		if side == model.Near && n == 2 && p.confirming(side, b) {
			failed = true
			return net.ErrClosed
		}
		if failed && side == model.Far { // also the last message of the session before
			return net.ErrClosed
		}
		return nil
	}
	r, err := p.do(t.Context(), minute)
	must.True(t, r.Outcome == StillOpen && fault.KindOf(err) == fault.NotUndone && strings.Contains(err.Error(), "not undone: tcp.sack on the far host") && fault.HintOf(err) == "run linerate undo on that host", "%+v, kind %d, %v", r, fault.KindOf(err), err)
	must.Equal(t, p.sacks(), "10", "the far host alone was told to keep it")
	p.writing = nil
	fresh := must.Get(p.env.Again(t.Context(), p.hosts.Far))(t)
	defer p.env.HangUp(fresh)
	if changes, err := fresh.Revert(t.Context(), ""); err != nil || len(changes) != 1 || p.sacks() != "11" {
		t.Errorf("undo: %+v, %v, %s", changes, err, p.sacks())
	}
}

// TestEarlierConfirmationsStay: earlier confirmed changes stay if a later one is rolled back
// on the host that confirmed first.
func TestEarlierConfirmationsStay(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = yes
	if r, err := p.do(t.Context(), minute, model.Assignment{Knob: "tcp.timestamps", Value: "0"}); err != nil || r.Outcome != Confirmed {
		t.Fatalf("%+v, %v", r, err)
	}
	p.writing = func(side model.Host, n int, _ *line, b []byte) error {
		if side == model.Near && n > 2 && p.confirming(side, b) {
			return net.ErrClosed
		}
		return nil
	}
	r, err := p.do(t.Context(), minute)
	must.True(t, err != nil && r.Outcome == Undone && p.sacks() == "11", "%+v, %v, %s", r, err, p.sacks())
	a, b := p.sysctl(model.Near, "tcp_timestamps"), p.sysctl(model.Far, "tcp_timestamps")
	must.True(t, a+b == "00", "the earlier change: %s and %s", a, b)
}

// TestNoteOfAHalfConfirmation: a process that is killed after one host has confirmed leaves a
// note, and the next change reports what is left.
func TestNoteOfAHalfConfirmation(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = yes
	note := filepath.Join(p.hosts.State, PairNoteName)
	var text []byte
	p.writing = func(side model.Host, n int, _ *line, b []byte) error {
		if side == model.Near && n == 2 && p.confirming(side, b) {
			text, _ = os.ReadFile(note)
		}
		return nil
	}
	r, err := p.do(t.Context(), minute)
	must.Need(t, err == nil && r.Outcome == Confirmed && len(text) != 0, "%+v, %v, note %q", r, err, text)
	p.writing = nil
	// as if this process had been killed then: the near host rolls back
	must.Do(t, os.WriteFile(note, text, 0o600))
	p.again()
	must.Get(p.hosts.Near.Client.Revert(t.Context(), ""))(t)
	p.again()
	p.Answer = no
	r, err = p.do(t.Context(), minute, model.Assignment{Knob: "tcp.timestamps", Value: "0"})
	must.True(t, err == nil && r.Outcome == Undone, "%+v, %v", r, err)
	got := apptest.Events[app.PartlyKept](p.Person)
	must.True(t, len(got) == 1 && got[0].Far == "far" && len(got[0].Holds) == 1 && got[0].Holds[0].Knob == "tcp.sack", "told %+v", got)
	must.Is(t, must.Err(os.Stat(note)), fs.ErrNotExist, "the note is left")
}

// TestNoteCannotBeWritten: without the note no host is asked to confirm.
func TestNoteCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = yes
	p.hosts.State = filepath.Join(p.dir, "nowhere", "at", "all")
	must.Do(t, os.WriteFile(filepath.Join(p.dir, "nowhere"), nil, 0o600))
	r, err := p.do(t.Context(), minute)
	must.True(t, err != nil && r.Outcome == Undone && p.sacks() == "11", "%+v, %v, %s", r, err, p.sacks())
}
