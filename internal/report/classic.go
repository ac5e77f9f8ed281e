package report

import (
	"cmp"
	"fmt"
	"slices"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Basis says what the numbers of a classic row are averaged over.
type Basis string

// The bases. Intervals of one run depend on each other: their spread says nothing about the
// precision of an average.
const (
	OverRuns      Basis = "runs"
	OverIntervals Basis = "intervals"
)

// Classic is the goodput of one setting and direction as a traditional table row. It only
// describes; the verdicts compare.
type Classic struct {
	Setting   string          `json:"setting"`
	Direction model.Direction `json:"direction"`
	Label     string          `json:"label"` // of the direction
	Basis     Basis           `json:"basis"`
	BasisText string          `json:"basis_text"` // "over runs (8)", "over intervals (80; not independent)"
	N         int             `json:"n"`
	Average   units.BitRate   `json:"average"`
	Median    units.BitRate   `json:"median"`
	Min       units.BitRate   `json:"min"`
	Max       units.BitRate   `json:"max"`
}

// classic returns the rows by setting, in the order of the plan, and direction.
func (b *builder) classic() []Classic {
	rows := []Classic{}
	for _, setting := range b.settings() {
		runs := b.runsOf(setting)
		for _, d := range []model.Direction{model.To, model.From} {
			row := Classic{Setting: setting, Direction: d, Label: b.names.Way(d)}
			if v := runValues(runs, d, model.Goodput); len(v) > 0 {
				rows = append(rows, row.over(OverRuns, v))
			}
			if v := b.intervalRates(runs, d); len(v) > 0 {
				rows = append(rows, row.over(OverIntervals, v))
			}
		}
	}
	return rows
}

// settings returns the names of the plan's settings, followed by those that only runs have,
// which are the rates of a search, the lowest first.
func (b *builder) settings() []string {
	names := lists.Each(b.s.Plan.Settings, func(s model.Setting) string { return s.Name })
	runs := slices.Clone(b.counted)
	slices.SortStableFunc(runs, func(x, y model.Run) int {
		return cmp.Compare(b.asked(x.Flow).Or(0), b.asked(y.Flow).Or(0))
	})
	for _, r := range runs {
		names = lists.Once(names, r.Setting)
	}
	return names
}

// intervalRates returns the receiver's goodput of all intervals of runs in direction d, without
// the warm-up.
func (b *builder) intervalRates(runs []model.Run, d model.Direction) []float64 {
	var all []float64
	if b.samples == nil {
		return nil
	}
	for _, r := range runs {
		for _, x := range b.samples.Of(r.Number) {
			if x.Metric == model.Goodput && x.Direction == d && x.Host == d.Receiver() && !x.Omitted {
				all = append(all, x.Value)
			}
		}
	}
	return all
}

// over fills in the statistics of values, which must not be empty.
func (c Classic) over(basis Basis, values []float64) Classic {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	c.Basis, c.N = basis, len(values)
	c.BasisText = fmt.Sprintf("over runs (%d)", c.N)
	if basis == OverIntervals {
		c.BasisText = fmt.Sprintf("over intervals (%d; not independent)", c.N)
	}
	c.Average = units.BitRate(sum / float64(len(values)))
	c.Median = units.BitRate(stats.Median(values))
	c.Min, c.Max = units.BitRate(slices.Min(values)), units.BitRate(slices.Max(values))
	return c
}
