package report_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/hist"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// build returns the report of the case of that name.
func build(t *testing.T, name string) (report.Document, model.Session) {
	t.Helper()
	for _, c := range reporttest.Cases() {
		if c.Name == name {
			return report.Build(c.Session, report.Options{Samples: c.Samples}), c.Session
		}
	}
	t.Fatalf("no case %q", name)
	return report.Document{}, model.Session{}
}

func TestWordsOfEquivalentAndUndecidedAreDisjoint(t *testing.T) {
	equivalent := strings.Fields(report.Words(model.Verdict{Outcome: model.Equivalent}))
	undecided := strings.Fields(report.Words(model.Verdict{Outcome: model.Undecided}))
	must.Need(t, len(equivalent) != 0 && len(undecided) != 0, "no words")
	for _, w := range equivalent {
		must.True(t, !slices.Contains(undecided, w), "%q and %q share %q", equivalent, undecided, w)
	}
}

func TestHeaderAndLines(t *testing.T) {
	d, _ := build(t, "test")
	// 1e9 × (1500-40-12)/(1500+38): RFC 793, RFC 7323 and IEEE 802.3 headers.
	c, ok := d.Header.Ceiling.Get()
	must.True(t, ok && math.Abs(float64(c)-941.482e6) <= 1e3, "ceiling %v, known %v", c, ok)
	must.Equal(t, d.Header.RTT.Or(0).String(), "210µs", "round trip")
	must.Need(t, len(d.Lines) == 2, "%d lines", len(d.Lines))
	from := d.Lines[1]
	must.True(t, from.Label == "from nas" && from.Goodput == 611.2e6 && math.Abs(from.Share.Or(0)-0.6492) <= 1e-4, "%+v", from)
	must.True(t, math.Abs(from.NearCPU.Or(0)-0.09) <= 1e-9 && math.Abs(from.FarCPU.Or(0)-0.14) <= 1e-9, "CPU %v and %v", from.NearCPU, from.FarCPU)
	must.Equal(t, d.Findings[1].Text, "from nas: held back by the receive window of desk: 64 KiB at 0.86 ms allows 610 Mbit/s", "finding")
}

func TestUnknownStaysUnknown(t *testing.T) {
	d, _ := build(t, "silent")
	must.True(t, !d.Header.Ceiling.IsKnown() && !d.Header.RTT.IsKnown() && d.Header.Ceiling.Reason() != "", "%+v", d.Header)
	must.Equal(t, len(d.Lines)+len(d.Tables)+len(d.Classic)+len(d.Changes), 0, "made up: %+v", d)
	must.True(t, d.Header.Far == "old:5201" && strings.Contains(d.Ending, "connection refused"), "far %q, ending %q", d.Header.Far, d.Ending)
}

// TestNumbersOfTheOtherMode demands that p values and evidence never appear together.
func TestNumbersOfTheOtherMode(t *testing.T) {
	for _, mode := range []model.Mode{model.FixedBlocks, model.Sequential} {
		p, e := 0.0123, 45.6
		s := model.Session{Plan: model.Plan{Mode: mode}, Verdicts: []model.Verdict{{Setting: "x", P: &p, Evidence: &e}}}
		note := report.Build(s, report.Options{}).Tables[0].Rows[0].Note
		must.True(t, strings.Contains(note, "p 0.012") == (mode == model.FixedBlocks) && strings.Contains(note, "evidence 45.6") == (mode == model.Sequential), "%s: %q", mode, note)
	}
}

