package runner

import (
	"testing"
	"time"

	"linerate/internal/core/model"
)

// A setting holds for all of a run: settling, probing without load, warm-up,
// measuring, and the time that opening and stopping may take.
func TestDeadlineCoversTheWholeRun(t *testing.T) {
	for name, f := range map[string]model.Flow{
		"plain":       {Omit: 3 * time.Second, Duration: 10 * time.Second},
		"idle before": {Omit: 3 * time.Second, Duration: 10 * time.Second, Lead: 2 * time.Minute},
	} {
		a := attempt{spec: Spec{Settle: 2 * time.Second}, flow: f}
		within, enough := a.deadline()
		if least := 2*time.Second + f.Length() + openingTime + overtime; within < least || !enough {
			t.Errorf("%s: %v, enough %v, want at least %v", name, within, enough, least)
		}
		a.more = 4 // hosts that are waited for four times as long, by --timeout
		if slow, _ := a.deadline(); slow != within+3*(openingTime+overtime+slack) {
			t.Errorf("%s: %v on slow hosts, %v on others", name, slow, within)
		}
	}
	if f := (model.Flow{Duration: time.Second, Lead: time.Minute}); f.Length() != 61*time.Second {
		t.Errorf("a run with a minute of idling lasts %v", f.Length())
	}
}
