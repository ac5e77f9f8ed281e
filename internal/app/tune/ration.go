package tune

import (
	"context"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
)

// ration tells the machine how many runs the payload that is left has room for, where it
// may be no more than so much: as many as the largest one so far, and those of the
// confirmation. A setting that helps makes runs larger, so that it is told again.
func (s *steer) ration(ctx context.Context, runs []model.Run) error {
	n := rationed(s.request.Data, runs, confirming*len(s.request.Directions), s.machine.Record(nil).Runs)
	if n == 0 || s.most > 0 && n >= s.most {
		return nil
	}
	s.most = n
	return s.tell(ctx, tune.Input{Runs: n}, runs)
}

// rationed is the most runs of a search that has done so many, 0 for no limit or where
// nothing was sent yet. reserve are those of the confirmation.
func rationed(data units.Bytes, runs []model.Run, reserve, done int) int {
	var largest units.Bytes
	for _, r := range runs {
		largest = max(largest, plan.Payload([]model.Run{r}))
	}
	if data == 0 || largest == 0 {
		return 0
	}
	left := int((data-plan.Payload(runs))/largest) - reserve
	return max(1, done+left)
}
