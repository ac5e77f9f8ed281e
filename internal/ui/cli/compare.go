package cli

import (
	"context"
	"fmt"
	"slices"

	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/report"
	"linerate/internal/report/term"
)

// compareDoc is linerate/compare/v1. It never holds a verdict; Reason says why.
type compareDoc struct {
	A       string       `json:"a"` // session IDs
	B       string       `json:"b"`
	Rows    []compareRow `json:"rows"`
	Verdict *struct{}    `json:"verdict"` // always null
	Reason  string       `json:"reason"`
}

// route returns where a session ran, for people. A lab holds both ends.
func route(s model.Session) string {
	if s.Near == s.Far {
		return s.Far
	}
	return s.Near + " -> " + s.Far
}

// compareRow is one setting, direction and metric of two sessions in linerate/compare/v1.
type compareRow struct {
	Setting   string          `json:"setting"`
	Direction model.Direction `json:"direction"`
	Metric    model.Metric    `json:"metric"`
	Unit      string          `json:"unit"`
	A         *summary        `json:"a"` // null if the session has none
	B         *summary        `json:"b"`
	Ratio     *float64        `json:"ratio"` // of the medians, b over a
	// Change is (b - a)/a of the medians in percent.
	Change *float64 `json:"change_percent,omitempty"`
}

// summary describes the valid runs of one setting, in the metric's unit.
type summary struct {
	N      int     `json:"n"`
	Mean   float64 `json:"average"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func (a *console) compare(ctx context.Context, refA, refB string) error {
	st, sa, err := a.openSession(ctx, refA)
	if err != nil {
		return err
	}
	defer st.Close()
	sb, err := find(ctx, st, refB)
	if err != nil {
		return err
	}
	rows := compareRows(sa, sb)
	if a.json {
		return a.document("linerate/compare/v1", compareDoc{A: sa.ID, B: sb.ID, Rows: rows, Reason: noVerdict})
	}
	names, text := sa.Names(), "no setting has a value of the same metric in both: measure them with the same kind of traffic"
	if sb.Names() != names {
		names = model.Names{Near: string(model.Near), Far: string(model.Far)}
	}
	p := term.NewPage(a.termOptions())
	for i, s := range []model.Session{sa, sb} {
		p.Text("%c  %s  %s", 'A'+i, s.ID, route(s))
		if len(s.Command) > 0 {
			p.Text("   %s", plain.ShellLine(s.Command))
		}
	}
	p.Gap()
	for len(rows) > 0 {
		first, table := rows[0], [][]string(nil)
		for ; len(rows) > 0 && rows[0].Setting == first.Setting && rows[0].Direction == first.Direction; rows = rows[1:] {
			r, change := rows[0], "-"
			if r.Change != nil {
				change = fmt.Sprintf("%+.1f %%", *r.Change)
			}
			if r.A != nil && r.B != nil {
				text = "no verdict: " + noVerdict
			}
			table = append(table, []string{"  " + metric.Describe(r.Metric).Short, r.text(r.A), r.text(r.B), change})
		}
		p.Text("%s, %s", first.Setting, names.Arrow(first.Direction))
		p.Table([]string{"  median (runs)", ">A", ">B", ">change"}, table, nil)
		p.Gap()
	}
	p.Note(text)
	p.Command(report.Step{What: "see the second one", Command: "linerate show " + sb.ID + a.storeFlag()})
	return p.Print(a.Out)
}

const noVerdict = "the two sessions ran one after the other, so a drift of the path would look the same; " +
	"put both settings into one linerate run (at least 6 blocks)"

func (r compareRow) text(d *summary) string {
	if d == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%d)", metric.Amount(r.Metric, d.Median), d.N)
}

// compareRows joins the results of two sessions by setting, direction and metric.
func compareRows(sa, sb model.Session) []compareRow {
	rows := []compareRow{}
	var settings []string
	for _, s := range append(slices.Clone(sa.Plan.Settings), sb.Plan.Settings...) {
		if s.Name != sa.Plan.Twin && s.Name != sb.Plan.Twin {
			settings = lists.Once(settings, s.Name)
		}
	}
	var metrics []model.Metric
	for _, r := range append(slices.Clone(sa.Runs), sb.Runs...) {
		metrics = lists.Once(metrics, metric.Measured(r.Flow)...)
	}
	for _, name := range settings {
		for _, d := range []model.Direction{model.To, model.From} {
			for _, m := range metrics {
				r := compareRow{Setting: name, Direction: d, Metric: m, Unit: metric.Base(m), A: describe(sa, name, d, m), B: describe(sb, name, d, m)}
				if r.A == nil && r.B == nil {
					continue
				}
				if r.A != nil && r.B != nil && r.A.Median > 0 {
					q := r.B.Median / r.A.Median
					change := 100 * (r.B.Median - r.A.Median) / r.A.Median
					r.Ratio, r.Change = &q, &change
				}
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// describe summarises a metric of the valid runs of one setting; nil if there are none.
func describe(s model.Session, setting string, d model.Direction, m model.Metric) *summary {
	var values []float64
	for _, r := range s.Runs {
		if v, ok := r.Value(d, m); ok && r.State == model.RunValid && r.Setting == setting {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return nil
	}
	out := summary(stats.Describe(values))
	return &out
}
