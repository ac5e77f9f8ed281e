package trial_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/trial"
	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/store"
	"linerate/internal/store/sqlite"
)

// TestHostLost loses the far host in a run: the block is repeated over a new session, and the
// settings are restored.
func TestHostLost(t *testing.T) {
	s := newStand(t)
	s.person.On = once(func(app.Sampled) { s.Cut(model.Far) })
	got := must.Get(s.trial(s.store, design(t, 1, shortFlow(), settings()...)).Run(t.Context()))(t)
	must.Need(t, got.State == model.SessionDone, "%s %q", got.State, got.Reason)
	must.True(t, got.Runs[0].LostContact && got.Runs[0].State == model.RunInvalid && s.Dials(model.Far) == 2 && s.Dials(model.Near) == 2, "first run %s, %d and %d ways to the hosts", got.Runs[0].State, s.Dials(model.Near), s.Dials(model.Far))
	told := kinds(s.person.Events())
	must.True(t, slices.Contains(told, "Reconnecting"), "told %v", told)
	s.over(got)
}

// TestHostLostForGood: the host never answers again.
func TestHostLostForGood(t *testing.T) {
	s := newStand(t)
	s.env.Timeout = time.Millisecond
	refused := fault.WithKind(fault.Unreachable, errors.New("no route to host"))
	s.Dialing = func(h model.Host, n int) error {
		if h == model.Far && n > 1 {
			return refused
		}
		return nil
	}
	s.person.On = once(func(app.Sampled) { s.Cut(model.Far) })
	got, err := s.trial(s.store, design(t, 1, shortFlow(), model.Setting{Name: "current"}, settings()[1])).Run(t.Context())
	must.True(t, got.State == model.SessionInterrupted && strings.Contains(got.Reason, "run 1: ") && strings.Contains(got.Reason, "no route to host"),
		"%s %q", got.State, got.Reason)
	must.True(t, len(apptest.Events[app.TrialEnded](s.person)) == 1 && errors.Is(err, refused), "%v", err)
	s.over(got)
}

// TestWhatBecameOfSettings: the undo of a lost host was not seen. The value that it holds
// afterwards shows the outcome.
func TestWhatBecameOfSettings(t *testing.T) {
	for name, c := range map[string]struct {
		holds string // of link.mtu at the far host afterwards
		state model.ChangeState
		kind  fault.Kind
		fails bool
	}{
		"back":      {holds: "1500", state: model.ChangeUndone},
		"still":     {holds: "9000", state: model.ChangeApplied, kind: fault.NotUndone, fails: true},
		"different": {holds: "4000", state: model.ChangeForeign},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			lost := false
			s.person.On = func(e app.Event) {
				r, ok := e.(app.Sampled)
				if !ok || lost || r.Setting != "big" {
					return
				}
				lost = true
				values := agenttest.Values()
				values["link.mtu"] = c.holds
				s.Replace(model.Far, values)
				s.Cut(model.Far)
			}
			got, err := s.trial(s.store, design(t, 1, shortFlow(), settings()...)).Run(t.Context())
			must.Need(t, (err != nil) == c.fails && (err == nil || fault.KindOf(err) == c.kind), "%v", err)
			must.True(t, !c.fails || fault.HintOf(err) != "" && strings.Contains(err.Error(), "link.mtu on the far host"), "%v, hint %q", err, fault.HintOf(err))
			i := slices.IndexFunc(got.Changes, func(ch model.Change) bool { return ch.Knob == "link.mtu" })
			must.True(t, i >= 0 && got.Changes[i].State == c.state && got.Changes[i].Detail != "", "%+v", got.Changes)
			s.stored(got)
		})
	}
}

// TestSettledAtTheReconnect: the outcome of a change is read as soon as its host answers
// again, before later runs or other programs overwrite it.
func TestSettledAtTheReconnect(t *testing.T) {
	s := newStand(t)
	lost := false
	s.person.On = func(e app.Event) {
		switch r := e.(type) {
		case app.Sampled:
			if !lost && r.Setting == "big" {
				lost = true
				s.Replace(model.Far, agenttest.Values())
				s.Cut(model.Far)
			}
		case app.BlockEnded: // the last one
			must.OK(t, must.Err(s.Knobs(model.Far).Apply(t.Context(), []model.Assignment{{Knob: "link.mtu", Value: "4000"}}, time.Minute)))
		}
	}
	got, err := s.trial(s.store, design(t, 1, shortFlow(), settings()...)).Run(t.Context())
	i := slices.IndexFunc(got.Changes, func(ch model.Change) bool { return ch.Knob == "link.mtu" })
	must.True(t, err == nil && i >= 0 && got.Changes[i].State == model.ChangeUndone && strings.Contains(got.Changes[i].Detail, "holds the old value"),
		"%+v, %v", got.Changes, err)
}

// full is a store whose disk is full after that many runs.
type full struct {
	*sqlite.Store
	runs int
}

