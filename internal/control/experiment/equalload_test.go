package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// fullPath is a runner over a path of 100 Mbit/s with a deep queue: a flow that fills it waits
// 80 ms, any other 10 ms.
type fullPath struct {
	*desk
	fail  bool // runs at equal load
	specs []runner.Spec
}

func (f *fullPath) Run(_ context.Context, s runner.Spec, _ func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	f.specs = append(f.specs, s)
	rate := map[string]float64{"slow": 14e6, "slow (twin)": 14e6, "fast": 94e6}[s.Setting.Name]
	p, err := traffic.Read[bulk.Params](probes.Load(s.Flow).Params)
	if err != nil {
		return model.Run{}, nil, err
	}
	if p.Rate > 0 {
		rate = min(rate, float64(p.Rate))
	}
	latency := 0.010 + 0.0001*float64(s.Block%3)
	if rate > 90e6 {
		latency = 0.080
	}
	r := model.Run{
		Number: s.Number, Block: s.Block, Attempt: s.Attempt, Position: s.Position, Setting: s.Setting.Name, Flow: s.Flow,
		State: model.RunValid, Started: time.Now(), Ended: time.Now().Add(time.Second),
		Values: []model.Value{
			{Direction: s.Flow.Direction, Metric: model.Goodput, Value: rate * (1 + 0.001*float64(s.Block%5))},
			{Direction: s.Flow.Direction, Metric: model.LatencyP99, Value: latency},
		},
		Ends: []model.EndReport{{Flows: []model.FlowReport{{Direction: s.Flow.Direction, Bytes: 1e6, Window: time.Second}}}},
	}
	if s.EqualLoad {
		r.State = model.RunEqualLoad
		if f.fail {
			r.Values, r.Reason = nil, "the far end is busy"
			return r, nil, errors.Join(runner.ErrInvalid, errors.New(r.Reason))
		}
	}
	return r, nil, nil
}

// TestEqualLoadFollowsItsBlock: a candidate that fills the path runs once more at the baseline's
// rate in each block, until its guard is decided, and that decides the candidate.
func TestEqualLoadFollowsItsBlock(t *testing.T) {
	for name, fail := range map[string]bool{"measured": false, "each such run fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fullPath{desk: &desk{t: t}, fail: fail}
				p := testPlan(t, plan.Request{Plan: model.Plan{MaxBlocks: 12}}, "slow", "fast")
				p.Flow = probes.Over(model.Flow{Engine: bulk.Name, Direction: model.To, Duration: time.Second})
				p.Objective, p.Guards = model.Goodput, []model.Guard{{Metric: model.LatencyP99, Margin: 50}}
				c := f.config(p)
				c.Runner = f
				c.Record = func(context.Context, model.Run, []model.Sample, []model.Change) error { return nil }
				out := must.Get(Run(t.Context(), c))(t)
				must.Need(t, out.State == model.SessionDone, "Run = %s", out.State)
				paced := 0
				for i, s := range f.specs {
					if !s.EqualLoad {
						continue
					}
					paced++
					load, err := traffic.Read[bulk.Params](probes.Load(s.Flow).Params)
					must.True(t, err == nil && s.Setting.Name == "fast" && !(load.Rate < units.BitRate(14e6)) && !(load.Rate > units.BitRate(14.1e6)), "run %d: %s at %v, %v; want fast at the baseline's 14 Mbit/s", s.Number, s.Setting.Name, load.Rate, err)
					must.True(t, i+1 >= len(f.specs) || f.specs[i+1].Block != s.Block, "run %d is not the last of block %d", s.Number, s.Block)
					must.True(t, s.Block > p.NullBlocks, "a pair of the baseline ran at equal load")
				}
				must.Need(t, paced != 0, "no run at equal load")
				for _, v := range out.Result.Verdicts {
					want := map[bool]model.GuardState{false: model.GuardHolds, true: model.GuardUnmeasured}[fail]
					must.True(t, v.Guard == nil || v.Guard.State == want, "guard %s: %+v, want %s", v.Metric, v.Guard, want)
				}
			})
		})
	}
}

func acrossPlan(t *testing.T) model.Plan {
	t.Helper()
	settings := lists.Each([]string{"slow", "fast", "same"}, func(name string) model.Setting {
		return model.Setting{Name: name, Assignments: []model.Assignment{{Knob: model.FarEnd, Value: name}}}
	})
	p := must.Get(plan.New(plan.Request{Plan: model.Plan{
		Settings: settings, Mode: model.FixedBlocks, MaxBlocks: 8, Seed: 5, Settle: -1,
		Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second},
	}, Null: plan.NullNone}))(t)
	return p
}

