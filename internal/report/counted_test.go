package report

import (
	"slices"
	"testing"

	"linerate/internal/core/model"
)

// TestCountedRuns: of a block that was begun again, after an invalid run, an
// interruption or a controller that was killed, only the last try counts; of one that
// was not begun again, what there is.
func TestCountedRuns(t *testing.T) {
	run := func(number, block, attempt int, state model.RunState) model.Run {
		return model.Run{Number: number, Block: block, Attempt: attempt, State: state}
	}
	got := []int{}
	for _, r := range Counted([]model.Run{
		run(1, 1, 1, model.RunValid), run(2, 1, 1, model.RunValid),
		run(3, 2, 1, model.RunValid), // then the controller was killed
		run(4, 2, 2, model.RunValid), run(5, 2, 2, model.RunValid),
		run(6, 3, 1, model.RunValid), run(7, 3, 1, model.RunInvalid),
		run(8, 4, 1, model.RunValid), run(9, 4, 1, model.RunInterrupted),
		run(10, 4, 2, model.RunValid), run(11, 4, 2, model.RunValid),
		run(12, 3, 2, model.RunValid), run(13, 3, 2, model.RunInvalid),
		run(14, 5, 1, model.RunValid), // killed once more, and not resumed
	}) {
		got = append(got, r.Number)
	}
	if want := []int{1, 2, 4, 5, 10, 11, 14}; !slices.Equal(got, want) {
		t.Errorf("runs %v count, want %v", got, want)
	}
}
