package truth

import (
	"math"
	"slices"
	"testing"

	"linerate/internal/must"
)

// verdictOf returns the verdict on a claim of at most 10, for tries that measure these values;
// a negative value is a try that fails.
func verdictOf(t *testing.T, tries int, values ...float64) (holds bool, done int) {
	t.Helper()
	v := newVerdict(tries)
	for !v.decided() {
		y := &Try{TB: t, values: map[string]claim{}}
		y.run(func(y *Try) {
			x := values[v.done]
			must.Need(y, !(x < 0), "no run")
			y.Claim("delay", x, math.Inf(-1), 10, "ms")
		})
		v.add(y)
	}
	holds = true
	for _, c := range v.claims {
		holds = holds && 2*c.inside > tries
	}
	return holds, v.done
}

func TestMajorityDecides(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		holds  bool
		done   int
	}{
		"three agree":                    {[]float64{9, 10, 1}, true, 3},
		"one busy second":                {[]float64{9, 99, 10, 1}, true, 4},
		"two busy seconds":               {[]float64{99, 9, 99, 10, 1}, true, 5},
		"three outside":                  {[]float64{99, 99, 99}, false, 3},
		"failed tries count":             {[]float64{-1, -1, -1}, false, 3},
		"a failed try is outvoted":       {[]float64{-1, 9, 9, 9}, true, 4},
		"failed and outside count alike": {[]float64{-1, 99, 9, 9, 99}, false, 5},
		"no number is outside":           {[]float64{math.NaN(), math.NaN(), math.NaN()}, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			holds, done := verdictOf(t, Tries, c.values...)
			must.True(t, holds == c.holds && done == c.done, "holds %v after %d tries, want %v after %d", holds, done, c.holds, c.done)
		})
	}
}

func TestLinesShowFiguresAndBounds(t *testing.T) {
	v := newVerdict(1)
	y := &Try{TB: t, values: map[string]claim{}}
	y.Claim("rate", 941.2, 937, 943, "Mbit/s")
	v.add(y)
	const want = "truth: holds TestX: rate: 941.2 Mbit/s, bound 937 to 943, 1 of 1 tries inside"
	got := v.lines("TestX")
	must.True(t, len(got) == 1 && got[0] == want, "got %q, want %q", got, want)
}

func TestATryEndsWhatItBegan(t *testing.T) {
	var order []string
	y := &Try{TB: t, values: map[string]claim{}}
	y.run(func(y *Try) {
		y.Cleanup(func() { order = append(order, "first") })
		y.Cleanup(func() {
			order = append(order, "second")
			must.Fail(t, y.Context().Err(), "the context of the try outlives it")
			y.Fatal("fails")
		})
		y.Fatal("ends")
	})
	must.True(t, slices.Equal(order, []string{"second", "first"}) && y.failed && len(y.log) == 2, "order %q, failed %t, log %q", order, y.failed, y.log)
}
