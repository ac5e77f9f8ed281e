package plot

import (
	"fmt"
	"math"
	"slices"

	"linerate/internal/core/lists"
)

// Heat is a matrix of numbers, each as a shade and, if there is space, as text: hosts by hosts,
// cards by sizes, cores by time. Where units do not fit, the axis has them.
type Heat struct {
	Rows, Columns []string
	Cells         [][]float64 // [row][column]; NaN if missing
	Unit          Unit
	Low, High     float64 // range of the shades; both 0: that of the cells
	Name          string  // of the columns' axis
}

const (
	heatRow    = 26.0
	heatMargin = 8.0 // by which the name of a column may leave the area
)

func (h Heat) height(float64) float64 { return float64(len(h.Rows))*heatRow + 44 }

func (h Heat) draw(c *canvas, area rect) {
	room := 0.0
	for _, r := range h.Rows {
		room = max(room, TextWidth(r, smallSize))
	}
	room = min(room, area.width/3)
	inner := rect{area.x + room + 8, area.y, area.width - room - 8, float64(len(h.Rows)) * heatRow}
	cell := inner.width / float64(max(1, len(h.Columns)))
	low, high := h.shades()
	texts, axis := h.texts(low, high, cell-5)
	for i, row := range h.Cells {
		y := inner.y + float64(i)*heatRow
		c.text(inner.x-6, y+heatRow/2+4, smallSize, "ink", End, shortened(h.Rows[i], room, smallSize))
		for j, v := range row {
			h.cell(c, rect{inner.x + float64(j)*cell, y, cell - 1, heatRow - 1}, v, low, high, texts[i][j], h.Rows[i]+", "+h.Columns[j])
		}
	}
	taken := math.Inf(-1)
	for j, name := range h.Columns {
		at := inner.x + (float64(j)+.5)*cell
		if room := 2 * (area.right() + heatMargin - at); TextWidth(name, smallSize) > room {
			name = shortened(name, room, smallSize)
		}
		half := TextWidth(name, smallSize) / 2
		if at-half < taken || at+half > area.right()+half-4 && cell < 8 {
			continue
		}
		c.text(at, inner.bottom()+15, smallSize, "faint", Middle, name)
		taken = at + half + 8
	}
	c.text(inner.right(), inner.bottom()+31, smallSize, "faint", End, shortened(axis, area.width, smallSize))
}

// texts returns the texts of the cells that fit into room, and the name of the axis.
func (h Heat) texts(low, high, room float64) (all [][]string, axis string) {
	factor, unit := scale{axis: Axis{Unit: h.Unit}, low: low, high: high}.prefix()
	long := true
	for _, v := range known(slices.Concat(h.Cells...)) {
		long = long && TextWidth(Format(v, h.Unit), smallSize) < room
	}
	if axis = h.Name; !long {
		axis = joined(h.Name, unit)
	}
	for _, row := range h.Cells {
		all = append(all, lists.Each(row, func(v float64) string {
			text := "–" // not measured
			if !math.IsNaN(v) && long {
				text = Format(v, h.Unit)
			} else if !math.IsNaN(v) {
				text = fmt.Sprint(rounded(v/factor, 3))
			}
			if TextWidth(text, smallSize) >= room {
				return ""
			}
			return text
		}))
	}
	return all, axis
}

func (h Heat) shades() (low, high float64) {
	if h.Low != 0 || h.High != 0 {
		return h.Low, h.High
	}
	all := known(slices.Concat(h.Cells...))
	if len(all) == 0 {
		return 0, 1
	}
	return span(all)
}

// cell shades a cell from the background to the first colour of the series, by opacity, so that
// larger values are darker in light mode and brighter in dark mode.
func (h Heat) cell(c *canvas, r rect, v, low, high float64, text, name string) {
	class := "pale"
	if math.IsNaN(v) {
		c.block(r, "band", name+": not measured")
	} else {
		share := 1.0
		if high > low {
			share = min(max((v-low)/(high-low), 0), 1)
		}
		if share > fullShare {
			class = "full"
		}
		c.shade(r, "f0", name+": "+Format(v, h.Unit), .2+.7*share)
	}
	c.text(r.x+r.width/2, r.y+r.height/2+4, smallSize, class, Middle, text)
}

// fullShare is the shade from which black text is more readable than white in dark mode: both
// have a contrast of 4.5 there.
const fullShare = .63

func sorted(v []float64) []float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v
}
