package budget

import "time"

// Usage is what a budget has given at a moment.
type Usage struct {
	Kinds  []KindUsage // one for each kind, in their order
	Window time.Duration
	// Lifetime is that of strangers' sessions; 0 is no limit.
	Lifetime time.Duration
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
	Strangers       int64 // the part of Limit that strangers can take, likewise
	Source          int64 // what one stranger's address can take, likewise
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
	u := Usage{Window: b.window, Lifetime: b.config.Stranger.Lifetime, Active: len(b.known) - b.idle.Len(), Remembered: len(b.known)}
	now := b.slot()
	for k := range kinds {
		row := KindUsage{Kind: k, Limit: bound(b.server[k]), Strangers: bound(b.strangers[k]), Source: bound(b.source[Stranger][k]), Refused: b.refused[k]}
		if k < held {
			row.Stranger, row.Keyed = b.used[Stranger].held[k], b.used[Keyed].held[k]
		} else {
			row.Stranger, row.Keyed = b.used[Stranger].spent[k-held].at(now).sum, b.used[Keyed].spent[k-held].at(now).sum
		}
		u.Kinds = append(u.Kinds, row)
	}
	return u
}

// bound is n as reports have it.
func bound(n int64) int64 {
	if n == unlimited {
		return -1
	}
	return n
}
