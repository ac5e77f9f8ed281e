package report

import (
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// FactRow is one fact of both ends.
type FactRow struct {
	Name, Near, Far string
	Differs         bool
}

// BothEnds returns the facts of both ends side by side, and the settings that differ.
func BothEnds(s model.Session) []FactRow {
	near, _ := s.Facts(model.Near)
	far, _ := s.Facts(model.Far)
	var rows []FactRow
	add := func(name, a, b string) {
		if a != "" || b != "" {
			rows = append(rows, FactRow{name, plain.Line(a), plain.Line(b), a != b && a != "" && b != ""})
		}
	}
	add("system", strings.TrimSpace(near.OS+" "+near.Arch), strings.TrimSpace(far.OS+" "+far.Arch))
	add("kernel", Known(near.Kernel), Known(far.Kernel))
	add("processors", countText(near.CPUs), countText(far.CPUs))
	add("interface", Known(near.Interface), Known(far.Interface))
	add("link", Known(near.LinkRate), Known(far.LinkRate))
	add("MTU", Known(near.MTU), Known(far.MTU))
	add("congestion control", Known(near.Congestion), Known(far.Congestion))
	add("queueing discipline", Known(near.Qdisc), Known(far.Qdisc))
	a, b := cardText(near), cardText(far)
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
			rows = append(rows, FactRow{plain.Line(string(id)), plain.Line(x), plain.Line(y), true})
		}
	}
	return rows
}

// Known formats a fact, or why it is unknown; "" if it was not requested.
func Known[T any](f fact.Of[T]) string {
	v, ok := f.Get()
	switch {
	case ok:
		return fmt.Sprint(v)
	case f.Reason() == "":
		return ""
	}
	return "unknown: " + f.Reason()
}

func countText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// cardText returns the interface's hardware and its driver, "" if unknown.
func cardText(f model.HostFacts) [2]string {
	for _, n := range f.NICs {
		if n.Name == f.Interface.Or("") {
			return [2]string{strings.TrimSpace(n.Bus.Kind.Or("") + " " + n.Bus.Device.Or("")), strings.TrimSpace(n.Driver.Or("") + " " + n.Version.Or(""))}
		}
	}
	return [2]string{}
}

// LineRow is the result of one direction, as text.
type LineRow struct{ Label, Goodput, Ceiling, Runs, Again string }

// LineRows returns the rows of a document.
func LineRows(d Document) []LineRow {
	var out []LineRow
	for _, l := range d.Lines {
		r := LineRow{l.Label, l.Goodput.String(), Known(l.Ceiling), fmt.Sprint(l.Runs), Known(l.Retransmits)}
		if share, ok := l.Share.Get(); ok {
			r.Ceiling = fmt.Sprintf("%s of %s", OfCeiling(share, Percent), r.Ceiling)
		}
		out = append(out, r)
	}
	return out
}
