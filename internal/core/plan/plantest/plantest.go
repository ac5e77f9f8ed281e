// Package plantest makes grids of settings for tests.
package plantest

import (
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// Factor returns the factor of knob, in the form "far.link.mtu", with these values as levels. A
// knob with a dot but without a host applies to both hosts.
func Factor(knob string, values ...string) model.Factor {
	f := model.Factor{Name: knob[strings.LastIndexByte(knob, '.')+1:], Knob: model.KnobID(knob)}
	if end, rest, ok := strings.Cut(knob, "."); ok {
		if h, ok := model.ParseHost(end); ok {
			f.Host, f.Knob = h, model.KnobID(rest)
		}
	}
	for _, v := range values {
		f.Levels = append(f.Levels, model.Level{Name: f.Name + "=" + v, Value: v})
	}
	return f
}

// Settings returns all combinations of the factors, the last one varying fastest.
func Settings(factors ...model.Factor) []model.Setting {
	out := []model.Setting{{}}
	for _, f := range factors {
		hosts := []model.Host{f.Host}
		if f.Host == "" && strings.Contains(string(f.Knob), ".") {
			hosts = []model.Host{model.Near, model.Far}
		}
		var next []model.Setting
		for _, s := range out {
			for _, l := range f.Levels {
				one := model.Setting{Name: strings.TrimSpace(s.Name + " " + l.Name), Assignments: slices.Clone(s.Assignments)}
				for _, h := range hosts {
					one.Assignments = append(one.Assignments, model.Assignment{Host: h, Knob: f.Knob, Value: l.Value})
				}
				next = append(next, one)
			}
		}
		out = next
	}
	return out
}

// Assignments parses "knob=value knob=value".
func Assignments(text string) []model.Assignment {
	var as []model.Assignment
	for one := range strings.FieldsSeq(text) {
		id, value, _ := strings.Cut(one, "=")
		as = append(as, model.Assignment{Knob: model.KnobID(id), Value: value})
	}
	return as
}
