package audit

import (
	"net/netip"
	"slices"
	"time"
)

// Limits of what is recorded. A source is an IPv4 address or an IPv6 network of 64 bits, which
// is what one host gets (RFC 7421). All numbers are lines.
const (
	sourceBurst = 20  // from one source at once
	sourceRate  = 0.5 // a second, after that
	totalBurst  = 200 // from all anonymous clients at once
	totalRate   = 10.0
	keyBurst    = 400 // from one key at once
	keyRate     = 20.0
	maxSources  = 1024 // remembered; others share one bucket
	maxKeys     = 256
	mostSums    = 8 // sources that a summary names
	summary     = time.Minute
	forgetAfter = time.Minute // a source that is quiet for this long gets its burst again
)

// bucket allows burst lines, then rate per second.
type bucket struct {
	tokens float64
	at     time.Time
	left   int // lines omitted and not yet reported
}

func (b *bucket) take(now time.Time, burst, rate float64) bool {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.tokens, b.at = min(burst, b.tokens+passed*rate), now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// limiter decides which events are recorded. Its memory is bounded.
type limiter struct {
	total   bucket
	sources map[netip.Prefix]*bucket
	keys    map[string]*bucket
	drops   map[string]*drops // by reason
	others  bucket            // of sources and keys that do not fit in the tables
	logged  time.Time
}

func newLimiter(now time.Time) limiter {
	return limiter{
		total: bucket{tokens: totalBurst, at: now}, others: bucket{tokens: sourceBurst, at: now}, logged: now,
		sources: map[netip.Prefix]*bucket{}, keys: map[string]*bucket{}, drops: map[string]*drops{},
	}
}

// admit reports whether to record e, and adds to e the count of events omitted before it.
func (l *limiter) admit(e *Event) bool {
	if e.Kind.changesHost() {
		return true
	}
	if e.Key != "" {
		b := find(l.keys, e.Key, maxKeys, bucket{tokens: keyBurst, at: e.Time}, e.Time)
		if b == nil {
			b = &l.others
		}
		return b.admit(e, b.take(e.Time, keyBurst, keyRate))
	}
	b := find(l.sources, source(e.From), maxSources, bucket{tokens: sourceBurst, at: e.Time}, e.Time)
	if b == nil {
		b = &l.others
	}
	// The source first: one over its limit takes nothing from the others.
	return b.admit(e, b.take(e.Time, sourceBurst, sourceRate) && l.total.take(e.Time, totalBurst, totalRate))
}

func (b *bucket) admit(e *Event, ok bool) bool {
	if !ok {
		b.left++
		return false
	}
	e.LeftOut, b.left = b.left, 0
	return true
}

// lose counts an event that found no room, and the omitted events that it reports.
func (l *limiter) lose(e Event) { l.others.left += 1 + e.LeftOut }

// find returns the bucket of k, and makes it if necessary. A full table forgets entries that
// were quiet for a while and have nothing to report; if it stays full, find returns nil.
func find[K comparable](table map[K]*bucket, k K, most int, fresh bucket, now time.Time) *bucket {
	if b := table[k]; b != nil {
		return b
	}
	if len(table) >= most {
		for other, b := range table {
			if b.left == 0 && now.Sub(b.at) >= forgetAfter {
				delete(table, other)
			}
		}
		if len(table) >= most {
			return nil
		}
	}
	table[k] = &fresh
	return &fresh
}

// overdue returns the summaries if the last ones are a minute old.
func (l *limiter) overdue(now time.Time) []Event {
	if now.Sub(l.logged) < summary {
		return nil
	}
	return l.sums(now)
}

// sums returns the summaries of omitted events: one for each of the worst sources, one for all
// others.
func (l *limiter) sums(now time.Time) []Event {
	l.logged = now
	var named []Event
	unknown := l.dropped(now)
	rest := Event{Time: now, Kind: LeftOut, LeftOut: l.others.left, Reason: "of sources beyond those that are remembered"}
	if l.others.left > 0 {
		rest.Sources = 1
	}
	l.others.left = 0
	for from, b := range l.sources {
		if b.left > 0 {
			named = append(named, Event{Time: now, Kind: LeftOut, From: from.Addr(), LeftOut: b.left, Sources: 1})
			b.left = 0
		}
	}
	for key, b := range l.keys {
		if b.left > 0 {
			named = append(named, Event{Time: now, Kind: LeftOut, Key: key, LeftOut: b.left, Sources: 1})
			b.left = 0
		}
	}
	slices.SortFunc(named, func(a, b Event) int { return b.LeftOut - a.LeftOut })
	if len(named) > mostSums {
		rest.Reason = "of all other sources"
		for _, e := range named[mostSums:] {
			rest.LeftOut += e.LeftOut
			rest.Sources++
		}
		named = named[:mostSums]
	}
	if rest.LeftOut > 0 {
		named = append(named, rest)
	}
	return append(unknown, named...)
}

// source returns the network that counts as one source.
func source(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil { // no address: all of these are one source
		return netip.Prefix{}
	}
	return p
}
