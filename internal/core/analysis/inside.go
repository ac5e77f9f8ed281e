package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// leastWarmUp is the minimum number of intervals in a run, warm-up included, to judge its
// warm-up.
const leastWarmUp = 8

// Inside examines the runs of a session one by one: how long they took to become steady, and
// whether they stalled (statistics.md sections 1.1 and 10.1). It flags and removes nothing. The
// zero value is ready to use.
type Inside struct {
	cuts    []float64     // intervals until a run was steady, one per run and direction
	step    time.Duration // length of an interval
	omit    time.Duration
	runs    int
	stalled int           // number of runs with stalls
	longest time.Duration // longest of all stalls
	worst   string        // the setting with the longest stall
}

// Add adds the samples of one valid run, in any order.
func (i *Inside) Add(r model.Run, samples []model.Sample) {
	stood := false
	for _, d := range r.Flow.Direction.Parts() {
		all := intervals(samples, d)
		if len(all) == 0 {
			continue
		}
		var values []float64
		var window []stats.RunInterval
		for _, x := range all {
			values = append(values, x.Value)
			if !x.Omitted {
				window = append(window, stats.RunInterval{Start: x.Start, Length: x.Length, Value: x.Value})
			}
		}
		if len(values) >= leastWarmUp {
			cut, _ := stats.MSER(values)
			i.cuts = append(i.cuts, float64(cut))
			i.step, i.omit = all[0].Length, r.Flow.Omit
		}
		if s := stats.Stalls(window); s.Count > 0 {
			stood = true
			if s.Longest > i.longest {
				i.longest, i.worst = s.Longest, r.Setting
			}
		}
	}
	i.runs++
	if stood {
		i.stalled++
	}
}

// Warnings summarises warm-up and stalls over all runs, nil without any trouble.
func (i *Inside) Warnings() []string {
	var out []string
	if typical := time.Duration(math.Ceil(stats.Median(i.cuts))) * i.step; len(i.cuts) > 0 && typical > i.omit {
		out = append(out, fmt.Sprintf("the warm-up takes longer than the %s that are omitted: omit %s next time (--omit)",
			units.FormatDuration(i.omit), units.FormatDuration(typical.Round(time.Millisecond))))
	}
	if i.stalled > 0 {
		out = append(out, fmt.Sprintf("%d of %d runs stood still for a while, at most %s (%s): they count like every other",
			i.stalled, i.runs, units.FormatDuration(i.longest.Round(time.Millisecond)), i.worst))
	}
	return out
}

// intervals returns the goodput of direction d at its receiver, in order of time, warm-up
// included.
func intervals(samples []model.Sample, d model.Direction) []model.Sample {
	var out []model.Sample
	for _, x := range samples {
		if x.Host == d.Receiver() && x.Direction == d && x.Metric == model.Goodput {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b model.Sample) int { return cmp.Compare(a.Start, b.Start) })
	return out
}
