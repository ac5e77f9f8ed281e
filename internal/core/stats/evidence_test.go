package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"linerate/internal/must"
)

func TestEvidenceV1(t *testing.T) {
	e := NewEvidence(LogMargin(3), 0.05)
	up := []float64{1.719045, 3.088324, 5.175135, 9.851942, 17.969298, 34.774550, 64.952377, 127.446110}
	down := []float64{0.280955, 0.164477, 0.137962, 0.082078, 0.069066, 0.047790, 0.041461, 0.028781}
	intervals := map[int][2]float64{6: {-0.019761, 0.107340}, 7: {0.013498, 0.072766}, 8: {0.015764, 0.071325}}
	for i, d := range v1(t) {
		e.Add(d)
		near(t, "ln E+", e.LogUp(0), math.Log(up[i]), 1e-6)
		near(t, "E-", math.Exp(e.LogDown(0)), down[i], 1e-6)
		iv := e.Interval(0)
		want, bounded := intervals[i+1]
		if !bounded {
			must.True(t, math.IsInf(iv.Low, -1) && math.IsInf(iv.High, 1), "n %d: %+v, want no bounds", i+1, iv)
			continue
		}
		near(t, "low", iv.Low, want[0], 1e-6)
		near(t, "high", iv.High, want[1], 1e-6)
	}
	near(t, "max", math.Exp(e.Max().Up), 127.446110, 1e-4)
	near(t, "max down starts at 1", e.Max().Down, 0, 0)
}

func TestEvidenceV2(t *testing.T) {
	m := math.Log(1.02)
	// The section prints the values for a margin of +0.02 and −0.02 itself.
	for _, margin := range []float64{0.02} {
		e := NewEvidence(margin)
		above := []float64{1.581719, 2.765475, 4.638378, 8.334445, 15.632463, 28.211989}
		below := []float64{1.640476, 2.569506, 4.612789, 8.380265, 15.118759, 28.881433}
		for i, d := range v2()[:6] {
			e.Add(d)
			near(t, "E-(+m)", math.Exp(e.LogDown(margin)), above[i], 1e-5)
			near(t, "E+(-m)", math.Exp(e.LogUp(-margin)), below[i], 1e-5)
		}
	}
	e := NewEvidence(m)
	for i, d := range v2() {
		e.Add(d)
		must.Equal(t, e.Max().NotAbove >= math.Log(20) && e.Max().NotBelow >= math.Log(20), i+1 >= 6, "block %d: equivalent", i+1)
	}
}

func TestEvidenceBoundsLargeGains(t *testing.T) {
	e := NewEvidence(0.03, 0.05)
	for range 8 {
		e.Add(5.5) // 64 KiB against 16 MiB of window on a long path
	}
	iv := e.Interval(0)
	must.True(t, iv.Low >= 5 && iv.High <= 6, "interval %+v does not enclose 5.5 closely", iv)
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
	must.Need(t, e.Contradicted(), "a gain that turned round was not noticed")
	after := e.Interval(0)
	must.True(t, after.Low <= after.High && after.Low >= before.Low && after.High <= before.High, "interval went from %+v to %+v", before, after)
}

// One stalled block takes the size bets' capital for good; the bets on signs
// win it back (statistics.md section 5.1, V3).
func TestEvidenceAfterAStalledBlock(t *testing.T) {
	v3 := []float64{-.217, .05, .045, .062, .048, .055, .051, .047, .058, .06, .052, .049}
	want := []float64{0.100942, 0.138669, 0.193361, 0.280431, 0.410578, 0.619188, 0.953189, 1.498383, 2.418223, 3.977222, 6.634039, 11.225429}
	e := NewEvidence(LogMargin(3))
	for i, d := range v3 {
		e.Add(d)
		near(t, "E+ of V3", math.Exp(e.LogUp(0)), want[i], 1e-6)
	}
	slow := NewEvidence(LogMargin(3))
	for i := range 20 {
		if i == 3 {
			slow.Add(0.24)
		} else {
			slow.Add(-0.05 + 0.001*float64(i%3))
		}
	}
	must.True(t, slow.Max().Down >= math.Log(40), "19 blocks of -5 %% and one of +24 %%: evidence %.1f", math.Exp(slow.Max().Down))
}

// What is no number is no evidence, however often it comes.
func TestEvidenceRefusesWhatIsNoNumber(t *testing.T) {
	e := NewEvidence(LogMargin(3), 0.05)
	for _, d := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for range 20 {
			must.Need(t, !e.Add(d), "%v was added", d)
		}
	}
	must.Equal(t, e.Max(), (Extremes{}))
}

// The interval after n blocks is the intersection of those of every prefix: a
// search after each block finds the same.
func TestIntervalIsThatOfEverySearchTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d := make([]float64, 40)
	for i := range d {
		d[i] = 0.03 + 0.05*rng.NormFloat64()
	}
	together := Unbounded()
	for n := 1; n <= len(d); n++ {
		e := NewEvidence(0.03, 0.05)
		for _, v := range d[:n] {
			e.Add(v)
		}
		level := math.Log(2 / 0.05)
		together.Low = max(together.Low, bisect(-3.5, 3.5, func(x float64) bool { return e.LogUp(x) >= level }))
		together.High = min(together.High, -bisect(-3.5, 3.5, func(x float64) bool { return e.LogDown(-x) >= level }))
		if got := e.Interval(0); !math.IsInf(together.Low, 0) {
			near(t, "low", got.Low, together.Low, 1e-9)
			near(t, "high", got.High, together.High, 1e-9)
		}
	}
}

// LogUp returns ln E⁺(δ) after the last block, the evidence that the gain is
// above δ; LogDown ln E⁻(δ).
func (e *Evidence) LogUp(delta float64) float64   { return e.against(delta, 1) }
func (e *Evidence) LogDown(delta float64) float64 { return e.against(delta, -1) }

func (e *Evidence) against(delta, sign float64) float64 {
	c := fresh()
	for _, d := range e.diffs {
		c.bet(sign * (d - delta))
	}
	return c.log()
}
