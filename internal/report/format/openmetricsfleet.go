package format

import (
	"io"
	"maps"
	"math"
	"slices"

	corefleet "linerate/internal/core/fleet"
	"linerate/internal/core/stats"
	"linerate/internal/report/fleet"
)

// OpenMetricsFleet writes the state of a hub's fleet. There are series for each host and never for each
// pair, of which there are too many.
func OpenMetricsFleet(w io.Writer, s *corefleet.Status, version string) error {
	var p metricsPage
	p.family("hub_info", "", "The hub's version; always 1.")
	p.line("hub_info", 1, label{"version", version})
	p.family("hub_stores", "", "1 unless the hub cannot store results.")
	p.line("hub_stores", boolean(len(s.Faults) == 0))
	silent := fleet.Silent(s)
	p.family("fleet_hosts", "", "Hosts, by whether the hub has heard of them.")
	p.line("fleet_hosts", float64(len(s.Hosts)-silent), label{"state", "present"})
	p.line("fleet_hosts", float64(silent), label{"state", "silent"})
	p.family("fleet_pairs", "", "Pairs of hosts.")
	p.line("fleet_pairs", float64(s.Pairs))
	p.family("fleet_pairs_seen", "", "Pairs that were looked at in the last 24 hours.")
	p.line("fleet_pairs_seen", float64(s.Seen))
	p.family("fleet_results", "", "Results of the last hour, by what became of them.")
	for _, state := range slices.Sorted(maps.Keys(s.Hour)) {
		p.line("fleet_results", float64(s.Hour[state]), label{"state", string(state)})
	}
	worse, better := 0, 0
	for _, c := range s.Changes {
		switch {
		case s.Now.Sub(c.Found) >= fleet.Day:
		case c.Worse:
			worse++
		default:
			better++
		}
	}
	p.family("fleet_changes", "", "Changes that were confirmed in the last 24 hours.")
	p.line("fleet_changes", float64(worse), label{"kind", "worse"})
	p.line("fleet_changes", float64(better), label{"kind", "better"})
	each := func(name, unit, help string, value func(corefleet.HostStatus) float64) {
		p.family(name, unit, help)
		for _, h := range s.Hosts {
			if v := value(h); !math.IsNaN(v) {
				p.line(name, v, label{"host", h.Name})
			}
		}
	}
	each("fleet_host_seen_timestamp_seconds", "seconds", "When the hub heard of a host, since the epoch.", func(h corefleet.HostStatus) float64 { return stamp(h.Seen) })
	each("fleet_host_waiting_results", "", "Results of a host that the hub does not have yet.", func(h corefleet.HostStatus) float64 { return float64(h.Waiting) })
	each("fleet_host_lost_results", "", "Results that found no room on the disk of a host.", func(h corefleet.HostStatus) float64 { return float64(h.Lost) })
	for _, metric := range fleet.Metrics() {
		m := fleet.Numbers(s, metric)
		name, unit, scale := "fleet_host_"+string(metric), "", 1.0
		switch metric {
		case fleet.Goodput:
			name, unit, scale = name+"_bytes_per_second", "bytes_per_second", 1.0/8
		case fleet.RoundTrip:
			name, unit = name+"_seconds", "seconds"
		case fleet.Loss:
			name, unit = name+"_ratio", "ratio"
		}
		p.family(name, unit, "Median over the paths of a host.")
		for i, h := range s.Hosts {
			sends, receives := m.Row(i), m.Column(i)
			switch {
			case len(sends) > 0 && metric == fleet.RoundTrip: // the same both ways
				p.line(name, stats.Median(sends), label{"host", h.Name})
				continue
			case len(sends) > 0:
				p.line(name, stats.Median(sends)*scale, label{"host", h.Name}, label{"direction", "sends"})
			}
			if len(receives) > 0 {
				p.line(name, stats.Median(receives)*scale, label{"host", h.Name}, label{"direction", "receives"})
			}
		}
	}
	p.b.WriteString("# EOF\n")
	_, err := w.Write(p.b.Bytes())
	return err
}
