package plan

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/must"
)

// The combinations of a grid are named by their levels, and ordered by what they cost: the
// factor with the most levels first, words as they are listed.
func TestCellsAscendByTheFactorThatIsSearched(t *testing.T) {
	set := model.Factor{Name: "set", Levels: []model.Level{{Name: "vanilla"}, {Name: "all three"}}}
	window, mtu := plantest.Factor("window", "9", "8", "10"), plantest.Factor("link.mtu", "9000", "1500")
	for name, c := range map[string]struct {
		factors []model.Factor
		want    string
	}{
		"two amounts": {[]model.Factor{mtu, window}, "mtu=1500 window=8, mtu=9000 window=8, mtu=1500 window=9, mtu=9000 window=9, mtu=1500 window=10, mtu=9000 window=10"},
		"a set":       {[]model.Factor{set, mtu}, "vanilla mtu=1500, all three mtu=1500, vanilla mtu=9000, all three mtu=9000"},
		"only words":  {[]model.Factor{set, plantest.Factor("congestion", "bbr", "cubic")}, ""},
	} {
		must.Equal(t, strings.Join(ascending(c.factors), ", "), c.want, name)
		must.Equal(t, len(Cells(c.factors)), len(c.factors[0].Levels)*len(c.factors[1].Levels), name)
	}
}

// A setting that is dropped leaves the blocks, the levels, and the factor whose level no other
// setting has.
func TestDrop(t *testing.T) {
	mtu, window := plantest.Factor("link.mtu", "1500", "9000"), plantest.Factor("window", "8", "9")
	for name, c := range map[string]struct {
		drop, left string
		mtus       int
	}{
		"a level of a factor": {"mtu=9000 window=8, mtu=9000 window=9", "mtu=1500 window=8, mtu=1500 window=9", 1},
		"one combination":     {"mtu=9000 window=9", "mtu=1500 window=8, mtu=1500 window=9, mtu=9000 window=8", 2},
	} {
		p := must.Get(New(Request{Plan: model.Plan{MaxBlocks: 6, Mode: model.FixedBlocks, Settings: plantest.Settings(mtu, window), Factors: []model.Factor{mtu, window},
			Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second}}}))(t)
		all := len(p.Order[0])
		p = Drop(p, strings.Split(c.drop, ", "))
		gone := strings.Count(c.drop, ",") + 1
		must.Equal(t, strings.Join(p.Levels, ", "), c.left, name)
		must.True(t, len(p.Factors[0].Levels) == c.mtus && len(p.Factors[1].Levels) == 2 && len(p.Order[5]) == all-gone, "%s: %+v, %q", name, p.Factors, p.Order[5])
	}
}

// Every block is complete unless incomplete ones are asked for, whatever the number of
// settings: issue 25 part 5, where 15 settings got one run each, unsaid.
func TestBlocksAreCompleteUnlessAskedOtherwise(t *testing.T) {
	factors := []model.Factor{plantest.Factor("block", "1", "2", "3"), plantest.Factor("window", "1", "2", "3", "4", "5")}
	for name, c := range map[string]struct {
		incomplete     bool
		factors        []model.Factor
		blocks, block  int
		levels, fixedN int
	}{
		"a grid":                {false, factors, 6, 16, 15, 6},
		"a list":                {false, nil, 6, 16, 0, 6},
		"incomplete, by a wish": {true, factors, 28, 5, 0, 6},
	} {
		o := Request{Plan: model.Plan{MaxBlocks: c.fixedN, Mode: model.FixedBlocks, Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second},
			Settings: plantest.Settings(factors...), Factors: c.factors, Incomplete: c.incomplete}}
		p := must.Get(New(o))(t)
		if p.MaxBlocks != c.blocks || len(p.Order) != c.blocks || len(p.Order[0]) != c.block || len(p.Levels) != c.levels || p.Incomplete != c.incomplete {
			t.Errorf("%s: %d blocks of %d, %d levels", name, len(p.Order), len(p.Order[0]), len(p.Levels))
		}
	}
	o := held(2, 2)
	o.Incomplete = true
	must.Say(t, must.Err(New(o)), "has to be complete")
	o = options(4)
	o.Incomplete = true
	must.Say(t, must.Err(New(o)), "this plan has no more")
}

