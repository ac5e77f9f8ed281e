package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/plot"
)

// path draws the path from one host to the other with the limit marked.
func (b *builder) path() (plot.Figure, bool) {
	if b.d.Check == nil || len(b.d.Check.Path) == 0 {
		return plot.Figure{}, false
	}
	var boxes plot.Boxes
	for _, x := range b.d.Check.Path {
		boxes.Parts = append(boxes.Parts, plot.Part{Name: x.Name, Detail: x.Detail, Note: x.Note, Marked: x.Limiting})
	}
	said := lists.Each(b.d.Check.Limits, func(l report.CheckLimit) string { return l.Text })
	return plot.Figure{Name: "path", Title: "The path and what limits it", Sentence: sentence(said...), Panels: []plot.Panel{boxes}}, true
}

// unit returns the unit of an axis for the values of m.
func unit(m model.Metric) plot.Unit {
	if slices.Contains([]model.Metric{model.Goodput, model.Sent, model.StreamGoodput, model.StreamSent}, m) {
		return plot.BitRate
	}
	if slices.Contains([]model.Metric{model.LossRatio, model.RetransmitRatio}, m) {
		return plot.Share
	}
	if i, ok := metric.Of(m); ok && (i.Unit == "s" || strings.HasPrefix(string(m), "latency") || m == model.RTT || m == model.Jitter) {
		return plot.Seconds
	}
	return plot.Plain
}

// gains draws the values before and after a search, each as a bar with its interval.
func (b *builder) gains() (plot.Figure, bool) {
	m := b.s.Plan.Decides()
	rows := plot.Rows{X: plot.Axis{Name: metric.Name(m), Unit: unit(m), Zero: true}}
	runs, sure := math.MaxInt, 1.0
	for _, v := range b.d.Measured {
		row := plot.Row{Name: v.Label, Text: v.Text, Bar: true, Mid: &v.Median, Span: &plot.Span{Low: v.Low, High: v.High}}
		row.Tone = map[model.Outcome]plot.Tone{model.Better: plot.Good, model.Worse: plot.Bad}[v.Outcome]
		rows.Rows = append(rows.Rows, row)
		runs, sure = min(runs, v.Runs), min(sure, v.Confidence)
	}
	text := fmt.Sprintf("Medians of at least %s each, with their intervals of at least %s.", plain.Count(runs, "run"), report.Percent(sure))
	return plot.Figure{Name: "gains", Title: "Before and after", Sentence: text, Panels: []plot.Panel{rows}}, len(rows.Rows) > 0
}

// settings draws the runs of each setting: one point each, in the order of the plan.
func (b *builder) settings() (plot.Figure, bool) {
	m := b.s.Plan.Decides()
	f := plot.Figure{Name: "settings", Title: "Every run of every setting"}
	if len(b.s.Plan.Settings) < 2 {
		return f, false
	}
	var said []string
	for _, w := range b.directions() {
		rows := plot.Rows{X: plot.Axis{Name: metric.Name(m) + " " + b.label(w), Unit: unit(m)}}
		for _, s := range b.s.Plan.Settings {
			values := b.values(s.Name, w, m)
			if len(values) == 0 {
				continue
			}
			row := plot.Row{Name: s.Name, Points: values, Box: plot.BoxOf(values), Text: interval(values, b.s.Plan.Confidence, unit(m))}
			rows.Rows = append(rows.Rows, row)
			said = append(said, fmt.Sprintf("%s %s: median %s of %s", s.Name, b.label(w), plot.Format(stats.Median(values), unit(m)), plain.Count(len(values), "run")))
		}
		if len(rows.Rows) > 0 {
			f.Panels = append(f.Panels, rows)
		}
	}
	f.Sentence = sentence(said...)
	return f, len(f.Panels) > 0
}

// interval formats the median of v and its interval.
func interval(v []float64, confidence float64, u plot.Unit) string {
	text := plot.Format(stats.Median(v), u)
	if len(v) < 2 {
		return text
	}
	i := stats.MedianInterval(v, confidence)
	return text + " (" + units.Range(plot.Format(i.Low, u), plot.Format(i.High, u)) + ")"
}

