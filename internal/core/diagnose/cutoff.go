package diagnose

import "linerate/internal/core/model"

// CutOff returns what a host's own counters show of why others may have lost contact to
// it, or it to them: a lost link, a card that hung, no buffers, a full table of connections.
// It is for a run of which only this host could report.
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