// TestResolve: datagrams follow from what arrived before, and a dead direction is not
// tried again but with smaller segments.
func TestResolve(t *testing.T) {
	test := func(name string, d model.Direction, dead bool) model.Test {
		return model.Test{Name: name, IfDead: dead, Flow: model.Flow{Engine: "tcpbulk", Direction: d, Duration: time.Second}}
	}
	p := model.Plan{Baseline: "one", Tests: []model.Test{test("one", model.To, false), test("small", model.To, true), test("smaller", model.To, true)}}
	run := func(name string, d model.Direction, state model.RunState, rate float64) model.Run {
		r := model.Run{Setting: name, State: state, Flow: model.Flow{Direction: d}}
		if rate > 0 {
			r.Values = []model.Value{{Direction: d, Metric: model.Goodput, Value: rate}}
		}
		return r
	}
	alive, dead := run("one", model.To, model.RunValid, 90e6), run("one", model.To, model.RunInvalid, 0)
	back := run("one", model.From, model.RunValid, 80e6)
	for name, c := range map[string]struct {
		test model.Test
		past []model.Run
		want bool
	}{
		"the first":                    {test("one", model.To, false), nil, true},
		"after one that lives":         {test("many", model.To, false), []model.Run{alive}, true},
		"after one that is dead":       {test("many", model.To, false), []model.Run{dead}, false},
		"the other way":                {test("many", model.From, false), []model.Run{dead, back}, true},
		"both ways, one dead":          {test("both", model.Both, false), []model.Run{dead, back}, false},
		"smaller segments of the dead": {test("small", model.To, true), []model.Run{dead}, true},
		"smaller segments of another":  {test("small", model.From, true), []model.Run{dead, back}, false},
		"after smaller ones failed":    {test("smaller", model.To, true), []model.Run{dead, run("small", model.To, model.RunInvalid, 0)}, false},
		"after smaller ones arrived":   {test("smaller", model.To, true), []model.Run{dead, run("small", model.To, model.RunValid, 1e6)}, true},
		"cut short, but it arrived":    {test("many", model.To, false), []model.Run{run("one", model.To, model.RunInvalid, 1e6)}, true},
	} {
		_, got := Resolve(p, c.test, c.past)
		must.True(t, got == c.want, "%s: %v", name, got)
	}
	paced := model.Test{Name: "half", Share: 0.5, Flow: model.Flow{Engine: udp.Name, Direction: model.From, Params: traffic.Write(udp.Params{Rate: 1})}}
	f, ok := Resolve(p, paced, []model.Run{alive, back})
	u, is := udp.Of(f)
	must.True(t, ok && is && u.Rate == 40e6, "half of 80 Mbit/s: %v, %+v", ok, f)
	paced.Flow.Duration = time.Second // in which 40 Mbit/s are 3400 full datagrams
	for rate, want := range map[float64]time.Duration{80e6: time.Second, 40e6: 1900 * time.Millisecond, 4e6: 4 * time.Second} {
		f, _ := Resolve(p, paced, []model.Run{alive, run("one", model.From, model.RunValid, rate)})
		must.Equal(t, f.Duration, want, "enough datagrams at half of %v bit/s", rate)
	}
	_, ok = Resolve(p, paced, []model.Run{alive})
	must.True(t, !ok, "half of nothing is sent")
	left := func(i int) time.Duration { return Left(p, i, Beside) }
	must.True(t, left(0) > left(1) && left(9) == 0 && Left(p, 0, 0) < left(0), "left: %s, %s, %s", left(0), left(1), left(9))
}
