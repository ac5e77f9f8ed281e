package tune

import (
	"cmp"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Point is the result of a setting's runs in a direction: the medians of the goodput, in bit/s,
// and of the median latency under that load, in s.
type Point struct {
	Setting       string
	Taken         bool // the winner is this setting, or has the same effect in this direction
	Rate, Latency float64
}

// Front returns the settings for which no other one has both a higher goodput and a lower
// latency in a direction, the slowest first: the remaining choice if the two conflict. One
// setting stands for all with the same effect in that direction, since their runs differ only
// by chance: the baseline, the winner, or else the one with the shortest name.
func (r Record) Front(runs []model.Run, d model.Direction) []Point {
	rates, latencies := map[string][]float64{}, map[string][]float64{}
	for _, run := range runs {
		rate, ok1 := run.Value(d, model.Goodput)
		latency, ok2 := run.Value(d, model.LatencyP50)
		if ok1 && ok2 && run.State == model.RunValid && run.Flow.Direction == d {
			rates[run.Setting] = append(rates[run.Setting], rate)
			latencies[run.Setting] = append(latencies[run.Setting], latency)
		}
	}
	alike := map[string]string{"": Baseline} // by the effective parts
	for name := range rates {
		parts := r.acting(name, d)
		is, known := alike[parts]
		if !known || parts != "" && is != r.Winner.Name && (name == r.Winner.Name || cmp.Or(cmp.Compare(len(name), len(is)), cmp.Compare(name, is)) < 0) {
			alike[parts] = name
		}
	}
	var all []Point
	for parts, name := range alike {
		if len(rates[name]) > 0 {
			all = append(all, Point{name, parts == r.acting(r.Winner.Name, d), stats.Median(rates[name]), stats.Median(latencies[name])})
		}
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

// acting returns the parts of a setting that have an effect in a direction, by the races in
// that direction.
func (r Record) acting(setting string, d model.Direction) string {
	parts := strings.Split(setting, and)
	slices.Sort(parts)
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		return !slices.ContainsFunc(r.Ideas, func(f Fate) bool {
			return f.Direction == d && slices.Contains([]State{Helped, Trimmed, Harmful, Guarded}, f.State) && slices.Contains(strings.Split(f.Setting.Name, and), part)
		})
	}), and)
}
