package tune

import (
	"cmp"
	"math"
	"slices"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Length is the length of a block's runs; the zero value is the plan's.
type Length struct{ Omit, Duration time.Duration }

// Of returns f with that length.
func (l Length) Of(f model.Flow) model.Flow {
	if l.Duration > 0 {
		f.Omit, f.Duration = l.Omit, l.Duration
	}
	return f
}

// Pilots are the runs that determine the length of later ones, with their samples by number
// (statistics.md section 11.7).
type Pilots struct {
	Runs    []model.Run
	Samples map[int][]model.Sample
	RTT     time.Duration // without load
}

// Assumed noise if too few pilots show it (p).
const (
	assumedBetween = 0.015 // standard deviation between runs (statistics.md section 13)
	leastBetween   = 0.005 // even if a few pilots agree better
)

// Fit returns the run length for blocks that look for an effect, a log ratio; 0 stands for a
// small one. Slow start is taken from the pilots, at most half of their length, or is what they
// omitted if they show none.
func (p Pilots) Fit(objective model.Metric, effect float64) Length {
	var l Length
	var overhead time.Duration
	within, freedom, n := 0.0, 0, 0
	for _, r := range p.Runs {
		if r.State != model.RunValid {
			continue
		}
		n++
		overhead += r.Ended.Sub(r.Started) - r.Flow.Length()
		all := received(p.Samples[r.Number], r.Flow.Direction)
		omit, seen := stats.SlowStart(all)
		if !seen {
			omit = r.Flow.Omit
		}
		l.Omit = max(l.Omit, min(omit, r.Flow.Length()/2))
		v, f := stats.Within(slices.DeleteFunc(all, func(x stats.RunInterval) bool { return x.Start < omit }))
		within, freedom = within+v*float64(f), freedom+f
	}
	if n == 0 {
		return Length{}
	}
	within /= float64(max(1, freedom))
	overhead = max(0, overhead/time.Duration(n)) + l.Omit
	l.Duration = stats.RunLength(overhead, p.between(objective, within), within, effect, p.RTT)
	return l
}

// between returns the variance between runs of one setting, of the log of the objective, that
// longer runs do not reduce.
func (p Pilots) between(objective model.Metric, within float64) float64 {
	type of struct {
		setting   string
		direction model.Direction
	}
	logs := map[of][]float64{}
	measured := 0.0
	for _, r := range p.Runs {
		if v, ok := r.Value(r.Flow.Direction, objective); ok && v > 0 && r.State == model.RunValid {
			key := of{r.Setting, r.Flow.Direction}
			logs[key] = append(logs[key], math.Log(v))
			measured = max(measured, r.Flow.Duration.Seconds())
		}
	}
	sum, freedom := 0.0, 0
	for _, all := range logs {
		if n := len(all) - 1; n > 0 {
			s := stats.StdDev(all)
			sum, freedom = sum+s*s*float64(n), freedom+n
		}
	}
	if freedom == 0 {
		return assumedBetween * assumedBetween
	}
	return max(leastBetween*leastBetween, sum/float64(freedom)-within/max(measured, 1e-3))
}

// received returns the intervals of a direction at its receiver, the warm-up included.
func received(samples []model.Sample, d model.Direction) []stats.RunInterval {
	var out []stats.RunInterval
	for _, x := range samples {
		if x.Host == d.Receiver() && x.Direction == d && x.Metric == model.Goodput && x.Length > 0 {
			out = append(out, stats.RunInterval{Start: x.Start, Length: x.Length, Value: x.Value})
		}
	}
	slices.SortStableFunc(out, func(a, b stats.RunInterval) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// Effect returns the gain of one setting over another on the objective, a log ratio, by the
// medians of their runs in a direction; 0 if either has none.
func Effect(runs []model.Run, objective model.Metric, d model.Direction, from, to string) float64 {
	logs := map[string][]float64{}
	for _, r := range runs {
		if v, ok := r.Value(d, objective); ok && r.State == model.RunValid && r.Flow.Direction == d {
			logs[r.Setting] = append(logs[r.Setting], good(objective, v))
		}
	}
	if len(logs[from]) == 0 || len(logs[to]) == 0 {
		return 0
	}
	return stats.Median(logs[to]) - stats.Median(logs[from])
}

// Directions returns the directions for which the parts of the winner were found.
func (m *Machine) Directions() []model.Direction {
	var out []model.Direction
	for _, f := range m.accepted {
		out = lists.Once(out, f.Direction)
	}
	return out
}
