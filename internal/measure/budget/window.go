package budget

import "time"

// slots is the number of parts of a window. Spending counts for the window and up to one part
// more, so that no period of that length, wherever it begins, exceeds the limit.
const slots = 12

// window counts recent spending. The zero value is empty.
type window struct {
	newest int64 // number of the newest slot, from the epoch on
	parts  [slots + 1]int64
	sum    int64
}

// slot returns the number of the current slot.
func (b *Budget) slot() int64 {
	return int64(b.config.Now().Sub(b.epoch) / b.width())
}

func (b *Budget) width() time.Duration { return max(1, b.window/slots) }

// at moves w to slot now and drops what is older than a window. A clock that went back changes
// nothing.
func (w *window) at(now int64) *window {
	if now-w.newest > slots {
		*w = window{newest: now}
		return w
	}
	for w.newest < now {
		w.newest++
		old := &w.parts[w.newest%(slots+1)]
		w.sum -= *old
		*old = 0
	}
	return w
}

// add adds n to the newest slot.
func (w *window) add(n int64) {
	n = max(0, min(n, unlimited-w.sum))
	w.parts[w.newest%(slots+1)] += n
	w.sum += n
}

// raise sets every slot to at least its value in other, which is at the same slot.
func (w *window) raise(other *window) {
	w.sum = 0
	for i := range w.parts {
		w.parts[i] = max(w.parts[i], other.parts[i])
		w.sum = min(unlimited, w.sum+w.parts[i])
	}
}

// lower sets every slot to at most its value in other, which is at the same slot.
func (w *window) lower(other *window) {
	w.sum = 0
	for i := range w.parts {
		w.parts[i] = min(w.parts[i], other.parts[i])
		w.sum = min(unlimited, w.sum+w.parts[i])
	}
}

// until returns the number of slots until the sum falls below limit, or -1 for never.
func (w *window) until(limit int64) int64 {
	left := w.sum
	for i := int64(0); i <= slots; i++ {
		if left < limit {
			return i
		}
		left -= w.parts[(w.newest+1+i)%(slots+1)]
	}
	if left < limit {
		return slots + 1
	}
	return -1
}
