package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/candidate"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
)

// prove adds the results of the confirmation.
func (t *Tuned) prove(s model.Session, winner string) {
	b := newBuilder(&s)
	b.counted = Counted(s.Runs)
	t.Measured = b.beforeAfter(winner, "before", "after")
	for _, v := range s.Verdicts {
		if v.IsTwin || v.Metric != s.Plan.Decides() {
			continue
		}
		parts := []string{metric.Said(v, s.Plan.Margin)}
		for _, g := range s.Verdicts {
			if g.Guard != nil && !g.IsTwin && g.Direction == v.Direction {
				parts = append(parts, guarded(g))
			}
		}
		parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
		t.Gains = append(t.Gains, b.names.Way(v.Direction)+": "+strings.Join(parts, "; "))
		if queue := b.fullQueue(v); queue != "" {
			t.Queues = append(t.Queues, b.names.Way(v.Direction)+": "+queue)
		}
	}
	if keep := analysis.MayKeep(s.Plan.Decides(), s.Verdicts, winner); Untrustworthy(s) == "" {
		t.Proven = keep.Ask()
		for _, g := range keep.Open {
			t.Open = append(t.Open, strings.TrimSpace(b.guardWords(g)))
		}
		for _, v := range s.Verdicts { // each has what speaks against the setting as a whole
			if !t.Proven && v.Setting == winner && v.Outcome == model.Better && s.Plan.DecidedBy(&v) {
				t.Against = b.row(v).Refused
			}
		}
	}
}

// undecided reports whether a confirmation ended with not enough data for any conclusion.
func undecided(s model.Session) bool {
	return Untrustworthy(s) == "" && !slices.ContainsFunc(s.Verdicts, func(v model.Verdict) bool {
		harms := v.Guard != nil && v.Guard.State == model.GuardViolated
		return !v.IsTwin && (harms || v.Guard == nil && v.Metric == s.Plan.Decides() && v.Outcome != model.Undecided)
	})
}

// median formats the median of a setting's runs on the metric of v.
func (b *builder) median(setting string, v model.Verdict) (string, bool) {
	x, ok := b.medianOf(setting, v.Direction, v.Metric)
	if !ok {
		return "", false
	}
	return metric.Amount(v.Metric, x), true
}

