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

// besideRow is what a setting does to a metric that does not decide.
type besideRow struct {
	Table, Row          int // where the document has it
	What, Setting       string
	Change, Range, Says string
	Class               string
}

// beside are the verdicts on the metrics that do not decide, the guards, and what else
// was measured: those that say something, and the rest.
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

// said is a verdict for people; the check of the baseline says what it is.
func said(r report.Row) string {
	if r.IsTwin || r.Said == "" {
		return r.Words
	}
	return r.Said
}

// verdictClass is how a verdict looks: good news that a guard refuses is none.
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
