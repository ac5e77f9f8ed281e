// Command detect tests what the hub finds in simulated fleets whose hosts have cards of two rates: how
// many hosts that send less from some moment on are suspected and reported, and how soon, and how many
// changes are reported where nothing changed. The paths, their looks and their confirmations are those of
// package fleet; only the numbers are simulated. It writes a section of bench/RESULTS.md.
package main

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"linerate/bench/internal/results"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/fleettest"
	"linerate/internal/core/model"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "detect:", err)
		os.Exit(1)
	}
}

// scatter is that of what a direction carries by itself, as a logarithm.
const scatter = .02

// Hours of a simulated fleet: until the first change, of each one, and after it.
const (
	gathered = 24
	changed  = 12
	pause    = 6
)

// perFleet is how many hosts change in a fleet, one after the other.
const perFleet = 10

// size is a size of fleets, and how many of them are simulated.
type size struct{ hosts, fleets, weeks int }

var sizes = []size{{24, 10, 4}, {100, 4, 4}, {200, 2, 4}, {1000, 1, 4}}

// shares are how much less a host sends.
var shares = []float64{.3, .2}

// planted is a host that sends less for some hours, in seconds; -1 is never.
type planted struct{ suspected, reported, returned int64 }

// row is what fleets of a size have shown.
type row struct {
	size
	share   float64
	planted []planted
	others  int // changes reported that were not planted
	quiet   int // changes reported where nothing changed
}

func run(args []string) error {
	flags := flag.NewFlagSet("detect", flag.ContinueOnError)
	output := flags.String("o", "", "document whose section is replaced; \"\" prints it")
	seed := flags.Uint64("seed", 1, "of the first fleet of each size; those from 1000 on are for judging")
	most := flags.Int("hosts", math.MaxInt, "leave out larger fleets")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var rows []*row
	for _, s := range sizes {
		for _, share := range shares {
			if s.hosts <= *most {
				rows = append(rows, &row{size: s, share: share})
			}
		}
	}
	var all sync.WaitGroup
	cores := make(chan struct{}, runtime.NumCPU())
	for _, r := range slices.Backward(rows) { // the largest first
		all.Go(func() {
			cores <- struct{}{}
			defer func() { <-cores }()
			for n := range uint64(r.fleets) {
				r.plant(*seed + n)
			}
			if r.share == shares[0] {
				r.rest(*seed)
			}
		})
	}
	var beside []*found
	for _, o := range events {
		f := &found{event: o}
		beside = append(beside, f)
		all.Go(func() {
			cores <- struct{}{}
			defer func() { <-cores }()
			for _, s := range eventFleets {
				if s.hosts <= *most {
					f.plant(s.hosts, s.changes, s.hours, *seed)
				}
			}
		})
	}
	all.Wait()
	return section(rows, beside, *seed).Keep(*output)
}

// plant has one host after the other send less.
func (r *row) plant(seed uint64) {
	w := fleettest.NewCards(r.hosts, seed, scatter)
	rng := rand.New(rand.NewPCG(seed, 1))
	w.Measure(gathered)
	for range perFleet {
		host, p := 1+rng.Int64N(int64(r.hosts)), planted{-1, -1, -1}
		from := w.Now + w.Hour()
		until := from + changed*3600
		w.Less = func(sender, _, at int64) float64 {
			if sender == host && at >= from && at < until {
				return -math.Log(1 - r.share)
			}
			return 0
		}
		w.OnOutcome = func(o *fleet.Outcome) {
			mine := o.Host == host && o.Metric == model.Goodput && o.Direction == model.From
			switch {
			case mine && o.Worse && w.Now >= from && w.Now < until && p.reported < 0:
				p.reported = w.Now - from
			case mine && !o.Worse && p.reported >= 0 && w.Now >= until && p.returned < 0:
				p.returned = w.Now - until
			default:
				r.others++
			}
		}
		clear(w.Suspected)
		w.Measure(changed + pause)
		if i := slices.IndexFunc(w.Suspected[host], func(at int64) bool { return at >= from && at < until }); i >= 0 {
			p.suspected = w.Suspected[host][i] - from
		}
		r.planted = append(r.planted, p)
	}
}

