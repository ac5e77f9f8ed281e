// Package config reads plan files: the YAML text in which a person writes an experiment.
// docs/plan-files.md describes the format.
//
// It reports all mistakes of a file at once, each with its line, its column and what would be
// right.
package config

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Current is the name of the setting that leaves hosts and flow as they are.
const Current = "current"

// MaxSettings is the largest number of settings of one file, grid or list.
const MaxSettings = 64

// File is the content of a plan file or of flags. A zero field was not given, unless Has reports
// otherwise.
type File struct {
	// Request is the experiment as written, without its settings; its Factors and Guards are
	// those below. Complete adds the rest. The Direction of the flow is the first of
	// Directions.
	plan.Request
	// Kinds are the possible kinds of the flow; any other is unknown.
	Kinds   traffic.Kinds
	Title   string
	Near    string          // target; "" is this machine
	Far     string          // target
	Factors []Factor        // a full grid of levels
	Named   []model.Setting // individual settings; beside factors, the levels of another one
	Guards  []Guard         // in addition to the traffic's default guards, or instead of them

	at    map[string]position // position of every value, by its path
	flags map[string]string   // the flag that gave a value, by its path
}

// Factor is one knob with the values to compare.
type Factor struct {
	Host   model.Host // "" sets a host's knob on both hosts
	Knob   model.KnobID
	Levels []Level
	OfFlow bool // of the flow, or an engine's own
	// Also are further knobs of the same host that get the same value.
	Also []model.KnobID
	// Targets maps the values of far-end levels to the targets that open them, which are not
	// stored.
	Targets map[string]string
	// Command is the command of a factor that is not a knob; its levels are off and on.
	Command model.Command
	// Group says that it is hard to change: in every block its levels are held over a group of
	// runs, in which the other factors change.
	Group bool
}

// Level is one value of a factor.
type Level struct {
	Text  string // as the user wrote it; for a far end, its name
	Value string // canonical
}

// FarEnds returns the factor whose levels are far ends; it reports false if there is none.
func (f File) FarEnds() (Factor, bool) {
	i := slices.IndexFunc(f.Factors, func(o Factor) bool { return o.Knob == model.FarEnd })
	if i < 0 {
		return Factor{}, false
	}
	return f.Factors[i], true
}

// Has reports whether the file or a flag gives a value at path, for example "settle" or
// "flow.duration". It distinguishes a given zero from an absent value.
func (f File) Has(path string) bool {
	_, ok := f.at[path]
	return ok
}

// Settings returns the settings to compare and the name of their baseline. If the file names no
// baseline, it is the setting without assignments, which is added in front under the name
// Current if necessary. Two cases use the first combination instead: a factor held over groups
// of runs, where the unchanged hosts would be a group of another size, and far ends as a factor
// with no far end named beside it.
// Factors with more than MaxSettings combinations, which Validate refuses, give no settings. The
// settings of one factor are named like its levels; those of several by all their levels, such
// as "mtu=9000 window=64KiB". If named settings are combined with factors, and one of them leaves
// the hosts unchanged, the baseline is its first combination.
func (f File) Settings() (settings []model.Setting, baseline string) {
	settings = slices.Clone(f.Named)
	if len(f.Factors) > 0 {
		settings, _ = f.grid()
	}
	unchanged := slices.IndexFunc(f.Named, func(s model.Setting) bool { return len(s.Assignments) == 0 })
	if f.Baseline != "" && f.Baseline != Current {
		if i := f.baselineIndex(settings); i >= 0 {
			return settings, settings[i].Name
		}
		return settings, f.Baseline
	}
	_, held := f.held()
	if _, several := f.FarEnds(); (held || several && f.Far == "") && f.Baseline == "" && len(settings) > 0 {
		return settings, settings[0].Name
	}
	if unchanged >= 0 && len(f.Factors) > 0 && len(settings) > 0 && f.Baseline == "" {
		return settings, settings[unchanged*len(settings)/len(f.Named)].Name
	}
	for _, s := range settings {
		if !slices.ContainsFunc(s.Assignments, func(a model.Assignment) bool { return a.Value != model.Off || !a.IsCommand() }) {
			return settings, s.Name // nothing is changed
		}
	}
	return slices.Insert(settings, 0, model.Setting{Name: Current}), Current
}

