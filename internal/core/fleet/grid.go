package fleet

import "iter"

// Grid has a value for each path. A thousand hosts have half a million: a map would need as much room
// again. The numbers of hosts are small, as those of rows of a table are. The zero value is empty.
type Grid[T any] struct {
	rows [][]*T // by Way.Low, and how far Way.High is above it
}

// Get returns the value of a path, nil for none.
func (g *Grid[T]) Get(w Way) *T {
	if 0 <= w.Low && w.Low <= w.High && w.Low < int64(len(g.rows)) && w.High-w.Low < int64(len(g.rows[w.Low])) {
		return g.rows[w.Low][w.High-w.Low]
	}
	return nil
}

// Put sets the value of a path; nil removes it.
func (g *Grid[T]) Put(w Way, v *T) {
	if more := w.Low + 1 - int64(len(g.rows)); more > 0 {
		g.rows = append(g.rows, make([][]*T, more)...)
	}
	if more := w.High - w.Low + 1 - int64(len(g.rows[w.Low])); more > 0 {
		g.rows[w.Low] = append(g.rows[w.Low], make([]*T, more)...)
	}
	g.rows[w.Low][w.High-w.Low] = v
}

// All yields the paths that have a value.
func (g *Grid[T]) All() iter.Seq2[Way, *T] {
	return func(yield func(Way, *T) bool) {
		for low, row := range g.rows {
			for above, v := range row {
				if v != nil && !yield(Way{int64(low), int64(low + above)}, v) {
					return
				}
			}
		}
	}
}
