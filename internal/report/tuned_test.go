package report_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/candidate"
	"linerate/internal/core/fact"
	"linerate/internal/core/health"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// fate returns an idea about one value of a setting of the far host.
func fate(knob model.KnobID, now, value string, state tune.State, allows units.BitRate) tune.Fate {
	c := candidate.Candidate{
		Setting: model.Setting{Name: string(knob) + "=" + value, Assignments: []model.Assignment{{Host: model.Far, Knob: knob, Value: value}}},
		Now:     fact.Known(now, "test"), Levels: string(knob), Direction: model.To, Allows: fact.Unknown[units.BitRate]("nobody knows"),
	}
	if allows > 0 {
		c.Allows = fact.Known(allows, "window")
	}
	return tune.Fate{Idea: tune.Idea{Candidate: c, Risk: "harmless"}, State: state, Gain: model.Bound(math.NaN())}
}

// The last screen shows what helped with both values, both rates, the certain gain, the outcome
// of the guards, and every other idea once.
func TestTunedSaysWhatHelped(t *testing.T) {
	t.Parallel()
	mtu := fate("link.mtu", "1500", "9000", tune.Waiting, 0)
	mtu.Ask = "may cut the connection"
	broke := fate("txqueuelen", "1000", "4000", tune.Broke, 0)
	broke.Detail = "the link was lost"
	won := fate("tcp.recv_buffer_max", "65536", "4194304", tune.Helped, 0)
	rec := tune.Record{
		Options: tune.Options{Objective: model.Goodput}, Winner: won.Setting, Reason: "no other setting is known to help", Confirmation: "proof", Inputs: []tune.Input{{}},
		Ideas: []tune.Fate{won, fate("tcp.recv_buffer_max", "65536", "262144", tune.Waiting, 0), fate("tcp.sack", "0", "1", tune.NoEffect, 0), mtu, broke},
	}
	proof := model.Session{Hosts: []model.HostFacts{{Host: model.Near, Name: "desk"}, {Host: model.Far, Name: "nas"}}}
	proof.Plan.Objective, proof.Plan.Baseline, proof.Plan.Confidence = model.Goodput, tune.Baseline, 0.95
	for block, rates := range [][2]float64{{30e6, 880e6}, {31e6, 884e6}, {29e6, 890e6}} {
		for i, setting := range []string{tune.Baseline, won.Setting.Name} {
			proof.Runs = append(proof.Runs, model.Run{
				Number: 2*block + i + 1, Block: block + 1, Setting: setting, Flow: model.Flow{Direction: model.To}, State: model.RunValid,
				Values: []model.Value{{Metric: model.Goodput, Direction: model.To, Value: rates[i]}},
			})
		}
	}
	gain := model.Verdict{
		Setting: won.Setting.Name, Baseline: tune.Baseline, Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 7,
		Estimate: math.Log(29.4), Interval: model.Interval{Low: model.Bound(math.Log(28.1)), High: model.Bound(math.Log(30.5)), Confidence: 0.953},
	}
	guard := model.Verdict{
		Setting: won.Setting.Name, Direction: model.To, Metric: model.RTT, Blocks: 7, Estimate: 0.01,
		Interval: model.Interval{Low: -0.01, High: 0.02}, Guard: &model.GuardCheck{State: model.GuardHolds},
	}
	proof.Verdicts = []model.Verdict{gain, guard}
	got := report.BuildTuned(model.Session{State: model.SessionDone}, rec, &proof)
	must.True(t, got.Headline == "1 of 3 ideas helped: far.tcp.recv_buffer_max 64KiB -> 4MiB" && got.Proven, "headline %q, proven %v", got.Headline, got.Proven)
	want := []string{"to nas: 29.4 times as fast, at least 28.1; 7 blocks, decided"}
	must.True(t, slices.Equal(got.Gains, want), "gains %q, want %q", got.Gains, want)
	want = []string{
		"tcp.recv_buffer_max: 256KiB not tried", "tcp.sack: 1 no effect", "txqueuelen: 4000 failed (the link was lost)",
		"link.mtu: 9000 not tried (may cut the connection: --allow risky tries it)",
	}
	must.True(t, slices.Equal(got.Rest, want), "rest %q, want %q", got.Rest, want)

	m := got.Measured
	must.True(t, len(m) == 2 && m[0].Label == "to nas, before" && m[0].Text == "30 Mbit/s (29 to 31 Mbit/s)" && m[1].Text == "884 Mbit/s (880 to 890 Mbit/s)" && m[1].Confidence == 0.75 && m[1].Outcome == model.Better, "before and after %+v", m)
	must.Equal(t, got.Line(), "1 of 3 ideas helped: far.tcp.recv_buffer_max 64KiB -> 4MiB; to nas 30 Mbit/s -> 884 Mbit/s: 29.4 times as fast, at least 28.1; 7 blocks, decided")
	must.Equal(t, got.Reason, rec.Reason)
	full := rec
	full.Inputs = []tune.Input{{Look: &tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Known(0.99, "test")}}}}
	must.Equal(t, report.BuildTuned(model.Session{State: model.SessionDone}, full, &proof).Reason, "", "the proof may not reach what the search did")
	proof.Verdicts[1].Guard.State, proof.Verdicts[1].Estimate = model.GuardViolated, -math.Log(2.5)
	got = report.BuildTuned(model.Session{}, rec, &proof)
	must.True(t, !got.Proven && strings.Contains(got.Gains[0], "but round trip") && len(got.Against) == 1, "a guard is harmed: proven %v, %q, %q", got.Proven, got.Gains, got.Against)
	line := report.BuildTuned(model.Session{}, rec, &proof).Headline
	must.True(t, strings.HasSuffix(line, " 4MiB proved better in fresh blocks, but round trip to nas 2.50 times (guard: less than 0 % higher)"), "a guard is harmed: %q", line)
	proof.Verdicts[0].Outcome, proof.Verdicts[1].Guard.State = model.Undecided, model.GuardOpen
	line = report.BuildTuned(model.Session{}, rec, &proof).Headline
	must.True(t, strings.HasSuffix(line, " 4MiB seemed to help, and fresh blocks did not decide whether it does"), "not enough data: %q", line)
	proof.ID, proof.State = "20261123T084309-excs", model.SessionInterrupted
	line = report.BuildTuned(model.Session{}, rec, &proof).Headline
	must.True(t, strings.HasSuffix(line, "its proof in fresh blocks was cut short: linerate run --resume 20261123T084309-excs goes on"), "interrupted: %q", line)
}

