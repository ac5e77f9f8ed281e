package analysis

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// lastingRuns is how many last baseline runs must still be down for a fall of
// the baseline to have lasted to the end.
const lastingRuns = 3

// Health is whether the order of the runs left a trace in one direction and
// metric (statistics.md section 2.2). Values are in log ratios, positive good.
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

// HasPosition reports whether the place inside the block mattered.
func (h Health) HasPosition() bool { return h.PositionP < stats.OrderAlpha }

// SuggestABBA reports whether the position effect is so large that two runs per
// setting in mirrored order would serve the next session better.
func (h Health) SuggestABBA() bool { return h.HasPosition() && math.Abs(h.Position) > h.S }

// Drifting reports whether the baseline rose or fell over the session.
func (h Health) Drifting() bool { return h.TrendP < stats.OrderAlpha }

func (h Health) warnings(label string) []string {
	var out []string
	if h.HasPosition() {
		w := fmt.Sprintf("%s: the last run of a block differs from its first by %+.1f %%", label, 100*math.Expm1(h.Position))
		if h.SuggestABBA() {
			w += ", more than the noise: mirrored order (ABBA) would serve the next session better"
		}
		out = append(out, w)
	}
	if h.Drifting() {
		out = append(out, fmt.Sprintf("%s: the baseline drifts by %+.2f %% per block", label, 100*math.Expm1(h.Slope)))
	}
	if h.PathChanged {
		out = append(out, fmt.Sprintf("%s: the baseline fell by %.0f %% and stayed there, as when burst credits run out: rest and repeat",
			label, -100*math.Expm1(h.After-h.Before)))
	}
	return out
}

// health looks at the complete blocks, and for the path at every valid baseline
// run. A block may lack candidates that had left; position compares whatever
// ran first and last there in the series' direction.
func (s *session) health(x *series) Health {
	h := Health{Direction: x.direction, Metric: x.metric, S: math.NaN()}
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

// baseline returns the mean log value of the baseline's runs in block b.
func (x *series) baseline(b block, name string) (float64, bool) {
	var ys []float64
	for i := range b.runs {
		if y, ok := x.log(&b.runs[i]); ok && b.runs[i].Setting == name {
			ys = append(ys, y)
		}
	}
	return stats.Mean(ys), len(ys) > 0
}

// pathChange looks for a fall of the baseline that lasts to the end, by the
// shift rule of statistics.md section 10.3 on the baseline's runs. The cheap
// conditions come first: the critical value is simulated.
func (s *session) pathChange(x *series) (before, after float64, changed bool) {
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

// WarmUp returns a warning where the warm-up is typically longer than the
// omitted time, and "" where it is not (statistics.md section 1.1). Each slice
// holds the values of one run from its very start, warm-up included, one per
// interval. It is advice for the next session; no run is cut by its own data.
func WarmUp(perRunIntervals [][]float64, interval, omit time.Duration) string {
	var cuts []float64
	for _, x := range perRunIntervals {
		if len(x) > 0 {
			d, _ := stats.MSER(x)
			cuts = append(cuts, float64(d))
		}
	}
	if len(cuts) == 0 || interval <= 0 {
		return ""
	}
	typical := time.Duration(math.Ceil(stats.Median(cuts))) * interval
	if typical <= omit {
		return ""
	}
	return fmt.Sprintf("warm-up longer than the omitted time of %v: omit %v next time", omit, typical)
}

// Intervals returns one direction's receiver values of metric m of one run, in
// order of time, as WarmUp and Classic take them; with omitted, those of the
// warm-up too.
func Intervals(samples []model.Sample, d model.Direction, m model.Metric, omitted bool) []float64 {
	var kept []model.Sample
	for _, x := range samples {
		if x.Host == d.Receiver() && x.Direction == d && x.Metric == m && (omitted || !x.Omitted) {
			kept = append(kept, x)
		}
	}
	slices.SortStableFunc(kept, func(a, b model.Sample) int { return cmp.Compare(a.Start, b.Start) })
	out := make([]float64, len(kept))
	for i, x := range kept {
		out[i] = x.Value
	}
	return out
}
