package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// faults collects all faults, so that the user sees them at once.
type faults []error

func (f *faults) add(bad bool, format string, args ...any) {
	if bad {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// validate returns the factor's levels, ascending, and every fault of o.
func validate(o Request) ([]string, error) {
	var f faults
	o.checkSettings(&f)
	o.checkNumbers(&f)
	o.checkFlow(&f)
	o.checkMetrics(&f)
	o.checkBlocks(&f)
	o.checkGroups(&f)
	o.checkIncomplete(&f)
	levels := o.levels(&f)
	return levels, errors.Join(f...)
}

func (o Request) checkSettings(f *faults) {
	f.add(len(o.Settings) == 0, "no settings")
	seen := map[string]bool{}
	for i, s := range o.Settings {
		f.add(s.Name == "", "setting %d has no name", i+1)
		f.add(s.Name != "" && seen[s.Name], "setting %q appears twice", s.Name)
		f.add(o.hasTwin() && s.Name == o.Baseline+TwinSuffix, "setting name %q is the null twin's", s.Name)
		seen[s.Name] = true
		assigned := map[model.Assignment]bool{}
		for _, a := range s.Assignments {
			key := model.Assignment{Host: a.Host, Knob: a.Knob}
			f.add(a.Knob == "", "setting %q assigns %q to no knob", s.Name, a.Value)
			f.add(assigned[key], "setting %q assigns %s twice", s.Name, a.Knob)
			assigned[key] = true
		}
	}
	f.add(len(o.Settings) > 0 && !seen[o.Baseline], "baseline %q is not among the settings", o.Baseline)
}

func (o Request) checkNumbers(f *faults) {
	f.add(!slices.Contains([]Null{NullAuto, NullTwin, NullNone}, o.Null), "null check %q is unknown", o.Null)
	f.add(!(o.Margin > 0 && o.Margin < 100), "margin %g %% is not between 0 and 100", float64(o.Margin))
	f.add(!(o.Tolerance > 0 && o.Tolerance < 100), "tolerance %g %% is not between 0 and 100", float64(o.Tolerance))
	f.add(!(o.Confidence > 0.5 && o.Confidence < 1), "confidence %g is not between 0.5 and 1", o.Confidence)
	f.add(o.Budget < 0, "budget %v is negative", o.Budget)
	f.add(o.Data < 0, "data budget %d is negative", o.Data)
	f.add(o.Cooldown < 0, "cooldown %v is negative", o.Cooldown)
}

func (o Request) checkFlow(f *faults) {
	f.add(o.Flow.Engine == "", "the flow names no engine")
	for i, d := range o.Directions {
		f.add(!slices.Contains([]model.Direction{model.To, model.From, model.Both}, d), "flow direction %q is none of to, from, both", d)
		f.add(slices.Contains(o.Directions[:i], d), "flow direction %q appears twice", d)
	}
	for _, d := range o.Watched {
		f.add(d == model.Both || slices.Contains(o.Directions, model.Both) || slices.Contains(o.Directions, d), "flow direction %q cannot be watched beside the others", d)
	}
	f.add(len(o.Directions) > 1 && slices.Contains(o.Directions, model.Both), "both directions at once cannot be measured beside single ones")
	f.add(o.Flow.Duration < 0 || o.Flow.Omit < 0 || o.Flow.Interval < 0 || o.Flow.Bytes < 0, "the flow has a negative length")
	f.add(o.Flow.Duration == 0 && o.Flow.Bytes == 0, "the flow has neither a duration nor an amount of bytes")
}

// checkMetrics rejects a plan that could decide nothing, and ineffective guards.
func (o Request) checkMetrics(f *faults) {
	_, known := metric.Of(o.Objective)
	f.add(!known, "no verdict can be given on %s", o.Objective)
	measured := metric.Measured(o.Flow)
	of := func(m model.Metric) bool { return metric.Serves(o.Flow, m) }
	f.add(known && !of(o.Objective), "engine %s measures no %s; it measures %s", o.Flow.Engine, metric.Name(o.Objective), metric.List(measured))
	for _, e := range model.Engines(o.Settings) {
		one := []string{e}
		f.add(known && !metric.ServedBy(o.Objective, one), "engine %s, a level, measures no %s", e, metric.Name(o.Objective))
		for _, g := range o.Guards {
			f.add(!metric.ServedBy(g.Metric, one), "engine %s, a level, measures no %s, which is a guard", e, metric.Name(g.Metric))
		}
	}
	seen := map[model.Metric]bool{}
	for _, g := range o.Guards {
		i, known := metric.Of(g.Metric)
		f.add(!known, "%s cannot be a guard", g.Metric)
		f.add(known && !of(g.Metric), "guard %s: engine %s measures no %s; it measures %s", i.Short, o.Flow.Engine, i.Name, metric.List(measured))
		f.add(known && g.Metric == o.Objective, "guard %s: that is what decides already", i.Short)
		f.add(seen[g.Metric], "guard %s appears twice", i.Short)
		f.add(known && !(g.Margin > 0) || i.CanBe0 && i.Unit == "%" && !(g.Margin < 1) || known && !i.CanBe0 && !i.LowIs && !(g.Margin < 100),
			"guard %s: a margin of %g is none", i.Short, g.Margin)
		seen[g.Metric] = true
	}
}

// checkBlocks rejects plans that could not decide anything. Sequential evidence is exact and
// never above 2ⁿ, so its floor is that of section 6.3 too; a fixed plan below the floor is
// still allowed, as a description.
func (o Request) checkBlocks(f *faults) {
	candidates := len(o.Settings) - 1
	f.add(o.Mode != model.FixedBlocks && o.Mode != model.Sequential, "mode %q is unknown", o.Mode)
	f.add(o.Mode == model.FixedBlocks && o.MaxBlocks < 1, "a fixed plan needs at least 1 block, not %d", o.MaxBlocks)
	f.add(o.MaxBlocks > MaxBlocks, "%d blocks are more than %d", o.MaxBlocks, MaxBlocks)
	f.add(o.Mode == model.Sequential && candidates == 0, "a single setting has nothing to be compared with")
	if candidates < 1 || !(o.Confidence > 0.5 && o.Confidence < 1) {
		return
	}
	floor := stats.MinBlocks(candidates, 1-o.Confidence)
	if o.Mode == model.Sequential {
		f.add(o.MaxBlocks < floor, "%d blocks cannot decide anything: n blocks leave 2^n ways to swap the runs, "+
			"and %d comparisons at %.4g %% need at least %d blocks", o.MaxBlocks, candidates, 100*o.Confidence, floor)
	}
}

// checkIncomplete rejects incomplete blocks that would hold all settings, or split a group.
func (o Request) checkIncomplete(f *faults) {
	if !o.Incomplete {
		return
	}
	f.add(o.Held != "", "incomplete blocks hold some of the settings, and a group that holds %s has to be complete", o.Held)
	f.add(len(o.Settings)-1 <= stats.SubsetSize, "incomplete blocks hold %d settings beside the baseline, and this plan has no more", stats.SubsetSize)
}

// levels returns the settings among which to find the smallest good one, ascending: those that
// assign the factor, or the combinations of several. It returns nil for incomplete blocks.
func (o Request) levels(f *faults) []string {
	switch {
	case o.Incomplete:
		return nil
	case len(o.Factors) > 0:
		return ascending(o.Factors)
	case o.Factor == "":
		return nil
	}
	type level struct {
		name  string
		value float64
		rest  []model.Assignment
	}
	var found []level
	for _, s := range o.Settings {
		values, rest := split(s, o.Factor)
		if len(values) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(values[0], 64)
		f.add(err != nil, "setting %q: %s is %q, not a number", s.Name, o.Factor, values[0])
		f.add(slices.Max(values) != slices.Min(values), "setting %q: %s differs between the hosts", s.Name, o.Factor)
		found = append(found, level{s.Name, v, rest})
	}
	f.add(len(found) < 2, "factor %s has %d levels, which is fewer than 2", o.Factor, len(found))
	slices.SortStableFunc(found, func(a, b level) int { return cmp.Compare(a.value, b.value) })
	out := make([]string, len(found))
	for i, l := range found {
		out[i] = l.name
		f.add(i > 0 && l.value == found[max(0, i-1)].value, "settings %q and %q have the same %s", found[max(0, i-1)].name, l.name, o.Factor)
		f.add(!slices.Equal(l.rest, found[0].rest), "settings %q and %q differ in more than %s", found[0].name, l.name, o.Factor)
	}
	return out
}

// split returns the values that s assigns to knob k, on either host, and its other assignments,
// sorted. Of a knob that gets the same value as k, and so moves with it, rest says only that.
func split(s model.Setting, k model.KnobID) (values []string, rest []model.Assignment) {
	for _, a := range s.Assignments {
		if a.Knob == k {
			values = append(values, a.Value)
		}
	}
	for _, a := range s.Assignments {
		if a.Knob == k {
			continue
		}
		if len(values) > 0 && a.Value == values[0] {
			a.Value = "the same"
		}
		rest = append(rest, a)
	}
	slices.SortFunc(rest, func(a, b model.Assignment) int {
		return cmp.Or(cmp.Compare(a.Knob, b.Knob), cmp.Compare(a.Host, b.Host))
	})
	return values, rest
}
