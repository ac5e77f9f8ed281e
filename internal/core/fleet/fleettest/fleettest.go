// Package fleettest simulates fleets that measure and confirm, on paper: the hosts and the paths
// scatter as those of fleet.md section 6.3, and what happens to them is known.
package fleettest

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/packets"
)

// The scatter of a fleet, as logarithms of the rate.
const (
	noise   = .05 // of a run
	slow    = .03 // of each host as sender and as receiver, which lasts for hours
	lasts   = .7  // correlation of that from hour to hour
	stalled = .02 // share of runs that carry half
	round   = 600 // s, from look to look
	// datagrams are those of a look, each way, whose loss is measured.
	datagrams = 170
)

// World is a fleet of hosts 1 to Hosts. Its time is Now.
type World struct {
	Hosts int
	// Less is ln of how much less a direction carries at a time.
	Less func(from, to, at int64) float64
	// Path is ln of how much less than its hosts a path carries at a time.
	Path func(from, to, at int64) float64
	// Carries is the largest packet that passes from one host to another, in bytes, and the share of
	// ECN marks that arrive.
	Carries func(from, to, at int64) (packet, marks float64)
	// Loses is the share of datagrams that a direction loses.
	Loses     func(from, to, at int64) float64
	Paths     fleet.Paths
	OnOutcome func(*fleet.Outcome)
	// Suspected is when each host was suspected to send less.
	Suspected map[int64][]int64
	Now       int64 // s
	Runs      int   // of confirmations

	level        func(from, to, at int64) float64 // ln of how much less than 1 Gbit/s
	rng          *rand.Rand
	sends, takes []float64
	lease        int64
}

// New returns a fleet whose paths differ by up to a factor of three, for no reason of their hosts.
func New(hosts int, seed uint64) *World {
	w := &World{
		Hosts: hosts, Less: func(_, _, _ int64) float64 { return 0 }, Carries: func(_, _, _ int64) (packet, marks float64) { return 1500, 1 }, Loses: func(_, _, _ int64) float64 { return 0 }, Path: func(_, _, _ int64) float64 { return 0 }, rng: rand.New(rand.NewPCG(seed, 0)), sends: make([]float64, hosts+1), takes: make([]float64, hosts+1),
		Paths: fleet.Paths{Margin: math.Log(1.1), Zone: time.UTC}, Suspected: map[int64][]int64{}, OnOutcome: func(*fleet.Outcome) {},
	}
	w.level = func(from, to, at int64) float64 { return math.Log(float64(1+(from+to)%3)) + w.Less(from, to, at) }
	return w
}

// NewCards returns a fleet whose hosts have cards of 10 Gbit/s, and each fourth one of 1 Gbit/s: one of
// them limits each path. Beside that each direction carries more or less by itself, which scatters
// by so much. Less is what the sender carries less.
func NewCards(hosts int, seed uint64, scatter float64) *World {
	w := New(hosts, seed)
	card := func(host int64) float64 { return -math.Log([]float64{1, 10, 10, 10}[host%4]) }
	w.level = func(from, to, at int64) float64 {
		own := rand.New(rand.NewPCG(uint64(from), uint64(to))) //nolint:gosec // numbers of hosts are positive
		return max(card(from)+w.Less(from, to, at), card(to)) + scatter*own.NormFloat64()
	}
	return w
}

// Hour returns a random second of an hour.
func (w *World) Hour() int64 { return w.rng.Int64N(3600) }

// Pair returns two random hosts.
func (w *World) Pair() (a, b int64) {
	order := w.rng.Perm(w.Hosts)
	return int64(order[0] + 1), int64(order[1] + 1)
}

// run measures a number.
func (w *World) run(way fleet.Way, s series.Stream) fleet.Run {
	r := fleet.Run{Part: s.Part(), Direction: s.Direction}
	from, to := way.Low, way.High
	if s.Direction == model.From {
		from, to = to, from
	}
	if r.Part == series.Packets {
		packet, marks := w.Carries(from, to, w.Now)
		r.Packet, r.Marks = &packet, &marks
		return r
	}
	if s.Metric != model.Goodput {
		trip, loss := .02*math.Exp(noise*w.rng.NormFloat64()), 0.
		if p := w.Loses(from, to, w.Now); p > 0 {
			for range datagrams {
				if w.rng.Float64() < p {
					loss += 1. / datagrams
				}
			}
		}
		r.RoundTrip, r.Loss = &trip, &loss
		return r
	}
	y := w.sends[from] + w.takes[to] + noise*w.rng.NormFloat64() + w.level(from, to, w.Now) + w.Path(from, to, w.Now)
	if w.rng.Float64() < stalled {
		y += math.Ln2
	}
	rate := 1e9 * math.Exp(-y)
	r.Goodput = &rate
	return r
}

// Measure lets the fleet measure for some hours, six looks of each host an hour, and confirm within ten
// minutes what it suspects.
func (w *World) Measure(hours int) {
	for n := range 6 * hours {
		if n%6 == 0 {
			for h := range w.sends {
				for _, level := range [][]float64{w.sends, w.takes} {
					level[h] = lasts*level[h] + slow*math.Sqrt(1-lasts*lasts)*w.rng.NormFloat64()
				}
			}
		}
		order := w.rng.Perm(w.Hosts)
		for i := 0; i+1 < w.Hosts; i += 2 {
			w.look(fleet.Way{Low: int64(min(order[i], order[i+1]) + 1), High: int64(max(order[i], order[i+1]) + 1)})
		}
		for _, look := range slices.Sorted(maps.Keys(w.Paths.Doubts)) {
			if d := w.Paths.Doubts[look]; d != nil && w.Now+round/2 <= d.Until() { // else explained by another one, or late
				w.confirm(look, d)
			}
		}
		w.Now += round
	}
}

func (w *World) look(way fleet.Way) {
	w.lease++
	l := fleet.Lease{ID: w.lease, Kind: fleet.Visit, Near: way.Low, Far: way.High, State: fleet.Done, Span: fleet.Span{From: w.Now}}
	for _, s := range []series.Stream{
		{Metric: model.Goodput, Direction: model.To}, {Metric: model.Goodput, Direction: model.From},
		{Metric: model.IdleP50, Direction: model.To}, {Metric: model.LossRatio, Direction: model.From},
		{Metric: packets.Passes, Direction: model.To}, {Metric: packets.Passes, Direction: model.From},
	} {
		l.Runs = append(l.Runs, w.run(way, s))
	}
	w.take(&l)
}

func (w *World) confirm(look int64, d *fleet.Doubt) {
	sender := d.Way.Low
	if d.Direction == model.From {
		sender = d.Way.High
	}
	if d.Worse && d.Metric == model.Goodput && d.Host() == sender {
		w.Suspected[sender] = append(w.Suspected[sender], w.Now)
	}
	w.lease++
	l := fleet.Lease{ID: w.lease, Kind: fleet.Confirm, Near: d.Way.Low, Far: d.Way.High, State: fleet.Done, Look: look, Span: fleet.Span{From: w.Now + round/2}}
	for len(l.Runs) < d.Most() && (d.Part() == series.Packets || d.Judge(d.Numbers(l.Seen())) == series.Open) {
		l.Runs = append(l.Runs, w.run(d.Way, d.Stream))
	}
	w.Runs += len(l.Runs)
	w.take(&l)
}

func (w *World) take(l *fleet.Lease) {
	if o := w.Paths.Take(l); o != nil {
		w.OnOutcome(o)
	}
}
