package report_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
)

// judged returns a session over two settings of nas with these verdicts.
func judged(mode model.Mode, all ...model.Verdict) model.Session {
	s := model.Session{ID: "20261121T020000-p2m9", Kind: model.KindRun, State: model.SessionDone, Near: "this machine", Far: "root@nas", Plan: model.Plan{
		Mode: mode, Margin: 3, Tolerance: 5, Confidence: 0.95, MaxBlocks: 10, Baseline: "current", Directions: []model.Direction{model.To},
		Flow:     model.Flow{Engine: "tcpbulk", Duration: 10 * time.Second},
		Settings: []model.Setting{{Name: "current"}},
	}}
	seen := map[string]bool{}
	for _, v := range all {
		if !seen[v.Setting] {
			seen[v.Setting] = true
			s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: v.Setting, Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: v.Setting}}})
		}
	}
	s.Verdicts = all
	return s
}

// gain returns a verdict on goodput to the far end; log ratios.
func gain(setting string, o model.Outcome, estimate, low, high float64) model.Verdict {
	return model.Verdict{
		Setting: setting, Baseline: "current", Direction: model.To, Metric: model.Goodput, Outcome: o, Blocks: 7, Estimate: estimate,
		Interval: model.Interval{Low: model.Bound(low), High: model.Bound(high), Confidence: 0.95},
	}
}

// Issue 12, point 7: "31 times as fast, at least 29; 7 blocks, decided".
func TestVerdictsForPeople(t *testing.T) {
	open := math.Inf(1)
	with := func(v model.Verdict, change func(*model.Verdict)) model.Verdict { change(&v); return v }
	for _, c := range []struct {
		want string
		v    model.Verdict
	}{
		{"30.6 times as fast, at least 29.1; 7 blocks, decided", gain("a", model.Better, 3.42, 3.37, 3.47)},
		{"1.60 times as fast, at least 1.57; 7 blocks, decided", gain("a", model.Better, 0.47, 0.45, 0.49)},
		{"11 % faster, at least 8.3 %; 7 blocks, decided", gain("a", model.Better, 0.1, 0.08, 0.12)},
		{"11 % faster, at least 8.3 %; 7 blocks, decided", gain("a", model.Better, 0.1, 0.08, open)},
		{"86 % slower, at least 85 %; 7 blocks, decided", gain("a", model.Worse, -2, -2.1, -1.9)},
		{"1.0 % faster, at least 0.50 %, too little to matter (margin 3 %); 7 blocks, decided", with(
			gain("a", model.Better, 0.01, 0.005, 0.015), func(v *model.Verdict) { v.Size = "small" })},
		{"no difference that matters (at most 1.5 %); 7 blocks", gain("a", model.Equivalent, 0.005, -0.005, 0.015)},
		{"no difference that matters (less than 3 %); 7 blocks", gain("a", model.Equivalent, 0, -0.05, 0.05)},
		{"no difference that matters (less than 3 %); 7 blocks", gain("a", model.Equivalent, 0, -open, open)},
		{"not decided: about 14 blocks more (4 min 40 s)", with(gain("a", model.Undecided, 0, -1, 1), func(v *model.Verdict) { v.MoreBlocks = 14 })},
		{"not decided: about 70 blocks more (23 min 20 s)", with(gain("a", model.Undecided, 0, -1, 1), func(v *model.Verdict) { v.MoreBlocks = 70 })},
		{"not decided, and too close for this noise: about 71 blocks more (23 min 40 s)", with(gain("a", model.Undecided, 0, -1, 1), func(v *model.Verdict) { v.MoreBlocks = 71 })},
		{"not decided, and too close for this noise: about 12000 blocks more (66 h 40 min)", with(gain("a", model.Undecided, 0, -1, 1), func(v *model.Verdict) { v.MoreBlocks = 12345 })},
		{"not decided after 7 blocks", gain("a", model.Undecided, 0, -1, 1)},
		{"not decided after 7 blocks", with(gain("a", model.Undecided, 0, -1, 1), func(v *model.Verdict) { v.Reason = "not enough data after 7 blocks" })},
		{"not decided: needs at least 6 blocks", with(gain("a", model.Undecided, 0, -1, 1), func(v *model.Verdict) { v.Reason = "needs at least 6 blocks" })},
		{"no block yet", model.Verdict{Setting: "a", Direction: model.To, Metric: model.Goodput, Outcome: model.Undecided}},
	} {
		c.v.Evidence = new(3.0)
		row := report.Build(judged(model.Sequential, c.v), report.Options{}).Tables[0].Rows[0]
		must.Equal(t, row.Said, c.want, "%+v\nis", c.v)
		must.Equal(t, row.Adds, "evidence 3", "beside %q", c.want)
	}
	// Of a metric that is good when it is low.
	s := judged(model.Sequential, with(gain("a", model.Better, 0.5, 0.4, 0.6), func(v *model.Verdict) { v.Metric = model.RTT }))
	s.Plan.Objective = model.RTT
	must.Equal(t, report.Build(s, report.Options{}).Tables[0].Rows[0].Said, "39 % lower, at least 33 %; 7 blocks, decided")
	s.Verdicts[0].Outcome, s.Verdicts[0].Estimate, s.Verdicts[0].Interval.Low, s.Verdicts[0].Interval.High = model.Worse, -1.05, -1.2, -0.9
	must.Equal(t, report.Build(s, report.Options{}).Tables[0].Rows[0].Said, "2.86 times as high, at least 2.46; 7 blocks, decided")
}