// The headline starts from the original settings, even where the last idea replaced another
// one.
func TestTunedGoesFromTheBeginning(t *testing.T) {
	t.Parallel()
	won := fate("tcp.recv_buffer_max", "262144", "4194304", tune.Helped, 0)
	s := model.Session{State: model.SessionDone, Hosts: []model.HostFacts{
		{Host: model.Near, Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("6291456", "test")}},
		{Host: model.Far, Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("65536", "test")}},
	}}
	got := report.BuildTuned(s, tune.Record{Winner: won.Setting, Ideas: []tune.Fate{won}}, nil)
	must.Equal(t, got.Headline, "1 of 1 idea helped: far.tcp.recv_buffer_max 64KiB -> 4MiB")
}

// The command against a long queue names the host, so that it can be copied.
func TestTunedLongQueue(t *testing.T) {
	t.Parallel()
	won := fate("tcp.recv_buffer_max", "65536", "4194304", tune.Helped, 0)
	proof := model.Session{Kind: model.KindRun, Near: model.ThisMachine, Far: "root@nas", Plan: model.Plan{Objective: model.Goodput, Baseline: tune.Baseline}}
	for i, setting := range []string{tune.Baseline, won.Setting.Name} {
		proof.Runs = append(proof.Runs, model.Run{Number: i + 1, Block: 1, Setting: setting, Flow: model.Flow{Direction: model.To}, State: model.RunValid,
			Values: []model.Value{{Metric: model.LatencyP50, Direction: model.To, Value: 0.01 + 0.09*float64(i)}}})
	}
	v := model.Verdict{Setting: won.Setting.Name, Baseline: tune.Baseline, Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 1}
	guard := v
	guard.Metric, guard.Guard = model.LatencyP99, &model.GuardCheck{State: model.GuardHolds, EqualLoad: 1}
	proof.Verdicts = []model.Verdict{v, guard}
	got := report.BuildTuned(model.Session{State: model.SessionDone}, tune.Record{Winner: won.Setting, Ideas: []tune.Fate{won}}, &proof)
	must.True(t, len(got.Queues) == 1 && strings.HasSuffix(got.Queues[0], "its queue fills; linerate tune root@nas --goal latency tries what keeps it short"), "%q", got.Queues)
}

