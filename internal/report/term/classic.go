package term

import (
	"fmt"

	"linerate/internal/report"
)

// classic prints one table for each direction and basis, or, of a session with
// one setting, one for each basis. A table of single runs would only repeat
// the lines of the head, and one over the intervals of several settings that over
// their runs: they are left out.
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
