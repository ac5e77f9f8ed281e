package fingerprint

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestLook(t *testing.T) {
	p := Proof{Side: model.Far, Date: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), Print: Print{"far.kernel": "6.19"},
		Before: []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "1"}}}
	for name, c := range map[string]struct {
		kept Kept
		now  Print
		want string
	}{
		"as it was":         {Kept{Knob: "tcp.sack", Proof: p, Proven: true}, Print{"far.kernel": "6.19"}, "proven on 2026-11-21"},
		"a new kernel":      {Kept{Knob: "tcp.sack", Proof: p, Proven: true}, Print{"far.kernel": "7.0"}, "unproven since kernel 6.19 -> 7.0 at the far end"},
		"without a proof":   {Kept{Knob: "tcp.sack"}, Print{"far.kernel": "7.0"}, "unproven: not measured"},
		"without its print": {Kept{Knob: "tcp.sack", Proof: Proof{Session: "x"}, Proven: true}, Print{}, "unproven: nobody noted under which conditions it was measured"},
	} {
		got := c.kept.Look(c.now)
		must.True(t, got.String() == c.want && (c.kept.Proof.Side != model.Far || got.Before == "1"), "%s: %q, want %q; %+v", name, got, c.want, got)
	}
}

func TestJudge(t *testing.T) {
	verdict := func(d model.Direction, m model.Metric, o model.Outcome) model.Verdict {
		return model.Verdict{Setting: "kept", Direction: d, Metric: m, Outcome: o}
	}
	harm := verdict(model.To, model.RTT, model.Worse)
	harm.Guard = &model.GuardCheck{State: model.GuardViolated}
	for name, c := range map[string]struct {
		verdicts []model.Verdict
		want     State
	}{
		"better":                {[]model.Verdict{verdict(model.To, model.Goodput, model.Better)}, Still},
		"better in one":         {[]model.Verdict{verdict(model.To, model.Goodput, model.Better), verdict(model.From, model.Goodput, model.Undecided)}, Still},
		"worse in one":          {[]model.Verdict{verdict(model.To, model.Goodput, model.Better), verdict(model.From, model.Goodput, model.Worse)}, NoLonger},
		"no difference":         {[]model.Verdict{verdict(model.To, model.Goodput, model.Equivalent)}, NoLonger},
		"too little":            {[]model.Verdict{verdict(model.To, model.Goodput, model.Undecided)}, Undecided},
		"better, and it harms":  {[]model.Verdict{verdict(model.To, model.Goodput, model.Better), harm}, NoLonger},
		"of another metric":     {[]model.Verdict{verdict(model.To, model.RTT, model.Better), verdict(model.To, model.Goodput, model.Equivalent)}, NoLonger},
		"only of another thing": {[]model.Verdict{{Setting: "before (twin)", IsTwin: true, Metric: model.Goodput, Outcome: model.Better}}, NoLonger},
	} {
		must.Equal(t, Judge(model.Plan{}, c.verdicts, "kept"), c.want, "%s", name)
	}
}
