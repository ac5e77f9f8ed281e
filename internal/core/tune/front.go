package tune

import (
	"cmp"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Point is what the runs of a setting show in a direction: the medians of the goodput, in
// bit/s, and of the median latency under that load, in s.
type Point struct {
	Setting       string
	Rate, Latency float64
}

// Front returns the settings of which no other one has both a higher goodput and a lower
// latency in a direction, the slowest first: the choice that is left where the two conflict.
func Front(runs []model.Run, d model.Direction) []Point {
	rates, latencies := map[string][]float64{}, map[string][]float64{}
	for _, r := range runs {
		rate, ok1 := r.Value(d, model.Goodput)
		latency, ok2 := r.Value(d, model.LatencyP50)
		if ok1 && ok2 && r.State == model.RunValid && r.Flow.Direction == d {
			rates[r.Setting] = append(rates[r.Setting], rate)
			latencies[r.Setting] = append(latencies[r.Setting], latency)
		}
	}
	var all []Point
	for name := range rates {
		all = append(all, Point{name, stats.Median(rates[name]), stats.Median(latencies[name])})
	}
	slices.SortFunc(all, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Rate, b.Rate), cmp.Compare(b.Latency, a.Latency), cmp.Compare(a.Setting, b.Setting))
	})
	return slices.DeleteFunc(slices.Clone(all), func(p Point) bool {
		return slices.ContainsFunc(all, func(q Point) bool {
			return q.Rate >= p.Rate && q.Latency <= p.Latency && (q.Rate > p.Rate || q.Latency < p.Latency)
		})
	})
}
