package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

func acrossPlan(t *testing.T) model.Plan {
	t.Helper()
	var settings []model.Setting
	for _, name := range []string{"slow", "fast", "same"} {
		settings = append(settings, model.Setting{Name: name, Assignments: []model.Assignment{{Knob: model.FarEnd, Value: name}}})
	}
	p, err := plan.New(plan.Request{Plan: model.Plan{
		Settings: settings, Mode: model.FixedBlocks, MaxBlocks: 8, Seed: 5, Settle: -1,
		Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second},
	}, Null: plan.NullNone})
	must.Do(t, err)
	return p
}

// TestLostFarEndLeaves: a far end that goes away for good spoils three blocks at most,
// which are repeated; then the blocks that remain go on without it, in the order that was
// drawn, and the others are decided. What was measured with it before still counts.
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
		lost := 0
		for _, r := range out.Runs {
			if r.LostContact {
				lost++
			}
		}
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

// TestFarEndThatComesBack stays in the plan.
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
