package audit

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Anonymous clients can cause any number of dropped connections. These take no lines from other
// events: the first for a reason is written at once, the following ones are counted and
// reported in one line, at least dropsEvery after the last.
const (
	dropsEvery   = 10 * time.Second
	mostReasons  = 16   // further reasons are counted as one
	mostDroppers = 1024 // sources counted individually
)

// drops counts the dropped connections for one reason that are not reported yet.
type drops struct {
	last    Event
	count   int
	sources map[netip.Prefix]bool
	logged  time.Time
}

// drop counts e and returns the line that is due, if any.
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
	if e.Time.Sub(d.logged) < dropsEvery {
		return nil
	}
	return []Event{d.tell(e.Time)}
}

// tell returns the line for the counted connections and resets the count.
func (d *drops) tell(now time.Time) Event {
	e := d.last
	e.Time, e.Outcome, e.Count, e.Sources = now, Denied, d.count, len(d.sources)
	if len(d.sources) > 1 {
		e.From = netip.Addr{}
	}
	d.count, d.logged = 0, now
	clear(d.sources)
	return e
}

// dropped returns the lines for all connections not reported yet.
func (l *limiter) dropped(now time.Time) (all []Event) {
	for _, reason := range slices.Sorted(maps.Keys(l.drops)) {
		if d := l.drops[reason]; d.count > 0 {
			all = append(all, d.tell(now))
		}
	}
	return all
}
