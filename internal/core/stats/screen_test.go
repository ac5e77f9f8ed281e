package stats

import (
	"math"
	"testing"

	"linerate/internal/must"
)

// Every design has orthogonal columns, and with its mirror images main effects that no
// interaction of two factors moves: the product of two columns is even in the mirror.
func TestScreen(t *testing.T) {
	for n, rows := range map[int]int{1: 8, 8: 8, 9: 12, 11: 12, 12: 20, 19: 20} {
		design := Screen(n)
		must.Need(t, len(design) == rows && len(design[0]) >= n, "%d factors: %d rows of %d", n, len(design), len(design[0]))
		for a := range design[0] {
			for b := range a {
				sum := 0
				for _, row := range design {
					sum += row[a] * row[b]
				}
				must.Equal(t, sum, 0, "%d factors: columns %d and %d have product", n, a, b)
			}
		}
	}
	must.True(t, Screen(0) == nil && Screen(ScreenMost+1) == nil, "a design of no factors, or of too many")
}

// The effects of a known plane, with an interaction that must not show.
func TestEffects(t *testing.T) {
	for _, n := range []int{8, 11, 19} {
		design := Screen(n)
		y := func(x []int, sign float64) float64 {
			v := 5.0
			for i := range n {
				v += sign * float64(x[i]) * 0.01 * float64(i) / 2
			}
			return v + 0.3*float64(x[0]*x[1])
		}
		var d []float64
		for _, row := range design {
			d = append(d, y(row, 1)-y(row, -1))
		}
		for i, e := range Effects(design, d)[:n] {
			must.True(t, math.Abs(e-0.01*float64(i)) <= 1e-12, "%d factors: effect %d is %g", n, i, e)
		}
	}
	// The 12 runs of statistics.md section 11.2, without mirror images: 2/N Σ x y.
	y := []float64{6.80, 6.78, 6.71, 6.83, 6.79, 6.85, 6.70, 6.72, 6.69, 6.81, 6.70, 6.66}
	for i := range y {
		y[i] *= 2
	}
	want := []float64{-0.06667, 0.03667, -0.01333, 0.06000, 0.02667, 0.04333, 0.01333, 0.01333, 0.02000, 0.04000, 0.01333}
	for i, e := range Effects(Screen(11), y) {
		must.True(t, math.Abs(e-want[i]) <= 1e-5, "effect %d of the example is %.5f, want %.5f", i, e, want[i])
	}
}

// The example of statistics.md section 11.2.
func TestLenth(t *testing.T) {
	e := []float64{.120, .010, -.020, .005, .060, .004, .015, -.010, .003, .012, .008}
	pse := Lenth(e)
	must.True(t, math.Abs(pse-0.015) <= 1e-12, "pseudo standard error %g, want 0.015", pse)
	must.Equal(t, Lenth([]float64{0, 0, 0, 0, 1}), 0, "nearly all are nothing")
}
