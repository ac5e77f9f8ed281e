package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// crowdedRuns is from which share of the runs on a host that others keep busy is told (p).
const crowdedRuns = 0.2

// crowds says of each host that others had most of its processors while runs were
// measured: what they show may be of that host and not of the path.
func (b *builder) crowds(runs []model.Run) []string {
	var out []string
	inLab := strings.HasPrefix(b.s.Far, "lab:") // whose hosts are this machine
	for _, h := range b.s.Hosts {
		name := b.name(h.Host)
		if inLab {
			name = "this machine"
		}
		if inLab && h.Host != model.Near {
			continue
		}
		var others []float64
		all := 0
		for _, r := range runs {
			i := slices.IndexFunc(r.Ends, func(e model.EndReport) bool { return e.Host == h.Host })
			if i < 0 || r.State == model.RunInvalid {
				continue
			}
			all++
			if health.Crowded(r, r.Ends[i], h.CPUs) {
				n, _ := health.Others(r, r.Ends[i])
				others = append(others, n)
			}
		}
		if len(others) == 0 || float64(len(others)) < crowdedRuns*float64(all) {
			continue
		}
		when := "meanwhile"
		if all > 1 {
			when = fmt.Sprintf("in %d of %s", len(others), count(all, "run"))
		}
		out = append(out, fmt.Sprintf("%s: others than linerate had %s of its %s %s: what is slow may be slow for that",
			name, strconv.FormatFloat(stats.Median(others), 'f', 1, 64), count(h.CPUs, "processor"), when))
	}
	return out
}