// A search that was cut short says which values had begun; "in all" is the time of its runs. What
// is known of a value that did not help is in words.
func TestTunedCutShort(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 1, 32, 9, 0, time.UTC)
	small, large := fate("tcp.recv_buffer_max", "65536", "131072", tune.Waiting, 0), fate("tcp.recv_buffer_max", "65536", "524288", tune.Waiting, 0)
	s := model.Session{ID: "x", State: model.SessionStopped, Created: at, Ended: at.Add(time.Hour)}
	for i, setting := range []string{tune.Baseline, large.Setting.Name} {
		began := at.Add(time.Duration(i) * time.Minute)
		s.Runs = append(s.Runs, model.Run{Number: i + 1, Setting: setting, Started: began, Ended: began.Add(3 * time.Second)})
	}
	rec := tune.Record{Options: tune.Options{Objective: model.Goodput}, Inputs: []tune.Input{{}}, Ideas: []tune.Fate{small, large}}
	got := report.BuildTuned(s, rec, nil)
	must.Equal(t, got.Headline, "the search was cut short, and nothing has helped so far")
	must.Same(t, got.Rest, []string{"tcp.recv_buffer_max: 128KiB not tried; 512KiB begun (1 run)"})
	must.Equal(t, got.Cost, "2 runs of the search, 6 s in all")
	must.Equal(t, got.Next.Command, "linerate tune --resume x")

	info := metric.Describe(model.Goodput)
	for want, f := range map[string]tune.Fate{
		"not shown to help (22.1 % lower, 6 blocks)":     {State: tune.NoEffect, Gain: -0.25, Blocks: 6},
		"no effect (0.5 % lower, 6 blocks)":              {State: tune.NoEffect, Gain: -0.005, Blocks: 6},
		"harms (2.01 times, 3 blocks, share sent again)": {State: tune.Guarded, Gain: 0.7, Blocks: 3, Detail: string(model.RetransmitRatio)},
		"begun (11 % higher, 2 blocks)":                  {State: tune.Waiting, Gain: 0.1, Blocks: 2},
	} {
		must.Equal(t, report.Fate(f, info), ": "+want)
	}
	idle := fate("tcp.sack", "0", "1", tune.NoEffect, 0)
	must.Equal(t, report.BuildTuned(model.Session{State: model.SessionDone}, tune.Record{Ideas: []tune.Fate{idle}}, nil).Headline, "the only idea that was tried did not help")
}

// A dry run lists the ideas in order, with the best value first, the time, the risk and the
// finding; ideas that need consent come last.
func TestTunedDryRun(t *testing.T) {
	t.Parallel()
	mtu := fate("link.mtu", "1500", "9000", tune.Waiting, 0)
	mtu.Ask, mtu.Risk = "may cut the connection", "may cut the connection that carries the command"
	never := fate("tcp.sack", "0", "1", tune.Waiting, 0)
	never.Refused = "it may not be tried: --never"
	s := model.Session{Far: "root@nas", State: model.SessionDone}
	s.Plan.Flow.Duration, s.Plan.Flow.Omit = 2*time.Second, 2*time.Second
	rec := tune.Record{
		Inputs: []tune.Input{{Look: &tune.Look{Limits: map[model.Direction]string{model.To: "held back by the receive window of nas"}}}},
		Ideas: []tune.Fate{mtu, never, fate("tcp.recv_buffer_max", "65536", "262144", tune.Waiting, 100e6),
			fate("tcp.recv_buffer_max", "65536", "1048576", tune.Waiting, 400e6)},
	}
	rest := fate("tcp.limit_output", "4096", "4194304", tune.Waiting, 0)
	rest.Rule, rest.Direction = candidate.RestRule, model.To
	rec.Inputs[0].Look.Rest = []tune.Idea{rest.Idea, never.Idea}
	rec.Ideas = append(rec.Ideas, rest)
	got := report.BuildTuned(s, rec, nil)
	want := []string{
		"1. tcp.recv_buffer_max 64KiB -> 1MiB or 256KiB: would allow 400 Mbit/s; 20 s to 1 min 20 s; harmless; because to nas it is held back by the receive window of nas",
		"2. link.mtu 1500 -> 9000; 20 s to 1 min 20 s; may cut the connection that carries the command, tried last, and only if you agree; because to nas it is held back by the receive window of nas",
		"3. where that leaves something to gain, several at a time, up to 3 min 20 s for each direction: " + rest.Setting.Name,
		"not tcp.sack: it may not be tried: --never",
	}
	must.Same(t, got.Plan, want, "plan:\n%s\nwant:\n%s", strings.Join(got.Plan, "\n"), strings.Join(want, "\n"))
}

