package report

import (
	"cmp"
	"fmt"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// FarEnd is one of the far ends of an experiment that compares several.
type FarEnd struct {
	Name    string                 `json:"name"`   // as used in the names of settings
	Target  string                 `json:"target"` // without secrets
	Host    string                 `json:"host"`   // its own host name
	Link    fact.Of[units.BitRate] `json:"link"`
	MTU     fact.Of[int]           `json:"mtu"`     // of the far interface, bytes
	Ceiling fact.Of[units.BitRate] `json:"ceiling"` // payload rate that the path to it can carry
	Text    string                 `json:"text"`
}

// farEnds returns the far ends of s, the baseline's first; nil if there is only one.
func farEnds(s *model.Session) []FarEnd {
	if len(s.Plan.Ends) == 0 {
		return nil
	}
	targets := []string{s.Far}
	for _, e := range s.Plan.Ends {
		targets = append(targets, e.Target)
	}
	names := model.EndNames(targets)
	of := func(name, target string, s model.Session) FarEnd {
		s.Runs = nil // runs with another far end say nothing about this one
		far, _ := s.Facts(model.Far)
		e := FarEnd{
			Name: name, Target: target, Host: plain.Line(cmp.Or(far.Name, target)), Link: s.WireRate, MTU: far.MTU,
			Ceiling: limits.OfPath(&s, s.Plan.Directions[0].Parts()[0]).Rate,
		}
		parts := []string{strings.TrimSpace(far.OS + " " + far.Kernel.Or(""))}
		if v, ok := e.Link.Get(); ok {
			parts = append(parts, "link "+v.String())
		}
		if v, ok := e.MTU.Get(); ok {
			parts = append(parts, fmt.Sprintf("MTU %d", v))
		}
		if v, ok := e.Ceiling.Get(); ok {
			parts = append(parts, fmt.Sprintf("can carry %s of payload", v))
		}
		if e.Host != name {
			name += " (" + e.Host + ")"
		}
		e.Text = plain.Line(name + ": " + strings.Join(parts, ", "))
		return e
	}
	out := []FarEnd{of(names[0], s.Far, *s)}
	for i, e := range s.Plan.Ends {
		for _, setting := range s.Plan.Settings {
			if setting.FarEnd() == e.Target {
				out = append(out, of(names[i+1], e.Target, s.At(setting.Name)))
				break
			}
		}
	}
	return out
}

// toward names direction d of a comparison whose settings may have their own far ends.
func (b *builder) toward(d model.Direction) string {
	if len(b.s.Plan.Ends) == 0 {
		return b.names.Way(d)
	}
	return EachFarEnd(d)
}

// EachFarEnd names direction d of a comparison of far ends.
func EachFarEnd(d model.Direction) string {
	return map[model.Direction]string{model.To: "to each far end", model.From: "from each far end", model.Both: "both ways"}[d]
}
