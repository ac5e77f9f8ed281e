package plot

import (
	"math"
	"slices"
)

// Heat is a matrix of numbers, each as a shade and, if there is space, as text: hosts by hosts,
// cards by sizes, cores by time.
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
	for i, row := range h.Cells {
		y := inner.y + float64(i)*heatRow
		c.text(inner.x-6, y+heatRow/2+4, smallSize, "ink", End, shortened(h.Rows[i], room, smallSize))
		for j, v := range row {
			h.cell(c, rect{inner.x + float64(j)*cell, y, cell - 1, heatRow - 1}, v, low, high, h.Rows[i]+", "+h.Columns[j])
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
	c.text(inner.right(), inner.bottom()+31, smallSize, "faint", End, shortened(h.Name, area.width, smallSize))
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
func (h Heat) cell(c *canvas, r rect, v, low, high float64, name string) {
	if math.IsNaN(v) {
		c.block(r, "band", name+": not measured")
		return
	}
	share := 1.0
	if high > low {
		share = min(max((v-low)/(high-low), 0), 1)
	}
	c.shade(r, "f0", name+": "+Format(v, h.Unit), .1+.8*share)
	if text := Format(v, h.Unit); TextWidth(text, smallSize) < r.width-4 {
		class := "pale"
		if share > fullShare {
			class = "full"
		}
		c.text(r.x+r.width/2, r.y+r.height/2+4, smallSize, class, Middle, text)
	}
}

// fullShare is the shade from which black text is more readable than white in dark mode: both
// have a contrast of 4.5 there.
const fullShare = .63

func sorted(v []float64) []float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v
}
