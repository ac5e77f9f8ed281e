package report

import (
	"linerate/internal/core/plain"
)

// Remedies returns what helps against f, a sentence each; nil if nothing is known.
func (f Finding) Remedies() []string {
	var out []string
	if f.NoKnob != "" {
		out = append(out, "what helps: "+f.NoKnob)
	}
	if len(f.Knobs) == 0 {
		return out
	}
	text := "could help: "
	if f.NoKnob != "" {
		text = "settings that may soften it: "
	}
	text += plain.Join(f.Knobs, ", ")
	if f.Host != "" {
		text += " on " + f.Host
	}
	return append(out, text)
}

// Lead returns the first follow-up command of d, and false if there is only the last one, which
// shows d again.
func (d Document) Lead() (Step, bool) {
	if len(d.Next) < 2 {
		return Step{}, false
	}
	return d.Next[0], true
}
