package change

import (
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// TestHeldUntilTheHostsSayItIsOver has this process ask a host whether it holds the
// change when its time is over there already, as on a busy machine: the hosts count
// from a little before it does. That is the end that was announced and no failure.
func TestHeldUntilTheHostsSayItIsOver(t *testing.T) {
	t.Parallel()
	const within = 2 * time.Second
	for name, answer := range map[string]struct {
		both    bool
		person  bool
		setting bool // it is late before the second host is set: the time to decide has not begun
	}{"nobody there": {}, "nobody there, both hosts": {both: true}, "a person who says nothing": {person: true}, "set late": {both: true, setting: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "lan", answer.both)
			if answer.person {
				p.Answer = silent
			}
			late := make(map[model.Host]bool)
			due := func(side model.Host) bool {
				if !answer.setting {
					return len(p.Asked()) > 0
				}
				records, _, err := journal.Read(p.state(side.Other()))
				return err == nil && len(journal.OpenIntents(records)) > 0
			}
			p.writing = func(side model.Host, n int, _ *line, _ []byte) error {
				if n == 1 && !late[side] && due(side) {
					late[side] = true
					time.Sleep(within + 300*time.Millisecond) // the fault: what is asked arrives late
				}
				return nil
			}
			r, err := p.do(t.Context(), within)
			if answer.person {
				must.Say(t, err, "nobody confirmed within 2 s: all settings are back", "%+v", r)
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
