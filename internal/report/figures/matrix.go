package figures

import (
	"fmt"
	"math"
	"slices"

	"linerate/internal/core/fleet"
	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/report/plot"
)

// mostCells limits the map of a table: a table of n lines may have n levels in each of two
// columns, which makes a map of n times n.
const mostCells = 64 * 64

// table draws the median for every pair of values in the two columns of a table that make its
// settings. A pair without a measurement stays empty. It does not draw a map of more than
// mostCells.
func (b *builder) table() (plot.Figure, bool) {
	f := plot.Figure{Name: "grid", Title: "All combinations"}
	var names [2]model.KnobID
	var levels [2][]string
	for _, s := range b.s.Plan.Settings {
		if b.s.Kind != model.KindImported || len(s.Assignments) != 2 {
			return f, false
		}
		for i, a := range s.Assignments {
			if names[i] = a.Knob; !slices.Contains(levels[i], a.Value) {
				levels[i] = append(levels[i], a.Value)
			}
		}
	}
	if len(levels[0]) < 2 || len(levels[1]) < 2 || len(levels[0])*len(levels[1]) > mostCells {
		return f, false
	}
	m := b.s.Plan.Decides()
	f.Title = fmt.Sprintf("Every %s with every %s", names[0], names[1])
	var said []string
	for _, w := range b.directions() {
		h := plot.Heat{Unit: unit(m), Name: string(names[1]) + "; " + metric.Name(m) + " " + b.label(w), Columns: levels[1], Rows: levels[0]}
		for _, x := range levels[0] {
			row := make([]float64, len(levels[1]))
			for j, y := range levels[1] {
				row[j] = math.NaN()
				i := slices.IndexFunc(b.s.Plan.Settings, func(s model.Setting) bool { return s.Assignments[0].Value == x && s.Assignments[1].Value == y })
				if i < 0 {
					continue
				}
				if v := b.values(b.s.Plan.Settings[i].Name, w, m); len(v) > 0 {
					row[j] = stats.Median(v)
				}
			}
			h.Cells = append(h.Cells, row)
		}
		f.Panels = append(f.Panels, h)
		said = append(said, extremes(h, b.label(w), "with"))
	}
	f.Sentence = sentence(said...)
	return f, len(f.Panels) > 0
}

// WidestMesh is the most hosts in a picture of a mesh.
const WidestMesh = 64

// mesh draws the rate from every host of a mesh to every other one, and the round trips.
func (b *builder) mesh() (plot.Figure, bool) {
	if b.s.Mesh == nil {
		return plot.Figure{}, false
	}
	hosts := lists.Each(b.s.Mesh.Hosts, func(h model.MeshHost) string { return plain.Line(h.Name) })
	return Mesh(hosts, fleet.Rates(b.s), fleet.RoundTrips(b.s))
}

// Mesh draws goodput and round trip between hosts; ok is false without a number, and with more than
// WidestMesh hosts.
func Mesh(hosts []string, rates, trips fleet.Matrix) (f plot.Figure, ok bool) {
	f = plot.Figure{Name: "mesh", Title: "Every host with every other"}
	if len(hosts) > WidestMesh {
		return f, false
	}
	var said []string
	for _, one := range []struct {
		cells  fleet.Matrix
		metric model.Metric
		name   string
		joint  string
	}{{rates, model.Goodput, "goodput, rows send", "to"}, {trips, model.RTT, "round trip without load", "with"}} {
		if len(one.cells.All()) == 0 {
			continue
		}
		h := plot.Heat{Unit: unit(one.metric), Name: one.name, Rows: hosts, Columns: hosts, Cells: one.cells}
		f.Panels = append(f.Panels, h)
		said = append(said, extremes(h, one.name, one.joint))
	}
	f.Sentence = sentence(said...)
	return f, len(f.Panels) > 0
}

// spread describes a matrix of far ends in a sentence: its largest and its smallest cell.
func spread(h plot.Heat, w model.Direction) string {
	return extremes(h, map[model.Direction]string{model.To: "to the far ends", model.From: "from the far ends"}[w], "with")
}

// extremes is spread for the thing that label names; joint stands between row and column.
func extremes(h plot.Heat, label, joint string) string {
	high, low := [2]int{-1}, [2]int{-1}
	for i, row := range h.Cells {
		for j, v := range row {
			if math.IsNaN(v) {
				continue
			}
			if high[0] < 0 || v > h.Cells[high[0]][high[1]] {
				high = [2]int{i, j}
			}
			if low[0] < 0 || v < h.Cells[low[0]][low[1]] {
				low = [2]int{i, j}
			}
		}
	}
	if high[0] < 0 {
		return ""
	}
	at := func(c [2]int) string {
		return fmt.Sprintf("%s %s %s (%s)", h.Rows[c[0]], joint, h.Columns[c[1]], plot.Format(h.Cells[c[0]][c[1]], h.Unit))
	}
	return fmt.Sprintf("%s: most is %s, least %s", label, at(high), at(low))
}
