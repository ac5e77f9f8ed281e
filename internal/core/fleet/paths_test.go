package fleet

import (
	"math"
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

// TestSeldom: a path is worth a history from the look on that is the fourth within 126 hours.
func TestSeldom(t *testing.T) {
	const hour = 3600
	for _, c := range []struct {
		every int64 // hours
		looks int   // until it is one; 0 is never
	}{{1, 4}, {42, 4}, {43, 0}, {168, 0}} {
		var s seldom
		got := 0
		for i := range 20 {
			if s.add(seen{id: int64(i), at: int64(i) * c.every * hour}) {
				got = i + 1
				break
			}
		}
		must.Equal(t, got, c.looks, "every %d h", c.every)
	}
	p := Paths{Zone: time.UTC, Margin: .1}
	rate := 1e9
	take := func(id, at int64) {
		p.Take(&Lease{ID: id, Near: 1, Far: 2, Kind: Visit, State: Done, Span: Span{From: at}, Runs: []Run{{Part: series.Bulk, Direction: model.To, Goodput: &rate}}})
	}
	for i := range int64(6) {
		take(i+1, i*200*hour)
		must.Equal(t, p.Path(Way{1, 2}).Count, min(int(i)+1, seldomKept), "looks after %d", i+1)
	}
	for i := range int64(3) {
		take(10+i, (1001+i)*hour)
	}
	must.True(t, p.Path(Way{1, 2}).Count == 4 && p.seldom.Get(Way{1, 2}) == nil && p.Path(Way{1, 3}) == nil, "measured often now: %+v", p.Path(Way{1, 2}))
}

// TestSlowerEnd: of hosts of 1 and of 10 the slower one explains a path. It alone is seen there, and it alone
// moves the path; a path that they do not explain moves with either. What it did meanwhile does not count later.
func TestSlowerEnd(t *testing.T) {
	to := series.Stream{Metric: model.Goodput, Direction: model.To}
	from := series.Stream{Metric: model.Goodput, Direction: model.From}
	fast, slow := -math.Log(10), 0.
	p := Paths{Margin: .1, explained: map[model.Metric]*explained{model.Goodput: {spread: .05}}, hosts: map[role]*behaviour{
		{1, to}: {best: fast, known: true}, {2, from}: {best: slow, known: true}, {3, from}: {best: fast, known: true}, {4, from}: {},
	}}
	for _, c := range []struct {
		to   int64
		d    float64
		only int64
	}{{2, 0, 2}, {2, .3, 0}, {3, 0, 0}, {4, 0, 0}} {
		look := compared{Deviation: Deviation{From: 1, To: c.to, D: c.d}, Compared: series.Compared{Stream: to}}
		must.Equal(t, p.slower(&look), c.only, "to %d, worse by %v", c.to, c.d)
	}
	at := time.Unix(1e9, 0)
	for _, c := range []struct {
		to          int64
		carried, by float64
	}{{2, slow, 0}, {2, slow + 1, .5}, {3, fast, .5}, {4, slow, .5}} {
		path := &series.Path{Margin: .1}
		for i := range 8 {
			path.Add(series.Look{At: at.Add(time.Duration(i-8) * time.Hour)}, series.Numbers{float32(c.carried)})
		}
		s := path.Series(to)
		before, _ := s.Reference(at)
		p.movePath(s, role{1, to}, c.to, fast, hostMove{at, .5})
		after, n := s.Reference(at)
		must.True(t, n == 8 && math.Abs(after-before-c.by) < 1e-6, "to %d: from %v to %v, want %v more", c.to, before, after, c.by)
		for i := range 9 {
			path.Add(series.Look{At: at.Add(time.Duration(i) * time.Minute)}, series.Numbers{float32(c.carried + c.by)})
		}
		s.Return(at, 1, at.Add(time.Hour))
		after, _ = s.Reference(at.Add(time.Hour))
		must.True(t, math.Abs(after-before) < 1e-6, "to %d: from %v to %v, once it is as before", c.to, before, after)
	}
}
