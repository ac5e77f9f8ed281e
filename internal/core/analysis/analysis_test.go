package analysis

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/must"
)

func TestSequentialV1IsBetterAtBlockSeven(t *testing.T) {
	p := newPlan(t, 2, nil)
	f := steady(p, map[string][]float64{"s1": v1()})
	for n := 1; n <= 8; n++ {
		r := Analyse(p, runsOf(p, p.NullBlocks+n, f))
		v := verdictOf(t, r, "s1")
		want := model.Undecided
		if n >= 7 {
			want = model.Better
		}
		must.Need(t, v.Outcome == want && r.Done == (n >= 7) && v.Blocks == n && r.Blocks == n, "block %d: %s (%s), done %v", n, v.Outcome, v.Reason, r.Done)
		must.True(t, v.P == nil, "block %d: a fixed-n p in sequential mode", n)
		if n == 8 {
			near(t, "evidence", *v.Evidence, 127.446110, 1e-3)
			near(t, "low", float64(v.Interval.Low), 0.015764, 1e-6)
			near(t, "high", float64(v.Interval.High), 0.071325, 1e-6)
			near(t, "estimate", v.Estimate, 0.043903, 1e-6)
			must.True(t, v.Family == nil && slices.Equal(r.Leaving, []string{"s1"}), "family %v, leaving %v", v.Family, r.Leaving)
		}
	}
}

func TestSequentialV2IsEquivalentAtBlockSix(t *testing.T) {
	p := newPlan(t, 2, func(o *plan.Request) { o.Margin = 2 })
	f := steady(p, map[string][]float64{"s1": v2()})
	for n := 1; n <= 10; n++ {
		v := verdictOf(t, Analyse(p, runsOf(p, p.NullBlocks+n, f)), "s1")
		must.Equal(t, v.Outcome == model.Equivalent, n >= 6, "block %d: %s", n, v.Outcome)
	}
}

func TestSequentialHolmAsksMoreOfTheLeader(t *testing.T) {
	// Blocks 1 to 7 bring E+ of V1 to 70: enough for one candidate (40) and for
	// the second of two (40), not for the leading one of two (80).
	alone := newPlan(t, 3, nil)
	r := Analyse(alone, runsOf(alone, 7, steady(alone, map[string][]float64{"s1": v1(), "s2": {0.001, -0.012}})))
	v := verdictOf(t, r, "s1")
	must.True(t, v.Outcome == model.Undecided && v.Family != nil, "leader with E 70 of 80: %s", v.Outcome)
	strong := []float64{0.3}
	r = Analyse(alone, runsOf(alone, 7, steady(alone, map[string][]float64{"s1": v1(), "s2": strong})))
	for _, name := range []string{"s1", "s2"} {
		must.Equal(t, verdictOf(t, r, name).Outcome, model.Better, "%s behind a decided leader", name)
	}
	must.True(t, r.Done && r.Reason == "every comparison is decided", "done %v: %s", r.Done, r.Reason)
}

func TestCandidateLeavesAndBlocksStayComplete(t *testing.T) {
	p := newPlan(t, 3, nil)
	f := steady(p, map[string][]float64{"s1": {0.5}, "s2": {0.001, -0.03, 0.025}})
	runs := runsOf(p, 7, f)
	if r := Analyse(p, runs); !slices.Equal(r.Leaving, []string{"s1"}) || r.Done {
		t.Fatalf("leaving %v, done %v", r.Leaving, r.Done)
	}
	without := slices.DeleteFunc(slices.Clone(p.Order[7]), func(s string) bool { return s == "s1" })
	r := Analyse(p, append(runs, attemptOf(len(runs), 8, 1, without, f)...))
	v := verdictOf(t, r, "s2")
	must.True(t, v.Blocks == 8, "s2 has %d blocks, want 8", v.Blocks)
	v = verdictOf(t, r, "s1")
	must.True(t, v.Blocks == 7 && v.Outcome == model.Better, "s1: %s after %d blocks", v.Outcome, v.Blocks)
	cut := slices.DeleteFunc(slices.Clone(p.Order[7]), func(s string) bool { return s == "s2" })
	r = Analyse(p, append(runs, attemptOf(len(runs), 8, 1, cut, f)...))
	must.True(t, r.Blocks == 7, "a block without an undecided candidate counts: %d blocks", r.Blocks)
}

