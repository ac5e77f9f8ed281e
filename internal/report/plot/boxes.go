package plot

// Boxes is a path: its parts from the near host to the far one, with the limit marked.
type Boxes struct{ Parts []Part }

// Part is one part of a path.
type Part struct {
	Name   string
	Detail string // "1 Gbit/s, MTU 1500", "not visible"
	Note   string
	Marked bool // it is the limit
}

const (
	partGap    = 16.0
	partHeight = 62.0
	partLeast  = 96.0
)

// places returns the position of each part in an area of that width, from its upper left
// corner. Parts that do not fit continue in the next line.
func (b Boxes) places(width float64) (at []rect, height float64) {
	x, y := 0.0, 0.0
	for _, p := range b.Parts {
		w := partLeast
		for _, text := range []string{p.Detail, p.Note} {
			w = max(w, TextWidth(text, smallSize)+18)
		}
		w = min(max(w, TextWidth(p.Name, textSize)+18), width)
		if x > 0 && x+w > width {
			x, y = 0, y+partHeight+partGap
		}
		at = append(at, rect{x, y, w, partHeight})
		x += w + partGap
	}
	return at, y + partHeight
}

func (b Boxes) height(width float64) float64 {
	_, h := b.places(width)
	return h + 4
}

func (b Boxes) draw(c *canvas, area rect) {
	at, _ := b.places(area.width)
	for i, p := range b.Parts {
		r := at[i]
		r.x, r.y = r.x+area.x, r.y+area.y+2
		if i+1 < len(at) {
			if at[i+1].y == at[i].y {
				c.line(r.right(), r.y+partHeight/2, r.right()+partGap, r.y+partHeight/2, "link")
			} else { // continued in the next line
				from, to, half := r.x+r.width/2, area.x+at[i+1].width/2, r.bottom()+partGap/2
				c.polyline([]Point{{from, r.bottom()}, {from, half}, {to, half}, {to, half + partGap/2}}, "link")
			}
		}
		kind := "box"
		if p.Marked {
			kind = "limit"
		}
		c.block(r, kind, p.Note)
		c.text(r.x+9, r.y+19, textSize, "title", Start, shortened(p.Name, r.width-14, textSize))
		c.text(r.x+9, r.y+36, smallSize, "faint", Start, shortened(p.Detail, r.width-14, smallSize))
		if p.Marked {
			c.text(r.x+9, r.y+53, smallSize, "bad", Start, "limits")
		} else {
			c.text(r.x+9, r.y+53, smallSize, "faint", Start, shortened(p.Note, r.width-14, smallSize))
		}
	}
}
