package locate

import (
	"slices"
	"time"

	"linerate/internal/core/model"
)

// Narrow returns between which nodes of t's path large packets vanish. t's times without load
// are of small packets, and those under load of large ones: routers before the narrow link
// answer both. It reports false if the answers do not show that.
func Narrow(t model.Trace) (model.Place, bool) {
	p := model.Place{Kind: model.PlaceNarrow, Direction: t.Direction, Before: model.PlaceNode{Host: t.Direction.Sender()}, Behind: model.PlaceNode{Host: t.Direction.Receiver()}}
	answers := func(times []time.Duration) bool {
		return slices.ContainsFunc(times, func(d time.Duration) bool { return d > 0 })
	}
	seen := false
	for _, h := range t.Hops {
		node := model.PlaceNode{Hop: h.TTL, Address: h.Address}
		if h.Arrived {
			node.Host = t.Direction.Receiver()
		}
		switch {
		case answers(h.Loaded):
			if p.Before, p.Silent, seen = node, nil, true; h.Arrived {
				return model.Place{}, false // they arrive
			}
		case answers(h.Idle):
			p.Behind = node
			return p, true
		default:
			p.Silent = append(p.Silent, h.TTL)
		}
	}
	return p, seen
}