func TestFixedV1(t *testing.T) {
	p := newPlan(t, 2, fixed(8))
	f := steady(p, map[string][]float64{"s1": v1()})
	half := Analyse(p, runsOf(p, 8, f))
	if v := verdictOf(t, half, "s1"); v.Outcome != model.Undecided || v.P != nil || half.Done || v.MoreBlocks != 4 {
		t.Errorf("half way: %s, p %v, done %v, %d more", v.Outcome, v.P, half.Done, v.MoreBlocks)
	}
	r := Analyse(p, runsOf(p, 12, f))
	v := verdictOf(t, r, "s1")
	must.Need(t, v.Outcome == model.Better && v.Size == "" && v.Evidence == nil && r.Done && v.Interval.Method == "exact signed-rank", "%+v", v)
	near(t, "p", *v.P, 0.0078125, 1e-12)
	near(t, "estimate", v.Estimate, 0.043903, 1e-6)
	near(t, "low", float64(v.Interval.Low), 0.021902, 1e-6)
	near(t, "high", float64(v.Interval.High), 0.066725, 1e-6)
	near(t, "achieved", v.Interval.Confidence, 0.9609375, 1e-9)
}

func TestFixedOutcomes(t *testing.T) {
	negative := func(d []float64) []float64 {
		out := slices.Clone(d)
		for i := range out {
			out[i] = -out[i]
		}
		return out
	}
	for name, c := range map[string]struct {
		blocks int
		d      []float64
		want   model.Outcome
		size   string
	}{
		"V1":                   {8, v1(), model.Better, ""},
		"V1 turned":            {8, negative(v1()), model.Worse, ""},
		"V2":                   {10, v2(), model.Equivalent, ""},
		"large":                {6, []float64{.2, .21, .19, .2, .22, .18}, model.Better, "at least the margin"},
		"large loss":           {6, []float64{-.2, -.21, -.19, -.2, -.22, -.18}, model.Worse, "at least the margin"},
		"small":                {6, []float64{.01, .011, .009, .012, .008, .0105}, model.Better, "small"},
		"five blocks":          {5, []float64{.2, .21, .19, .2, .22}, model.Undecided, ""},
		"five that differ not": {5, []float64{.001, -.001, .002, 0, -.002}, model.Undecided, ""},
		"noise":                {6, []float64{.2, -.21, .1, -.05, .02, -.08}, model.Undecided, ""},
		"two blocks":           {2, []float64{.2, .2}, model.Undecided, ""},
		"equal differences":    {6, []float64{.1}, model.Better, "at least the margin"},
		"no difference":        {6, []float64{0}, model.Equivalent, ""},
	} {
		p := newPlan(t, 2, fixed(c.blocks))
		v := verdictOf(t, Analyse(p, runsOf(p, len(p.Order), steady(p, map[string][]float64{"s1": c.d}))), "s1")
		must.True(t, v.Outcome == c.want && v.Size == c.size, "%s: %s %q (%s), want %s %q", name, v.Outcome, v.Size, v.Reason, c.want, c.size)
		must.True(t, (v.Outcome == model.Undecided) == (v.Reason != "") && (v.Outcome == model.Undecided) == (v.MoreBlocks > 0),
			"%s: reason %q, %d more blocks", name, v.Reason, v.MoreBlocks)
	}
}

func TestFixedHolmHoldsBackAWeakCandidate(t *testing.T) {
	weak := []float64{.05, .03, -.002, .06, .04, .01, .02, .035} // signed-rank p 2/128
	p := newPlan(t, 6, fixed(8))
	d := map[string][]float64{"s1": weak}
	for _, s := range []string{"s2", "s3", "s4", "s5"} {
		d[s] = []float64{.2, -.2, .1, -.11, .05, -.06, .01, -.02}
	}
	v := verdictOf(t, Analyse(p, runsOf(p, 8, steady(p, d))), "s1")
	must.True(t, v.Outcome == model.Undecided && v.Interval.Low > 0 && strings.Contains(v.Reason, "5 comparisons"),
		"%s (%s), interval %v", v.Outcome, v.Reason, v.Interval)
	near(t, "adjusted p", *v.P, 5*2*2.0/256, 1e-12)
	must.True(t, v.Family != nil && v.Family.Low < v.Interval.Low, "family interval %v inside %v", v.Family, v.Interval)
	alone := newPlan(t, 2, fixed(8))
	must.Equal(t, verdictOf(t, Analyse(alone, runsOf(alone, 12, steady(alone, d))), "s1").Outcome, model.Better, "alone")
}

