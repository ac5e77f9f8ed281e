package bottleneck

import (
	"fmt"

	"linerate/internal/core/traffic"
)

// blocks formats d for people: for each direction the rates, the limit of each copy, and how
// the hosts copied.
func (d *Document) blocks() []traffic.Block {
	var out []traffic.Block
	for _, c := range d.Directions {
		title := fmt.Sprintf("copies from %s to %s", c.Sender, c.Receiver)
		if d.Size > 0 {
			title += ", " + d.Size.String()
		}
		table := traffic.Block{Columns: []traffic.Column{{Title: "from -> to"}, {Title: "median", Right: true}, {Title: "range", Right: true}, {Title: "runs", Right: true}}}
		var limits, how []traffic.Block
		for _, r := range c.Rows {
			spread := ""
			if r.Runs > 1 {
				spread = r.Low.String() + " to " + r.High.String()
			}
			table.Rows = append(table.Rows, []traffic.Cell{{Text: r.Label}, {Text: r.Rate.String()}, {Text: spread}, {Text: fmt.Sprint(r.Runs)}})
			if r.Limit != "" {
				limits = append(limits, traffic.Block{Text: r.Label + ": " + r.Limit})
			}
		}
		for _, text := range c.How {
			how = append(how, traffic.Block{Tone: traffic.Aside, Text: text})
		}
		out = append(out, traffic.Block{Tone: traffic.Heading, Text: title}, table, traffic.Gap())
		out = append(append(out, limits...), traffic.Gap())
		out = append(append(out, how...), traffic.Gap())
	}
	return out
}