// held returns the factor that is held over groups of runs.
func (f File) held() (Factor, bool) {
	i := slices.IndexFunc(f.Factors, func(o Factor) bool { return o.Group })
	if i < 0 {
		return Factor{}, false
	}
	return f.Factors[i], true
}

// Hold makes the factor of this name, and no other, held over groups of runs.
func (f *File) Hold(name string) error {
	f.Factors = slices.Clone(f.Factors)
	found := false
	var names []string
	for i := range f.Factors {
		o := &f.Factors[i]
		o.Group = name == o.String() || name == string(o.Knob)
		found, names = found || o.Group, append(names, o.String())
	}
	if !found {
		return fmt.Errorf("%s is no factor of this plan: %s", quote(name), didYouMean(name, names))
	}
	return nil
}

// baselineIndex finds the baseline by name. With several factors it also matches their levels,
// "window=64KiB mss=1460", and with one factor its value: "64K" is the level "64KiB". It returns
// -1 if there is none.
func (f File) baselineIndex(settings []model.Setting) int {
	if i := slices.IndexFunc(settings, func(s model.Setting) bool { return s.Name == f.Baseline }); i >= 0 {
		return i
	}
	if len(f.Factors) != 1 || len(f.Named) > 0 {
		_, written := f.grid()
		return slices.Index(written, f.Baseline)
	}
	var want int64
	if f.Factors[0].Knob == "rate" {
		rate, err := units.ParseBitRate(f.Baseline)
		if err != nil {
			return -1
		}
		want = int64(math.Round(float64(rate)))
	} else {
		size, err := units.ParseBytes(f.Baseline)
		if err != nil {
			return -1
		}
		want = int64(size)
	}
	return slices.IndexFunc(f.Factors[0].Levels, func(l Level) bool { return l.Value == strconv.FormatInt(want, 10) })
}

// combinations returns the number of settings from the factors: math.MaxInt means that many or
// more. A factor without levels, whose mistake is reported elsewhere, counts as one level.
func (f File) combinations() int {
	count := uint64(max(1, len(f.Named)))
	for _, factor := range f.Factors {
		high, low := bits.Mul64(count, uint64(max(1, len(factor.Levels))))
		if high > 0 || low > math.MaxInt {
			return math.MaxInt
		}
		count = low
	}
	return int(count)
}

// grid returns all combinations of the factors' levels, and the text of each, "window=64KiB
// mss=1460"; the last factor varies fastest. It returns none if there are more than MaxSettings,
// which Validate refuses.
func (f File) grid() (settings []model.Setting, written []string) {
	if f.combinations() > MaxSettings {
		return nil, nil
	}
	if len(f.Factors) == 1 && len(f.Named) == 0 && f.Factors[0].Command != (model.Command{}) { // off means the unchanged hosts
		factor := f.Factors[0]
		name := strings.TrimPrefix(string(factor.Knob), model.CommandPrefix)
		return []model.Setting{{Name: name, Assignments: factor.assign(model.On)}}, []string{factor.String() + "=" + model.On}
	}
	settings, written = []model.Setting{{}}, []string{""}
	if len(f.Named) > 0 {
		settings, written = f.Named, nil
		for _, s := range f.Named {
			written = append(written, s.Name)
		}
	}
	factors := f.combined()
	for n, factor := range f.Factors {
		var next []model.Setting
		var texts []string
		for i, s := range settings {
			for j, l := range factor.Levels {
				name := l.Text
				if factors != nil {
					name = strings.TrimSpace(s.Name + " " + factors[len(factors)-len(f.Factors)+n].Levels[j].Name)
				}
				next = append(next, model.Setting{
					Name:        name,
					Assignments: slices.Concat(s.Assignments, factor.assign(l.Value)),
				})
				texts = append(texts, strings.TrimSpace(written[i]+" "+factor.String()+"="+l.Text))
			}
		}
		settings, written = next, texts
	}
	return settings, written
}