// rest has nothing change for weeks.
func (r *row) rest(seed uint64) {
	w := fleettest.NewCards(r.hosts, seed, scatter)
	w.OnOutcome = func(*fleet.Outcome) { r.quiet++ }
	w.Measure(r.weeks * 7 * 24)
}

// count returns of how many planted changes something holds.
func (r *row) count(holds func(planted) bool) (n int) {
	for _, p := range r.planted {
		if holds(p) {
			n++
		}
	}
	return n
}

// Seconds within which a change is to be suspected, and to be reported after that.
const (
	hour = 3600
	soon = 900
)

func (r *row) within(seconds int64) int {
	return r.count(func(p planted) bool { return p.suspected >= 0 && p.suspected <= seconds })
}

func (r *row) soon() int {
	return r.count(func(p planted) bool { return p.reported >= 0 && p.reported <= p.suspected+soon })
}

func section(rows []*row, beside []*found, seed uint64) results.Section {
	var b strings.Builder
	fmt.Fprintf(&b, `Made by `+"`make detection`"+`, seeds from %d. Simulated fleets: hosts with cards of 10 Gbit/s, each fourth
with 1 Gbit/s; a run scatters by 5 %%, a host by 3 %% from hour to hour, a path by %.0f %% for good, and 2 %% of
all runs carry half. Each host is looked at every ten minutes; runs that confirm come within ten.
After %d hours one host after the other sends less for %d hours.

| hosts | sends | changes | suspected in 1 h | in 2 h | reported within 15 min of that | at all | its end | other reports |
|---|---|---|---|---|---|---|---|---|
`, seed, 100*scatter, gathered, changed)
	sums := map[float64]*row{}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d | -%.0f %% | %d | %d | %d | %d | %d | %d | %d |\n", r.hosts, 100*r.share, len(r.planted), r.within(hour), r.within(2*hour), r.soon(),
			r.count(func(p planted) bool { return p.reported >= 0 }), r.count(func(p planted) bool { return p.returned >= 0 }), r.others)
		if sums[r.share] == nil {
			sums[r.share] = &row{}
		}
		sums[r.share].planted = append(sums[r.share].planted, r.planted...)
	}
	b.WriteString("\n| hosts, none of which changes | weeks | reports |\n|---|---|---|\n")
	for _, r := range rows {
		if r.share == shares[0] {
			fmt.Fprintf(&b, "| %d | %d | %d |\n", r.hosts, r.weeks, r.quiet)
		}
	}
	more := eventTable(&b, beside)
	bars := results.Bars("detection")
	of := func(n int, r *row) string { return fmt.Sprintf("%d of %d", n, len(r.planted)) }
	reach := func(n int, r *row, percent int) bool { return 100*n >= percent*len(r.planted) }
	large, small, last := sums[shares[0]], sums[shares[1]], rows[len(rows)-len(shares)]
	soon := large.soon() + small.soon()
	both := &row{planted: append(slices.Clone(large.planted), small.planted...)}
	return results.Section{Name: "detection", Title: "what the hub finds in simulated fleets", Body: b.String(), Verdicts: append([]results.Verdict{
		bars("a host that sends 30 % less is suspected in 1 h", "in 95 %", of(large.within(hour), large), reach(large.within(hour), large, 95)),
		bars("one that sends 20 % less, in 1 h", "in 75 %", of(small.within(hour), small), reach(small.within(hour), small, 75)),
		bars("and in 2 h", "in 95 %", of(small.within(2*hour), small), reach(small.within(2*hour), small, 95)),
		bars("reported within 15 min of that", "in 90 %", of(soon, both), reach(soon, both, 90)),
		bars(fmt.Sprintf("changes reported of %d hosts that do not change", last.hosts), "at most 8 in four weeks", fmt.Sprint(last.quiet), last.quiet <= 8),
	}, more...)}
}
