package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// attempt is one try of one block.
type attempt struct {
	block, attempt int
	runs           []model.Run // executed ones, in the order of execution
	equal          []model.Run // runs at equal load
	broken         bool        // a run is not valid
	failed         bool        // a run is invalid, not just interrupted
}

// block is a complete attempt.
type block struct {
	number int
	null   bool // two baseline runs
	runs   []model.Run
	equal  map[load]model.Run // of candidates at the baseline's goodput
}

// load identifies a run at equal load within its block.
type load struct {
	setting   string
	direction model.Direction
}

// attempts groups the executed runs, in the order in which the attempts ended.
func attempts(runs []model.Run) []attempt {
	type key struct{ block, attempt int }
	index := map[key]int{}
	var out []attempt
	for _, r := range runs {
		if r.State == model.RunPlanned {
			continue
		}
		k := key{r.Block, r.Attempt}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, attempt{block: r.Block, attempt: r.Attempt})
		}
		if r.State == model.RunEqualLoad {
			out[i].equal = append(out[i].equal, r)
			continue
		}
		out[i].runs = append(out[i].runs, r)
		out[i].broken = out[i].broken || r.State != model.RunValid
		out[i].failed = out[i].failed || r.State == model.RunInvalid
	}
	slices.SortStableFunc(out, func(a, b attempt) int {
		return cmp.Compare(a.runs[len(a.runs)-1].Number, b.runs[len(b.runs)-1].Number)
	})
	return out
}

// superseded reports whether a later attempt of the same block has all its runs
// valid and is no shorter: only the last complete attempt counts.
func superseded(a attempt, all []attempt) bool {
	return slices.ContainsFunc(all, func(b attempt) bool {
		return b.block == a.block && b.attempt > a.attempt && !b.broken && len(b.runs) >= len(a.runs)
	})
}

// complete returns the block that a makes, if it is complete: all runs valid, and one run per
// direction of the plan for every setting of the plan's block that had not left before.
func (s *session) complete(a attempt) (block, bool) {
	if a.block < 1 || a.block > len(s.plan.Order) {
		s.warn("block %d is not in the plan and was left out", a.block)
		return block{}, false
	}
	if a.broken || superseded(a, s.attempts) {
		return block{}, false
	}
	have := map[string]int{}
	for _, r := range a.runs {
		have[r.Setting]++
	}
	each := max(1, len(s.plan.Ways(a.block)))
	for _, name := range s.plan.Order[a.block-1] {
		if have[name] < each && !s.left[name] {
			return block{}, false
		}
		have[name] -= each
	}
	b := block{number: a.block, null: a.block <= s.plan.NullBlocks, runs: a.runs, equal: map[load]model.Run{}}
	if s.plan.Held == "" && !b.null { // a missing or failed one leaves the guard without a value
		for _, p := range AtEqualLoad(s.plan.Guards, s.plan.Baseline, b.runs, nil) {
			b.equal[load{p.Setting, p.Direction}] = model.Run{}
		}
	}
	for _, r := range a.equal {
		b.equal[load{r.Setting, r.Flow.Direction}] = r
	}
	return b, true
}

// spent says why nothing is left to run: each block is complete or out of attempts, or the
// budget is used up. It returns "" while there is something to run.
func (s *session) spent() string {
	if s.plan.Budget > 0 && s.used() >= s.plan.Budget {
		return fmt.Sprintf("the budget of %v is spent", s.plan.Budget)
	}
	for number := range s.plan.Order {
		if !s.blockSpent(number + 1) {
			return ""
		}
	}
	return "the plan's blocks are spent"
}

// OpenBlocks returns, in order, the numbers of the plan's blocks that the runs have neither
// completed nor failed more often than a block is repeated: those still to be run.
func OpenBlocks(p model.Plan, runs []model.Run) []int {
	s := newSession(p, runs)
	s.replay()
	var open []int
	for i := range p.Order {
		if !s.blockSpent(i + 1) {
			open = append(open, i+1)
		}
	}
	return open
}

// Counted returns the runs that count: those of the plan's complete blocks, with the baseline
// pairs, in the order of execution. A valid run in a block with an invalid run does not count.
func Counted(p model.Plan, runs []model.Run) []model.Run {
	s := newSession(p, runs)
	s.replay()
	var out []model.Run
	for _, b := range s.blocks {
		out = append(out, b.runs...)
	}
	return out
}

// blockSpent reports whether block number is complete or has failed once more than it is
// repeated. An interrupted attempt is not a failure.
func (s *session) blockSpent(number int) bool {
	if slices.ContainsFunc(s.blocks, func(b block) bool { return b.number == number }) {
		return true
	}
	failed := lists.Count(s.attempts, func(a attempt) bool { return a.block == number && a.failed })
	return failed > stats.BlockRepeats
}

// remaining returns how many more blocks the plan and the budget hold for the
// candidate.
func (s *session) remaining(candidate string) int {
	left := 0
	for i, names := range s.plan.Order {
		if i >= s.plan.NullBlocks && slices.Contains(names, candidate) && !s.blockSpent(i+1) {
			left++
		}
	}
	if used := s.used(); s.plan.Budget > 0 && used > 0 && len(s.attempts) > 0 {
		each := used / time.Duration(len(s.attempts))
		left = min(left, int(max(0, s.plan.Budget-used)/max(1, each)))
	}
	return left
}

// used returns the time that the attempts took, without the pauses between
// them: an interrupted session is not charged for its interruption.
func (s *session) used() time.Duration {
	total := time.Duration(0)
	for _, a := range s.attempts {
		total += max(0, a.runs[len(a.runs)-1].Ended.Sub(a.runs[0].Started))
	}
	return total
}

// Unstable is a setting that caused more invalid runs than every other one,
// which is a finding of its own (statistics.md section 1).
type Unstable struct {
	Setting       string
	Invalid, Runs int
}

// unstable returns the setting with at least two invalid runs and the largest
// share of them, if there is one.
func unstable(runs []model.Run) []Unstable {
	index := map[string]int{}
	var all []Unstable
	for _, r := range runs {
		if r.State == model.RunPlanned {
			continue
		}
		i, ok := index[r.Setting]
		if !ok {
			i = len(all)
			index[r.Setting] = i
			all = append(all, Unstable{Setting: r.Setting})
		}
		all[i].Runs++
		if r.State == model.RunInvalid {
			all[i].Invalid++
		}
	}
	share := func(u Unstable) float64 { return float64(u.Invalid) / float64(u.Runs) }
	slices.SortStableFunc(all, func(a, b Unstable) int { return cmp.Compare(share(b), share(a)) })
	if len(all) < 2 || all[0].Invalid < stats.UnstableRuns || share(all[0]) == share(all[1]) {
		return nil
	}
	return all[:1]
}