// Noise appears only with details, unless it is the reason for an open verdict.
func TestNoiseForPeople(t *testing.T) {
	for _, c := range []struct {
		what  string
		sigma float64
		more  int
		want  string
	}{
		{"open for long, and much noise", 0.34, 500, "noise: two runs of one setting differ by 40 %; hosts and a path without other traffic, or longer runs (-t), make it less"},
		{"soon decided", 0.34, 14, ""},
		{"little noise, and close", 0.02, 500, ""},
		{"decided", 0.34, 0, ""},
	} {
		v := gain("a", model.Undecided, 0, -1, 1)
		v.MoreBlocks = c.more
		if c.more == 0 {
			v.Outcome = model.Worse
		}
		s := judged(model.Sequential, v)
		s.Noise = []model.Noise{{Direction: model.To, Metric: model.Goodput, Source: "twin", Pairs: 7, Sigma: c.sigma, Checked: true}}
		must.Equal(t, report.Build(s, report.Options{}).Noise[0].Said, c.want, "%s", c.what)
	}
}

// guard returns the state of a latency guard for setting a.
func guard(state model.GuardState, more int) model.Verdict {
	return model.Verdict{
		Setting: "a", Baseline: "current", Direction: model.To, Metric: model.LatencyP99, Outcome: model.Undecided, Blocks: 7, Estimate: -1.1,
		Interval: model.Interval{Low: -1.3, High: -0.9, Confidence: 0.95},
		Guard:    &model.GuardCheck{Guard: model.Guard{Metric: model.LatencyP99, Margin: 50}, State: state, MoreBlocks: more},
	}
}

// A setting that a guard refuses names the guard and what it allows; open guards do not appear
// beside proven harm.
func TestGuardsForPeople(t *testing.T) {
	better := gain("a", model.Better, 0.1, 0.08, 0.12)
	for state, want := range map[model.GuardState]string{
		model.GuardHolds:    "11 % faster, at least 8.3 %; 7 blocks, decided",
		model.GuardViolated: "11 % faster, at least 8.3 %; 7 blocks, decided; but 99th percentile of latency is 3.0 times as high, and less than 50 % higher is allowed",
		model.GuardOpen:     "11 % faster, at least 8.3 %; 7 blocks, decided; may not be kept yet: 99th percentile of latency to nas is not decided: about 4 blocks more (1 min 20 s)",
	} {
		must.Equal(t, report.Build(judged(model.Sequential, better, guard(state, 4)), report.Options{}).Tables[0].Rows[0].Said, want, "%s is said as", state)
	}
}

