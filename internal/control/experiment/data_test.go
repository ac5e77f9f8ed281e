package experiment

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// TestDataBudget: the block in which the budget is reached is the last one, whole, and
// the reason names both numbers. What was sent before an interruption counts.
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
