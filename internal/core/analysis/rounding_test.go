package analysis

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// TestBoundThatTouchesZeroIsOnNoSide is the case that scaling all throughputs by
// a quarter once turned from equivalent into better.
func TestBoundThatTouchesZeroIsOnNoSide(t *testing.T) {
	s := &session{alpha: 0.05, margin: 0.03, plan: model.Plan{Confidence: 0.95}}
	d := []float64{0.001, 0.002, 0, 0.001, -0.001, 0.002, 0.001, 0.001}
	l := look{x: &series{objective: true, scale: 1, margin: 0.03}, one: &side{d: d}, verdict: model.Verdict{Blocks: len(d)}}
	for _, low := range []float64{0, 3e-17, -3e-17} {
		l.within, l.narrow = stats.Interval{Low: low, High: 0.002}, stats.Interval{Low: low, High: 0.002}
		if v := s.nameFixed(l, 0.01, true); v.Outcome != model.Equivalent {
			t.Errorf("a lower bound of %g is %s, want equivalent", low, v.Outcome)
		}
		l.within, l.narrow = stats.Interval{Low: -0.002, High: low}, stats.Interval{Low: -0.002, High: low}
		if v := s.nameFixed(l, 0.01, true); v.Outcome != model.Equivalent {
			t.Errorf("an upper bound of %g is %s, want equivalent", low, v.Outcome)
		}
	}
}