// The list, the page and a ticket state that a better setting may not be kept exactly where
// keep refuses it.
func TestKeptAsSaid(t *testing.T) {
	for _, back := range []model.Outcome{model.Better, model.Equivalent, model.Worse} {
		for _, state := range []model.GuardState{model.GuardHolds, model.GuardViolated, model.GuardOpen} {
			from := gain("a", back, 0.1, 0.08, 0.12)
			from.Direction = model.From
			s := judged(model.FixedBlocks, gain("a", model.Better, 0.1, 0.08, 0.12), from, guard(state, 4))
			s.Plan.Directions = []model.Direction{model.To, model.From}
			may := analysis.MayKeep(model.Goodput, s.Verdicts, "a").May()
			row := report.Build(s, report.Options{}).Tables[0].Rows[0]
			refused := strings.Contains(row.Said, "; but ") || strings.Contains(row.Said, "may not be kept yet")
			list := report.NewListItem(model.Item{Kind: model.KindRun, State: model.SessionDone, Runs: 1}, s).Verdict
			must.True(t, strings.Contains(list, ", but ") != may && refused != may,
				"%s back, guard %s: may be kept %v, the page says %q, the list %q", back, state, may, row.Said, list)
		}
	}
}

// An experiment ends with advice: keep, use, leave, longer, or distrust it all.
func TestAdvice(t *testing.T) {
	better, worse, open := gain("a", model.Better, 0.1, 0.08, 0.12), gain("a", model.Worse, -0.1, -0.12, -0.08), gain("a", model.Undecided, 0, -1, 1)
	same, longer, long := gain("a", model.Equivalent, 0, -0.01, 0.01), open, open
	long.MoreBlocks = 71
	longer.MoreBlocks = 14
	twin := better
	twin.Setting, twin.IsTwin = "current (twin)", true
	window := judged(model.FixedBlocks, better, gain("b", model.Better, 0.2, 0.18, 0.22))
	for i := range window.Plan.Settings {
		for j := range window.Plan.Settings[i].Assignments {
			window.Plan.Settings[i].Assignments[j].Host = "" // of the flow: a host keeps none of it
		}
	}
	level := window
	level.Plateaus = []model.Plateau{{Direction: model.To, Metric: model.Goodput, Decided: true, Level: "a", Tolerance: 5}}
	leave := judged(model.FixedBlocks, same)
	leave.Plateaus = []model.Plateau{{Direction: model.To, Metric: model.Goodput, Decided: true, Leave: true, Baseline: "current", Tolerance: 5}}
	slight := guard(model.GuardOpen, 500)
	slight.Estimate = -0.1
	running := judged(model.FixedBlocks, better)
	running.State = model.SessionInterrupted
	full := judged(model.FixedBlocks, longer)
	full.Findings = []model.Finding{{Rule: "ceiling", Kind: model.FindingFull, Direction: model.To, Limit: "link"}}
	for name, c := range map[string]struct {
		s    model.Session
		want string
	}{
		"open, but full":    {full, "leave it as it is: the path is used up, and nothing that was tried is shown to be better"},
		"one is better":     {judged(model.FixedBlocks, better), "a is the one to keep: it is better, and no guard forbids it"},
		"of the flow":       {window, "use b: it is better, and no guard forbids it"},
		"a level":           {level, "use a: it is the smallest level within 5 % of the best"},
		"the baseline":      {leave, "leave it as it is: current is within 5 % of the best"},
		"worse":             {judged(model.FixedBlocks, worse), "leave it as it is: nothing that was tried is better than current"},
		"no difference":     {judged(model.FixedBlocks, same), "leave it as it is: nothing that was tried is better than current"},
		"open, no end":      {judged(model.FixedBlocks, open), "leave it as it is: nothing is shown to be better than current"},
		"open, fixed":       {judged(model.FixedBlocks, longer), "not everything is decided: that takes about 21 blocks (7 min)"},
		"open, for long":    {judged(model.FixedBlocks, long), "leave it as it is: nothing is shown to be better than current, and to decide it takes about 78 blocks (26 min)"},
		"guard open":        {judged(model.FixedBlocks, better, slight), "decide about a yourself: it is better, but 99th percentile of latency to nas is not decided: about 500 blocks more (2 h 47 min); linerate keep 20261121T020000-p2m9 --despite-guards keeps it"},
		"harm":              {judged(model.FixedBlocks, better, guard(model.GuardViolated, 0)), "leave it as it is: what is better does harm that a guard forbids"},
		"a guard is open":   {judged(model.FixedBlocks, better, guard(model.GuardOpen, 4)), "not everything is decided: that takes about 11 blocks (3 min 40 s)"},
		"untrustworthy":     {judged(model.FixedBlocks, better, twin), "do not use these numbers: find out what else uses these hosts or the path, then measure again"},
		"interrupted":       {running, ""},
		"without a verdict": {judged(model.FixedBlocks), ""},
	} {
		must.Equal(t, report.Build(c.s, report.Options{}).Advice, c.want, "%s", name)
	}
	d := report.Build(judged(model.Sequential, longer), report.Options{})
	must.True(t, d.Advice == "not everything is decided" && len(d.Next) >= 2 && d.Next[0].What == "go on until it is decided (about 14 blocks more (4 min 40 s))", "what goes on is a command: %q, %+v", d.Advice, d.Next)
	spoilt := judged(model.FixedBlocks, open)
	spoilt.Runs = []model.Run{{Number: 1, Block: 1, Attempt: 1, State: model.RunInvalid, Reason: "a host went away"}}
	must.Equal(t, report.Build(spoilt, report.Options{}).Advice, "nothing was measured: no block counts, since a run failed in each; the last one: a host went away")
}

