package fleet_test

import (
	"math"
	"slices"
	"testing"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/fleettest"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestHostChanges plants hosts that send less, in fleets of several sizes: the host is reported,
// and not its paths, and so is its return.
func TestHostChanges(t *testing.T) {
	for _, c := range []struct {
		cards          bool
		hosts, settled int // hours in which each path is seen often enough, or each host
		left           float64
		soon           int64 // minutes within which three of four hosts are suspected
	}{
		{false, 4, 120, .8, 120}, {false, 4, 120, .5, 75}, {false, 12, 60, .8, 75}, {false, 12, 60, .7, 60}, {true, 40, 24, .7, 60},
		{false, 40, 200, .8, 60}, {false, 40, 200, .7, 60}, {true, 40, 72, .8, 75}, {true, 200, 48, .8, 75}, {true, 200, 24, .7, 60},
	} {
		if c.hosts*c.settled > 1000 && !must.Slow {
			continue
		}
		fleets, most := must.Often(3, 20), must.Often(2, 15)
		var suspected, told []int64 // minutes after
		returned, others := 0, 0
		for seed := range uint64(fleets) {
			w := fleettest.New(c.hosts, seed)
			if c.cards {
				w = fleettest.NewCards(c.hosts, seed, .02)
			}
			from := int64(c.settled)*3600 + w.Hour()
			until := from + 24*3600
			w.Less = func(sender, _, at int64) float64 {
				return map[bool]float64{true: -math.Log(c.left)}[sender == 2 && at >= from && at < until]
			}
			w.OnOutcome = func(o *fleet.Outcome) {
				switch {
				case w.Now < from:
				case o.Host == 2 && o.Worse && o.Metric == model.Goodput && o.Direction == model.From && w.Now < until:
					told = append(told, (w.Now-from)/60)
				case o.Host == 2 && !o.Worse && w.Now >= until:
					returned++
				default:
					others++
				}
			}
			w.Measure(c.settled + 37)
			if i := slices.IndexFunc(w.Suspected[2], func(at int64) bool { return at >= from }); i >= 0 {
				suspected = append(suspected, (w.Suspected[2][i]-from)/60)
			}
		}
		slices.Sort(suspected)
		slices.Sort(told)
		t.Logf("%d hosts, cards %t, one sends %.0f %%: of %d suspected after %v min, told after %v, its return %d; others %d", c.hosts, c.cards, 100*c.left, fleets, suspected, told, returned, others)
		must.True(t, len(suspected) >= most && suspected[most-1] <= c.soon && len(told) >= most && told[most-1] <= 2*c.soon && returned >= most && others <= fleets, "%+v: suspected after %v, told after %v, its return %d, others %d", c, suspected, told, returned, others)
	}
}

// TestNoHostChanges: without a fault at most eight changes are reported in four weeks of a thousand
// hosts (fleet.md section 12).
func TestNoHostChanges(t *testing.T) {
	w, told := fleettest.New(must.Often(12, 200), 7), 0
	w.OnOutcome = func(*fleet.Outcome) { told++ }
	weeks := must.Often(1, 4)
	w.Measure(weeks * 7 * 24)
	t.Logf("%d hosts, %d weeks: %d told, %.1f runs more of each host a day", w.Hosts, weeks, told, float64(w.Runs)/float64(weeks*7*w.Hosts))
	must.True(t, told <= max(1, 8*w.Hosts*weeks/4000), "%d changes", told)
}

// TestHostsMoveTogether: of 24 hosts 5 become slower at once. The last one that is reported knows the
// others, and those that have not changed.
func TestHostsMoveTogether(t *testing.T) {
	w, from, last := fleettest.New(24, 1), int64(60*3600), []*fleet.Outcome{}
	w.Less = func(sender, _, at int64) float64 { return map[bool]float64{true: .25}[sender <= 5 && at >= from] }
	w.Measure(60)
	w.OnOutcome = func(o *fleet.Outcome) { last = append(last, o) }
	w.Measure(6)
	must.Need(t, len(last) >= 4 && len(last) <= 5, "%d reported", len(last))
	got := last[len(last)-1].Cohort(fingerprint.Change{}, 1, map[int64]bool{1: true, 2: true, 3: true, 4: true, 5: true})
	must.True(t, got.Moved >= 4 && got.Hosts == 5 && got.Others == 19 && got.Beside <= 1 && got.Cause, "%+v", got)
}
