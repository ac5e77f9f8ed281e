package experiment

import (
	"context"
	"slices"

	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
)

// missing counts a run that was lost with a far end other than the baseline's. After as many in
// a row as a block has attempts, the remaining blocks go on without that far end, so that it
// does not spoil the others' runs for ever.
func (e *experiment) missing(ctx context.Context, block int, s model.Setting, run model.Run) error {
	end := s.FarEnd()
	baseline, _ := e.Plan.Setting(e.Plan.Baseline)
	if !run.LostContact || end == "" || end == baseline.FarEnd() {
		return nil
	}
	if e.lost[end]++; e.lost[end] <= stats.BlockRepeats {
		return nil
	}
	var names []string
	for _, o := range e.Plan.Settings {
		if o.FarEnd() == end {
			names = append(names, o.Name)
		}
	}
	e.Plan = plan.Without(e.Plan, append(slices.Clone(e.pending), block), names)
	e.left, e.seen = append(e.left, end), nil
	if e.Left == nil {
		return nil
	}
	return e.Left(context.WithoutCancel(ctx), e.Plan, end, run.Reason)
}

// alone says why a block has nothing left to compare, after far ends left the plan and all
// others are decided; "" if it has.
func (e *experiment) alone(block int, r analysis.Result) string {
	if len(e.left) == 0 || block <= e.Plan.NullBlocks {
		return ""
	}
	for _, name := range plan.Candidates(e.Plan) {
		if slices.Contains(e.Plan.Order[block-1], name) && !slices.Contains(r.Leaving, name) {
			return ""
		}
	}
	return "every comparison that could be made is decided; a far end was lost"
}
