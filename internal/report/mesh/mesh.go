// Package mesh builds the report of a mesh as data: the matrix, and what is odd in it.
package mesh

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/odd"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Document is the mesh in the JSON of a report.
type Document struct {
	Level units.BitRate `json:"level"` // goodput that most of the better directions reach; 0 if nothing was measured
	Hosts []string      `json:"hosts"`
	// Matrix has the goodput of each direction, [sender][receiver] in Unit; null if not
	// measured.
	Matrix fleet.Matrix `json:"matrix"`
	Unit   string       `json:"unit"`
	Ways   []Way        `json:"ways"`
	Odd    []odd.Thing  `json:"odd"`
}

// Way is one direction of a document.
type Way struct {
	From      string         `json:"from"`
	To        string         `json:"to"`
	Goodput   *units.BitRate `json:"goodput"`       // median; null if not measured
	RoundTrip *time.Duration `json:"round_trip_ns"` // median without load; null if not measured
	Why       string         `json:"why,omitempty"` // why it was not measured
}

// Of returns the document of a mesh session.
func Of(s *model.Session) Document {
	rates, trips := fleet.Rates(s), fleet.RoundTrips(s)
	d := Document{Level: units.BitRate(odd.Level(rates)), Hosts: []string{}, Ways: []Way{}, Odd: append([]odd.Thing{}, odd.Session(s)...)}
	unit, name := scale(float64(d.Level))
	d.Unit, d.Matrix = name, rates.Map(func(_, _ int, v float64) float64 { return v / unit })
	for _, h := range fleet.Hosts(s.Mesh) {
		d.Hosts = append(d.Hosts, plain.Line(h.Name))
	}
	for _, w := range s.Mesh.Ways {
		if !fleet.Between(s.Mesh, w) {
			continue
		}
		way := Way{From: d.Hosts[w.From], To: d.Hosts[w.To], Why: plain.Line(w.LeftOut + w.Problem)}
		if v := rates[w.From][w.To]; !math.IsNaN(v) {
			rate := units.BitRate(v)
			way.Goodput = &rate
		}
		if v := trips[w.From][w.To]; !math.IsNaN(v) {
			trip := time.Duration(v * float64(time.Second))
			way.RoundTrip = &trip
		}
		d.Ways = append(d.Ways, way)
	}
	for i := range d.Odd {
		d.Odd[i].Name, d.Odd[i].Text = plain.Line(d.Odd[i].Name), plain.Words(plain.Line(d.Odd[i].Text))
	}
	return d
}

// Line summarises in one line what is odd.
func (d Document) Line() string {
	if len(d.Odd) == 0 {
		return "nothing is odd"
	}
	return "odd: " + plain.And(lists.Each(d.Odd, func(t odd.Thing) string { return t.Name }))
}

// Section returns the report's section for display.
func Section(s *model.Session) *traffic.Section {
	d := Of(s)
	blocks := []traffic.Block{table(d.Hosts, fleet.Rates(s)), traffic.Gap()}
	for _, t := range d.Odd {
		blocks = append(blocks, traffic.Block{Tone: traffic.Caution, Text: t.Text})
	}
	if len(d.Odd) == 0 && d.Level > 0 {
		blocks = append(blocks, traffic.Block{Text: fmt.Sprintf("nothing is odd: every way carries at least %.0f %% of what its hosts and the others reach", 100*(1-odd.Margin))})
	}
	if text := d.roundTrips(); text != "" {
		blocks = append(blocks, traffic.Block{Text: text})
	}
	for _, text := range leftOut(s) {
		blocks = append(blocks, traffic.Block{Tone: traffic.Aside, Text: text})
	}
	return &traffic.Section{Key: "mesh", Data: d, Blocks: blocks, Whole: true, Next: closer(s)}
}

// closer returns the check of an odd direction that was measured, if the command can name both
// hosts again: secrets are not stored.
func closer(s *model.Session) []traffic.Step {
	rates, hosts := fleet.Rates(s), fleet.Hosts(s.Mesh)
	for _, t := range odd.Session(s) {
		for _, w := range s.Mesh.Ways {
			if !fleet.Between(s.Mesh, w) || math.IsNaN(rates[w.From][w.To]) || t.Name != w.Name && (!t.Host || t.Name != hosts[w.From].Name && t.Name != hosts[w.To].Name) {
				continue
			}
			near, far := hosts[min(w.From, w.To)].Target, hosts[max(w.From, w.To)].Target
			if strings.Contains(near+far, "linerate://") {
				continue
			}
			command := "linerate check " + plain.ShellWord(far)
			if near != model.ThisMachine {
				command += " --from " + plain.ShellWord(near)
			}
			return []traffic.Step{{What: "find what limits a way of " + t.Name, Command: command}}
		}
	}
	return nil
}

