package fleet

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestFit has the vector of fleet.md section 6.2.
func TestFit(t *testing.T) {
	n := math.NaN()
	m := Matrix{{n, .23, .24, .22, .25}, {-.02, n, 0, .01, -.02}, {-.01, .31, n, 0, -.01}, {.02, -.02, -.01, n, -.01}, {0, .01, 0, 0, n}}
	e := Fit(m.Deviations())
	for i, want := range []float64{.23125, -.010625, -.005, -.010625, 0} {
		must.True(t, math.Abs(e.Sends[int64(i)]-want) < 1e-12, "%d sends %v instead of %v", i, e.Sends[int64(i)], want)
	}
	for i, want := range []float64{-.0025, .004375, .0046875, .0025, -.0021875} {
		must.True(t, math.Abs(e.Receives[int64(i)]-want) < 1e-12, "%d receives %v instead of %v", i, e.Receives[int64(i)], want)
	}
	for _, d := range m.Deviations() {
		odd := d.From == 2 && d.To == 1
		must.True(t, e.Rest(d) > .05 == odd && (!odd || math.Abs(e.Rest(d)-.310625) < 1e-12), "rest of %+v: %v", d, e.Rest(d))
	}
}

// world is a fleet whose hosts send and receive a little more or less from hour to hour, and whose
// runs scatter and stall.
type world struct {
	hosts int
	less  func(from, to, at int64) float64 // ln of how much less a direction carries
	rng   *rand.Rand
	level map[role]float64
	paths Paths
	now   int64
	lease int64
	runs  int // of confirmations

	suspected map[int64]int64 // when a host was first suspected
	told      func(*Outcome)
}

func newWorld(hosts int, seed uint64) *world {
	return &world{
		hosts: hosts, less: func(_, _, _ int64) float64 { return 0 }, rng: rand.New(rand.NewPCG(seed, 0)), level: map[role]float64{},
		paths: Paths{Margin: math.Log(1.1), Zone: time.UTC}, suspected: map[int64]int64{}, told: func(*Outcome) {},
	}
}

// run measures a number with 5 % of noise, 3 % that last for hours, and 2 % of runs that stall
// (fleet.md section 6.3).
func (w *world) run(way Way, s series.Stream) Run {
	r := Run{Part: s.Part(), Direction: s.Direction}
	if s.Metric != model.Goodput {
		trip, loss := .02*math.Exp(.05*w.rng.NormFloat64()), 0.
		r.RoundTrip, r.Loss = &trip, &loss
		return r
	}
	from, to := way.Low, way.High
	if s.Direction == model.From {
		from, to = to, from
	}
	y := w.level[role{from, series.Stream{}}] + w.level[role{to, s}] + .05*w.rng.NormFloat64() + w.less(from, to, w.now)
	if w.rng.Float64() < .02 {
		y += .7
	}
	rate := 1e9 * math.Exp(-y) / float64(1+(from+to)%3) // paths differ
	r.Goodput = &rate
	return r
}

// hours lets the fleet measure, six looks of each host an hour, and confirm what it suspects within
// ten minutes.
func (w *world) hours(n int) {
	const phi = .7
	streams := []series.Stream{{Metric: model.Goodput, Direction: model.To}, {Metric: model.Goodput, Direction: model.From}, {Metric: model.IdleP50, Direction: model.To}, {Metric: model.LossRatio, Direction: model.From}}
	for round := range 6 * n {
		if round%6 == 0 {
			for h := range w.hosts {
				for _, r := range []role{{int64(h + 1), series.Stream{}}, {int64(h + 1), streams[0]}, {int64(h + 1), streams[1]}} {
					w.level[r] = phi*w.level[r] + .03*math.Sqrt(1-phi*phi)*w.rng.NormFloat64()
				}
			}
		}
		order := w.rng.Perm(w.hosts)
		for i := 0; i+1 < w.hosts; i += 2 {
			w.look(Way{int64(min(order[i], order[i+1]) + 1), int64(max(order[i], order[i+1]) + 1)}, streams)
		}
		for _, look := range slices.Sorted(maps.Keys(w.paths.Doubts)) {
			if d := w.paths.Doubts[look]; d != nil { // else explained by another one
				w.confirm(look, d)
			}
		}
		w.now += 600
	}
}

func (w *world) look(way Way, streams []series.Stream) {
	w.lease++
	l := Lease{ID: w.lease, Kind: Visit, Near: way.Low, Far: way.High, State: Done, Span: Span{From: w.now}}
	for _, s := range streams {
		l.Runs = append(l.Runs, w.run(way, s))
	}
	w.take(&l)
}

func (w *world) confirm(look int64, d *Doubt) {
	if d.host != nil && w.suspected[d.host.host] == 0 {
		w.suspected[d.host.host] = w.now
	}
	l := Lease{Kind: Confirm, Near: d.Way.Low, Far: d.Way.High, State: Done, Look: look, Span: Span{From: w.now + 300}}
	for len(l.Runs) < d.Most() && d.Judge(d.Numbers(l.Seen())) == series.Open {
		l.Runs = append(l.Runs, w.run(d.Way, d.Stream))
	}
	w.runs += len(l.Runs)
	w.take(&l)
}

