package tune

import (
	"context"
	"math"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
)

// ration tells the machine how many runs fit into the payload and the time that are left after
// the proof, if one of them is limited. Runs grow with each setting that helps, so the number is
// sent again.
func (s *steer) ration(ctx context.Context, runs []model.Run) error {
	done := s.machine.Record(nil).Runs
	n := rationed(s.request.Data, s.full, runs, len(s.request.Directions), done)
	if s.request.Budget > 0 {
		if timed := s.timed(runs, done); n == 0 || timed < n {
			n = timed
		}
	}
	if n == 0 || s.most > 0 && n >= s.most {
		return nil
	}
	s.most = n
	return s.tell(ctx, tune.Input{Runs: n}, runs)
}

// timed returns the most runs of a search that has done so many, by the time that is left.
func (s *steer) timed(runs []model.Run, done int) int {
	c, step := s.cost(s.suspects()), s.machine.Next()
	left := s.request.Budget - plan.Time(runs) - c.Proof(len(s.request.Directions))
	if step.Kind == tune.KindLook || step.Kind == tune.KindRace && step.Block == 1 { // a race begins with pilots
		left -= 2 * (c.Pilot - c.Run)
	}
	return max(1, done+int(left/c.Run))
}

// rationed returns the most runs of a search that has done so many, 0 for no limit or if
// nothing was sent yet. full is the payload of a run that reaches the ceiling, 0 if unknown:
// then the largest so far is used. Half of the runs of a race and of a proof are of the
// baseline, for which the smallest is used.
func rationed(data, full units.Bytes, runs []model.Run, directions, done int) int {
	least, largest := units.Bytes(math.MaxInt64), full
	for _, r := range runs {
		if one := plan.Payload([]model.Run{r}); one > 0 {
			least, largest = min(least, one), max(largest, one)
		}
	}
	if data == 0 || largest == 0 || least == math.MaxInt64 {
		return 0
	}
	proof := stats.RankBlocks * (least + largest) * units.Bytes(directions)
	left := int((data - plan.Payload(runs) - proof) / ((least + largest) / 2))
	return max(1, done+left)
}
