package experiment

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/must"
)

// bench is a desk that holds what groups share, and fails where something else is
// measured than what a run says it shares.
type bench struct {
	desk
	holds    []model.Assignment
	switches int // of what groups share
	released int
}

func (b *bench) Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	if b.holds == nil || !slices.Equal(b.holds, s.Held) {
		if b.holds != nil {
			b.t.Errorf("run %d of %v while %v is held", s.Number, s.Held, b.holds)
		}
		b.switches++
	}
	b.holds = nil
	r, changes, err := b.desk.Run(ctx, s, emit)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil && s.Hold > 0 {
		b.holds, changes = s.Held, nil
	}
	return r, changes, err
}

func (b *bench) Release(context.Context) ([]model.Change, error) {
	if b.holds == nil {
		return nil, nil
	}
	b.holds = nil
	b.released++
	return []model.Change{{State: model.ChangeUndone}}, nil
}

// heldPlan is a plan of two MTUs of the far host, which are held, and three windows.
func heldPlan(t *testing.T, blocks int, directions ...model.Direction) model.Plan {
	t.Helper()
	o := plan.Request{Plan: model.Plan{Held: "link.mtu", Mode: model.FixedBlocks, MaxBlocks: blocks, Seed: 1, Cooldown: 2 * time.Second,
		Directions: directions, Flow: model.Flow{Engine: "test", Direction: model.To, Duration: time.Second}}, Null: plan.NullNone}
	o.Settings = plantest.Settings(plantest.Factor("far.link.mtu", "1500", "3000"), plantest.Factor("window", "1", "2", "3"))
	return must.Get(plan.New(o))(t)
}

// A knob that is held is changed once for each of its values in a block, whatever else
// changes, in every direction; a person may pause between groups only.
func TestGroupsChangeWhatTheyHoldOnce(t *testing.T) {
	for _, directions := range [][]model.Direction{{model.To}, {model.To, model.From}} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{desk: desk{t: t}}
			c := b.config(heldPlan(t, 7, directions...))
			c.Runner = b
			pauses := 0
			c.Between = func(context.Context) error {
				must.True(t, b.holds == nil, "a pause while %v is held", b.holds)
				pauses++
				return nil
			}
			out := must.Get(Run(t.Context(), c))(t)
			must.Need(t, out.State == model.SessionDone && len(out.Runs) == 7*6*len(directions), "%d runs, %s", len(out.Runs), out.State)
			must.True(t, b.switches == 14 && pauses == 14 && b.released == 0 && b.holds == nil,
				"%d switches, %d pauses, %d released, %v held", b.switches, pauses, b.released, b.holds)
		})
	}
}

// Whatever ends a group early releases what it holds, and tells of it.
func TestGroupThatEndsEarlyIsReleased(t *testing.T) {
	full := errors.New("no space left")
	for name, c := range map[string]struct {
		record func(b *bench, stop func()) error
		want   error
	}{
		"the store is full":           {func(*bench, func()) error { return full }, full},
		"the user stops after a run":  {func(_ *bench, stop func()) error { stop(); return nil }, context.Canceled},
		"the user stops in cool-down": {func(_ *bench, stop func()) error { time.AfterFunc(time.Second, stop); return nil }, context.Canceled},
		"the user stops in a run":     {func(_ *bench, stop func()) error { time.AfterFunc(2500*time.Millisecond, stop); return nil }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				b := &bench{desk: desk{t: t}}
				var told []model.Change
				config := Config{Plan: heldPlan(t, 7), Runner: b, Now: time.Now,
					Record:   func(context.Context, model.Run, []model.Sample, []model.Change) error { return c.record(b, stop) },
					Released: func(_ context.Context, c []model.Change) error { told = append(told, c...); return nil }}
				out, err := Run(ctx, config)
				if !errors.Is(err, c.want) || b.holds != nil || b.released != len(told) {
					t.Errorf("%v; %v is held, %d released, told %v", err, b.holds, b.released, told)
				}
				inRun := name == "the user stops in a run"
				must.True(t, b.released == 1 != inRun && len(out.Changes) == 1, "%d released, changes %v", b.released, out.Changes)
			})
		})
	}
}

// A run of a group that is invalid ends its block, which is repeated from its start.
func TestInvalidRunOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{desk: desk{t: t}}
		failed := false
		b.script = func(s runner.Spec) (model.RunState, error) {
			if s.Block == 2 && s.Position == 2 && !failed {
				failed = true
				return model.RunInvalid, runner.ErrInvalid
			}
			return model.RunValid, nil
		}
		c := b.config(heldPlan(t, 7))
		c.Runner = b
		out, err := Run(t.Context(), c)
		if err != nil || len(out.Runs) != 7*6+2 || b.switches != 14+1 || b.holds != nil {
			t.Errorf("%d runs, %d switches, %v held, %v", len(out.Runs), b.switches, b.holds, err)
		}
	})
}