// A search that stays below the ceiling says so and why. Where rate and latency conflict, the
// result lists the settings to choose from, and its choice.
func TestTunedSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	won := fate("tcp.recv_buffer_max", "65536", "262144", tune.Helped, 0)
	rec := tune.Record{
		Options: tune.Options{Objective: model.Goodput, Enough: 0.97}, Winner: won.Setting, Ideas: []tune.Fate{won}, Reason: tune.NothingLeft,
		Inputs: []tune.Input{{Look: &tune.Look{
			Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Known(0.61, "test"), model.From: fact.Known(0.98, "test")},
			Limits:  map[model.Direction]string{model.To: "held back by the receive window of nas"},
			Values:  map[model.Direction]float64{model.To: 12e6}, // of the diagnosed run, which the share is of
		}}, {Block: 1}},
	}
	large, idle := fate("tcp.recv_buffer_max", "65536", "4194304", tune.Guarded, 0), fate("tcp.sack", "0", "1", tune.NoEffect, 0)
	rec.Winner.Name, won.Setting.Name, large.Setting.Name, idle.Setting.Name = "small", "small", "large", "idle"
	rec.Ideas = []tune.Fate{won, large, idle}
	s := model.Session{Far: "root@nas", State: model.SessionDone, Plan: model.Plan{Directions: []model.Direction{model.To, model.From}}}
	for name, v := range map[string][2]float64{"current": {14e6, 0.010}, "small": {58e6, 0.030}, "large": {94e6, 0.095}, "small + idle": {66e6, 0.040}} {
		s.Runs = append(s.Runs, model.Run{Setting: name, State: model.RunValid, Flow: model.Flow{Direction: model.To}, Values: []model.Value{
			{Metric: model.Goodput, Direction: model.To, Value: v[0]}, {Metric: model.LatencyP50, Direction: model.To, Value: v[1]},
		}})
	}
	got := report.BuildTuned(s, rec, nil)
	must.Same(t, got.Short, []string{"to nas it reaches 61 % of what the path can carry: held back by the receive window of nas"})
	must.True(t, slices.Equal(got.Front, []string{
		"to nas rate and latency conflict; the choice:", "14 Mbit/s at 10 ms: current", "58 Mbit/s at 30 ms: small (the goal takes it)", "94 Mbit/s at 95 ms: large",
	}), "%q", got.Front)

	rec.Ideas, rec.Winner = nil, model.Setting{} // nothing to try: each reason appears once
	for _, d := range []model.Direction{model.To, model.From} {
		s.Findings = append(s.Findings, model.Finding{Direction: d, NoKnob: "a faster link"})
	}
	got = report.BuildTuned(s, rec, nil)
	must.Same(t, got.Short, []string{"what helps: a faster link"})
	must.Equal(t, got.Headline, "measured to nas: 12 Mbit/s, 61 % of what the path can carry, held back by the receive window of nas; from nas: limit not identified")
}

// An imported value has its unit, whatever the quantity.
func TestImportedValuesHaveUnits(t *testing.T) {
	t.Parallel()
	for m, want := range map[model.Metric]string{
		model.RequestRate: "1412 requests/s", model.ConnectRate: "1412 connections/s", model.Retransmits: "1412 segments", model.Cwnd: "1412 B", model.Goodput: "1.412 kbit/s",
	} {
		s := model.Session{Kind: model.KindImported, Plan: model.Plan{Directions: []model.Direction{model.To}, Settings: []model.Setting{{}}}, Runs: []model.Run{{
			Number: 1, Block: 1, State: model.RunValid, Flow: model.Flow{Direction: model.To}, Values: []model.Value{{Metric: m, Direction: model.To, Value: 1412.35}},
		}}}
		d := report.Build(s, report.Options{})
		must.True(t, d.Section != nil && slices.ContainsFunc(d.Section.Blocks, func(b traffic.Block) bool {
			return len(b.Rows) == 1 && b.Rows[0][2].Text == want
		}), "%s: %+v, want %s", m, d.Section, want)
	}
}

// A list shows what is wrong in a check.
func TestListedCheck(t *testing.T) {
	t.Parallel()
	for _, c := range reporttest.Cases() {
		if s := c.Session; s.Kind == model.KindCheck {
			all := map[string]bool{}
			for _, l := range report.Build(s, report.Options{}).Check.Lines {
				if l.State == health.Poor || l.State == health.Bad {
					all[strings.TrimSpace(l.Thing+" "+string(l.Direction)+" "+string(l.State))] = true
				}
			}
			got := report.NewListItem(model.Item{Kind: s.Kind, State: model.SessionDone, Runs: 1}, s).Verdict
			for part := range strings.SplitSeq(got, ", ") {
				must.True(t, all[part], "%q of %v", part, all)
			}
			must.Equal(t, len(strings.Split(got, ", ")), len(all), "%q", got)
		}
	}
}