func (w *world) take(l *Lease) {
	if o := w.paths.Take(l); o != nil {
		w.told(o)
	}
}

// TestHostChanges plants hosts that send less, in fleets of several sizes: the host is reported,
// and not its paths, and so is its return.
func TestHostChanges(t *testing.T) {
	for _, c := range []struct {
		hosts, settled int // hours in which each path is seen often enough
		left           float64
		soon           int64 // minutes within which three of four hosts are suspected
	}{{4, 120, .8, 120}, {4, 120, .5, 75}, {12, 120, .8, 75}, {12, 120, .7, 60}, {40, 200, .8, 60}, {40, 200, .7, 60}} {
		if c.hosts == 40 && !must.Slow {
			continue
		}
		fleets, most := must.Often(3, 20), must.Often(2, 15)
		var suspected, told []int64 // minutes after
		returned, others := 0, 0
		for seed := range uint64(fleets) {
			w := newWorld(c.hosts, seed)
			from := int64(c.settled)*3600 + w.rng.Int64N(3600)
			until := from + 24*3600
			w.less = func(sender, _, at int64) float64 {
				if sender == 2 && at >= from && at < until {
					return -math.Log(c.left)
				}
				return 0
			}
			w.hours(c.settled + 1)
			clear(w.suspected)
			w.told = func(o *Outcome) {
				switch {
				case o.Host == 2 && o.Worse && o.Metric == model.Goodput && o.Direction == model.From && w.now < until:
					told = append(told, (w.now-from)/60)
				case o.Host == 2 && !o.Worse && w.now >= until:
					returned++
				default:
					others++
				}
			}
			w.hours(24 + 12)
			if at := w.suspected[2]; at > 0 {
				suspected = append(suspected, (at-from)/60)
			}
		}
		slices.Sort(suspected)
		slices.Sort(told)
		t.Logf("%d hosts, one sends %.0f %%: of %d suspected after %v min, told after %v, its return %d; others %d", c.hosts, 100*c.left, fleets, suspected, told, returned, others)
		must.True(t, len(suspected) >= most && suspected[most-1] <= c.soon && len(told) >= most && told[most-1] <= 2*c.soon && returned >= most && others <= fleets, "%+v: suspected after %v, told after %v, its return %d, others %d", c, suspected, told, returned, others)
	}
}

// TestNoHostChanges: without a fault at most eight changes are reported in four weeks of a thousand
// hosts (fleet.md section 12).
func TestNoHostChanges(t *testing.T) {
	w, told := newWorld(must.Often(12, 200), 7), 0
	w.told = func(*Outcome) { told++ }
	weeks := must.Often(1, 4)
	w.hours(weeks * 7 * 24)
	t.Logf("%d hosts, %d weeks: %d told, %.1f runs more of each host a day", w.hosts, weeks, told, float64(w.runs)/float64(weeks*7*w.hosts))
	must.True(t, told <= max(1, 8*w.hosts*weeks/4000), "%d changes", told)
}

func TestHostlist(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"pi":                    "pi",
		"node[001-003,7],gpu1":  "node001 node002 node003 node7 gpu1",
		"rack[0-1]n[1-2]-ib, a": "rack0n1-ib rack0n2-ib rack1n1-ib rack1n2-ib a",
		"n[9-11]":               "n9 n10 n11",
		"n[1-":                  "error",
		"n]":                    "error",
		"n[2-1]":                "error",
		"n[a-b]":                "error",
		"n[1-300]":              "error",
		"n[1-200],m[1-200]":     "error",
		"n[1-200]m[1-200]":      "error",
		"n[1-4000000000]":       "error",
	} {
		names, err := Hostlist(text)
		got := strings.Join(names, " ")
		if err != nil {
			got = "error"
		}
		must.Equal(t, got, want, "%q", text)
	}
}

// TestMatrices: the median of the valid runs counts, of a round trip the lower direction, and
// directions that lead nowhere do not appear.
func TestMatrices(t *testing.T) {
	s := model.Session{Mesh: &model.Mesh{Hosts: make([]model.MeshHost, 2), Ways: []model.MeshWay{
		{Name: "a -> b", From: 0, To: 1}, {Name: "b -> a", From: 1, To: 0}, {Name: "a -> c", From: 0, To: 2}, {Name: "a -> a"},
	}}}
	for i, w := range []string{"a -> b", "a -> b", "a -> b", "a -> b", "b -> a", "a -> c", "a -> a"} {
		d := []model.Direction{model.To, model.From}[i/4%2]
		r := model.Run{Setting: w, Flow: model.Flow{Direction: d}, State: model.RunValid, Values: []model.Value{
			{Direction: d, Metric: model.Goodput, Value: float64(10 + i)}, {Direction: d, Metric: model.IdleP50, Value: 1 / float64(1+i)},
		}}
		if i == 3 {
			r.State = model.RunInvalid
		}
		s.Runs = append(s.Runs, r)
	}
	rates, trips := Rates(&s), RoundTrips(&s)
	must.Same(t, rates.All(), []float64{11, 14}, "rates")
	must.Same(t, trips.All(), []float64{.2, .2}, "round trips")
	huge := model.Session{Mesh: &model.Mesh{Hosts: make([]model.MeshHost, MostHosts+1), Ways: s.Mesh.Ways}, Runs: s.Runs}
	must.Len(t, Rates(&huge), 0, "a mesh of too many hosts")
	must.True(t, rates[0][1] == 11 && rates.Column(0)[0] == 14 && rates.Row(1)[0] == 14, "%v", rates)
}

