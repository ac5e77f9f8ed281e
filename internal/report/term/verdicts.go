package term

import (
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/report"
)

// verdicts prints the verdicts of t without statistics: a line for each setting, and the
// interval drawn if there is space. It omits the copy of the baseline, which only checks the
// session: the session reports a failed check itself.
func (p *printer) verdicts(t report.Table, measured []report.Measured) {
	if p.details {
		p.statistics(t)
		return
	}
	var rows []report.Row
	var warnings []string
	name, text := 0, 0
	for _, r := range t.Rows {
		if !r.IsTwin {
			r.FamilyLow, r.FamilyHigh = nil, nil
			rows = append(rows, r)
			name, text = max(name, columns(clean(r.Setting))), max(text, columns(clean(r.Said)))
		}
	}
	t.Rows = rows
	p.paragraph(bold, t.Title, 2)
	if bars := slices.DeleteFunc(slices.Clone(measured), func(m report.Measured) bool { return m.Direction != t.Direction }); len(rows) == 1 && len(bars) > 0 {
		for i := range bars {
			bars[i].Label = bars[i].Name
		}
		p.bars(bars)
		rows[0].Said = rows[0].Judged
	}
	indent := tableIndent + name + separator
	plot := newPlot(t, min(p.width-indent-text-separator, mostPlot))
	if plot.width > 0 && len(rows) > 0 {
		p.line(strings.Repeat(" ", indent+text+separator) + p.paint(dim, plot.axis()))
	}
	for _, r := range rows {
		setting := strings.Repeat(" ", tableIndent) + clean(r.Setting)
		switch {
		case plot.width > 0:
			p.line(setting + pad(clean(r.Setting), name+separator) + p.paint(color(r), clean(r.Said)) + pad(clean(r.Said), text+separator) + plot.draw(r))
		case p.width-indent < p.width/2 || p.width-indent < longest(r.Said):
			p.paragraph(normal, r.Setting, tableIndent)
			p.paragraph(color(r), r.Said, 2*tableIndent)
		default:
			p.below(setting+pad(clean(r.Setting), name+separator), indent, color(r), r.Said)
		}
		warnings = lists.Once(warnings, r.Warnings...)
	}
	for _, w := range warnings {
		p.paragraph(yellow, "warning: "+w, tableIndent)
	}
	p.gap()
}

// gridTable prints the results of every combination of two factors.
func (p *printer) gridTable(t report.GridTable) {
	p.paragraph(bold, t.Title, 2)
	header, rows := []string{"  "}, [][]string{}
	for _, c := range t.Columns {
		header = append(header, ">"+c)
	}
	for _, r := range t.Rows {
		row := []string{"  " + r.Name}
		for _, c := range r.Cells {
			row = append(row, c.Text)
		}
		rows = append(rows, row)
	}
	p.table(header, rows, nil)
	p.gap()
}

// others prints the results on other metrics, one line for each setting, without the copy of
// the baseline.
func (p *printer) others(tables []report.Table) {
	var rows [][]cell
	rowsOf := map[string][]int{} // indices of rows, by title
	for _, t := range tables {
		for _, r := range t.Rows {
			if t.Objective || r.IsTwin || !p.details && !r.Matters() {
				continue
			}
			row := []cell{left("  " + r.Setting), right(r.Briefly), beside(r)}
			if p.details {
				row = []cell{left("  " + r.Setting), right(r.ChangeText), right(r.RangeText), other(r)}
			}
			rowsOf[t.Title] = append(rowsOf[t.Title], len(rows))
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return
	}
	l := p.fit(rows, nil)
	p.paragraph(bold, "what else changed", 2)
	for _, t := range tables {
		if len(rowsOf[t.Title]) == 0 {
			continue
		}
		what := t.What
		switch {
		case t.Guard != "" && p.details:
			what += " (guard: less than " + t.Guard + ")"
		case t.Guard != "":
			what += " (less than " + t.Guard + " is allowed)"
		}
		p.paragraph(normal, what, 2)
		for _, i := range rowsOf[t.Title] {
			p.row(rows[i], l)
		}
	}
	p.gap()
}

// beside summarises a row of another metric that matters.
func beside(r report.Row) cell {
	c := left(string(r.Outcome))
	c.style = color(r)
	switch {
	case r.Guard == model.GuardViolated:
		c.text, c.style = "more than is allowed", red
	case r.Guard == model.GuardOpen && r.Outcome == model.Worse:
		c.text = "worse, perhaps too much"
	}
	return c
}

// other summarises a row of another metric, with its guard.
func other(r report.Row) cell {
	c := left(r.Words)
	c.style = color(r)
	if r.Outcome == model.Better || r.Outcome == model.Worse {
		c.text = string(r.Outcome)
	}
	if r.Outcome == model.Equivalent {
		c.text = "no difference"
	}
	switch r.Guard {
	case model.GuardViolated:
		c.text, c.style = "guard violated", red
	case model.GuardHolds:
		if r.Outcome == model.Undecided || r.Outcome == model.Equivalent {
			c.text = "guard holds"
		} else {
			c.text += ", guard holds"
		}
	case model.GuardOpen, model.GuardTolerable:
		c.text = "guard not decided"
	case model.GuardUnmeasured:
		c.text = "not measured"
	}
	return c
}
