package report

import (
	"fmt"
	"slices"

	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
)

// crowdedRuns is from which share of the runs on a host that others keep busy is told (p).
const crowdedRuns = 0.2

// crowds says of each host that others had most of its processors while runs were
// measured: what they show may be of that host and not of the path.
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
		if together { // where the wire of a lab is linerate's, too
			text = fmt.Sprintf("this machine: %s were busy with more than the two ends %s", had, when)
		}
		out = append(out, text+": what is slow may be slow for that")
	}
	return out
}
