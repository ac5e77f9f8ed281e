package audit

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Connections that are dropped before they have shown what they are come as fast as
// anonymous clients like. They take no line from other events: the first for a reason is
// written at once, those that follow are counted, and told in one line no sooner
// than dropsEvery after the last.
const (
	dropsEvery   = 10 * time.Second
	mostReasons  = 16   // the others are one
	mostDroppers = 1024 // sources that are told apart
)

// drops are the dropped connections that nobody was told of, for one reason.
type drops struct {
	last    Event
	count   int
	sources map[netip.Prefix]bool
	told    time.Time
}

// drop counts e, and returns the line that is due, if one is.
func (l *limiter) drop(e Event) []Event {
	d := l.drops[e.Reason]
	if d == nil && len(l.drops) >= mostReasons {
		e.Reason = "other reasons"
		d = l.drops[e.Reason]
	}
	if d == nil {
		d = &drops{sources: map[netip.Prefix]bool{}}
		l.drops[e.Reason] = d
	}
	d.count++
	d.last = e
	if len(d.sources) < mostDroppers {
		d.sources[source(e.From)] = true
	}
	if e.Time.Sub(d.told) < dropsEvery {
		return nil
	}
	return []Event{d.tell(e.Time)}
}

// tell is the line for what d has counted, and forgets that.
func (d *drops) tell(now time.Time) Event {
	e := d.last
	e.Time, e.Outcome, e.Count, e.Sources = now, Denied, d.count, len(d.sources)
	if len(d.sources) > 1 {
		e.From = netip.Addr{}
	}
	d.count, d.told = 0, now
	clear(d.sources)
	return e
}

// dropped are the lines for what was dropped and not told.
func (l *limiter) dropped(now time.Time) (all []Event) {
	for _, reason := range slices.Sorted(maps.Keys(l.drops)) {
		if d := l.drops[reason]; d.count > 0 {
			all = append(all, d.tell(now))
		}
	}
	return all
}
