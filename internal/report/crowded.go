package report

import (
	"fmt"
	"net/netip"
	"slices"
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
	hosts, together := b.s.Hosts, b.oneMachine()
	if together {
		hosts = hosts[:1]
	}
	for _, h := range hosts {
		var most []float64 // of crowded runs
		all := 0
		for _, r := range runs {
			i := slices.IndexFunc(r.Ends, func(e model.EndReport) bool { return e.Host == h.Host })
			if i < 0 || r.State == model.RunInvalid {
				continue
			}
			all++
			if others, ok := health.Others(r, r.Ends[i], together); ok && health.Crowded(others, h.CPUs) {
				most = append(most, others)
			}
		}
		if len(most) == 0 || float64(len(most)) < crowdedRuns*float64(all) {
			continue
		}
		when := "meanwhile"
		if all > 1 {
			when = fmt.Sprintf("in %d of %s", len(most), count(all, "run"))
		}
		had := fmt.Sprintf("%.1f of its %s", stats.Median(most), count(h.CPUs, "processor"))
		text := fmt.Sprintf("%s: others than linerate had %s %s", b.name(h.Host), had, when)
		if together { // where the wire of a lab is linerate's, too
			text = fmt.Sprintf("this machine: %s were busy with more than the two ends %s", had, when)
		}
		out = append(out, text+": what is slow may be slow for that")
	}
	return out
}

// oneMachine reports whether both ends are on this machine: in a lab, or over loopback.
func (b *builder) oneMachine() bool {
	if len(b.s.Hosts) == 0 || strings.HasPrefix(b.s.Far, "lab:") {
		return len(b.s.Hosts) > 0
	}
	address, err := netip.ParseAddr(b.s.Hosts[0].Address)
	return err == nil && address.IsLoopback()
}