func TestTwinMakesTheSessionUntrustworthy(t *testing.T) {
	for name, change := range map[string]func(*plan.Request){"sequential": nil, "fixed": fixed(9)} {
		p := newPlan(t, 3, change)
		f := steady(p, map[string][]float64{"s1": {.2}, "s2": v1(), p.Twin: {.3, .31, .29, .32}})
		r := Analyse(p, runsOf(p, 9, f))
		must.True(t, r.Untrustworthy && r.Done && strings.Contains(r.Reason, "copy of the baseline"),
			"%s: untrustworthy %v, done %v: %s", name, r.Untrustworthy, r.Done, r.Reason)
		for _, v := range r.Verdicts {
			must.True(t, v.IsTwin == (v.Setting == p.Twin) && v.IsTwin == (v.Outcome == model.Better), "%s: %s is %s (%s)", name, v.Setting, v.Outcome, v.Reason)
			must.True(t, v.IsTwin || v.Reason == r.Reason && v.P == nil, "%s: %s says %q", name, v.Setting, v.Reason)
		}
	}
}

func TestBaselinePairs(t *testing.T) {
	p := newPlan(t, 2, nil)
	signs := newSession(p, nil)
	pairs := func(d []float64) Result {
		// value by coin, so that the differences are d whichever setting is the candidate
		probe := signs.nullSigns()
		return Analyse(p, runsOf(p, 4, func(_ string, block, position int) float64 {
			if position == 1 {
				return 1e9
			}
			return 1e9 * math.Exp(probe[block]*d[block-1])
		}))
	}
	quiet := pairs([]float64{.012, -.031, .008, .022})
	must.Need(t, !quiet.Untrustworthy && len(quiet.Noise) == 1 && quiet.Noise[0].Source == "baseline pairs", "%+v", quiet)
	near(t, "sigma", quiet.Noise[0].Sigma, 0.020329, 1e-6)
	near(t, "upper", quiet.Noise[0].Upper, 0.031663, 1e-6)
	// Four of one sign come by chance in one session of eight: they say nothing.
	odd := pairs([]float64{.10, .12, .09, .11})
	must.True(t, !odd.Untrustworthy && !odd.Noise[0].Checked, "four pairs judge the baseline: %+v", odd)
}

// A twin that differs a little earns a warning; one that differs by more than chance explains
// ends all verdicts (statistics.md section 5.4).
func TestTwinBetweenWarningAndVeto(t *testing.T) {
	for name, c := range map[string]struct {
		blocks int
		d      []float64
		says   string
		bad    bool
	}{
		"quiet":   {9, []float64{.02, -.03, .01}, "", false},
		"warning": {6, []float64{.3}, "by chance in one session of 20", false},
		"veto":    {9, []float64{.3}, "untrustworthy", true},
	} {
		p := newPlan(t, 3, nil)
		r := Analyse(p, runsOf(p, c.blocks, steady(p, map[string][]float64{"s1": {.2}, "s2": {.2}, p.Twin: c.d})))
		told := strings.Contains(strings.Join(append(r.Warnings, r.Reason), "; "), c.says)
		must.True(t, r.Untrustworthy == c.bad && told && (c.says == "") == (len(r.Warnings) == 0 && !r.Untrustworthy),
			"%s: untrustworthy %v (%s), warnings %q", name, r.Untrustworthy, r.Reason, r.Warnings)
		for _, v := range r.Verdicts {
			must.True(t, !v.IsTwin || c.bad || v.Outcome == model.Undecided || v.Outcome == model.Equivalent,
				"%s: the copy is %s in a session that is trusted", name, v.Outcome)
		}
	}
}

// One stalled block does not silence twenty good ones.
func TestOneStalledBlock(t *testing.T) {
	p := newPlan(t, 2, nil)
	d := make([]float64, 20)
	for i := range d {
		d[i] = -.05 + .001*float64(i%5)
	}
	d[3] = .24
	v := verdictOf(t, Analyse(p, runsOf(p, len(p.Order), steady(p, map[string][]float64{"s1": d}))), "s1")
	must.True(t, v.Outcome == model.Worse, "%s after %d blocks (%s)", v.Outcome, v.Blocks, v.Reason)
}