func TestChangesOfTheMetric(t *testing.T) {
	row := func(m model.Metric, estimate, low, high float64) report.Row {
		s := model.Session{Verdicts: []model.Verdict{{Metric: m, Blocks: 8, Estimate: estimate,
			Interval: model.Interval{Low: model.Bound(low), High: model.Bound(high)}}}}
		return report.Build(s, report.Options{}).Tables[0].Rows[0]
	}
	inf := math.Inf(1)
	tests := []struct {
		name                string
		metric              model.Metric
		estimate, low, high float64
		change, rng         string
	}{
		// Reference data V1 of the statistics: +4.49 %, [+2.21 %, +6.90 %].
		{"higher is better", model.Goodput, 0.043903, 0.021902, 0.066725, "4.5 % higher", "+2.2 % to +6.9 %"},
		{"less goodput", model.Goodput, -0.105361, -0.2, -0.02, "10 % lower", "-18 % to -2 %"},
		{"lower is better", model.RTT, 0.693147, 0.510826, 0.916291, "50 % lower", "-60 % to -40 %"},
		{"half bounded, lower is better", model.RTT, 0.693147, 0.510826, inf, "50 % lower", "below -40 %"},
		{"counts", model.Retransmits, -12.4, -20.1, -5.2, "12 higher", "5 to 20"},
		{"unbounded", model.Goodput, 0.05, -inf, inf, "5.1 % higher", "not bounded yet"},
		{"nothing", model.Goodput, 0, -0.01, 0.01, "0.0 %", "-1.0 % to +1.0 %"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := row(test.metric, test.estimate, test.low, test.high)
			must.True(t, r.ChangeText == test.change && r.RangeText == test.rng, "%q, %q; want %q, %q", r.ChangeText, r.RangeText, test.change, test.rng)
			must.True(t, r.Low <= r.Change && r.Change <= r.High, "%v is not within %v to %v", r.Change, r.Low, r.High)
		})
	}
}

func TestUntrustworthy(t *testing.T) {
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{})
		must.Equal(t, d.Untrustworthy != "", c.Name == "untrustworthy", "%s: %q", c.Name, d.Untrustworthy)
	}
}

// TestSentIsNotLessThanArrived: a sender that reports nothing, or whose window began later, did
// send what the receiver counted.
func TestSentIsNotLessThanArrived(t *testing.T) {
	for _, c := range []struct{ sent, want int64 }{{0, 12}, {11, 12}, {13, 13}} {
		flows := []model.FlowReport{
			{Direction: model.To, Role: model.Sender, UDP: &model.UDPSummary{Sent: c.sent}},
			{Direction: model.To, Role: model.Receiver, UDP: &model.UDPSummary{Received: 10, Lost: 2}},
		}
		r := model.Run{Number: 1, State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 1}}, Ends: []model.EndReport{{Flows: flows}}}
		d := report.Build(model.Session{Runs: []model.Run{r}}, report.Options{})
		must.Need(t, len(d.Lines) == 1 && d.Lines[0].Datagrams != nil, "%+v", d.Lines)
		must.Equal(t, d.Lines[0].Datagrams.Sent, c.want)
	}
}

func TestClassic(t *testing.T) {
	d, s := build(t, "interrupted")
	// Neither block 1, which has an invalid run, nor the stopped run counts: two runs of 64K
	// are left and one of 256K.
	var got []string
	for _, r := range d.Classic {
		got = append(got, r.Setting+" "+r.BasisText)
		must.True(t, r.Min <= r.Median && r.Median <= r.Max && r.Min <= r.Average && r.Average <= r.Max, "%+v", r)
	}
	want := []string{"64K over runs (2)", "64K over intervals (4; not independent)", "256K over runs (1)", "256K over intervals (2; not independent)"}
	must.True(t, slices.Equal(got, want), "rows %q, want %q", got, want)
	must.True(t, len(s.Runs) == 6, "the case has %d runs", len(s.Runs))
	c := d.Classic[2]
	must.True(t, float64(c.Average) == s.Runs[3].Values[0].Value, "average %v of one run of %v", c.Average, s.Runs[3].Values[0].Value)
}

// TestClassicCountsReceivers demands that only the receiver's intervals count.
func TestClassicCountsReceivers(t *testing.T) {
	s := model.Session{Runs: []model.Run{{Number: 1, State: model.RunValid}}}
	d := report.Build(s, report.Options{Samples: model.Held{1: {
		{Host: model.Near, Direction: model.To, Metric: model.Goodput, Value: 9},
		{Host: model.Far, Direction: model.To, Metric: model.Goodput, Value: 5},
		{Host: model.Far, Direction: model.To, Metric: model.Sent, Value: 7},
	}}})
	must.True(t, len(d.Classic) == 1 && d.Classic[0].N == 1 && d.Classic[0].Average == 5, "%+v", d.Classic)
}

