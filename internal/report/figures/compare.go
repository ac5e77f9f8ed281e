package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/report"
	"linerate/internal/report/plot"
)

// path is the way from one host to the other with what limits marked.
func (b *builder) path() (plot.Figure, bool) {
	if b.d.Check == nil || len(b.d.Check.Path) == 0 {
		return plot.Figure{}, false
	}
	var boxes plot.Boxes
	for _, x := range b.d.Check.Path {
		boxes.Parts = append(boxes.Parts, plot.Part{Name: x.Name, Detail: x.Detail, Note: x.Note, Marked: x.Limiting})
	}
	var said []string
	for _, l := range b.d.Check.Limits {
		said = append(said, l.Text)
	}
	return plot.Figure{Name: "path", Title: "The path and what limits it", Sentence: sentence(said...), Panels: []plot.Panel{boxes}}, true
}

// unit is how an axis writes the values of m.
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

// settings are the runs of each setting: one point each, in the order of the plan.
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
			row := plot.Row{Name: s.Name, Points: values, Box: plot.BoxOf(values), Text: plot.Format(stats.Median(values), unit(m))}
			rows.Rows = append(rows.Rows, row)
			said = append(said, fmt.Sprintf("%s %s: median %s of %s", s.Name, b.label(w), row.Text, count(len(values), "run")))
		}
		if len(rows.Rows) > 0 {
			f.Panels = append(f.Panels, rows)
		}
	}
	f.Sentence = sentence(said...)
	return f, len(f.Panels) > 0
}

// values are the numbers of the runs of a setting that count.
func (b *builder) values(setting string, w model.Direction, m model.Metric) []float64 {
	var out []float64
	for _, r := range b.runs {
		if v, ok := r.Value(w, m); ok && r.Setting == setting {
			out = append(out, v)
		}
	}
	return out
}

// effects are the verdicts on what decides: estimates with their intervals and the
// margin.
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
		f.Panels = append(f.Panels, rows)
	}
	f.Sentence = sentence(said...)
	return f, len(f.Panels) > 0
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
	case r.Outcome == model.Better && len(r.Refused) == 0: // what a guard refuses is no good news
		row.Tone = plot.Good
	}
	return row
}

// plateau is what decides over the levels of the one numeric factor.
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
	var said []string
	for _, x := range b.d.Plateaus {
		said = append(said, x.Text)
	}
	return plot.Figure{Name: "plateau", Title: "Which level is enough", Sentence: sentence(said...), Panels: []plot.Panel{l}}, len(l.Lines) > 0
}

// grid is the median of every combination of two factors.
func (b *builder) grid() (plot.Figure, bool) {
	f := plot.Figure{Name: "grid", Title: "All combinations"}
	if b.d.Grid == nil || len(b.d.Grid.Factors) != 2 {
		return b.table()
	}
	factors, m := b.d.Grid.Factors, b.s.Plan.Decides()
	for _, w := range b.directions() {
		h := plot.Heat{Unit: unit(m), Name: b.d.Grid.Factors[1].Text + "; " + metric.Name(m) + " " + b.label(w)}
		if len(b.d.FarEnds) > 0 {
			h.Name = string(factors[1].Knob) + "; " + metric.Name(m) + " " + b.label(w)
		}
		for i := range factors[0].Levels {
			row := make([]float64, len(factors[1].Levels))
			for j := range row {
				row[j] = math.NaN()
				if v := b.values(plan.Code(0, i)+plan.Code(1, j), w, m); len(v) > 0 {
					row[j] = stats.Median(v)
				}
			}
			h.Cells = append(h.Cells, row)
			h.Rows = append(h.Rows, level(b.d.Grid.Factors[0], i))
		}
		for j := range factors[1].Levels {
			h.Columns = append(h.Columns, level(b.d.Grid.Factors[1], j))
		}
		f.Panels = append(f.Panels, h)
	}
	if g := b.d.Grid.Factors; g[0].Knob == model.FarEnd || g[1].Knob == model.FarEnd {
		f.Title = "Every far end with every " + string(g[0].Knob)
		if g[0].Knob == model.FarEnd {
			f.Title = "Every far end with every " + string(g[1].Knob)
		}
		var said []string
		for i, p := range f.Panels {
			said = append(said, spread(p.(plot.Heat), b.directions()[i]))
		}
		f.Sentence = sentence(append(said, b.d.Grid.Conclusion)...)
		return f, len(f.Panels) > 0
	}
	f.Sentence = sentence(b.d.Grid.Conclusion)
	if f.Sentence == "" {
		f.Sentence = sentence(b.d.Grid.Factors[0].Text, b.d.Grid.Factors[1].Text)
	}
	return f, len(f.Panels) > 0
}

func level(g report.GridFactor, i int) string {
	return fmt.Sprintf("%s%d: %s", g.Name, i+1, g.Shown[i])
}
