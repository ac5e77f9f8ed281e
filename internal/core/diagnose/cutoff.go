package diagnose

import "linerate/internal/core/model"

// CutOff returns what a host's own counters show about a lost contact with its peer: a lost
// link, a card that hung, no buffers, a full connection table. It serves runs of which only
// this host has a report.
func CutOff(r model.EndReport) []string {
	f := newFeatures(Evidence{Sender: End{Host: r.Host, Report: &r, Counters: countersOf(&r)}})
	var out []string
	for _, look := range []func(features) (*finding, bool){flapped, deviceReset, bufferShortage, tracking} {
		if b, ok := look(f); ok {
			out = append(out, b.Evidence)
		}
	}
	return out
}
