package archtest

import (
	"slices"
	"testing"

	"linerate/internal/core/candidate"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// TestProposedSettingsExist: whatever is proposed to a user is in the catalogue,
// or a setting of the test itself.
func TestProposedSettingsExist(t *testing.T) {
	flow := []model.KnobID{"window", "streams"}
	for _, id := range slices.Concat(candidate.Knobs(), candidate.GoalKnobs(), candidate.RestKnobs()) {
		if _, ok := knob.NewIndex().ByID(id); !ok && !slices.Contains(flow, id) {
			t.Errorf("%s is proposed and not in the catalogue", id)
		}
	}
}