// Combinations returns the settings of all combinations of the factors' levels, named by all
// their levels, without an additional baseline. Without factors it returns one setting that
// changes nothing.
func (f File) Combinations() []model.Setting {
	settings, _ := f.grid()
	for i := range settings {
		switch {
		case len(f.Factors)+len(f.Named) == 0:
			settings[i].Name = Current
		case len(f.Factors) == 1 && len(f.Named) == 0 && f.Factors[0].Command == (model.Command{}):
			settings[i].Name = f.Factors[0].short(f.Factors) + "=" + settings[i].Name
		}
	}
	return settings
}

// combined returns the factors that the plan combines, the named settings first; nil if it
// varies only one.
func (f File) combined() []model.Factor {
	var out []model.Factor
	if len(f.Named) > 0 {
		set := model.Factor{Name: "set"}
		for _, s := range f.Named {
			set.Levels = append(set.Levels, model.Level{Name: s.Name})
		}
		out = append(out, set)
	}
	for _, factor := range f.Factors {
		one := model.Factor{Name: factor.short(f.Factors), Host: factor.Host, Knob: factor.Knob}
		for _, l := range factor.Levels {
			name := one.Name + "=" + l.Text
			if factor.Knob == model.FarEnd {
				name = l.Text
			}
			one.Levels = append(one.Levels, model.Level{Name: name, Value: l.Value})
		}
		out = append(out, one)
	}
	if len(f.Factors) == 0 || len(out) < 2 {
		return nil
	}
	return out
}

// short returns the last part of the factor's knob, "mtu" of "far.link.mtu", or the whole knob
// if another factor has the same last part.
func (f Factor) short(among []Factor) string {
	last := func(o Factor) string {
		return strings.TrimPrefix(string(o.Knob[strings.LastIndexByte(string(o.Knob), '.')+1:]), model.CommandPrefix)
	}
	for _, o := range among {
		if o.String() != f.String() && last(o) == last(f) {
			return f.String()
		}
	}
	return last(f)
}

// assign returns the assignments of one level.
func (f Factor) assign(value string) []model.Assignment {
	all := assign(f.Host, f.Knob, value, f.OfFlow)
	for _, id := range f.Also {
		all = append(all, assign(f.Host, id, value, f.OfFlow)...)
	}
	for i := range all {
		all[i].Command = f.Command
	}
	return all
}

// assign returns the assignments that give a knob one value: one for the flow or a host, two for
// both hosts.
func assign(host model.Host, knob model.KnobID, value string, ofFlow bool) []model.Assignment {
	if host != "" || ofFlow {
		return []model.Assignment{{Host: host, Knob: knob, Value: value}}
	}
	return []model.Assignment{{Host: model.Near, Knob: knob, Value: value}, {Host: model.Far, Knob: knob, Value: value}}
}

// String returns the factor's knob as in a plan file: "far.tcp.recv_buffer_max", or "window".
func (f Factor) String() string {
	return f.Host.Of(f.Knob)
}

// numeric reports whether the levels are amounts, so that the smallest one that is good enough
// can be searched. Words such as "auto", and numbers for a choice or a switch, including 0, are
// not amounts.
func (f Factor) numeric() bool {
	for _, l := range f.Levels {
		n, err := strconv.ParseInt(l.Value, 10, 64)
		if err != nil || n <= 0 || !isDigit(l.Text) {
			return false
		}
	}
	return len(f.Levels) > 1
}

func isDigit(s string) bool { return s != "" && '0' <= s[0] && s[0] <= '9' }

// Complete returns the experiment for plan.New. The caller fills in what the file leaves open:
// engine, direction, length and seed.
func (f File) Complete() plan.Request {
	o := f.Request
	o.Hooks = f.hooked()
	o.Settings, o.Baseline = f.Settings()
	o.Factors = f.combined()
	o.Objective, o.Guards = f.decides()
	if held, ok := f.held(); ok {
		o.Held = held.Knob
	} else if len(f.Factors) == 1 && o.Factors == nil && f.Factors[0].numeric() {
		o.Factor = f.Factors[0].Knob
	}
	return o
}
