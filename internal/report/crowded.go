package report

import (
	"fmt"
	"slices"

	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
)

// crowdedRuns is the share of runs on a busy host from which the report warns (p).
const crowdedRuns = 0.2

// crowds warns of each host on which other programs used most of the processors during runs:
// the results may be those of the host, not of the path.
func (b *builder) crowds(runs []model.Run) []string {
	var out []string
	hosts, together := b.s.Hosts, health.OneMachine(b.s)
	if together {
		hosts = hosts[:1]
	}
	for _, h := range hosts {
		var most []float64 // of crowded runs
		all, of := 0, 0
		for _, r := range runs {
			i := slices.IndexFunc(r.Ends, func(e model.EndReport) bool { return e.Host == h.Host })
			if i < 0 || r.State == model.RunInvalid {
				continue
			}
			all++
			var others float64
			var ok bool
			if others, of, ok = health.Others(h, r, r.Ends[i], together); ok && health.Crowded(others, of) {
				most = append(most, others)
			}
		}
		if len(most) == 0 || float64(len(most)) < crowdedRuns*float64(all) {
			continue
		}
		when := "meanwhile"
		if all > 1 {
			when = fmt.Sprintf("in %d of %s", len(most), plain.Count(all, "run"))
		}
		had := fmt.Sprintf("%.1f of its %s", stats.Median(most), plain.Count(of, "processor"))
		text := fmt.Sprintf("%s: others than linerate had %s %s", b.names.Of(h.Host), had, when)
		if together { // a lab's wire is linerate's work, too
			text = fmt.Sprintf("this machine: %s were busy with more than the two ends %s", had, when)
		}
		out = append(out, text+": what is slow may be slow for that")
	}
	return out
}