func TestInvalidRunsRepeatTheBlock(t *testing.T) {
	p := newPlan(t, 2, fixed(3))
	f := steady(p, map[string][]float64{"s1": {.1}})
	runs := runsOf(p, 7, f)
	runs[8].State, runs[8].Reason = model.RunInvalid, "knob did not read back" // block 5
	r := Analyse(p, runs)
	must.True(t, r.Blocks == 2 && !r.Done, "%d blocks, done %v; want 2 and a repeat", r.Blocks, r.Done)
	r = Analyse(p, append(slices.Clone(runs), attemptOf(len(runs), 5, 2, p.Order[4], f)...))
	must.True(t, r.Blocks == 3 && r.Done, "%d blocks, done %v; want 3 and the end", r.Blocks, r.Done)
	for attempt := 2; attempt <= 3; attempt++ {
		again := attemptOf(len(runs), 5, attempt, p.Order[4], f)
		again[0].State = model.RunInvalid
		runs = append(runs, again...)
	}
	r = Analyse(p, runs)
	must.True(t, r.Blocks == 2 && r.Done, "%d blocks, done %v; want 2 and no fourth try", r.Blocks, r.Done)
}

func TestLastCompleteAttemptCounts(t *testing.T) {
	p := newPlan(t, 2, fixed(3))
	runs := runsOf(p, 7, steady(p, map[string][]float64{"s1": {.1}}))
	better := steady(p, map[string][]float64{"s1": {.4}})
	runs = append(runs, attemptOf(len(runs), 5, 2, p.Order[4], better)...)
	r := Analyse(p, runs)
	v := verdictOf(t, r, "s1")
	must.Need(t, v.Blocks == 3, "%d blocks, want 3", v.Blocks)
	near(t, "estimate", verdictOf(t, r, "s1").Estimate, 0.2, 1e-9)
	must.Equal(t, Analyse(p, append(runs, attemptOf(len(runs), 6, 2, p.Order[5][:1], better)...)).Blocks, 3, "an interrupted repeat took a block away")
}

func TestUnstableSettingIsReported(t *testing.T) {
	p := newPlan(t, 2, nil)
	runs := runsOf(p, 10, steady(p, nil))
	broken := 0
	for i := range runs {
		if runs[i].Setting == "s1" && broken < 2 {
			runs[i].State = model.RunInvalid
			broken++
		}
	}
	r := Analyse(p, runs)
	must.True(t, len(r.Unstable) == 1 && r.Unstable[0] == (Unstable{Setting: "s1", Invalid: 2, Runs: 6}), "unstable: %+v", r.Unstable)
	must.Len(t, Analyse(p, runsOf(p, 10, steady(p, nil))).Unstable, 0, "unstable without an invalid run")
}

func TestBudgetEndsTheSession(t *testing.T) {
	p := newPlan(t, 2, func(o *plan.Request) { o.Budget = 3 * time.Minute })
	f := steady(p, map[string][]float64{"s1": {.03, -.03}})
	r := Analyse(p, runsOf(p, 8, f))
	must.True(t, !r.Done, "done after 160 s of 180: %s", r.Reason)
	r = Analyse(p, runsOf(p, 9, f))
	must.True(t, r.Done && strings.Contains(r.Reason, "budget"), "done %v after 180 s: %s", r.Done, r.Reason)
}

func TestHopeless(t *testing.T) {
	p := newPlan(t, 2, nil)
	far := steady(p, map[string][]float64{"s1": {.5, -.48}})
	must.True(t, !Analyse(p, runsOf(p, 9, far)).Hopeless, "hopeless before a verdict was possible")
	r := Analyse(p, runsOf(p, 12, far))
	must.True(t, r.Hopeless && !r.Done, "hopeless %v, done %v", r.Hopeless, r.Done)
	mild := steady(p, map[string][]float64{"s1": {.03, .01, .025, -.01}})
	if r := Analyse(p, runsOf(p, 12, mild)); r.Hopeless {
		t.Errorf("hopeless, with %d more blocks", verdictOf(t, r, "s1").MoreBlocks)
	}
}

func TestUndecidedAtTheEnd(t *testing.T) {
	p := newPlan(t, 2, nil)
	r := Analyse(p, runsOf(p, 24, steady(p, map[string][]float64{"s1": {.2, -.19}})))
	v := verdictOf(t, r, "s1")
	must.True(t, r.Done && !r.Hopeless && v.Outcome == model.Undecided && v.MoreBlocks >= 1 && r.Reason == "the plan's blocks are spent",
		"done %v (%s), %s, %d more", r.Done, r.Reason, v.Outcome, v.MoreBlocks)
}