// Widest is the most hosts in a matrix of 80 columns.
const Widest = 10

// Matrix returns the rows of a matrix of rates as text, for a term.Page.
func Matrix(hosts []string, rates fleet.Matrix) (header []string, rows [][]string) {
	return texts(table(hosts, rates))
}

// Grid returns numbers between hosts as text, as Matrix does. cell formats one.
func Grid(hosts []string, title string, m fleet.Matrix, cell func(float64) string) (header []string, rows [][]string) {
	return texts(grid(hosts, title, m, func(v float64) traffic.Cell {
		if math.IsNaN(v) {
			return traffic.Cell{Text: "?"}
		}
		return traffic.Cell{Text: cell(v)}
	}))
}

func texts(b traffic.Block) (header []string, rows [][]string) {
	for _, c := range b.Columns {
		header = append(header, map[bool]string{true: ">"}[c.Right]+c.Title)
	}
	for _, r := range b.Rows {
		rows = append(rows, lists.Each(r, func(c traffic.Cell) string { return c.Text }))
	}
	return header, rows
}

// table returns the matrix of rates.
func table(hosts []string, rates fleet.Matrix) traffic.Block {
	level := odd.Level(rates)
	unit, name := scale(level)
	low := level * (1 - odd.Margin)
	return grid(hosts, name, rates, func(v float64) traffic.Cell {
		switch {
		case math.IsNaN(v):
			return traffic.Cell{Text: "?", Tone: traffic.Caution}
		case v < low:
			return traffic.Cell{Text: number(v / unit), Tone: traffic.Caution}
		}
		return traffic.Cell{Text: number(v / unit)}
	})
}

// grid returns a matrix or, if that is too wide, the medians of each host.
func grid(hosts []string, title string, m fleet.Matrix, cell func(float64) traffic.Cell) traffic.Block {
	b := traffic.Block{Columns: []traffic.Column{{Title: title}}}
	if len(hosts) > Widest {
		b.Columns = append(b.Columns, traffic.Column{Title: "sends", Right: true}, traffic.Column{Title: "receives", Right: true})
		for i, h := range hosts {
			b.Rows = append(b.Rows, []traffic.Cell{{Text: h}, cell(stats.Median(m.Row(i))), cell(stats.Median(m.Column(i)))})
		}
		return b
	}
	for i, h := range hosts {
		b.Columns = append(b.Columns, traffic.Column{Title: "to " + h, Right: true})
		row := []traffic.Cell{{Text: h + " sends"}}
		for j := range hosts {
			one := cell(m[i][j])
			if i == j {
				one = traffic.Cell{Text: "-"}
			}
			row = append(row, one)
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

// scale returns the unit for rates up to most.
func scale(most float64) (unit float64, name string) {
	switch {
	case most >= 10e9:
		return 1e9, "Gbit/s"
	case most >= 1e6:
		return 1e6, "Mbit/s"
	}
	return 1e3, "kbit/s"
}

// number formats v with three digits, or with all digits before the decimal point.
func number(v float64) string {
	digits := 2
	for limit := 10.0; digits > 0 && v >= limit-limit/2000; limit *= 10 {
		digits--
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// far is the ratio of a host's shortest round trip to the median from which the host is called
// far (p).
const far = 5

// roundTrips describes the round trips, and names the hosts far from all others.
func (d Document) roundTrips() string {
	var all []time.Duration
	least := map[string]time.Duration{}
	for _, w := range d.Ways {
		if w.RoundTrip == nil {
			continue
		}
		all = append(all, *w.RoundTrip)
		for _, h := range []string{w.From, w.To} {
			if v, seen := least[h]; !seen || *w.RoundTrip < v {
				least[h] = *w.RoundTrip
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	half := all[len(all)/2]
	said := []string{fmt.Sprintf("round trip without load: %s to %s, half of them up to %s", units.FormatDuration(all[0]), units.FormatDuration(all[len(all)-1]), units.FormatDuration(half))}
	for _, h := range d.Hosts {
		if v := least[h]; v > far*half {
			said = append(said, fmt.Sprintf("%s is at least %s away from all others", h, units.FormatDuration(v)))
		}
	}
	return strings.Join(said, "; ")
}

// leftOut says, once per reason, how many directions were not to be measured.
func leftOut(s *model.Session) (out []string) {
	ways := map[string]int{}
	var reasons []string
	for _, w := range s.Mesh.Ways {
		if ways[w.LeftOut]++; w.LeftOut != "" && ways[w.LeftOut] == 1 {
			reasons = append(reasons, w.LeftOut)
		}
	}
	for _, reason := range reasons {
		out = append(out, plain.Count(ways[reason], "way")+" left out: "+plain.Line(reason))
	}
	return out
}
