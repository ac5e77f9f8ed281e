package stats

import (
	"math"
	"testing"
)

func TestEvidenceV1(t *testing.T) {
	e := NewEvidence(LogMargin(3), 0.05)
	up := []float64{1.742994, 3.181999, 5.345769, 10.347978, 19.030428, 37.282206, 70.103743, 138.859354}
	down := []float64{0.257006, 0.153944, 0.138169, 0.080903, 0.070761, 0.049061, 0.043836, 0.030430}
	intervals := map[int][2]float64{6: {-0.007002, 0.094373}, 7: {0.013612, 0.072668}, 8: {0.016152, 0.070949}}
	for i, d := range v1(t) {
		e.Add(d)
		near(t, "ln E+", e.LogUp(0), math.Log(up[i]), 1e-6)
		near(t, "E-", math.Exp(e.LogDown(0)), down[i], 1e-6)
		iv := e.Interval(0)
		want, bounded := intervals[i+1]
		if !bounded {
			if !math.IsInf(iv.Low, -1) || !math.IsInf(iv.High, 1) {
				t.Errorf("n %d: %+v, want no bounds", i+1, iv)
			}
			continue
		}
		near(t, "low", iv.Low, want[0], 1e-6)
		near(t, "high", iv.High, want[1], 1e-6)
	}
	near(t, "max", math.Exp(e.Max().Up), 138.859354, 1e-4)
	near(t, "max down starts at 1", e.Max().Down, 0, 0)
}

func TestEvidenceV2(t *testing.T) {
	m := math.Log(1.02)
	// The section prints the values for a margin of +0.02 and −0.02 itself.
	for _, margin := range []float64{0.02} {
		e := NewEvidence(margin)
		above := []float64{1.581434, 2.802177, 4.714290, 8.562688, 16.281211, 29.561546}
		below := []float64{1.650559, 2.571624, 4.684186, 8.616593, 15.676853, 30.349127}
		for i, d := range v2()[:6] {
			e.Add(d)
			near(t, "E-(+m)", math.Exp(e.LogDown(margin)), above[i], 1e-5)
			near(t, "E+(-m)", math.Exp(e.LogUp(-margin)), below[i], 1e-5)
		}
	}
	e := NewEvidence(m)
	for i, d := range v2() {
		e.Add(d)
		decided := e.Max().NotAbove >= math.Log(20) && e.Max().NotBelow >= math.Log(20)
		if decided != (i+1 >= 6) {
			t.Errorf("block %d: equivalent %v", i+1, decided)
		}
	}
}

func TestEvidenceBoundsLargeGains(t *testing.T) {
	e := NewEvidence(0.03, 0.05)
	for range 8 {
		e.Add(5.5) // 64 KiB against 16 MiB of window on a long path
	}
	if iv := e.Interval(0); iv.Low < 5 || iv.High > 6 {
		t.Errorf("interval %+v does not enclose 5.5 closely", iv)
	}
}

func TestEvidenceKeepsLastIntervalWhenContradicted(t *testing.T) {
	e := NewEvidence(0.03, 0.05)
	for range 20 {
		e.Add(0.5)
	}
	before := e.Interval(0)
	for range 200 {
		e.Add(-0.5)
	}
	if !e.Contradicted() {
		t.Fatal("a gain that turned round was not noticed")
	}
	after := e.Interval(0)
	if after.Low > after.High || after.Low < before.Low || after.High > before.High {
		t.Errorf("interval went from %+v to %+v", before, after)
	}
}
