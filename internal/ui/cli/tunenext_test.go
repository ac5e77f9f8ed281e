package cli

import (
	"testing"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/must"
	"linerate/internal/report"
)

// TestNextStepsOfASearch: what leads on from a stored search stands in its report in every
// format: to keep what is proven, and to go on where it was cut short.
func TestNextStepsOfASearch(t *testing.T) {
	s := model.Session{ID: "s1", Near: app.ThisMachine, Far: "root@nas"}
	rec := tune.Record{Winner: model.Setting{Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "on"}}}}
	again := report.Step{What: "see this again", Command: "linerate show s1"}
	on := report.Step{What: "go on", Command: "linerate tune --resume s1"}
	for _, c := range []struct {
		t    report.Tuned
		want []report.Step
	}{
		{report.Tuned{Proven: true, Proof: "p1", Next: again}, []report.Step{
			{What: "keep it until the next start", Command: "linerate set far.tcp.sack=on --both root@nas"},
			{What: "keep it for good", Command: "linerate keep p1 root@nas --both"}}},
		{report.Tuned{Proven: true, Proof: "p1", Open: []string{"latency is not decided"}, Next: again}, []report.Step{ // keep refuses it without the person's word
			{What: "keep it until the next start", Command: "linerate set far.tcp.sack=on --both root@nas"},
			{What: "keep it for good", Command: "linerate keep p1 root@nas --both --despite-guards"}}},
		{report.Tuned{Next: on}, []report.Step{on}},
		{report.Tuned{Next: again}, nil},
	} {
		must.Same(t, nextSteps(c.t, rec, s), c.want, "%+v", c.t)
	}
}
