package experiment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// fullPath is a runner over a path of 100 Mbit/s with a deep queue: a flow that fills it
// waits 80 ms, one that does not 10 ms.
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

// TestEqualLoadFollowsItsBlock holds that a candidate which fills the path runs once more
// at the baseline's rate in each block, until its guard has spoken, and is decided by that.
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
