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

// ration tells the machine how many runs fit into the payload that is left after the proof,
// if the payload is limited. Runs grow with each setting that helps, so the number is sent
// again.
func (s *steer) ration(ctx context.Context, runs []model.Run) error {
	n := rationed(s.request.Data, s.full, runs, len(s.request.Directions), s.machine.Record(nil).Runs)
	if n == 0 || s.most > 0 && n >= s.most {
		return nil
	}
	s.most = n
	return s.tell(ctx, tune.Input{Runs: n}, runs)
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
