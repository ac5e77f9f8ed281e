package plan

import (
	"maps"
	"math"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Payload returns the payload that runs sent in all directions, in bytes: the counted amount,
// and as much per second of the warm-up. A run that was cut short counts as the largest one
// before it.
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

// Time returns how long runs took together, without what came between them.
func Time(runs []model.Run) time.Duration {
	var sum time.Duration
	for _, r := range runs {
		sum += max(0, r.Ended.Sub(r.Started))
	}
	return sum
}

// sent returns the payload of one run. Either end may report a direction, and some programs
// report only one. For a stream the receiver's count is better: its sender's data may still be
// queued. For datagrams the sender's is better: some are lost.
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

// DataFor estimates what a session sends in so many blocks, from what its runs have sent, plus
// a tenth, in whole steps of 100 MB; 0 if they sent nothing.
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
