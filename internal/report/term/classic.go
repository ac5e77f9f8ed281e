package term

import (
	"fmt"

	"linerate/internal/report"
)

// classic prints one table for each direction and basis or, for a session with one setting, one
// for each basis. It omits tables that would only repeat others: of single runs, which are in
// the lines of the head, and over the intervals of several settings, whose runs have a table.
func (p *printer) classic(d report.Document) {
	type group struct {
		label string
		basis report.Basis
	}
	var order []group
	rows := map[group][][]string{}
	one := oneSetting(d.Classic)
	for _, c := range d.Classic {
		g, first := group{" " + c.Label, c.Basis}, c.Setting
		if one {
			g.label, first = "", c.Label
		}
		if one && c.Basis == report.OverRuns && c.N == 1 || !one && c.Basis == report.OverIntervals {
			continue
		}
		if rows[g] == nil {
			order = append(order, g)
		}
		rows[g] = append(rows[g], []string{first, fmt.Sprint(c.N), c.Average.String(), c.Median.String(), c.Min.String(), c.Max.String()})
	}
	first := "setting"
	if one {
		first = "direction"
	}
	for _, g := range order {
		title := "goodput" + g.label + ", over " + string(g.basis)
		if g.basis == report.OverIntervals {
			title += " (not independent)"
		}
		p.paragraph(bold, title, 2)
		p.table([]string{first, ">n", ">average", ">median", ">min", ">max"}, rows[g], nil)
		p.gap()
	}
}

func oneSetting(rows []report.Classic) bool {
	for _, c := range rows {
		if c.Setting != rows[0].Setting {
			return false
		}
	}
	return true
}