// The session's own command, with enough blocks, measures anew what a fixed number of blocks
// left open, unless that command held a secret.
func TestMeasureAgain(t *testing.T) {
	open := gain("a", model.Undecided, 0, -1, 1)
	open.MoreBlocks = 14
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{"/usr/bin/linerate", "run", "root@nas", "--factor", "far.cmd:x=tc a; tc b", "--blocks", "7", "--seed=3", "-q"},
			"linerate run root@nas --factor 'far.cmd:x=tc a; tc b' -q --blocks 21"},
		{[]string{"linerate", "run", "plan.yaml", "--blocks=7"}, "linerate run plan.yaml --blocks 21"},
		{[]string{"linerate", "run", "linerate://nas:5299", "--blocks=7"}, ""},
		{[]string{"linerate", "run", "nas", "--db", "postgres://ann:...@db/x"}, ""},
		{[]string{"linerate", "tune", "nas"}, ""},
		{nil, ""},
	} {
		s := judged(model.FixedBlocks, open)
		s.Command = c.command
		got := ""
		for _, n := range report.Build(s, report.Options{}).Next {
			if n.What == "measure again" {
				got = n.Command
			}
		}
		must.Equal(t, got, c.want, "%q is repeated as", c.command)
	}
}

// A step that takes too long is not a next step; beside something that is decided soon, the
// step is as long as that takes.
func TestNextStepIsNotForever(t *testing.T) {
	open := func(setting string, more int) model.Verdict {
		v := gain(setting, model.Undecided, 0, -1, 1)
		v.MoreBlocks = more
		return v
	}
	for _, c := range []struct {
		what string
		all  []model.Verdict
		want string // the step, "" for none
		says string
	}{
		{"only what is distant", []model.Verdict{open("a", 500)}, "", "leave it as it is: nothing is shown to be better than current, and to decide it takes about 510 blocks (2 h 50 min)"},
		{"both", []model.Verdict{open("a", 500), open("b", 3)}, "go on until more of it is decided (about 3 blocks more (1 min 30 s))", "not everything is decided"},
		{"only what is near", []model.Verdict{open("b", 3)}, "go on until it is decided (about 3 blocks more (1 min))", "not everything is decided"},
	} {
		d := report.Build(judged(model.Sequential, c.all...), report.Options{})
		got := ""
		for _, step := range d.Next {
			if strings.Contains(step.Command, "--max-blocks") {
				got = step.What
			}
		}
		must.True(t, got == c.want && d.Advice == c.says, "%s: step %q, advice %q; want %q, %q", c.what, got, d.Advice, c.want, c.says)
	}
}