// TestLostFarEndLeaves: a far end that goes away for good spoils three blocks at most, which are
// repeated; then the remaining blocks go on without it, in the drawn order, and the others are
// decided. Its earlier measurements still count.
func TestLostFarEndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := acrossPlan(t)
		d := &desk{t: t, script: func(s runner.Spec) (model.RunState, error) {
			if s.Setting.Name == "same" && s.Block > 3 {
				return model.RunInvalid, fmt.Errorf("%w: no route to host", runner.ErrContact)
			}
			return model.RunValid, nil
		}}
		var kept model.Plan
		var said string
		reconnected := 0
		out, err := Run(context.Background(), Config{
			Plan: p, Runner: d, Record: d.record, Now: time.Now,
			Reconnect: func(context.Context) (Runner, error) { reconnected++; return d, nil },
			Left: func(_ context.Context, p model.Plan, end, why string) error {
				kept, said = p, end+": "+why
				return nil
			},
		})
		must.Need(t, err == nil && out.State == model.SessionDone && reconnected == 3 && strings.Contains(said, "same: ") && strings.Contains(said, "no route"), "%v, %s (%s), %d new connections, %q", err, out.State, out.Reason, reconnected, said)
		lost := lists.Count(out.Runs, func(r model.Run) bool { return r.LostContact })
		blocks := map[string]int{}
		for _, v := range out.Result.Verdicts {
			if v.Metric == model.Goodput {
				blocks[v.Setting] = v.Blocks
			}
		}
		must.True(t, lost == 3 && blocks["fast"] == 8 && blocks["same"] == 3, "%d runs lost; blocks that count: %v", lost, blocks)
		for i, names := range kept.Order {
			want := slices.DeleteFunc(slices.Clone(p.Order[i]), func(n string) bool { return i >= 3 && n == "same" })
			must.True(t, slices.Equal(names, want), "block %d: %v, want %v", i+1, names, want)
		}
	})
}

// TestFarEndThatComesBack: it stays in the plan.
func TestFarEndThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, tries := acrossPlan(t), 0
		d := &desk{t: t, script: func(s runner.Spec) (model.RunState, error) {
			if s.Setting.Name == "same" {
				if tries++; tries < 6 && tries%3 != 0 {
					return model.RunInvalid, fmt.Errorf("%w: for a moment", runner.ErrContact)
				}
			}
			return model.RunValid, nil
		}}
		out, err := Run(context.Background(), Config{
			Plan: p, Runner: d, Record: d.record, Now: time.Now,
			Reconnect: func(context.Context) (Runner, error) { return d, nil },
			Left:      func(context.Context, model.Plan, string, string) error { t.Error("it was left out"); return nil },
		})
		must.True(t, err == nil && out.Result.Blocks == 8, "%v, %d blocks", err, out.Result.Blocks)
	})
}

// bench is a desk that holds what groups share. It fails the test if a run is measured with
// anything else than what it shares.
type bench struct {
	desk
	holds    []model.Assignment
	switches int // of the shared assignments
	released int
}

func (b *bench) Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	if b.holds == nil || !slices.Equal(b.holds, s.Held) {
		must.True(b.t, b.holds == nil, "run %d of %v while %v is held", s.Number, s.Held, b.holds)
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

// heldPlan returns a plan with two MTUs of the far host, which are held, and three windows.
func heldPlan(t *testing.T, blocks int, directions ...model.Direction) model.Plan {
	t.Helper()
	o := plan.Request{Plan: model.Plan{Held: "link.mtu", Mode: model.FixedBlocks, MaxBlocks: blocks, Seed: 1, Cooldown: 2 * time.Second,
		Directions: directions, Flow: model.Flow{Engine: "test", Direction: model.To, Duration: time.Second}}, Null: plan.NullNone}
	o.Settings = plantest.Settings(plantest.Factor("far.link.mtu", "1500", "3000"), plantest.Factor("window", "1", "2", "3"))
	return must.Get(plan.New(o))(t)
}

// A held knob is changed once for each of its values in a block, whatever else changes, in every
// direction; a person may pause only between groups.
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

// However a group ends early, it releases what it holds, and reports that.
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
				must.True(t, errors.Is(err, c.want) && b.holds == nil && b.released == len(told), "%v; %v is held, %d released, told %v", err, b.holds, b.released, told)
				inRun := name == "the user stops in a run"
				must.True(t, b.released == 1 != inRun && len(out.Changes) == 1, "%d released, changes %v", b.released, out.Changes)
			})
		})
	}
}

// An invalid run of a group ends its block, which is repeated from the start.
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
		must.True(t, err == nil && len(out.Runs) == 7*6+2 && b.switches == 14+1 && b.holds == nil, "%d runs, %d switches, %v held, %v", len(out.Runs), b.switches, b.holds, err)
	})
}

// TestDataBudget: the block in which the budget is reached is completed and is the last one; the
// reason names both numbers. Data sent before an interruption counts.
func TestDataBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 8, Data: 5e6}, Null: plan.NullNone}, "slow", "fast")
		d := &desk{t: t}
		out, err := Run(t.Context(), Config{Plan: p, Runner: d, Record: d.record, Now: time.Now})
		must.True(t, err == nil && len(out.Runs) == 6 && out.State == model.SessionDone && strings.Contains(out.Reason, "data budget of 5 MB is spent: 6 MB were sent"), "%d runs, %s, %q, %v", len(out.Runs), out.State, out.Reason, err)
		out, err = Run(t.Context(), Config{Plan: p, Past: out.Runs[:4], Runner: d, Record: d.record, Now: time.Now})
		must.True(t, err == nil && len(out.Runs) == 6, "gone on: %d runs, %q, %v", len(out.Runs), out.Reason, err)
	})
}
