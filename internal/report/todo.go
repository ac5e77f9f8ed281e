package report

import (
	"linerate/internal/core/plain"
)

// Remedies say what helps against f, a sentence each; none where nothing is known to.
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

// Lead is the command that leads on from d, and false where there is only the one that
// shows d again, which stands last.
func (d Document) Lead() (Step, bool) {
	if len(d.Next) < 2 {
		return Step{}, false
	}
	return d.Next[0], true
}