// values returns the numbers of a setting's runs that count.
func (b *builder) values(setting string, w model.Direction, m model.Metric) []float64 {
	var out []float64
	for _, r := range b.runs {
		if v, ok := r.Value(w, m); ok && r.Setting == setting {
			out = append(out, v)
		}
	}
	return out
}

// effects draws the verdicts on the objective: estimates with their intervals and the margin.
func (b *builder) effects() (plot.Figure, bool) {
	f := plot.Figure{Name: "effects", Title: "What each setting changes"}
	var said []string
	for _, t := range b.d.Tables {
		if !t.Objective {
			continue
		}
		zero := 0.0
		rows := plot.Rows{X: plot.Axis{Name: t.Title, Unit: plot.Plain}, Zero: &zero}
		if t.Unit == "%" {
			rows.X.Unit = plot.Percent
			if t.Margin > 0 {
				rows.Margin = &plot.Span{Low: -float64(t.Margin), High: float64(t.Margin)}
			}
		}
		for _, r := range t.Rows {
			rows.Rows = append(rows.Rows, effect(t, r))
			if !r.IsTwin {
				said = append(said, fmt.Sprintf("%s: %s (%s), %s", r.Setting, r.ChangeText, r.RangeText, r.Words))
			}
		}
		if slices.ContainsFunc(rows.Rows, func(r plot.Row) bool { return r.Mid != nil && *r.Mid > 100 }) && t.Unit == "%" {
			inTimes(&rows)
		}
		f.Panels = append(f.Panels, rows)
	}
	f.Sentence = sentence(said...)
	return f, len(f.Panels) > 0
}

// inTimes converts changes in percent to factors if one is twofold or more, so that axis and
// labels have one unit.
func inTimes(rows *plot.Rows) {
	factor := func(percent float64) float64 { return 1 + percent/100 }
	one := 1.0
	rows.X.Name, rows.X.Unit, rows.Zero = rows.X.Name+", times", plot.Plain, &one
	spans := []*plot.Span{rows.Margin}
	for i := range rows.Rows {
		r := &rows.Rows[i]
		if r.Mid != nil {
			mid, wide := factor(*r.Mid), 0.0 // units.Round gives it four digits
			if r.Span != nil && !math.IsInf(r.Span.High-r.Span.Low, 0) {
				wide = (r.Span.High - r.Span.Low) / 100
			}
			r.Mid, r.Text = &mid, units.Round(mid, wide)+" times"
		}
		spans = append(spans, r.Span, r.Outer)
	}
	for _, s := range spans {
		if s != nil {
			s.Low, s.High = factor(s.Low), factor(s.High)
		}
	}
}

func effect(t report.Table, r report.Row) plot.Row {
	row := plot.Row{Name: r.Setting, Text: r.ChangeText}
	if v := float64(r.Change); !math.IsNaN(v) && !math.IsInf(v, 0) {
		row.Mid = &v
	}
	if low, high := float64(r.Low), float64(r.High); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		row.Span = &plot.Span{Low: low, High: high}
	}
	if r.FamilyLow != nil && r.FamilyHigh != nil && t.Together > 1 {
		row.Outer = &plot.Span{Low: float64(*r.FamilyLow), High: float64(*r.FamilyHigh)}
	}
	switch {
	case r.Outcome == model.Worse, r.Harms:
		row.Tone = plot.Bad
	case r.Outcome == model.Better && len(r.Refused) == 0: // good news blocked by a guard does not count as good
		row.Tone = plot.Good
	}
	return row
}

