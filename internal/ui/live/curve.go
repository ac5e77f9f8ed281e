package live

import (
	"fmt"

	"linerate/internal/core/plain"
)

// mostPoints is how many points a curve keeps: more than a terminal has columns.
const mostPoints = 512

// curve is the rate of one direction over the whole session. Each point is the mean of the same
// number of intervals.
type curve struct {
	points []float64
	each   int  // intervals of a point
	next   mean // of the next point's intervals
}

func (c *curve) add(v float64) {
	c.each = max(1, c.each)
	if c.next.add(v); c.next.n < c.each {
		return
	}
	c.points = append(c.points, c.next.value())
	c.next = mean{}
	if len(c.points) < mostPoints {
		return
	}
	for i := range mostPoints / 2 {
		c.points[i] = (c.points[2*i] + c.points[2*i+1]) / 2
	}
	c.points, c.each = c.points[:mostPoints/2], 2*c.each
}

// columns returns the curve in at most n values.
func (c *curve) columns(n int) []float64 {
	if len(c.points) <= n {
		return c.points
	}
	out := make([]float64, n)
	for i := range out {
		part := c.points[i*len(c.points)/n : (i+1)*len(c.points)/n]
		for _, v := range part {
			out[i] += v / float64(len(part))
		}
	}
	return out
}

// mean is the mean of n values.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) value() float64 { return m.sum / float64(max(1, m.n)) }

// shade returns the colour of a rate compared with the baseline's mean. A difference below
// margin percent has no colour.
func (m *mean) shade(rate, margin float64) style {
	switch {
	case m.n == 0:
		return normal
	case rate > m.value()*(1+margin/100):
		return green
	case rate < m.value()*(1-margin/100):
		return red
	}
	return normal
}

// history returns the row with the whole session so far in one direction; nil for a single run,
// and if there is no room.
func (t *State) history(l *way, indent int, size Size) line {
	if t.runs+t.runsBefore < 2 || size.Columns < 60 || size.Rows < 16 {
		return nil
	}
	all := l.whole.columns(size.Columns - indent)
	if len(all) < 2 {
		return nil
	}
	out := line{{dim, fmt.Sprintf("%-*s", indent, "    so far")}}
	for i, r := range []rune(plain.Spark(all, len(all))) {
		out = append(out, span{l.base.shade(all[i], float64(t.session.Plan.Margin)), string(r)})
	}
	return out.joined()
}

// joined merges adjacent spans of one style.
func (l line) joined() (out line) {
	for _, s := range l {
		if n := len(out); n > 0 && out[n-1].style == s.style {
			out[n-1].text += s.text
			continue
		}
		out = append(out, s)
	}
	return out
}

// Follow continues an earlier session of the same command, as the proof of a search does: one
// clock, one total, and curves over both.
func (t *State) Follow(before *State) {
	before.mu.Lock()
	defer before.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.command, t.stage = before.command, "proof"
	t.began, t.done, t.earlier, t.runsBefore = before.began, before.done, before.worked(), before.runs+before.runsBefore
	t.lines = append(t.lines, before.lines...)
	for _, l := range t.ways {
		for _, old := range before.ways {
			if old.direction == l.direction {
				l.whole, l.base = old.whole, old.base
			}
		}
	}
}
