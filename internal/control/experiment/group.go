package experiment

import (
	"context"
	"errors"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
)

// recordTime is how long storing a run may take while its setting is held for the next.
const recordTime = 30 * time.Second

// groupOf returns the group of the i-th setting of a block, from 1; 0 if the plan holds nothing
// on a host.
func groupOf(p model.Plan, block, i int) int {
	name := p.Order[block-1][i]
	if s, _ := p.Setting(name); block <= p.NullBlocks || len(heldBy(p, slot{setting: s, group: 1})) == 0 {
		return 0
	}
	for n, g := range plan.Groups(p, block) {
		if i -= len(g); i < 0 {
			return n + 1
		}
	}
	return 0
}

// heldBy returns the assignments of s to a host that its group shares.
func heldBy(p model.Plan, s slot) []model.Assignment {
	if s.group == 0 || p.Held == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.setting.Assignments), func(a model.Assignment) bool {
		return a.Knob != p.Held || a.Host == ""
	})
}

// holdAfter returns how long after run i of a block the next run of its group begins at the
// latest; 0 if there is none.
func (e *experiment) holdAfter(runs []slot, i int) time.Duration {
	if i+1 == len(runs) || runs[i].group == 0 || runs[i+1].group != runs[i].group {
		return 0
	}
	return e.Plan.Cooldown + recordTime
}

// release undoes what is held for a run that will not come, even if ctx has ended.
func (e *experiment) release(ctx context.Context) error {
	if !e.holds {
		return nil
	}
	e.holds = false
	ctx = context.WithoutCancel(ctx)
	changes, err := e.Runner.Release(ctx)
	e.out.Changes = append(e.out.Changes, changes...)
	if e.Released != nil && len(changes) > 0 {
		err = errors.Join(err, e.Released(ctx, changes))
	}
	return err
}
