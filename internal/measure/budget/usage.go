package budget

import "time"

// Usage is what a budget has given at a moment.
type Usage struct {
	Kinds  []KindUsage // one for each kind, in their order
	Window time.Duration
	// Active is how many sources have sessions, Remembered how many are remembered
	// one by one; a source that comes with a key and without counts twice.
	Active, Remembered int
}

// KindUsage is how much of one kind is taken, or was spent within the window:
// numbers, bytes, bits per second or nanoseconds.
type KindUsage struct {
	Kind            Kind
	Stranger, Keyed int64 // by class
	Limit           int64 // of both together; less than 0 where there is none
	Reserve         int64 // the part of Limit that strangers cannot take
	Refused         int64 // how often it was refused since the start
}

// Used is what both classes have.
func (u KindUsage) Used() int64 { return u.Stranger + u.Keyed }

// Usage returns what is given now. That of a nil budget is the zero value.
func (b *Budget) Usage() Usage {
	if b == nil {
		return Usage{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := Usage{Window: b.window, Active: len(b.known) - b.idle.Len(), Remembered: len(b.known)}
	now := b.slot()
	for k := range kinds {
		row := KindUsage{Kind: k, Limit: b.server[k], Refused: b.refused[k]}
		if k < held {
			row.Stranger, row.Keyed = b.used[Stranger].held[k], b.used[Keyed].held[k]
		} else {
			row.Stranger, row.Keyed = b.used[Stranger].spent[k-held].at(now).sum, b.used[Keyed].spent[k-held].at(now).sum
		}
		if row.Limit == unlimited {
			row.Limit = -1
		} else {
			row.Reserve = row.Limit - b.strangers[k]
		}
		u.Kinds = append(u.Kinds, row)
	}
	return u
}
