package sweep

import (
	"fmt"
	"slices"

	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// blocks formats d: for each direction the key values, the table and the irregularities, and
// then the method.
func (d *Document) blocks() []traffic.Block {
	var out []traffic.Block
	for _, c := range d.Directions {
		out = append(out, c.blocks(d.Mode)...)
	}
	for _, text := range d.How {
		out = append(out, traffic.Block{Tone: traffic.Aside, Text: text})
	}
	return append(out, traffic.Gap())
}

func (d Direction) blocks(mode string) []traffic.Block {
	out := []traffic.Block{{Tone: traffic.Heading,
		Text: fmt.Sprintf("messages %s, %s, %s", d.Label, plain.Count(len(d.Curve.Sizes), "size"), plain.Count(d.Curve.Passes, "pass", "passes"))}}
	if s := d.Smallest; s != nil {
		what := "latency one way"
		if mode == sizes.Stream {
			what = "time per message"
		}
		text := fmt.Sprintf("%s of %s: %s", what, SizeText(s.Size), units.FormatDuration(s.Median))
		if s.Trials > 1 {
			text += fmt.Sprintf(" (middle half %s to %s)", units.FormatDuration(s.Low), units.FormatDuration(s.High))
		}
		out = append(out, traffic.Block{Text: text})
	}
	if s := d.Largest; s != nil {
		text := fmt.Sprintf("greatest goodput: %v with messages of %s", s.Goodput, SizeText(s.Size))
		if half := half(d); half != "" {
			text += ", " + half
		}
		out = append(out, traffic.Block{Text: text})
	}
	table := traffic.Block{Columns: []traffic.Column{{Title: "message", Right: true}, {Title: "median", Right: true},
		{Title: "quartiles", Right: true}, {Title: "goodput", Right: true}, {}}}
	spread := slices.ContainsFunc(d.Rows, func(r Row) bool { return r.Trials > 1 })
	for _, r := range d.Rows {
		table.Rows = append(table.Rows, r.cells())
	}
	if !spread { // as from other programs: one time per size
		table.Columns[1].Title = "time"
		table.Columns = slices.Delete(table.Columns, 2, 3)
		for i, row := range table.Rows {
			table.Rows[i] = slices.Delete(row, 2, 3)
		}
	}
	out = append(out, traffic.Gap(), table, traffic.Gap())
	for _, f := range d.Findings {
		out = append(out, f.blocks()...)
	}
	if len(d.Findings) > 0 {
		out = append(out, traffic.Gap())
	}
	for _, text := range d.Curve.Warnings {
		out = append(out, traffic.Block{Tone: traffic.Caution, Text: text})
	}
	return append(out, traffic.Gap())
}

// cells returns one line of the table.
func (r Row) cells() []traffic.Cell {
	mark := traffic.Cell{Text: r.Mark, Tone: traffic.Caution}
	if r.Stalled > 0 {
		mark.Tone = traffic.Alarm
	}
	if r.Trials == 0 {
		return []traffic.Cell{{Text: r.Label}, {Text: "-"}, {Text: "-"}, {Text: "-"}, mark}
	}
	return []traffic.Cell{
		{Text: r.Label}, {Text: units.FormatDuration(r.Median)},
		{Text: units.FormatDuration(r.Low) + " to " + units.FormatDuration(r.High)}, {Text: r.Goodput.String()}, mark,
	}
}

// blocks formats the finding, with the kernel messages meanwhile.
func (f Finding) blocks() []traffic.Block {
	tone := traffic.Caution
	switch f.State {
	case IsConfirmed:
		tone = traffic.Alarm
	case NotConfirmed:
		tone = traffic.Aside
	case Candidate, Open:
	}
	out := []traffic.Block{{Tone: tone, Text: f.Text}}
	for _, line := range f.Log {
		out = append(out, traffic.Block{Tone: traffic.Aside, Text: "kernel of " + line, Inner: true})
	}
	return out
}