func TestChangesSummary(t *testing.T) {
	d, _ := build(t, "sequential")
	must.True(t, len(d.Changes) == 1 && d.Changes[0].Text == "8 changes on nas, all undone, verified" && len(d.Changes[0].Open) == 0, "%+v", d.Changes)
	d, _ = build(t, "fixed")
	must.Equal(t, d.Changes[0].Text, "2 changes on desk: 1 undone (verified), 1 left alone", "near")
	got := d.Changes[1].Open
	must.True(t, len(got) == 1 && strings.HasSuffix(got[0], "no such algorithm"), "far: %q", got)
}

func TestPlateauAndNext(t *testing.T) {
	d, _ := build(t, "sequential")
	must.Equal(t, d.Plateaus[0].Text, "goodput to nas: 256K is the smallest level within 5 % of the best")
	d, s := build(t, "interrupted")
	must.Contain(t, d.Plateaus[0].Text, "not decided, it lies from 64K to 256K")
	must.True(t, len(d.Next) == 2 && strings.Contains(d.Next[0].Command, s.ID), "%+v", d.Next)
}

// Issue 10, item 2: the current setting may be the answer, and an untrustworthy session
// recommends nothing.
func TestRecommendationLeavesAGoodBaseline(t *testing.T) {
	_, s := build(t, "sequential")
	pl := &s.Plateaus[0]
	pl.Baseline, pl.Leave, pl.Level = "current", true, ""
	if got, want := report.Build(s, report.Options{}).Plateaus[0].Text, "goodput to nas: leave it: current is within 5 % of the best, and no level surely is"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	pl.Level = "256K"
	got, want := report.Build(s, report.Options{}).Plateaus[0].Text, "goodput to nas: leave it: current is within 5 % of the best; of the levels, 256K is the smallest that is"
	must.True(t, got == want, "%q, want %q", got, want)
	_, bad := build(t, "untrustworthy")
	bad.Plateaus = s.Plateaus
	must.Len(t, report.Build(bad, report.Options{}).Plateaus, 0, "an untrustworthy session recommends")
}

// Requests show their directions apart, and the served rate apart from the due one.
func TestRequestLabels(t *testing.T) {
	p := model.Plan{Baseline: "current", Flow: model.Flow{Engine: "reqresp", Params: traffic.Write(requests.Params{Rate: 10})}}
	s := model.Session{Kind: model.KindTest, Far: "nas", Plan: p}
	for i, d := range []model.Direction{model.From, model.To} {
		all := lists.Each([]string{"request", "request (service)"}, func(name string) model.Latency {
			return model.Latency{Name: name, Direction: d, Times: new(hist.Histogram), Sent: 1}
		})
		s.Runs = append(s.Runs, model.Run{Number: i + 1, Block: 1, Setting: "current", State: model.RunValid, Flow: p.Flow,
			Ends: []model.EndReport{{Host: d.Sender(), Latencies: all}}, Warnings: []string{"held up", "of " + string(d)}})
	}
	d := report.Build(s, report.Options{})
	got := lists.Each(d.Latencies, func(l report.Latency) string { return l.Label + " " + l.Name })
	want := []string{"to nas request", "to nas request (service)", "from nas request", "from nas request (service)"}
	must.True(t, slices.Equal(got, want), "latencies %q, want %q", got, want)
	must.Same(t, d.Warnings, []string{"held up", "of from", "of to"}, "warnings")
}

// The table of a search lists the rates from the lowest on, whatever the order of the tries.
func TestSearchTableAscends(t *testing.T) {
	d, _ := build(t, "search")
	var rates []units.BitRate
	for _, row := range d.Classic {
		if row.Basis != report.OverRuns {
			continue
		}
		rates = append(rates, must.Get(units.ParseBitRate(row.Setting))(t))
	}
	must.True(t, len(rates) >= 3 && slices.IsSorted(rates), "rates %v", rates)
}

