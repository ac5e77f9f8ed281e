package report

import (
	"fmt"
	"math"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
)

// Imported is the report's section on a session of imported files: it only describes.
type Imported struct {
	Baseline string        `json:"baseline"`
	Rows     []ImportedRow `json:"rows"`
}

// ImportedRow is one metric of one setting in one direction.
type ImportedRow struct {
	Direction model.Direction `json:"direction"`
	Metric    model.Metric    `json:"metric"`
	Setting   string          `json:"setting"`
	Runs      int             `json:"runs"`
	Median    float64         `json:"median"`
	Low       float64         `json:"low"` // of any run
	High      float64         `json:"high"`
	// Was is the median of the baseline, and Change (Median - Was)/Was in percent; both are
	// absent in the row of the baseline, and if the baseline has no such value.
	Was    *float64 `json:"was,omitempty"`
	Change *float64 `json:"change_percent,omitempty"`
}

// imported describes a session of imported files; nil for any other.
func (b *builder) imported() *traffic.Section {
	if b.s.Kind != model.KindImported {
		return nil
	}
	d := Imported{Baseline: b.s.Plan.Baseline, Rows: []ImportedRow{}}
	for _, w := range b.s.Plan.Directions {
		for _, m := range b.metricsOf(w) {
			was := runValues(b.baselineRuns(), w, m)
			for _, s := range b.s.Plan.Settings {
				if row, ok := b.importedRow(w, m, s.Name, was); ok {
					d.Rows = append(d.Rows, row)
				}
			}
		}
	}
	return &traffic.Section{Key: "imported", Data: d, Blocks: b.importedBlocks(d)}
}

// metricsOf returns the metrics that runs have in direction w, in order of appearance.
func (b *builder) metricsOf(w model.Direction) (all []model.Metric) {
	seen := map[model.Metric]bool{}
	for _, r := range b.counted {
		for _, v := range r.Values {
			if v.Direction == w && !seen[v.Metric] {
				seen[v.Metric] = true
				all = append(all, v.Metric)
			}
		}
	}
	return all
}

func (b *builder) importedRow(w model.Direction, m model.Metric, setting string, was []float64) (ImportedRow, bool) {
	v := runValues(b.runsOf(setting), w, m)
	if len(v) == 0 {
		return ImportedRow{}, false
	}
	t := stats.Describe(v)
	row := ImportedRow{Direction: w, Metric: m, Setting: setting, Runs: t.N, Median: t.Median, Low: t.Min, High: t.Max}
	if base := stats.Median(was); setting != b.s.Plan.Baseline && base > 0 {
		change := 100 * (t.Median - base) / base
		row.Was, row.Change = &base, &change
	}
	return row, true
}

// importedBlocks formats the rows as a table for each direction and metric.
func (b *builder) importedBlocks(d Imported) []traffic.Block {
	var out []traffic.Block
	for i, r := range d.Rows {
		if i == 0 || d.Rows[i-1].Metric != r.Metric || d.Rows[i-1].Direction != r.Direction {
			if i > 0 {
				out = append(out, traffic.Gap())
			}
			out = append(out, traffic.Block{Tone: traffic.Heading, Text: metric.Name(r.Metric) + " " + b.names.Way(r.Direction)},
				traffic.Block{Columns: []traffic.Column{{Title: "setting"}, {Title: "runs", Right: true}, {Title: "median", Right: true}, {Title: "lowest", Right: true}, {Title: "highest", Right: true}, {Title: "change", Right: true}}})
		}
		write := func(v float64) traffic.Cell { return traffic.Cell{Text: metric.Amount(r.Metric, v)} }
		change := "baseline"
		switch {
		case r.Change != nil:
			change = fmt.Sprintf("%+.2f %%", *r.Change)
			if math.Abs(*r.Change) < 0.005 {
				change = "0.00 %"
			}
		case r.Setting != d.Baseline:
			change = ""
		}
		low, high := traffic.Cell{}, traffic.Cell{}
		if r.Runs > 1 {
			low, high = write(r.Low), write(r.High)
		}
		last := &out[len(out)-1]
		last.Rows = append(last.Rows, []traffic.Cell{{Text: r.Setting}, {Text: fmt.Sprint(r.Runs)}, write(r.Median), low, high, {Text: change}})
	}
	return out
}
