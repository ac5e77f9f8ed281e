package hub

import (
	"maps"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
)

// half has the conditions on one end of looks, as of a near one. All paths share it.
type half struct{ fingerprint.Print }

// printed are the conditions of a path from a look on.
type printed struct {
	look      int64
	low, high *half
	trip      string
}

// printed adds the conditions that a look found, if they differ from those before.
func (h *Hub) printed(p *pair, look int64, c *fleet.Conditions) {
	one := printed{look, h.halves[c.Low], h.halves[c.High], c.Trip}
	if one.low == nil || one.high == nil {
		return // of a month ago
	}
	if n := len(p.prints); n > 0 {
		was, now := p.prints[n-1], one
		if was.low == now.low && was.high == now.high { // nearly always; then the round trips are left
			was.low, was.high, now.low, now.high = &half{}, &half{}, &half{}, &half{}
		}
		if len(was.print().Differences(now.print())) == 0 {
			return
		}
	}
	p.prints = append(p.prints, one)
}

// print returns the conditions of the path.
func (p printed) print() fingerprint.Print {
	all := p.high.Turned()
	maps.Copy(all, p.low.Print)
	if p.trip != "" {
		all[fingerprint.RoundTrip] = p.trip
	}
	return all
}
