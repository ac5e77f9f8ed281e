package odd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
)

// TestLook finds the odd hosts among hosts that are slow in one or both directions or on a
// single path, with 3 % of noise.
func TestLook(t *testing.T) {
	both := func(slow float64, of ...int) func(i, j int) float64 {
		return func(i, j int) float64 {
			for _, h := range of {
				if i == h || j == h {
					return slow
				}
			}
			return 940
		}
	}
	missing := both(470, 2)
	for name, c := range map[string]struct {
		hosts int
		rate  func(i, j int) float64
		want  string
	}{
		"nobody":               {5, both(940), "[] []"},
		"one of five":          {5, both(470, 2), "[2: 50 50] []"},
		"one of three":         {3, both(470, 0), "[0: 50 50] []"},
		"two of five":          {5, both(470, 0, 3), "[0: 50 50 3: 50 50] []"},
		"below the margin":     {5, both(850, 1), "[] []"},
		"sends slowly":         {4, func(i, _ int) float64 { return []float64{940, 470, 940, 940}[i] }, "[1: 50 100] []"},
		"receives slowly":      {4, func(_, j int) float64 { return []float64{940, 940, 940, 94}[j] }, "[3: 100 10] []"},
		"sends slowly to most": {5, func(i, j int) float64 { return map[bool]float64{true: 470, false: 940}[i == 1 && j != 4] }, "[1: 50 100] []"},
		"one way":              {5, func(i, j int) float64 { return map[bool]float64{true: 470, false: 940}[i == 1 && j == 4] }, "[] [1->4: 50]"},
		"nothing arrives":      {4, func(i, j int) float64 { return map[bool]float64{true: 0, false: 940}[i == 1 && j == 0] }, "[] [1->0: 0]"},
		"two hosts":            {2, func(i, _ int) float64 { return []float64{940, 470}[i] }, "[] [1->0: 50]"},
		"a way and a host":     {6, func(i, j int) float64 { return map[bool]float64{true: 300, false: both(94, 5)(i, j)}[i == 1 && j == 2] }, "[5: 10 10] [1->2: 30]"},
		"a host without a rate": {4, func(i, j int) float64 {
			return map[bool]float64{true: math.NaN(), false: missing(i, j)}[i == 3 || j == 3]
		}, "[2: 50 50] []"},
		"none measured": {3, func(int, int) float64 { return math.NaN() }, "[] []"},
	} {
		rng := rand.New(rand.NewPCG(7, 7))
		m := fleet.NewMatrix(c.hosts)
		for i := range m {
			for j := range m {
				if i != j {
					m[i][j] = c.rate(i, j) * (1 + .03*rng.NormFloat64())
				}
			}
		}
		r := Look(m)
		var hosts, ways []string
		for _, h := range r.Hosts {
			hosts = append(hosts, fmt.Sprintf("%d: %.0f %.0f", h.Host, 10*math.Round(10*h.Sends), 10*math.Round(10*h.Receives)))
		}
		for _, w := range r.Ways {
			ways = append(ways, fmt.Sprintf("%d->%d: %.0f", w.From, w.To, 10*math.Round(10*w.Share)))
		}
		must.Equal(t, fmt.Sprintf("%v %v", hosts, ways), c.want, "%s", name)
	}
}
