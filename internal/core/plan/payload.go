package plan

import (
	"maps"
	"math"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Payload is what runs sent in all directions, in bytes of payload: what was counted,
// and as much for each second of the warm-up. A run that was cut short is taken for as
// much as the largest one before it.
func Payload(runs []model.Run) units.Bytes {
	var sum, most units.Bytes
	for _, r := range runs {
		n := sent(r)
		if len(r.Ends) == 0 {
			n = most
		}
		sum, most = sum+n, max(most, n)
	}
	return sum
}

// sent is the payload of one run. Either end may say what a direction carried, and not
// every program does at both. Of a stream the receiver knows better: what its sender
// wrote may still wait there. Of datagrams the sender does: some are lost.
func sent(r model.Run) units.Bytes {
	all, arrived := map[model.Direction]units.Bytes{}, map[model.Direction]units.Bytes{}
	var points units.Bytes
	for _, e := range r.Ends {
		for _, f := range e.Flows {
			n := f.Bytes
			if r.Flow.Bytes == 0 && f.Window > 0 {
				n = units.Bytes(float64(n) * max(1, float64(r.Flow.Omit+r.Flow.Duration)/float64(f.Window)))
			}
			if f.Role == model.Receiver && f.UDP == nil && n > 0 {
				arrived[f.Direction] = n
			}
			all[f.Direction] = max(all[f.Direction], n)
		}
		var of units.Bytes
		for _, p := range e.Points { // there and back, or both at once
			of += 2 * p.Size * units.Bytes(p.Rounds) * units.Bytes(len(p.Trials))
		}
		points = max(points, of)
	}
	maps.Copy(all, arrived)
	for _, n := range all {
		points += n
	}
	return points
}

// DataFor is about what a session sends in so many blocks, by what its runs have sent in
// theirs, and a tenth more, in whole steps of 100 MB; 0 where nothing was sent.
func DataFor(runs []model.Run, blocks int) units.Bytes {
	done := 0
	for _, r := range runs {
		done = max(done, r.Block)
	}
	if sent := Payload(runs); done > 0 && sent > 0 {
		const step = 100e6
		return units.Bytes(step * math.Ceil(1.1*float64(sent)*float64(max(blocks, done+1))/float64(done)/step))
	}
	return 0
}
