package main

import (
	"fmt"
	"math"
	"strings"

	"linerate/bench/internal/results"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/fleettest"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/packets"
)

// event is a change of a pair, or of which packets a host carries, that is planted again and again.
type event struct {
	what   string
	metric model.Metric
	host   bool // it is of all paths of a host
	next   bool // within counts from the pair's next look
	within int64
	lasts  int64 // hours
}

var events = []event{
	{"one pair carries 30 % less", model.Goodput, false, true, 6 * hour, 60},
	{"one pair loses 1 %", model.LossRatio, false, false, 48 * hour, 60},
	{"packets of 9000 bytes no longer pass a host", packets.Passes, true, false, hour / 2, 12},
	{"ECN marks of a host no longer arrive", packets.Marks, true, false, hour / 2, 12},
}

// The fleets, how many events are planted in each, and hours before the first one: each
// pair has been looked at often enough for a history.
var (
	eventFleets = []struct{ hosts, changes, hours int }{{24, 20, 72}, {100, 10, 216}}
	eventPause  = 24 // hours
)

// found is how soon the planted changes were reported, and what else was.
type found struct {
	event
	soon, all, planted, wrong int
}

// plant has one pair or host after the other change.
func (f *found) plant(hosts, changes, hours int, seed uint64) {
	w := fleettest.NewCards(hosts, seed, scatter)
	var a, b, from, until, looked int64
	mine := func(x, y int64) bool {
		return f.host && (x == a || y == a && f.metric == packets.Passes) || !f.host && x == a && y == b
	}
	on := func(x, y, at int64) bool { return at >= from && at < until && mine(x, y) }
	w.Path = func(sender, to, at int64) float64 {
		if !on(sender, to, at) {
			return 0
		}
		if looked < 0 {
			looked = at
		}
		if f.metric != model.Goodput {
			return 0
		}
		return -math.Log(.7)
	}
	w.Loses = func(sender, to, at int64) float64 {
		if f.metric == model.LossRatio && on(sender, to, at) {
			return .01
		}
		return 0
	}
	w.Carries = func(sender, to, at int64) (packet, marks float64) {
		packet, marks = 9000, 1
		switch odd := on(sender, to, at); {
		case odd && f.metric == packets.Passes:
			packet = 1500
		case odd && f.metric == packets.Marks:
			marks = 0
		}
		return packet, marks
	}
	w.Measure(hours)
	for range changes {
		a, b = w.Pair()
		from, looked = w.Now+w.Hour(), -1
		until = from + f.lasts*hour
		reported := false
		w.OnOutcome = func(o *fleet.Outcome) {
			pair := o.Way.Low == min(a, b) && o.Way.High == max(a, b)
			if o.Metric != f.metric || f.host != (o.Host == a) || !f.host && !pair || reported && o.Worse {
				f.wrong++
				return
			}
			if !o.Worse || w.Now >= until {
				return
			}
			reported = true
			f.all++
			since := from
			if f.next {
				since = looked
			}
			if w.Now-since <= f.within {
				f.soon++
			}
		}
		w.Measure(int(f.lasts) + eventPause)
		if looked >= 0 || !f.next {
			f.planted++
		}
	}
}

// eventTable writes what was found of the other changes, and returns the verdicts.
func eventTable(b *strings.Builder, all []*found) (verdicts []results.Verdict) {
	b.WriteString("\nOther changes, one after the other, in fleets of 24 and 100 hosts whose packets are 9000 bytes:\n\n| change | planted | reported in time | at all | other reports |\n|---|---|---|---|---|\n")
	bars := results.Bars("detection")
	for _, f := range all {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", f.what, f.planted, f.soon, f.all, f.wrong)
		bar := fmt.Sprintf("reported within %g h", float64(f.within)/hour)
		if f.next {
			bar += " of its next look"
		}
		verdicts = append(verdicts, bars(f.what, bar+", 90 %", fmt.Sprintf("%d of %d", f.soon, f.planted), 10*f.soon >= 9*f.planted))
	}
	return verdicts
}