// plateau draws the objective over the levels of the single numeric factor.
func (b *builder) plateau() (plot.Figure, bool) {
	p, m := b.s.Plan, b.s.Plan.Decides()
	l := plot.Lines{X: plot.Axis{Name: string(p.Factor), Unit: plot.Bytes, Log: true}, Y: plot.Axis{Name: metric.Name(m), Unit: unit(m), Zero: true}}
	for _, w := range b.directions() {
		one := plot.Line{Name: b.label(w), Dots: true}
		for _, name := range p.Levels {
			s, ok := p.Setting(name)
			if !ok {
				continue
			}
			for _, a := range s.Assignments {
				level, err := strconv.ParseFloat(a.Value, 64)
				if v := b.values(name, w, m); a.Knob == p.Factor && err == nil && level > 0 && len(v) > 0 {
					one.X, one.Y = append(one.X, level), append(one.Y, stats.Median(v))
					if level < 1024 {
						l.X.Unit = plot.Plain
					}
					break
				}
			}
		}
		if len(one.X) > 2 {
			l.Lines = append(l.Lines, one)
		}
	}
	if m == model.Goodput {
		b.ceilings(&l)
	}
	said := lists.Each(b.d.Plateaus, func(x report.Plateau) string { return x.Text })
	return plot.Figure{Name: "plateau", Title: "Which level is enough", Sentence: sentence(said...), Panels: []plot.Panel{l}}, len(l.Lines) > 0
}

// grid draws the result of every combination of factors: as bars side by side, or as a map if
// far ends are compared, or if there are more levels than colours or longer names than space.
func (b *builder) grid() (plot.Figure, bool) {
	f := plot.Figure{Name: "grid", Title: "All combinations"}
	if b.d.Grid == nil || len(b.d.Grid.Factors) < 2 {
		return b.table()
	}
	g, ends := b.d.Grid, len(b.d.FarEnds) > 0
	var said []string
	for _, t := range g.Tables {
		if ends || len(t.Columns) > plot.MostSeries || names(t) > widest {
			h := b.shades(t)
			f.Panels = append(f.Panels, h)
			said = append(said, spread(h, t.Direction))
			continue
		}
		f.Panels = append(f.Panels, b.bars(t))
	}
	switch {
	case ends:
		var others []string
		for _, x := range g.Factors {
			if x.Knob != model.FarEnd {
				others = append(others, string(x.Knob))
			}
		}
		f.Title = "Every far end with every " + strings.Join(others, " and ")
		f.Sentence = sentence(append(said, g.Conclusion)...)
	case g.Conclusion != "":
		f.Sentence = sentence(g.Conclusion)
	default:
		said := lists.Each(g.Factors, func(x report.GridFactor) string { return x.Text })
		f.Sentence = sentence(said...)
	}
	return f, len(f.Panels) > 0
}

// widest is the most characters of names that fit side by side below the bars.
const widest = 110

// names returns the number of characters in the names of t's rows.
func names(t report.GridTable) int {
	n := 0
	for _, r := range t.Rows {
		n += len(strings.TrimPrefix(r.Name, t.RowsOf+"="))
	}
	return n
}

// bars returns a table of a grid as bars side by side.
func (b *builder) bars(t report.GridTable) plot.Groups {
	m := b.s.Plan.Decides()
	out := plot.Groups{
		Y:    plot.Axis{Name: metric.Name(m) + " " + b.label(t.Direction) + ": median, lowest and highest run", Unit: unit(m), Zero: true},
		Name: t.RowsOf, Series: t.Columns,
	}
	for _, r := range t.Rows {
		var bars []plot.Bar
		for _, c := range r.Cells {
			bar := plot.Bar{Low: c.Low, Median: c.Median, High: c.High}
			if c.Runs == 0 {
				bar = plot.Bar{Low: math.NaN(), Median: math.NaN(), High: math.NaN()}
			}
			bars = append(bars, bar)
		}
		out.Groups, out.Bars = append(out.Groups, strings.TrimPrefix(r.Name, t.RowsOf+"=")), append(out.Bars, bars)
	}
	return out
}

// shades returns a table of a grid as a map.
func (b *builder) shades(t report.GridTable) plot.Heat {
	m := b.s.Plan.Decides()
	h := plot.Heat{Unit: unit(m), Name: t.ColumnsOf + "; " + metric.Name(m) + " " + b.label(t.Direction), Columns: t.Columns}
	for _, r := range t.Rows {
		row := make([]float64, len(r.Cells))
		for j, c := range r.Cells {
			if row[j] = c.Median; c.Runs == 0 {
				row[j] = math.NaN()
			}
		}
		h.Rows, h.Cells = append(h.Rows, r.Name), append(h.Cells, row)
	}
	return h
}
