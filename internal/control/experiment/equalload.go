package experiment

import (
	"context"
	"slices"

	"linerate/internal/control/runner"
	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
)

// equalLoad adds the runs at equal load that the block of s needs (statistics.md section 6.5).
// Only guards use them, so a failed one ends nothing: the guard has no value in that block.
func (e *experiment) equalLoad(ctx context.Context, s runner.Spec, settings []model.Setting, baseline string, settled func(string, model.Direction, model.Metric) bool) error {
	var runs []model.Run
	for _, r := range e.out.Runs {
		if r.Block == s.Block && r.Attempt == s.Attempt {
			runs = append(runs, r)
		}
	}
	for _, p := range analysis.AtEqualLoad(e.Plan.Guards, baseline, runs, settled) {
		i := slices.IndexFunc(settings, func(o model.Setting) bool { return o.Name == p.Setting })
		flow, paced := bulk.Paced(s.Flow, p.Rate)
		if !paced || i < 0 {
			continue
		}
		flow.Direction = p.Direction
		s.Number, s.Position, s.Setting, s.Settle, s.EqualLoad = len(e.out.Runs)+1, len(runs)+1, settings[i], e.Plan.Settle, true
		spec := s
		spec.Flow = flow
		run, err := e.run(ctx, spec, s.Position)
		if err != nil {
			return err
		}
		if err := e.recover(ctx, run); err != nil {
			return err
		}
		runs = append(runs, run)
		if err := e.rest(ctx, s.Block, false); err != nil {
			return err
		}
	}
	return nil
}

// decided returns a function that reports whether a result has decided a guard for good.
func decided(result analysis.Result) func(string, model.Direction, model.Metric) bool {
	return func(setting string, d model.Direction, m model.Metric) bool {
		return slices.ContainsFunc(result.Verdicts, func(v model.Verdict) bool {
			return v.Setting == setting && v.Direction == d && v.Metric == m && v.Guard != nil && v.Guard.State == model.GuardHolds
		})
	}
}
