package model

import (
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// FarEnd is the KnobID of the factor whose levels are far ends: hosts, cards or media. It has
// no host, and its value is the text of a target without secrets.
const FarEnd = "far"

// FarEnd returns the far end that s is measured with; "" is the session's.
func (s Setting) FarEnd() string { return s.ofNoHost(FarEnd) }

// End is a far end other than the session's, as it was when the session opened it, with the
// facts of the near host as seen from there.
type End struct {
	Target   string                 `json:"target"` // a level of FarEnd
	Hosts    []HostFacts            `json:"hosts"`  // near, far
	WireRate fact.Of[units.BitRate] `json:"wire_rate"`
}

// FarEnds returns the far ends that the settings of p name, in their order.
func (p *Plan) FarEnds() []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, s := range p.Settings {
		if end := s.FarEnd(); !seen[end] {
			seen[end] = true
			out = append(out, end)
		}
	}
	return out
}

// At returns s with the hosts and the link between which a setting is measured. Everything else
// is shared with s.
func (s *Session) At(setting string) Session {
	out := *s
	of, _ := s.Plan.Setting(setting)
	for _, e := range s.Plan.Ends {
		if e.Target == of.FarEnd() {
			out.Far, out.Hosts, out.WireRate = e.Target, e.Hosts, e.WireRate
			if strings.HasPrefix(e.Target, "lab:") { // a lab has both ends
				out.Near = e.Target
			}
		}
	}
	return out
}
