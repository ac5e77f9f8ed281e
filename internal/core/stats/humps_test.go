package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func logsOf(values ...float64) []float64 {
	out := slices.Clone(values)
	for i := range out {
		out[i] = math.Log(out[i])
	}
	return out
}

func TestHumpsFindsTwoGroups(t *testing.T) {
	r := Humps(logsOf(9.41, 7.30, 9.38, 9.43, 7.26, 9.40, 9.36, 7.33))
	if !r.Two || r.Low.N != 3 || r.High.N != 5 {
		t.Fatalf("%+v, want 3 and 5", r)
	}
	near(t, "low", math.Exp(r.Low.Center), 7.30, 1e-9)
	near(t, "high", math.Exp(r.High.Center), 9.40, 1e-9)
	near(t, "gap", r.Gap, math.Log(9.36/7.33), 1e-12)
	near(t, "usual", r.Usual, math.Log(9.38/9.36), 1e-12)
}

func TestHumpsFindsNone(t *testing.T) {
	for name, values := range map[string][]float64{
		"even":         {9.1, 9.2, 9.3, 9.4, 9.5, 9.6, 9.7, 9.8},
		"one apart":    {9.1, 9.2, 9.3, 9.4, 9.5, 9.6, 9.7, 2.0},
		"equal":        {9, 9, 9, 9, 9, 9, 9, 9},
		"not far":      {9.1, 9.2, 9.3, 9.4, 9.75, 9.85, 9.95, 10.05},
		"seven":        {1, 1.01, 1.02, 9, 9.01, 9.02, 9.03},
		"not positive": {0, 1, 1.01, 1.02, 9, 9.01, 9.02, 9.03},
		"none":         nil,
	} {
		r := Humps(logsOf(values...))
		warned := name == "equal" || name == "seven" || name == "not positive" || name == "none"
		if r.Two || (len(r.Warnings) == 1) != warned {
			t.Errorf("%s: %+v, want no groups, warning %v", name, r, warned)
		}
	}
}

// Rates, whatever their unit, and times are told apart alike: the log values of
// the one are those of the other with the other sign.
func TestLawHumpsMoveNegateAndShuffle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Multiples of 2^-10: sums and differences are exact, and so is the rule.
		steps := rapid.SliceOfN(rapid.IntRange(0, 4096), 8, 20).Draw(t, "steps")
		by := rapid.IntRange(-8192, 8192).Draw(t, "by")
		var x, moved, negative []float64
		for _, v := range steps {
			x = append(x, float64(v)/1024)
			moved = append(moved, float64(v+by)/1024)
			negative = append(negative, -float64(v)/1024)
		}
		a, b, c := Humps(x), Humps(rapid.Permutation(moved).Draw(t, "shuffled")), Humps(negative)
		if a.Two != b.Two || a.Low.N != b.Low.N || a.Gap != b.Gap || a.Usual != b.Usual {
			t.Fatalf("%+v, moved %+v", a, b)
		}
		if a.Gap != c.Gap || a.Usual != c.Usual {
			t.Fatalf("%+v, negated %+v", a, c)
		}
		if a.Low.N+a.High.N != len(x) || a.Two && min(a.Low.N, a.High.N) < HumpLeast {
			t.Fatalf("%+v of %d runs", a, len(x))
		}
	})
}

// The rates that the doc of Humps states for normal runs in one group.
func TestHumpsFalseAlarms(t *testing.T) {
	for runs, want := range map[int]float64{8: 0.09, 20: 0.25} {
		rng := rand.New(rand.NewPCG(3, 5))
		const sets = 4000
		alarms := 0
		for range sets {
			x := make([]float64, runs)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			if Humps(x).Two {
				alarms++
			}
		}
		near(t, "share of alarms", float64(alarms)/sets, want, 0.02)
	}
}
