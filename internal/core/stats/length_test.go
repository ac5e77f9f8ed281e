package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"linerate/internal/must"
)

// tenths are intervals of 100 ms with these values.
func tenths(values ...float64) []RunInterval {
	var out []RunInterval
	for i, v := range values {
		out = append(out, RunInterval{Start: time.Duration(i) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Value: v})
	}
	return out
}

// The examples of statistics.md section 11.7.
func TestRunLength(t *testing.T) {
	const h, rtt = 1200 * time.Millisecond, 20 * time.Millisecond
	for _, c := range []struct {
		between, within, effect float64 // standard deviations, log ratio
		rtt                     time.Duration
		want                    float64 // s
	}{
		{0.01, 0.04, 0, rtt, 4.38}, {0.02, 0.04, 0, rtt, 2.19}, {0.01, 0.04, math.Log(8), rtt, 0.5}, {0.01, 0.04, math.Log(1.1), rtt, 4.38},
		{0.01, 0.04, math.Log(8), 200 * time.Millisecond, 4}, {0.001, 2, 0, rtt, 30}, {0.01, 0.04, 0, 2 * time.Second, 40},
	} {
		got := RunLength(h, c.between*c.between, c.within*c.within, c.effect, c.rtt).Seconds()
		must.True(t, math.Abs(got-c.want) <= 0.005, "%+v: %.3f s", c, got)
	}
}

func TestSlowStartIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   time.Duration
		seen   bool
	}{
		"doubling":       {[]float64{1, 2, 4, 8, 9.4, 9.5, 9.4, 9.5}, 500 * time.Millisecond, true},
		"at once":        {[]float64{9.4, 9.5, 9.4, 9.5}, 100 * time.Millisecond, true},
		"nothing yet":    {[]float64{0, 0, 0, 0, 9.4, 9.5, 9.4}, 500 * time.Millisecond, true},
		"never steady":   {[]float64{1, 2, 1, 2, 1, 2}, 0, false},
		"too short":      {[]float64{9, 9}, 0, false},
		"two are no row": {[]float64{9.4, 9.4, 5, 9.4, 9.4, 5}, 0, false},
	} {
		got, seen := SlowStart(tenths(c.values...))
		must.True(t, got == c.want && seen == c.seen, "%s: %v, %v", name, got, seen)
	}
}

// Independent intervals of 5 % have v_w = 0.05² × 0.1 s. Of correlated ones short batches
// show at least half of the long-run variance, of which single intervals show a sixth.
func TestWithinCountsAutocorrelation(t *testing.T) {
	for _, phi := range []float64{0, 0.7} {
		rng := rand.New(rand.NewPCG(1, 2))
		var values []float64
		for x := 0.0; len(values) < 40_000; {
			x = phi*x + 0.05*math.Sqrt(1-phi*phi)*rng.NormFloat64()
			values = append(values, math.Exp(x))
		}
		got, freedom := Within(tenths(values...))
		long := 0.05 * 0.05 * 0.1 * (1 + phi) / (1 - phi)
		must.True(t, freedom == 7999 && !(got < 0.5*long) && !(got > 1.1*long) && (phi != 0 || !(got < 0.9*long)), "φ %.1f: v_w %.3g s with %d degrees of freedom, long-run %.3g", phi, got, freedom, long)
	}
	v, n := Within(tenths(1, 2, 3, 4, 5, 6, 7))
	must.True(t, v == 0 && n == 0, "one batch has no spread: %v, %d", v, n)
}