func (b *builder) medianOf(setting string, d model.Direction, m model.Metric) (float64, bool) {
	var all []float64
	for _, r := range b.counted {
		if x, ok := r.Value(d, m); ok && r.Setting == setting && r.Flow.Direction == d && r.State == model.RunValid {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return stats.Median(all), true
}

// unmoved is the largest change of a guard that is not mentioned, log ratio (p).
const unmoved = 0.05

// longQueue is the latency under load, above the baseline's, from which the queue of a fully
// used path is mentioned: 10 ms (diagnosis.md, queue too long).
const longQueue = 0.010

// fullQueue describes the path's latency when the setting of v uses it fully, if a guard was
// compared at equal load; "" if that is small.
func (b *builder) fullQueue(v model.Verdict) string {
	held := slices.ContainsFunc(b.s.Verdicts, func(g model.Verdict) bool {
		return g.Setting == v.Setting && g.Direction == v.Direction && g.Guard != nil && g.Guard.EqualLoad > 0
	})
	was, ok1 := b.medianOf(v.Baseline, v.Direction, model.LatencyP50)
	is, ok2 := b.medianOf(v.Setting, v.Direction, model.LatencyP50)
	switch {
	case !held || !ok1 || !ok2:
		return ""
	case is-was < longQueue:
		return fmt.Sprintf("used fully, the path has a median latency of %s (%s before): its queue stays short", metric.Amount(model.LatencyP50, is), metric.Amount(model.LatencyP50, was))
	}
	return fmt.Sprintf("used fully, the path has a median latency of %s (%s before): its queue fills; %s tries what keeps it short",
		metric.Amount(model.LatencyP50, is), metric.Amount(model.LatencyP50, was), b.command("tune", model.Setting{}, "--goal latency"))
}

// short describes each direction that stays below its ceiling: its share of it, and its limit
// by the last look at the winner. If there was nothing to try, the first sentence says that,
// and short says what helps outside both hosts.
func (b *builder) short(rec tune.Record) []string {
	var out []string
	if len(rec.Ideas) == 0 {
		for _, f := range b.s.Findings {
			text := "what helps: " + f.NoKnob
			if f.NoKnob != "" && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
		return out
	}
	for _, in := range slices.Backward(rec.Inputs) {
		if in.Look == nil {
			continue
		}
		for _, d := range []model.Direction{model.To, model.From} {
			if share, known := in.Look.Reached[d].Get(); known && share < rec.Options.Enough {
				text := fmt.Sprintf("%s it reaches %.0f %% of what the path can carry", b.names.Way(d), 100*share)
				if why := in.Look.Limits[d]; why != "" {
					text += ": " + why
				}
				out = append(out, text)
			}
		}
		break
	}
	return out
}

// front lists the settings between which rate and latency leave a choice in a direction, if the
// difference matters, and names the winner among them. listed says that the winner's latency is
// already reported, so that the baseline alone is not another choice.
func (b *builder) front(rec tune.Record, d model.Direction, listed bool) []string {
	all := rec.Front(b.s.Runs, d)
	baseAndWinner := len(all) == 2 && slices.ContainsFunc(all, func(p tune.Point) bool { return p.Setting == tune.Baseline })
	if len(all) < 2 || baseAndWinner && listed || all[len(all)-1].Latency-all[0].Latency < longQueue || math.Log(all[len(all)-1].Rate/all[0].Rate) < unmoved {
		return nil
	}
	out := []string{b.names.Way(d) + " rate and latency conflict; the choice:"}
	for _, p := range all {
		text := fmt.Sprintf("%s at %s: %s", units.BitRate(p.Rate), metric.Amount(model.LatencyP50, p.Latency), p.Setting)
		if p.Taken {
			text += " (the goal takes it)"
		}
		out = append(out, text)
	}
	return out
}

// guarded describes a guard that got worse; "" if it did not change, or improved.
func guarded(v model.Verdict) string {
	info := metric.Describe(v.Metric)
	name, low, high := metric.Name(v.Metric)+atLoad(v.Guard), float64(v.Interval.Low), float64(v.Interval.High)
	switch {
	case v.Guard.Negligible && v.Estimate < 0:
		return name + " stays below " + metric.Amount(v.Metric, metric.Negligible)
	case v.Guard.State == model.GuardUnmeasured, v.Guard.State == model.GuardHolds && v.Estimate >= 0:
		return ""
	case v.Guard.State == model.GuardViolated:
		return "but " + name + " is " + info.SaidBriefly(v.Estimate, low, high)
	case v.Guard.State == model.GuardOpen && v.Guard.Tolerable:
		return name + " is not decided, but less than " + info.HarmText(metric.Tolerable*v.Guard.Margin)
	case v.Guard.State == model.GuardOpen:
		return name + " is not decided (" + info.ChangeText(v.Estimate, low, high) + " so far)"
	case info.CanBe0 || math.Abs(v.Estimate) < unmoved || low < 0 && high > 0:
		return ""
	}
	return name + " is " + info.SaidBriefly(v.Estimate, low, high)
}

// atLoad says at which load a guard compares.
func atLoad(g *model.GuardCheck) string {
	if g.EqualLoad > 0 {
		return " at the baseline's rate"
	}
	return ""
}

// rest describes the values that were not taken, a line for each setting, with the effect of
// each and why it was dropped: tried ones first.
func rest(rec tune.Record, info metric.Info) []string {
	listed, out := map[string]bool{}, []string(nil)
	for _, state := range states() {
		for _, f := range rec.Ideas {
			if f.State != state || listed[f.Levels] || len(f.Setting.Assignments) == 0 {
				continue
			}
			listed[f.Levels] = true
			if values := notTaken(rec, f.Levels, info); len(values) > 0 {
				out = append(out, f.Levels+": "+strings.Join(values, "; "))
			}
		}
	}
	return out
}

// notTaken describes the values of a setting that did not help: "4MiB no effect (0.3 % lower, 5
// blocks)". Values with the same state and no numbers are combined.
func notTaken(rec tune.Record, setting string, info metric.Info) []string {
	var fates []string
	values := map[string][]string{}
	for _, f := range rec.Ideas {
		if f.Levels != setting || f.State == tune.Helped || len(f.Setting.Assignments) == 0 {
			continue
		}
		text := became(f, info)
		if len(values[text]) == 0 {
			fates = append(fates, text)
		}
		if v := f.Text(); !slices.Contains(values[text], v) {
			values[text] = append(values[text], v)
		}
	}
	for i, text := range fates {
		fates[i] = strings.Join(values[text], ", ") + " " + text
	}
	return fates
}

// dryPlan lists what would be tried, in order: the values of each setting, the formula's rate
// for the best of them, the time, the risk, and the finding that it comes from.
func (b *builder) dryPlan(rec tune.Record) []string {
	var out []string
	listed := map[string]bool{}
	look := rec.Inputs[0].Look
	if look == nil {
		return nil
	}
	least, most := tune.RaceTime(rec.Options, b.s.Plan.RunLength()+time.Second)
	for _, risky := range []bool{false, true} { // changes that need the user's consent come last
		for _, f := range rec.Ideas {
			key := string(f.Direction) + f.Levels
			if listed[key] || f.Rule == candidate.RestRule || (f.Ask != "") != risky || f.Refused != "" {
				continue
			}
			listed[key] = true
			levels, texts := levelsOf(rec, f), []string(nil)
			for _, l := range levels {
				texts = append(texts, l.Text())
			}
			text := fmt.Sprintf("%d. %s %s -> %s", len(out)+1, f.Levels, shown(f, f.Now.Or("as it is")), strings.Join(texts, " or "))
			if rate, ok := levels[0].Allows.Get(); ok {
				text += fmt.Sprintf(": would allow %s", rate)
			}
			text += fmt.Sprintf("; %s to %s; %s", units.FormatDuration(least.Round(time.Second)), units.FormatDuration(most.Round(time.Second)), cmp.Or(f.Risk, "a setting of the test: harmless"))
			if risky {
				text += ", tried last, and only if you agree"
			}
			if why := look.Limits[f.Direction]; why != "" {
				text += fmt.Sprintf("; because %s it is %s", b.names.Way(f.Direction), why)
			}
			out = append(out, text)
		}
	}
	if line := dryScreen(*b.s, look.Rest); line != "" {
		out = append(out, fmt.Sprintf("%d. %s", len(out)+1, line))
	}
	for _, f := range rec.Ideas {
		if f.Refused != "" && !listed[f.Levels] {
			listed[f.Levels] = true
			out = append(out, fmt.Sprintf("not %s: %s", f.Levels, f.Refused))
		}
	}
	return out
}

// dryScreen names the settings that a thorough search would then screen together, "" for none.
func dryScreen(s model.Session, rest []tune.Idea) string {
	var names []string
	for _, d := range []model.Direction{model.To, model.From} {
		for _, i := range rest {
			if i.Direction == d && i.Ask == "" && i.Refused == "" {
				names = append(names, i.Setting.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	each := s.Plan.RunLength() + time.Second
	return fmt.Sprintf("where that leaves something to gain, several at a time, up to %s for each direction: %s",
		units.FormatDuration((40 * each).Round(time.Second)), strings.Join(names, ", "))
}

// levelsOf returns the values of a setting that would be tried, the most promising first.
func levelsOf(rec tune.Record, of tune.Fate) []tune.Fate {
	var all []tune.Fate
	for _, f := range rec.Ideas {
		if f.Levels == of.Levels && f.Direction == of.Direction {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b tune.Fate) int { return cmp.Compare(b.Allows.Or(0), a.Allows.Or(0)) })
	return all
}

// shown formats a value of the setting of f.
func shown(f tune.Fate, value string) string {
	c := f.Candidate
	c.Setting.Assignments = []model.Assignment{{Knob: f.Setting.Assignments[0].Knob, Value: value}}
	return c.Text()
}