func TestResultsHaveNoNumberThatJSONCannotShow(t *testing.T) {
	for _, blocks := range []int{0, 1, 4, 5, 6, 7, 24} {
		for _, mode := range []func(*plan.Request){nil, fixed(20)} {
			p := newPlan(t, 2, mode)
			r := Analyse(p, runsOf(p, blocks, steady(p, map[string][]float64{"s1": {.1, .11}})))
			must.Need(t, len(r.Verdicts) == 1, "%d blocks: %d verdicts", blocks, len(r.Verdicts))
			must.OK(t, must.Err(json.Marshal(r.Verdicts)), "%d blocks", blocks)
		}
	}
}

func TestDirectionsAndMetrics(t *testing.T) {
	p := newPlan(t, 2, func(o *plan.Request) { o.Flow.Direction = model.Both })
	runs := runsOf(p, 12, steady(p, map[string][]float64{"s1": {.5}}))
	for i := range runs {
		up, _ := runs[i].Value(model.To, model.Goodput)
		runs[i].Values = append(runs[i].Values,
			model.Value{Direction: model.From, Metric: model.Goodput, Value: 1e9 + float64(runs[i].Number%7)*3e7},
			model.Value{Direction: model.To, Metric: model.RTT, Value: up / 1e12})
	}
	r := Analyse(p, runs)
	must.Need(t, len(r.Verdicts) == 3 && r.Verdicts[0].Direction == model.To && r.Verdicts[1].Direction == model.From, "verdicts %+v", r.Verdicts)
	must.True(t, r.Verdicts[0].Outcome == model.Better && r.Verdicts[1].Outcome == model.Undecided && !r.Done && len(r.Leaving) == 0, "%s and %s, done %v, leaving %v", r.Verdicts[0].Outcome, r.Verdicts[1].Outcome, r.Done, r.Leaving)
	if v := verdictOfMetric(t, r, "s1", model.RTT); v.Outcome != model.Undecided || !(v.Estimate < 0) {
		t.Errorf("a longer round trip is %s by %v before goodput is decided", v.Outcome, v.Estimate)
	}
	p.Objective, p.Guards = model.RTT, nil
	v := verdictOf(t, Analyse(p, runs), "s1")
	must.True(t, v.Metric == model.RTT && v.Outcome == model.Worse, "a longer round trip is %s", v.Outcome)
	p.Objective = model.Retransmits
	none := Analyse(p, runs)
	must.True(t, slices.ContainsFunc(none.Warnings, func(w string) bool { return strings.Contains(w, "retransmits is not") }), "warnings %q", none.Warnings)
}

func TestUnusableValuesLeaveTheBlockOut(t *testing.T) {
	p := newPlan(t, 2, nil)
	runs := runsOf(p, 12, steady(p, map[string][]float64{"s1": {.5}}))
	runs[8].Values = nil
	r := Analyse(p, runs)
	v := verdictOf(t, r, "s1")
	must.True(t, v.Blocks == 7 && r.Blocks == 8, "%d differences of %d blocks, want 7 of 8", v.Blocks, r.Blocks)
	must.True(t, slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "block 5 has no usable value") }), "warnings %q", r.Warnings)
}

// TestBoundThatTouchesZeroIsOnNoSide is the case that scaling all throughputs by
// a quarter once turned from equivalent into better.
func TestBoundThatTouchesZeroIsOnNoSide(t *testing.T) {
	s := &session{alpha: 0.05, margin: 0.03, plan: model.Plan{Confidence: 0.95}}
	d := []float64{0.001, 0.002, 0, 0.001, -0.001, 0.002, 0.001, 0.001}
	l := look{x: &series{objective: true, scale: 1, margin: 0.03}, one: &side{d: d}, verdict: model.Verdict{Blocks: len(d)}}
	for _, low := range []float64{0, 3e-17, -3e-17} {
		l.within, l.narrow = stats.Interval{Low: low, High: 0.002}, stats.Interval{Low: low, High: 0.002}
		v := s.nameFixed(l, 0.01, true)
		must.True(t, v.Outcome == model.Equivalent, "a lower bound of %g is %s, want equivalent", low, v.Outcome)
		l.within, l.narrow = stats.Interval{Low: -0.002, High: low}, stats.Interval{Low: -0.002, High: low}
		v = s.nameFixed(l, 0.01, true)
		must.True(t, v.Outcome == model.Equivalent, "an upper bound of %g is %s, want equivalent", low, v.Outcome)
	}
}
