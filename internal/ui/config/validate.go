package config

import (
	"math"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/units"
)

// Validate reports every mistake in how the values of f fit together, as Errors. Parse calls it;
// a caller that changes a File, or makes one from flags, calls it again.
func (f File) Validate() error {
	r := &report{at: f.at, flags: f.flags}
	r.validate(f)
	return r.problems.sorted()
}

func (r *report) validate(f File) {
	r.validateFlow(f)
	r.validateEngine(f)
	r.validateDecision(f)
	if len(f.Factors) > 0 {
		r.validateFactors(f)
		r.commands(f)
	}
	r.validateNamed(f)
	if len(f.Factors) == 0 && len(f.Named) == 0 && !f.Has("factors") && !f.Has("settings") { // otherwise their own mistakes are reported
		r.fault("", "add factors: or settings:", "the plan compares nothing")
	}
	r.validateBaseline(f)
	if f.Has("blocks") && f.Has("max_blocks") { // not the fields: a caller may have filled in the default of one
		r.fault("max_blocks", "leave one of them out", "blocks fixes their number, max_blocks is for plans that end when decided")
	}
	if run := runLength(f); f.Budget > 0 && f.Budget < run {
		r.fault("budget", "raise it or shorten the runs", "%s is less than one run, which takes %s",
			units.FormatDuration(f.Budget), units.FormatDuration(run))
	}
}

func (r *report) validateFlow(f File) {
	if f.Flow.Duration > 0 && f.Flow.Bytes > 0 {
		r.fault("flow.bytes", "leave one of them out", "a run ends after a duration or after bytes, not both")
	}
	if f.Flow.Omit > 0 && f.Flow.Bytes > 0 {
		r.fault("flow.omit", "leave one of them out", "a run that ends after bytes has no warm-up")
	}
	if f.Flow.Duration > 0 && f.Flow.Interval > f.Flow.Duration {
		r.fault("flow.interval", "write it like 1s", "%s is longer than the duration %s",
			units.FormatDuration(f.Flow.Interval), units.FormatDuration(f.Flow.Duration))
	}
}

func (r *report) validateFactors(f File) {
	held, _ := f.held()
	for i, factor := range f.Factors {
		path := index("factors", i)
		switch at := join(path, "group"); {
		case !factor.Group:
		case factor.Knob != held.Knob:
			r.fault(at, "leave one of them out", "one factor at most is held over groups of runs, and %s is already", held)
		case factor.OfFlow:
			r.fault(at, "leave it out", "%s is of the flow, which every run sets anew: there is nothing to hold", factor)
		case len(factor.Also) > 0:
			r.fault(at, "leave one of the two out", "%s moves other settings with it, which cannot be held over a group of runs", factor)
		case len(f.Factors) == 1 && len(f.Named) == 0:
			r.fault(at, "add another factor, or leave it out", "%s is the only factor: nothing could change while it is held", factor)
		}
		r.duplicateLevels(join(path, "levels"), factor)
		for _, other := range f.Factors[:i] {
			if factor.Knob == "" || factor.Knob != other.Knob {
				continue
			}
			if factor.Host == other.Host || factor.Host == "" || other.Host == "" {
				r.fault(path, "leave one of them out", "%s is already a factor", factor)
				break
			}
		}
		for n, s := range f.Named {
			if slices.ContainsFunc(s.Assignments, func(a model.Assignment) bool {
				return a.Knob == factor.Knob && (factor.Host == "" || a.Host == factor.Host)
			}) {
				r.fault(index("settings", n), "leave it out of one of them", "%s is a factor of this plan, and %s sets it too", factor, quote(s.Name))
			}
		}
	}
	if count := f.combinations(); count > MaxSettings {
		most := ""
		if count == math.MaxInt {
			most = "more than "
		}
		r.fault("factors", "use fewer factors or levels, or one plan for each factor", "the levels make %s%d settings, and a plan may have %d", most, count, MaxSettings)
	}
}

// duplicateLevels reports levels with the value of an earlier one.
func (r *report) duplicateLevels(path string, f Factor) {
	seen := map[string]string{}
	for i, l := range f.Levels {
		first, again := seen[l.Value]
		switch {
		case l.Value == "": // its own mistake is reported
		case again:
			at := path
			if path != "" {
				at = index(path, i)
			}
			r.fault(at, "leave one of them out", "level %s has the same value as %s", quote(l.Text), quote(first))
		default:
			seen[l.Value] = l.Text
		}
	}
}

func (r *report) validateNamed(f File) {
	if len(f.Named) > MaxSettings {
		r.fault("settings", "use fewer", "%d settings are more than %d", len(f.Named), MaxSettings)
		return
	}
	for i, s := range f.Named {
		path := index("settings", i)
		name := join(path, "name")
		switch {
		case s.Name == "":
			continue // reported where it was read
		case slices.ContainsFunc(f.Named[:i], func(o model.Setting) bool { return o.Name == s.Name }):
			r.fault(name, "give it another name", "a setting named %s is already there", quote(s.Name))
			continue
		case strings.HasSuffix(s.Name, plan.TwinSuffix):
			r.fault(name, "give it another name", "%s is what a null twin is called", quote(s.Name))
		case s.Name == Current && len(s.Assignments) > 0:
			r.fault(name, "give it another name", "%s is the name of the hosts as they are", quote(s.Name))
		}
	}
}

// validateBaseline looks for the baseline among the settings, if these are complete and few
// enough to list.
func (r *report) validateBaseline(f File) {
	if f.Baseline == "" || f.Baseline == Current || len(f.Factors) == 0 && len(f.Named) == 0 {
		return
	}
	broken := slices.ContainsFunc(f.Factors, func(o Factor) bool { return o.Knob == "" || len(o.Levels) == 0 })
	nameless := slices.ContainsFunc(f.Named, func(s model.Setting) bool { return s.Name == "" })
	if broken || nameless || len(f.Named) > MaxSettings || f.combinations() > MaxSettings {
		return
	}
	settings, baseline := f.Settings()
	if slices.ContainsFunc(settings, func(s model.Setting) bool { return s.Name == baseline }) {
		return
	}
	names := []string{Current}
	if f.combined() != nil {
		_, written := f.grid()
		names, settings = append(names, written...), nil
	}
	for _, s := range settings {
		names = append(names, s.Name)
	}
	r.fault("baseline", didYouMean(baseline, names), "%s is not a setting of this plan", quote(baseline))
}
