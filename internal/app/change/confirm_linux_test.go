package change

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// TestConfirmationFails has one of two hosts fail at each point of being told to
// keep a change: the other one keeps it no more than this one.
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
				if point == "watchdog killed when it has heard" { // what it has written down counts
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

// TestFirstHostKeepsItAlone: where the second host fails and the first one cannot
// be told any more, that one keeps the change, and it is said who.
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
		if failed && side == model.Far { // also what the session before it says at its end
			return net.ErrClosed
		}
		return nil
	}
	r, err := p.do(t.Context(), minute)
	must.True(t, r.Outcome == StillOpen && fault.KindOf(err) == fault.NotUndone && strings.Contains(err.Error(), "not undone: tcp.sack on the far host") && fault.HintOf(err) == "run linerate undo on that host", "%+v, kind %d, %v", r, fault.KindOf(err), err)
	got := p.sacks()
	must.True(t, got == "10", "%s: the far host alone was told to keep it", got)
	p.writing = nil
	fresh := must.Get(p.env.Again(t.Context(), p.hosts.Far))(t)
	defer p.env.HangUp(fresh)
	if changes, err := fresh.Revert(t.Context(), ""); err != nil || len(changes) != 1 || p.sacks() != "11" {
		t.Errorf("undo: %+v, %v, %s", changes, err, p.sacks())
	}
}

// TestEarlierConfirmationsStay: what was confirmed before is kept when a later
// change is taken back on the host that was told first.
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

// TestNoteOfAHalfConfirmation: a process that is killed when one host was told
// leaves a note, and the next change tells what is left.
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
	// As if this process had been killed then: the near host goes back.
	must.Do(t, os.WriteFile(note, text, 0o600))
	p.again()
	must.Get(p.hosts.Near.Client.Revert(t.Context(), ""))(t)
	p.again()
	p.Answer = no
	if r, err := p.do(t.Context(), minute, model.Assignment{Knob: "tcp.timestamps", Value: "0"}); err != nil || r.Outcome != Undone {
		t.Errorf("%+v, %v", r, err)
	}
	got := apptest.Told[app.PartlyKept](p.Person)
	must.True(t, len(got) == 1 && got[0].Far == "far" && len(got[0].Holds) == 1 && got[0].Holds[0].Knob == "tcp.sack", "told %+v", got)
	must.Is(t, must.Err(os.Stat(note)), fs.ErrNotExist, "the note is left")
}

// TestNoteCannotBeWritten: without the note nobody is told to keep the change.
func TestNoteCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = yes
	p.hosts.State = filepath.Join(p.dir, "nowhere", "at", "all")
	must.Do(t, os.WriteFile(filepath.Join(p.dir, "nowhere"), nil, 0o600))
	r, err := p.do(t.Context(), minute)
	must.True(t, err != nil && r.Outcome == Undone && p.sacks() == "11", "%+v, %v, %s", r, err, p.sacks())
}
