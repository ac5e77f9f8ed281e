package hub

import (
	"maps"
	"slices"
	"strings"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
	"linerate/internal/core/model"
)

// printed are the conditions of a path from a look on. Those of a host are shared by all its paths.
type printed struct {
	look      int64
	low, high fingerprint.Print // of either host, as the near one
	trip      string
}

// printed returns the conditions that a look found.
func (h *Hub) printed(l *fleet.Lease, p fingerprint.Print) printed {
	way, low, high := l.Way(), fingerprint.Print{}, fingerprint.Print{}
	for key, text := range p {
		if part, far := strings.CutPrefix(string(key), "far."); far {
			high[fingerprint.Of(model.Near, part)] = text
		} else if key != fingerprint.RoundTrip {
			low[key] = text
		}
	}
	return printed{l.ID, h.half(way.Low, low), h.half(way.High, high), p[fingerprint.RoundTrip]}
}

// half returns the conditions of a host as they are kept: once, and not for each path.
func (h *Hub) half(host int64, p fingerprint.Print) fingerprint.Print {
	all := h.halves[host]
	if i := slices.IndexFunc(all, func(o fingerprint.Print) bool { return maps.Equal(o, p) }); i >= 0 {
		return all[i]
	}
	h.halves[host] = append(all, p)
	return p
}

// print returns the conditions of the path.
func (p printed) print() fingerprint.Print {
	all := p.high.Turned()
	maps.Copy(all, p.low)
	if p.trip != "" {
		all[fingerprint.RoundTrip] = p.trip
	}
	return all
}
