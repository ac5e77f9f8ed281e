package html

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// lineRow is what one direction carried.
type lineRow struct{ Label, Goodput, Ceiling, Runs, Again string }

func lines(d report.Document) []lineRow {
	var out []lineRow
	for _, l := range d.Lines {
		r := lineRow{l.Label, l.Goodput.String(), text(l.Ceiling), fmt.Sprint(l.Runs), text(l.Retransmits)}
		if share, ok := l.Share.Get(); ok {
			r.Ceiling = fmt.Sprintf("%s of %s", units.Percent(math.Round(1000*share)/10), r.Ceiling)
		}
		out = append(out, r)
	}
	return out
}

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

// beside are the verdicts on the metrics that do not decide: the guards, and what else
// was measured.
func beside(d report.Document) []besideRow {
	var out []besideRow
	for i, t := range d.Tables {
		if t.Objective {
			continue
		}
		what, _, _ := strings.Cut(t.Title, ", against ")
		for j, r := range t.Rows {
			if r.IsTwin {
				continue
			}
			row := besideRow{Table: i, Row: j, What: what, Setting: r.Setting, Change: r.ChangeText, Range: r.RangeText, Says: r.Words, Class: verdictClass(r)}
			if r.Guard != "" {
				row.Says += fmt.Sprintf("; guard %s", r.Guard)
			}
			if t.Guard != "" {
				row.Says += fmt.Sprintf(" (may not be %s)", t.Guard)
			}
			out = append(out, row)
		}
	}
	return out
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

// factRow is one fact of both ends.
type factRow struct {
	Name, Near, Far string
	Differs         bool
}

// facts are those of both ends side by side.
func facts(s model.Session) []factRow {
	near, _ := s.Facts(model.Near)
	far, _ := s.Facts(model.Far)
	var rows []factRow
	add := func(name, a, b string) {
		if a != "" || b != "" {
			rows = append(rows, factRow{name, plain.Line(a), plain.Line(b), a != b && a != "" && b != ""})
		}
	}
	add("system", strings.TrimSpace(near.OS+" "+near.Arch), strings.TrimSpace(far.OS+" "+far.Arch))
	add("kernel", text(near.Kernel), text(far.Kernel))
	add("processors", number(near.CPUs), number(far.CPUs))
	add("interface", text(near.Interface), text(far.Interface))
	add("link", text(near.LinkRate), text(far.LinkRate))
	add("MTU", text(near.MTU), text(far.MTU))
	add("congestion control", text(near.Congestion), text(far.Congestion))
	add("queueing discipline", text(near.Qdisc), text(far.Qdisc))
	a, b := card(near), card(far)
	add("card", a[0], b[0])
	add("driver", a[1], b[1])
	add("linerate", near.Version, far.Version)
	var ids []model.KnobID
	for id := range near.Knobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		x, known := near.Knobs[id].Get()
		y, also := far.Knobs[id].Get()
		if known && also && x != y {
			rows = append(rows, factRow{plain.Line(string(id)), plain.Line(x), plain.Line(y), true})
		}
	}
	return rows
}

// text is a fact, or why there is none; "" where nobody was asked.
func text[T any](f fact.Of[T]) string {
	v, ok := f.Get()
	switch {
	case ok:
		return fmt.Sprint(v)
	case f.Reason() == "":
		return ""
	}
	return "unknown: " + f.Reason()
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// card is the interface's hardware and its driver, "" where nobody tells.
func card(f model.HostFacts) [2]string {
	for _, n := range f.NICs {
		if n.Name == f.Interface.Or("") {
			return [2]string{strings.TrimSpace(n.Bus.Kind.Or("") + " " + n.Bus.Device.Or("")), strings.TrimSpace(n.Driver.Or("") + " " + n.Version.Or(""))}
		}
	}
	return [2]string{}
}