// TestGridOfThreeFactors: the factor with the fewest levels makes the table's columns, and the
// combinations of the others its rows.
func TestGridOfThreeFactors(t *testing.T) {
	_, s := build(t, "grid")
	s.Plan.Factors = slices.Insert(slices.Clone(s.Plan.Factors), 1, plantest.Factor("sink", "memory"))
	s.Runs = slices.Clone(s.Runs)
	for i, r := range s.Runs {
		s.Runs[i].Setting = strings.Replace(r.Setting, " mtu=", " sink=memory mtu=", 1)
	}
	x := report.Build(s, report.Options{}).Grid.Tables
	must.Need(t, len(x) == 1 && len(x[0].Rows) == 4 && x[0].ColumnsOf == "sink", "table %+v", x)
	last := x[0].Rows[3]
	must.Equal(t, last.Name+": "+last.Cells[0].Text, "recv_buffer_max=1MiB mtu=9000: 933 (921-939)")
}

// Issue 10, item 7: a grid has a legend, reports the effect of each setting and whether the
// settings depend on each other, and has one conclusion.
func TestGridHasOneConclusion(t *testing.T) {
	d, s := build(t, "grid")
	must.True(t, len(d.Grid.Factors) == 2 && d.Grid.Factors[0].Text == "recv_buffer_max is tcp.recv_buffer_max of nas: 64 KiB, 1 MiB", "legend %+v", d.Grid.Factors)
	must.Equal(t, d.Grid.Conclusion, "recv_buffer_max=1MiB mtu=9000 is enough: against current, goodput to nas 2.91 times as fast, at least 2.90")
	e := d.Grid.Effects
	must.True(t, len(e) == 3 && strings.Contains(e[2].Text, "depend on each other: with mtu=1500, recv_buffer_max=1MiB gives 84.2 % higher; with mtu=9000, 2.89 times"), "effects %+v", e)
	x := d.Grid.Tables
	must.True(t, len(x) == 1 && x[0].Title == "goodput to nas, Mbit/s: median (lowest-highest run)" && x[0].Rows[1].Cells[1].Text == "933 (921-939)", "table %+v", x)
	for i := range s.Verdicts {
		if s.Verdicts[i].Outcome == model.Better {
			s.Verdicts[i].Outcome = model.Worse
		}
	}
	must.Equal(t, report.Build(s, report.Options{}).Grid.Conclusion, "leave it: no combination that may be kept is better than current")
	s.Verdicts[0].Outcome = model.Undecided
	must.Equal(t, report.Build(s, report.Options{}).Grid.Conclusion, "no combination is shown to be better than current")
	s.Noise = []model.Noise{{Direction: model.To, Metric: model.Goodput, Checked: true, Evidence: 1e6}}
	must.Equal(t, report.Build(s, report.Options{}).Grid.Conclusion, "", "a conclusion of a session that cannot be trusted")
	d, _ = build(t, "sequential")
	must.True(t, d.Grid == nil, "one setting is no grid: %+v", d.Grid)
}

// Issue 10, item 19: two virtual machines with the same name showed as "vm -> vm".
func TestHostsOfOneNameAreToldApart(t *testing.T) {
	_, s := build(t, "test")
	s.Far = "root@vm"
	for i := range s.Hosts {
		s.Hosts[i].Name = "vm"
	}
	d := report.Build(s, report.Options{})
	must.True(t, d.Header.Near == "vm (near)" && d.Header.Far == "vm (far)" && d.Lines[0].Label == "to vm (far)" && d.Findings[1].Host == "vm (near)", "%+v, %q, %q", d.Header, d.Lines[0].Label, d.Findings[1].Host)
	d, _ = build(t, "test")
	must.True(t, d.Header.Near == "desk" && d.Header.Far == "nas", "%+v", d.Header)
}
