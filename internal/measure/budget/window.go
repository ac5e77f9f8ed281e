package budget

import "time"

// slots is into how many parts a window is divided. What was spent counts for
// the window and up to one such part more, so that no window of that length,
// wherever it begins, holds more than the limit.
const slots = 12

// window counts what was spent lately. The zero value is empty.
type window struct {
	newest int64 // number of the newest slot, from the epoch on
	parts  [slots + 1]int64
	sum    int64
}

// slot returns the number of the slot that now lies in.
func (b *Budget) slot() int64 {
	return int64(b.config.Now().Sub(b.epoch) / b.width())
}

func (b *Budget) width() time.Duration { return max(1, b.window/slots) }

// at forgets what is older than a window at slot now. A clock that went back
// changes nothing.
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

// add counts n more in the newest slot.
func (w *window) add(n int64) {
	n = max(0, min(n, unlimited-w.sum))
	w.parts[w.newest%(slots+1)] += n
	w.sum += n
}

// raise makes every slot at least what it is in other, which stands at the same
// slot.
func (w *window) raise(other *window) {
	w.sum = 0
	for i := range w.parts {
		w.parts[i] = max(w.parts[i], other.parts[i])
		w.sum = min(unlimited, w.sum+w.parts[i])
	}
}

// lower makes every slot at most what it is in other, which stands at the same
// slot.
func (w *window) lower(other *window) {
	w.sum = 0
	for i := range w.parts {
		w.parts[i] = min(w.parts[i], other.parts[i])
		w.sum = min(unlimited, w.sum+w.parts[i])
	}
}

// until returns in how many slots less than limit is left, or -1 for never.
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