func (f *full) AddRun(ctx context.Context, id string, r model.Run, s []model.Sample, c []model.Change) error {
	if f.runs--; f.runs < 0 {
		return fmt.Errorf("write: %w", store.ErrFull)
	}
	return f.Store.AddRun(ctx, id, r, s, c)
}

// TestStoreFull ends an experiment whose results cannot be stored.
func TestStoreFull(t *testing.T) {
	s := newStand(t)
	got, err := s.trial(&full{s.store, 1}, design(t, 2, shortFlow(), settings()...)).Run(t.Context())
	must.True(t, fault.KindOf(err) == fault.Store && errors.Is(err, store.ErrFull) && got.State == model.SessionInterrupted && len(got.Runs) == 2,
		"%s, %d runs, %v", got.State, len(got.Runs), err)
	s.ends.Close()
	s.Untouched()
}

// unsure is a host whose settings do not read back as written from some time on.
type unsure struct {
	*agenttest.Knobs
	begun *atomic.Bool
}

func (u unsure) Verify(ctx context.Context) error {
	if u.begun.Load() {
		return errors.New("reads back as something else")
	}
	return u.Knobs.Verify(ctx)
}

// TestPlanRefused: if the hosts refuse one setting of a plan, nothing is measured or stored,
// and the error names each refused setting.
func TestPlanRefused(t *testing.T) {
	s := newStand(t)
	s.ends.Close()
	knobs := map[model.Host]*agenttest.Knobs{model.Near: s.Knobs(model.Near), model.Far: s.Knobs(model.Far)}
	var begun atomic.Bool
	begun.Store(true)
	s.Configure = func(h model.Host, _ int, c *agent.Config) { c.Knobs = unsure{knobs[h], &begun} }
	s.open()
	got, err := s.trial(s.store, design(t, 1, shortFlow(), settings()...)).Run(t.Context())
	must.True(t, err != nil && strings.Contains(err.Error(), "big cannot be applied") && strings.Contains(fault.HintOf(err), "nothing was measured") && len(got.Runs) == 0, "%d runs, %v", len(got.Runs), err)
	must.Is(t, must.Err(s.store.Session(t.Context(), got.ID)), store.ErrNotFound, "stored")
	s.ends.Close()
	s.Untouched()
}

// TestNothingMeasured: a session without a valid run must not be used.
func TestNothingMeasured(t *testing.T) {
	s := newStand(t)
	s.ends.Close()
	knobs := map[model.Host]*agenttest.Knobs{model.Near: s.Knobs(model.Near), model.Far: s.Knobs(model.Far)}
	var begun atomic.Bool
	s.person.On = once(func(app.TrialBegan) { begun.Store(true) })
	s.Configure = func(h model.Host, _ int, c *agent.Config) { c.Knobs = unsure{knobs[h], &begun} }
	s.open()
	all := settings()
	all[0].Assignments = all[1].Assignments[:1]
	got, err := s.trial(s.store, design(t, 1, shortFlow(), all...)).Run(t.Context())
	must.True(t, fault.KindOf(err) == fault.Untrusted && fault.HintOf(err) != "" && strings.Contains(err.Error(), "nothing was measured") && !trial.Measured(got) && got.State == model.SessionFailed, "%s, %v", got.State, err)
	s.over(got)
}

// TestHalfMeasured: a test of two directions of which only one could be measured shows that
// one, and fails.
func TestHalfMeasured(t *testing.T) {
	s := newStand(t)
	s.person.On = func(e app.Event) {
		if r, ok := e.(app.Sampled); ok && r.Direction == model.From {
			s.Cut(model.Far)
		}
	}
	plan := trial.Repeated(shortFlow(), []model.Direction{model.To, model.From}, 1)
	plan.Seed = 1 // to before from: the block ends once contact was lost
	test := s.trial(s.store, plan)
	test.Session.Kind = model.KindTest
	got, err := test.Run(t.Context())
	must.True(t, fault.KindOf(err) == fault.Untrusted && fault.HintOf(err) != "" && strings.Contains(err.Error(), "direction from was never measured: "),
		"%s, %v", got.State, err)
	for _, r := range report.Counted(got.Runs) {
		must.Equal(t, r.Flow.Direction, model.To, "counts")
	}
	must.True(t, len(report.Counted(got.Runs)) != 0, "none of %d runs counts", len(got.Runs))
	s.over(got)
}

// TestEngineRefuses ends an experiment that no host can prepare.
func TestEngineRefuses(t *testing.T) {
	s := newStand(t)
	flow := shortFlow()
	flow.Engine = "refusing"
	got, err := s.trial(s.store, design(t, 1, flow, settings()...)).Run(t.Context())
	must.True(t, err != nil && strings.Contains(err.Error(), "never opens anything") && got.State == model.SessionFailed && len(apptest.Events[app.TrialEnded](s.person)) == 1, "%s, %v", got.State, err)
	s.over(got)
}
