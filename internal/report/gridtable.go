package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
)

// GridTable has the results of every combination of factors in one direction, in one unit: a
// column for each level of the factor with the fewest levels, a row for each combination of the
// others.
type GridTable struct {
	Direction model.Direction `json:"direction"`
	Title     string          `json:"title"` // "goodput to nas, Mbit/s: median (lowest-highest run)"
	Unit      string          `json:"unit"`  // of Text
	RowsOf    string          `json:"rows_of"`
	ColumnsOf string          `json:"columns_of"`
	Columns   []string        `json:"columns"`
	Rows      []GridRow       `json:"rows"`
}

// GridRow is one row of a GridTable.
type GridRow struct {
	Name  string     `json:"name"`
	Cells []GridCell `json:"cells"`
}

// GridCell is one combination. Its numbers are in the base unit of the metric.
type GridCell struct {
	Setting string  `json:"setting"`
	Runs    int     `json:"runs"` // those that count; without them the rest is 0
	Median  float64 `json:"median"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Text    string  `json:"text"`
}

// gridTables returns an empty list for fewer than two factors.
func (b *builder) gridTables() []GridTable {
	out := []GridTable{}
	factors := b.s.Plan.Factors
	if len(factors) < 2 {
		return out
	}
	at := 0
	for i, f := range factors {
		if len(f.Levels) <= len(factors[at].Levels) {
			at = i
		}
	}
	columns, rows := factors[at], slices.Delete(slices.Clone(factors), at, at+1)
	names := lists.Each(rows, func(f model.Factor) string { return f.Name })
	for _, w := range b.s.Plan.Directions {
		for _, d := range w.Parts() {
			t := GridTable{Direction: d, RowsOf: strings.Join(names, " "), ColumnsOf: columns.Name}
			for _, l := range columns.Levels {
				t.Columns = append(t.Columns, l.Name)
			}
			for _, r := range plan.Combinations(rows) {
				row := GridRow{Name: plan.Cell(r...)}
				for _, c := range columns.Levels {
					row.Cells = append(row.Cells, b.gridCell(plan.Cell(slices.Insert(slices.Clone(r), at, c)...), d))
				}
				t.Rows = append(t.Rows, row)
			}
			t.write(b.s.Plan.Decides(), b.toward(d))
			out = append(out, t)
		}
	}
	return out
}

func (b *builder) gridCell(name string, d model.Direction) GridCell {
	c := GridCell{Setting: name}
	values := runValues(b.runsOf(name), d, b.s.Plan.Decides())
	if c.Runs = len(values); c.Runs > 0 {
		c.Median, c.Low, c.High = stats.Median(values), slices.Min(values), slices.Max(values)
	}
	return c
}

// write fills in the title and the texts, all in the unit that suits the largest number.
func (t *GridTable) write(m model.Metric, toward string) {
	most := 0.0
	for _, r := range t.Rows {
		for _, c := range r.Cells {
			most = max(most, c.High)
		}
	}
	factor, unit := oneUnit(metric.Base(m), most)
	t.Unit = unit
	what := strings.TrimSpace(metric.Name(m) + " " + toward)
	if t.Unit != "" {
		what += ", " + t.Unit
	}
	t.Title = what + ": median (lowest-highest run)"
	text := func(v float64) string { return strconv.FormatFloat(v/factor, 'f', decimals(most/factor), 64) }
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			r.Cells[i].Text = fmt.Sprintf("%s (%s-%s)", text(c.Median), text(c.Low), text(c.High))
			if c.Runs == 0 {
				r.Cells[i].Text = "not measured"
			}
		}
	}
}

// oneUnit returns the unit for a table whose largest number is most in the unit base, and the
// divisor of its numbers.
func oneUnit(base string, most float64) (factor float64, unit string) {
	steps := map[string][]string{"bit/s": {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"}, "B": {"B", "kB", "MB", "GB"}}[base]
	switch {
	case base == "s":
		return 1e-3, "ms"
	case base == "1":
		return 1e-2, "%"
	case steps == nil:
		return 1, ""
	}
	factor, unit = 1, steps[0]
	for _, unit = range steps {
		if most < 1e3*factor || unit == steps[len(steps)-1] {
			break
		}
		factor *= 1e3
	}
	return factor, unit
}

// decimals returns the decimals that show the largest number with three significant digits.
func decimals(most float64) int {
	digits := 2
	for ; most >= 10 && digits > 0; digits-- {
		most /= 10
	}
	return digits
}
