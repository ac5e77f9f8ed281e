package html

import (
	"fmt"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// waitRow is one distribution of latencies.
type waitRow struct{ Label, Half, Most, Longest, Added, Lost string }

func waits(d report.Document) []waitRow {
	var out []waitRow
	for _, l := range d.Latencies {
		r := waitRow{Label: report.LatencyName(l), Half: duration(l.P50), Most: duration(l.P99), Longest: duration(l.Max), Lost: fmt.Sprintf("%d of %d", l.Lost, l.Sent)}
		if v, ok := l.Added.Get(); ok {
			r.Added = units.FormatDuration(v)
		}
		out = append(out, r)
	}
	return out
}

func duration(f fact.Of[time.Duration]) string {
	if v, ok := f.Get(); ok {
		return units.FormatDuration(v)
	}
	return "unknown: " + f.Reason()
}

// besideRow is the effect of a setting on a metric other than the objective.
type besideRow struct {
	Table, Row          int // position in the document
	What, Setting       string
	Change, Range, Says string
	Class               string
}

// beside returns the verdicts on metrics other than the objective: guards and everything else
// measured, split into conclusive ones and the rest.
func beside(d report.Document) (shown, rest []besideRow) {
	for i, t := range d.Tables {
		if t.Objective {
			continue
		}
		for j, r := range t.Rows {
			if r.IsTwin {
				continue
			}
			row := besideRow{Table: i, Row: j, What: t.What, Setting: r.Setting, Change: r.ChangeText, Range: r.RangeText, Says: r.Words, Class: verdictClass(r)}
			if r.Guard != "" {
				row.Says += fmt.Sprintf("; guard %s", r.Guard)
			}
			if t.Guard != "" {
				row.Says += fmt.Sprintf(" (may not be %s)", t.Guard)
			}
			if r.Matters() {
				shown = append(shown, row)
			} else {
				rest = append(rest, row)
			}
		}
	}
	return shown, rest
}

// said returns the text of a verdict; for the check of the baseline, its description.
func said(r report.Row) string {
	if r.IsTwin || r.Said == "" {
		return r.Words
	}
	return r.Said
}

// verdictClass returns the CSS class of a verdict: a gain that a guard blocks does not count as
// good.
func verdictClass(r report.Row) string {
	switch {
	case r.Outcome == model.Worse, r.Harms, r.Guard == model.GuardViolated:
		return "bad"
	case r.Outcome == model.Better && len(r.Refused) == 0:
		return "good"
	}
	return ""
}

func toneClass(t traffic.Tone) string {
	switch t {
	case traffic.Aside:
		return "faint"
	case traffic.Caution, traffic.Alarm:
		return "bad"
	case traffic.Plain, traffic.Heading:
	}
	return ""
}

func isHeading(t traffic.Tone) bool { return t == traffic.Heading }
