package cli

import (
	"context"
	"time"

	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/term"
)

// dryRun prints what the experiment would do. It reads the hosts' facts, but sends, changes and
// stores nothing.
func (a *console) dryRun(ctx context.Context, st results, e *target.Ends, q question) error {
	p, err := q.plan(fact.Unknown[time.Duration]("nothing is measured"))
	if err != nil {
		return err
	}
	if err := trial.MayTune(e, p); err != nil {
		return err
	}
	s := trial.New(a.world(), e, st, model.KindRun, q.Title, nil, p).Session
	d := report.NewDryRun(s, a.noiseBefore(ctx, st, s), a.knobs, a.kinds())
	if a.json {
		return a.document(format.DryRunSchema, d)
	}
	return term.RenderDryRun(a.Out, d, a.termOptions())
}