// TestSetup: groups only take away from what the owner of a host allows, and a path uses what is
// between its ends.
func TestSetup(t *testing.T) {
	s := Setup{
		Groups: []Group{{Hosts: []string{"edge-*"}, MaxRate: "100mbit", MaxShare: "2%"}, {Hosts: []string{"pi", "*-2"}, ProbeOnly: true}},
		Shared: []Shared{{Name: "uplink", Between: []string{"fra-*", "ams-*"}, AtOnce: 1}, {Name: "rack", Around: []string{"fra-12*"}, AtOnce: 2}},
	}
	must.Do(t, s.Validate())
	for name, want := range map[string]Limits{
		"edge-1": {Rate: 5e7, Share: .02}, "edge-2": {Rate: 5e7, Share: .02, ProbeOnly: true}, "pi": {Rate: 5e7, Share: .1, ProbeOnly: true}, "nas": {Rate: 5e7, Share: .1},
	} {
		must.Equal(t, s.Limits(&Host{Name: name, Limits: Limits{Rate: 5e7, Share: .1}}), want, "%s", name)
	}
	must.Equal(t, s.Limits(&Host{Name: "edge-1", Limits: Limits{Rate: 1e9, Share: .01}}), Limits{Rate: 1e8, Share: .01})
	for pair, want := range map[[2]string]int{{"fra-120", "ams-1"}: 2, {"ams-1", "fra-3"}: 1, {"fra-120", "fra-121"}: 0, {"fra-3", "fra-120"}: 1, {"a", "b"}: 0} {
		must.Len(t, s.Uses(pair[0], pair[1]), want, "%v", pair)
	}
}

// TestCohort: the tables of fleet.md section 6.6, and one in which two hosts are too few.
func TestCohort(t *testing.T) {
	for _, c := range []struct {
		Cohort
		text string
	}{
		{Cohort{Hosts: 7, Moved: 7, Others: 93, P: 6.247048e-11}, "7 of 7 hosts with kernel 6.1 -> 6.2 have become worse, and 0 of 93 others: the likely cause (p 6e-11)"},
		{Cohort{Hosts: 7, Moved: 6, Others: 93, Beside: 2, P: 1.614237e-7}, "and 2 of 93 others: the likely cause (p 2e-07)"},
		{Cohort{Hosts: 7, Moved: 2, Others: 93, Beside: 3, P: 0.0382280}, "2 of 7 hosts with kernel 6.1 -> 6.2 have become worse, and 3 of 93 others: that may be chance (p 0.04)"},
		{Cohort{Hosts: 2, Moved: 2, Others: 98, P: 2. / (100 * 99)}, "that may be chance (p 0.0002)"},
	} {
		o, with := Outcome{Moved: map[int64]bool{}}, map[int64]bool{}
		for id := range c.Hosts + c.Others {
			with[int64(id)], o.Moved[int64(id)] = id < c.Hosts, id < c.Moved || id >= c.Hosts && id < c.Hosts+c.Beside
		}
		got := o.Cohort(fingerprint.Change{Key: "near.kernel", Was: "6.1", Now: "6.2", At: "nas"}, 2, with)
		must.True(t, math.Abs(got.P-c.P) < 1e-6*c.P, "%v instead of %v", got.P, c.P)
		must.Contain(t, Change{Report: series.Report{Worse: true}, Cohorts: []Cohort{got}}.Lines()[1], c.text)
	}
}

// TestHostsMoveTogether: of 24 hosts 5 become slower at once. The last one that is reported knows the
// others, and those that have not changed.
func TestHostsMoveTogether(t *testing.T) {
	w, from, last := newWorld(24, 1), int64(60*3600), []*Outcome{}
	w.less = func(sender, _, at int64) float64 { return map[bool]float64{true: .25}[sender <= 5 && at >= from] }
	w.hours(60)
	w.told = func(o *Outcome) { last = append(last, o) }
	w.hours(6)
	must.Need(t, len(last) >= 4 && len(last) <= 5, "%d reported", len(last))
	got := last[len(last)-1].Cohort(fingerprint.Change{}, 1, map[int64]bool{1: true, 2: true, 3: true, 4: true, 5: true})
	must.True(t, got.Moved >= 4 && got.Hosts == 5 && got.Others == 19 && got.Beside <= 1 && got.Cause, "%+v", got)
}
