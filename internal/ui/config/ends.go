package config

import (
	"strings"

	"linerate/internal/core/model"
)

// splitEnds rejoins the parts of each far end: a lab contains commas, and the text after one of
// them is KEY=VALUE, which no other host can begin with.
func splitEnds(parts []string) []string {
	var out []string
	for _, p := range parts {
		last := len(out) - 1
		key, _, pair := strings.Cut(p, "=")
		if pair && !strings.ContainsAny(key, ":@ ") && last >= 0 && strings.HasPrefix(strings.TrimSpace(out[last]), "lab:") {
			out[last] += "," + p
			continue
		}
		out = append(out, p)
	}
	return out
}

// ends gives far ends short names, for the names of their settings, and stores their targets
// separately: a link contains a secret.
func (r *reader) ends(path string, f *Factor) {
	if f.Knob != model.FarEnd {
		return
	}
	if len(f.Also) > 0 {
		r.fault(path, "leave also out", "no setting moves with a far end")
	}
	var targets []string
	f.Targets = map[string]string{}
	for i := range f.Levels {
		l := &f.Levels[i]
		f.Targets[l.Value] = l.Text
		targets = append(targets, l.Value)
	}
	for i, name := range model.EndNames(targets) {
		f.Levels[i].Text = name
	}
}
