package fleet

import (
	"math"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

const (
	// driftOver is over how many batches the drift of all hosts is smoothed (p), and ownDrift from how many
	// looks that of one is taken.
	driftOver, ownDrift = 48, 24
	firstDrift          = 0.03 // is assumed until then at least (p; fleet.md section 6.3)
	// restless is how many times the drift of all a host drifts that is judged by its own (p): that
	// of so few looks is hardly known.
	restless = 3
)

// drift is how far all hosts drift in a metric, and from how many batches that is known.
type drift struct{ by, batches float64 }

// learnDrift takes the drift of all hosts in a metric, smoothed over batches: that of one is hardly known.
func (p *Paths) learnDrift(m model.Metric) {
	var means, halves []float64
	for r, b := range p.hosts {
		if r.Metric == m {
			means, halves = b.steps(p.batch, means, halves)
		}
	}
	if d := p.drifts[m]; len(means) >= ownDrift {
		d.batches = min(d.batches+1, driftOver)
		d.by += (lasting(means, halves) - d.by) / d.batches
	}
}

// drift returns the scatter of what lasts from look to look without a change, of all hosts in a
// metric together, or of a suspected one that is restless.
func (p *Paths) drift(s *suspect) float64 {
	d := p.drifts[s.Metric]
	all := d.by
	if d.batches < driftOver { // what is usual of them comes from the same hours, and hides it
		all = max(all, firstDrift)
	}
	if means, halves := p.hosts[s.role].steps(int64(s.Since)-1, nil, nil); len(means) >= ownDrift {
		if own := lasting(means, halves); own > restless*all {
			return own
		}
	}
	return all
}

// steps adds the means of, and half the differences between, consecutive looks until a batch: what lasts,
// and so belongs to the host and not to the partner, is in the means alone.
func (b *behaviour) steps(until int64, means, halves []float64) (m, h []float64) {
	for i := range max(0, len(b.looks)-1) {
		one, next := b.looks[i], b.looks[i+1]
		if one.way != next.way && next.look.At.Unix()/batchTime <= until {
			means, halves = append(means, (one.D+next.D)/2), append(halves, (one.D-next.D)/2)
		}
	}
	return means, halves
}

// lasting returns the scatter of what two consecutive looks share: that of their means without
// that of their half differences.
func lasting(means, halves []float64) float64 {
	if len(means) < 2 {
		return 0
	}
	m, h := stats.Scatter(means), stats.Scatter(halves)
	return math.Sqrt(max(0, m*m-h*h))
}
