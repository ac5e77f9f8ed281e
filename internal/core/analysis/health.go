package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// lastingRuns is how many of the last baseline runs must still be low for a fall of the
// baseline to count as lasting.
const lastingRuns = 3

// Health describes whether the order of the runs influenced one direction and metric
// (statistics.md section 2.2). Values are on the scale of the block differences: log ratios,
// positive good, except for metrics that can be 0.
type Health struct {
	Direction model.Direction
	Metric    model.Metric
	Blocks    int // complete ones, baseline pairs among them

	Position  float64 // mean of last minus first run of each block
	PositionP float64 // sign-flip p of Position
	S         float64 // largest standard deviation of block differences, NaN without
	Slope     float64 // Theil–Sen slope of the baseline per block, NaN for fewer than two blocks
	TrendP    float64 // Kendall's exact p of the baseline

	PathChanged   bool    // the baseline fell by more than 20 % and stayed there
	Before, After float64 // mean log value of the baseline on either side, where PathChanged
}

// HasPosition reports whether a run's position inside the block mattered.
func (h Health) HasPosition() bool { return h.PositionP < stats.OrderAlpha }

// SuggestABBA reports whether the position effect is so large that two runs per setting in
// mirrored order would be better for the next session.
func (h Health) SuggestABBA() bool { return h.HasPosition() && math.Abs(h.Position) > h.S }

// Drifting reports whether the baseline rose or fell over the session.
func (h Health) Drifting() bool { return h.TrendP < stats.OrderAlpha }

// warnings returns what limits the trust in a series. "Worse" is a fall of goodput and a rise
// of latency.
func (h Health) warnings(x *series) []string {
	var out []string
	signed := func(d float64, decimals int) string {
		text := x.change(d, decimals)
		if !strings.HasPrefix(text, "-") {
			text = "+" + text
		}
		return text
	}
	if h.HasPosition() {
		w := fmt.Sprintf("%s: the last run of a block differs from its first by %s", x.label(), signed(h.Position, 1))
		if h.SuggestABBA() {
			w += ", more than the noise: mirrored order (ABBA) would serve the next session better"
		}
		out = append(out, w)
	}
	if h.Drifting() {
		out = append(out, fmt.Sprintf("%s: the baseline drifts by %s per block", x.label(), signed(h.Slope, 2)))
	}
	if h.PathChanged {
		verb := "fell"
		if x.LowIs {
			verb = "rose"
		}
		out = append(out, fmt.Sprintf("%s: the baseline %s by %s and stayed there, as when burst credits run out: rest and repeat",
			x.label(), verb, strings.TrimPrefix(x.change(h.After-h.Before, 0), "-")))
	}
	return out
}

// health examines the complete blocks and, for the path, every valid baseline run. A block may
// lack candidates that had left; position compares the first and last run of the block in the
// series' direction.
func (s *session) health(x *series) Health {
	h := Health{Direction: x.direction, Metric: x.ID, S: math.NaN()}
	var position, number, base []float64
	for _, b := range s.blocks {
		if ys := x.values(b); len(ys) > 1 {
			position = append(position, ys[len(ys)-1]-ys[0])
		}
		if y, ok := x.baseline(b, s.plan.Baseline); ok {
			number, base = append(number, float64(b.number)), append(base, y)
		}
		h.Blocks++
	}
	for _, one := range x.sides {
		if sd := stats.StdDev(one.d); !math.IsNaN(sd) && !(h.S > sd) {
			h.S = sd
		}
	}
	if len(position) > 0 {
		h.Position = stats.Mean(position)
	}
	h.PositionP = stats.SignFlip(position, rand.New(rand.NewPCG(s.plan.Seed, flipStream)))
	h.Slope, h.TrendP = stats.TheilSen(number, base), stats.Kendall(base).P
	h.Before, h.After, h.PathChanged = s.pathChange(x)
	return h
}

// baseline returns the mean value of the baseline's runs in block b, on the scale of the
// series.
func (x *series) baseline(b block, name string) (float64, bool) {
	var ys []float64
	for i := range b.runs {
		if y, ok := x.log(&b.runs[i]); ok && b.runs[i].Setting == name {
			ys = append(ys, y)
		}
	}
	return stats.Mean(ys), len(ys) > 0
}

// pathChange detects a fall of the baseline that lasts to the end, by the shift rule of
// statistics.md section 10.3 on the baseline's runs. It tests the cheap conditions first,
// because the critical value is simulated.
func (s *session) pathChange(x *series) (before, after float64, changed bool) {
	if x.CanBe0 {
		return 0, 0, false // a metric that can be 0 has no relative fall
	}
	var y []float64
	for i := range s.runs {
		if r := &s.runs[i]; r.Setting == s.plan.Baseline && r.State == model.RunValid {
			if v, ok := x.log(r); ok {
				y = append(y, v)
			}
		}
	}
	split, fall := stats.BestSplit(y), math.Log1p(-stats.PathDrop)
	if split.At == 0 || split.After-split.Before >= fall {
		return 0, 0, false
	}
	if stats.Median(y[len(y)-lastingRuns:])-split.Before >= fall {
		return 0, 0, false
	}
	phi := stats.Phi(stats.LagOne(y), len(y))
	limit := stats.ShiftLimit(len(y), phi, rand.New(rand.NewPCG(s.plan.Seed, shiftStream)))
	return split.Before, split.After, split.Q > limit
}
