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

// ration tells the machine how many runs the payload that is left has room for, where it
// may be no more than so much, and a proof is to follow. A setting that helps makes runs
// larger, so that the number is sent again.
func (s *steer) ration(ctx context.Context, runs []model.Run) error {
	n := rationed(s.request.Data, s.full, runs, len(s.request.Directions), s.machine.Record(nil).Runs)
	if n == 0 || s.most > 0 && n >= s.most {
		return nil
	}
	s.most = n
	return s.tell(ctx, tune.Input{Runs: n}, runs)
}

// rationed is the most runs of a search that has done so many, 0 for no limit or where
// nothing was sent yet. full is the payload of a run that reaches the ceiling, 0 where that
// is not known: the largest so far stands in for it. Half of the runs of a race and of a
// proof are of what is compared with, for which the smallest stands.
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
