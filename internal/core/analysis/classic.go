package analysis

import (
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// ClassicRow describes the goodput of one setting in one direction the way
// people have always tabled it, in bit/s. It carries no verdict: a table of
// averages does not tell a difference from drift.
type ClassicRow struct {
	Setting   string
	Direction model.Direction
	Metric    model.Metric
	Runs      stats.Summary // over the one number of each valid run
	Intervals stats.Summary // over all measured intervals of those runs, each counted once whatever its length
}

// Classic returns the rows of all settings in their order of appearance. Only
// valid runs count. samples returns the samples of the run with that number; it
// may be nil, and the summaries of intervals are then empty.
func Classic(runs []model.Run, samples func(run int) []model.Sample) []ClassicRow {
	type key struct {
		setting   string
		direction model.Direction
	}
	type values struct{ runs, intervals []float64 }
	var keys []key
	found := map[key]*values{}
	for _, r := range runs {
		if r.State != model.RunValid {
			continue
		}
		var of []model.Sample
		if samples != nil {
			of = samples(r.Number)
		}
		for _, v := range r.Values {
			if v.Metric != model.Goodput {
				continue
			}
			k := key{r.Setting, v.Direction}
			if found[k] == nil {
				keys, found[k] = append(keys, k), &values{}
			}
			found[k].runs = append(found[k].runs, v.Value)
			found[k].intervals = append(found[k].intervals, Intervals(of, v.Direction, model.Goodput, false)...)
		}
	}
	rows := make([]ClassicRow, len(keys))
	for i, k := range keys {
		rows[i] = ClassicRow{k.setting, k.direction, model.Goodput,
			stats.Describe(found[k].runs), stats.Describe(found[k].intervals)}
	}
	return slices.Clip(rows)
}
