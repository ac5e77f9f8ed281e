package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/limits"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// The combinations of a grid have names made of their levels. Their order follows their cost:
// the factor with the most levels first, words as listed.
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

// Dropping a setting removes it from the blocks, the levels, and the factor whose level no
// other setting has.
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

// Every block is complete unless the request asks for incomplete ones, whatever the number of
// settings: in issue 25 part 5, 15 settings silently got one run each.
func TestBlocksAreCompleteUnlessAskedOtherwise(t *testing.T) {
	factors := []model.Factor{plantest.Factor("block", "1", "2", "3"), plantest.Factor("window", "1", "2", "3", "4", "5")}
	for name, c := range map[string]struct {
		incomplete                    bool
		factors                       []model.Factor
		blocks, block, levels, fixedN int
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

// TestResolve: the datagram rate follows from the earlier results, and a dead direction is
// tried again only with smaller segments.
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
	paced.Flow.Direction = model.Both // only where the rates leave open what the directions share
	for to, want := range map[float64]bool{20e6: true, 50e6: false} {
		at := run("both", model.To, model.RunValid, to)
		at.Values = append(at.Values, model.Value{Direction: model.From, Metric: model.Goodput, Value: 0.9e6})
		f, ok = Resolve(p, paced, []model.Run{alive, run("one", model.From, model.RunValid, 1e6), at})
		u, _ = udp.Of(f)
		must.True(t, ok == want && (!want || u.Rate == 45e6 && u.Back == 0.5e6), "both at once: %v, %+v", ok, u)
		for share, passes := range map[float64]bool{0.9: true, 0.7: false} { // of both arrives
			at.Flow, at.Values[0].Value, at.Values[1].Value = f, share*45e6, share*0.5e6
			must.True(t, !want || limits.Passed([]model.Run{at}).Or(!passes) == passes, "%v of both: not %v", share, passes)
		}
	}
	left := func(i int) time.Duration { return Left(p, i, Beside) }
	must.True(t, left(0) > left(1) && left(9) == 0 && Left(p, 0, 0) < left(0), "left: %s, %s, %s", left(0), left(1), left(9))
}

// held returns a request for a grid of that many windows and MTUs of both hosts, which holds
// the MTU.
func held(mtus, windows int) Request {
	o := Request{Plan: model.Plan{Held: "link.mtu", Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second}}}
	o.Factors = []model.Factor{plantest.Factor("link.mtu", numbers(mtus, 1500)...), plantest.Factor("window", numbers(windows, 1)...)}
	o.Settings = plantest.Settings(o.Factors...)
	return o
}

// numbers are n multiples of step.
func numbers(n, step int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint((i+1)*step))
	}
	return out
}

// Every block of a plan that holds a knob is complete, and changes the knob as often as it has
// values: once for each.
func TestLawGroupsStandTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mtus, windows := rapid.IntRange(2, 4).Draw(t, "mtus"), rapid.IntRange(2, 4).Draw(t, "windows")
		o := held(mtus, windows)
		o.Seed = rapid.Uint64().Draw(t, "seed")
		p, err := New(o)
		must.Do(t, err)
		must.Need(t, p.Held == "link.mtu" && p.Twin == "" && p.NullBlocks == 4 && p.MaxBlocks == 20 && len(p.Order) == 24,
			"holds %q, twin %q, %d pairs, %d blocks, order of %d", p.Held, p.Twin, p.NullBlocks, p.MaxBlocks, len(p.Order))
		p, err = Extend(p, 25)
		must.Need(t, err == nil && len(p.Order) == 29, "longer: %d, %v", len(p.Order), err)
		for b := range p.Order {
			groups, size, want := Groups(p, b+1), windows, mtus
			if b < p.NullBlocks {
				size, want = 1, 2 // the pairs apply anew the setting they compare
			}
			must.Need(t, len(groups) == want && slices.Equal(slices.Concat(groups...), p.Order[b]), "block %d of %v has groups %v", b+1, p.Order[b], groups)
			for _, g := range groups {
				must.Need(t, len(g) == size && !slices.ContainsFunc(g, func(name string) bool { return strings.Fields(name)[0] != strings.Fields(g[0])[0] }), "block %d has a group %v", b+1, g)
			}
			sorted := slices.Sorted(slices.Values(p.Order[b]))
			must.Need(t, b < p.NullBlocks || len(slices.Compact(sorted)) == len(o.Settings), "block %d is %v", b+1, p.Order[b])
		}
	})
}

// Each setting is equally often at each place of a block, and all orders of the groups and
// inside them are equally frequent: 2! groups of 3! each, 72 orders.
func TestGroupsAreUniform(t *testing.T) {
	const blocks = 7200
	o := held(2, 3)
	o.Mode, o.MaxBlocks, o.Null = model.FixedBlocks, blocks, NullNone
	orders, first := map[string]int{}, map[string]int{}
	for _, block := range mustNew(t, o).Order {
		orders[strings.Join(block, " ")]++
		first[block[0]]++
	}
	chi, expected := 0.0, float64(blocks)/72
	for _, n := range orders {
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	must.True(t, len(orders) == 72 && !(chi > 112.3), "%d orders of 72, chi-square %.1f", len(orders), chi)
	for name, n := range first {
		must.True(t, n >= blocks/6*8/10 && n <= blocks/6*12/10, "%s is first in %d of %d blocks", name, n, blocks)
	}
}

func TestGroupsOfAPlanThatHoldsNothing(t *testing.T) {
	p := mustNew(t, options(3))
	got := Groups(p, 1)
	must.True(t, len(got) == 4 && slices.Equal(slices.Concat(got...), p.Order[0]), "groups %v of %v", got, p.Order[0])
}

func TestGroupsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"a baseline as it is": {func(o *Request) { o.Settings = append([]model.Setting{{Name: "current"}}, o.Settings...) }, `setting "current" does not assign link.mtu`},
		"a smaller group":     {func(o *Request) { o.Settings = o.Settings[1:] }, `2 of the settings have the link.mtu of "mtu=1500 window=2", and 3 that of "mtu=3000 window=1"`},
		"one value":           {func(o *Request) { o.Settings = o.Settings[:3] }, "the same value in all settings"},
		"nothing inside":      {func(o *Request) { *o = held(3, 1) }, "nothing that could be changed while it is held"},
		"a twin":              {func(o *Request) { o.Null = NullTwin }, "would make one group larger"},
		"its own plateau":     {func(o *Request) { o.Factor = "link.mtu" }, "its own plateau"},
		"hooks": {func(o *Request) {
			o.Hooks = []model.Assignment{{Host: model.Far, Knob: model.HookKnob, Value: model.On}}
		}, "hooks are taken back after every run"},
		"commands":       {func(o *Request) { o.Settings[1].Assignments[2].Command = model.Command{Limit: time.Second} }, `setting "mtu=1500 window=2" runs a command`},
		"less assigned":  {func(o *Request) { o.Settings[4].Assignments = o.Settings[4].Assignments[:2] }, `"mtu=1500 window=1" and "mtu=3000 window=2" do not assign the same`},
		"a knob of none": {func(o *Request) { o.Held = "nic.rx_ring" }, "does not assign nic.rx_ring"},
	} {
		o := held(2, 3)
		c.change(&o)
		must.Say(t, must.Err(New(o)), c.want, "%s: error", name)
	}
	ends := held(2, 2) // the hosts need not agree: the value is what both assign
	ends.Settings[0].Assignments[1].Value, ends.Settings[1].Assignments[1].Value = "9000", "9000"
	must.Len(t, Groups(mustNew(t, ends), 5), 2, "groups")
}

// Extending a grid of more than six settings once gave blocks of subsets, which cannot judge a
// factor.
func TestExtendKeepsTheBlocksOfAGridComplete(t *testing.T) {
	o := held(3, 3)
	o.Held = ""
	longer := must.Get(Extend(mustNew(t, o), 30))(t)
	must.Need(t, len(longer.Order) == 30, "%d blocks", len(longer.Order))
	for _, block := range longer.Order {
		must.Equal(t, len(block), 10, "block %v", block)
	}
}

func TestSweepSizesFromOneByteToEightMebibytes(t *testing.T) {
	got := SweepSizes(DefaultSmallest, DefaultLargest)
	first := []units.Bytes{
		1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93, 96, 99,
	}
	must.NoDiff(t, cmp.Diff(first, got[:len(first)]), "first sizes")
	last := []units.Bytes{6291453, 6291456, 6291459, 8388605, 8388608, 8388611}
	must.NoDiff(t, cmp.Diff(last, got[len(got)-len(last):]), "last sizes")
	must.Equal(t, slices.Max(SweepSizes(1, sizeLimit)), sizeLimit, "largest of all sizes")
	// There are 24 powers and 22 midpoints. All but 1, 2, 3, 4, 6, 8, 12 and 16
	// are so far apart that each has two neighbours of its own.
	must.Equal(t, lists.Count(got, func(size units.Bytes) bool { return size >= 21 }), 3*(46-8))
}

// onGrid reports whether n is a power of two or a midpoint between two of them.
func onGrid(n units.Bytes) bool {
	if n < 1 {
		return false
	}
	odd := uint64(n) >> bits.TrailingZeros64(uint64(n))
	return odd == 1 || odd == 3
}

func TestSweepSizesAreTheGridAndItsNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := units.Bytes(rapid.Int64Range(1, 5000).Draw(t, "smallest"))
		high := units.Bytes(rapid.Int64Range(1, 5000).Draw(t, "largest"))
		got := SweepSizes(low, high)
		var want []units.Bytes
		base := func(n units.Bytes) bool { return onGrid(n) && n >= low && n <= high }
		for n := units.Bytes(1); n <= 5003; n++ {
			if base(n) || base(n-3) || base(n+3) {
				want = append(want, n)
			}
		}
		must.Need(t, slices.Equal(want, got), "sizes %d, want %d", got, want)
	})
}

func TestSweepOrder(t *testing.T) {
	s := must.Get(NewSweep(SweepOptions{Seed: 7}))(t)
	must.Need(t, len(s.Order) == LeastSweeps && s.Seed == 7, "%d sweeps, seed %d", len(s.Order), s.Seed)
	for i, order := range s.Order {
		must.True(t, !slices.IsSorted(order), "sweep %d is in ascending order", i)
		must.True(t, i <= 0 || !slices.Equal(order, s.Order[i-1]), "sweeps %d and %d have one order", i-1, i)
	}
	other := must.Get(NewSweep(SweepOptions{Seed: 8}))(t)
	must.True(t, !slices.Equal(other.Order[0], s.Order[0]) && slices.Equal(other.Sizes, s.Sizes), "another seed must change the order, and nothing else")
}

func TestSweepLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := SweepOptions{
			Smallest: units.Bytes(rapid.Int64Range(1, 64).Draw(t, "smallest")),
			Largest:  units.Bytes(rapid.Int64Range(128, 1<<30).Draw(t, "largest")),
			Sweeps:   rapid.IntRange(LeastSweeps, 12).Draw(t, "sweeps"),
			Seed:     rapid.Uint64().Draw(t, "seed"),
		}
		s := must.Get(NewSweep(o))(t)
		for _, order := range s.Order {
			must.Need(t, slices.Equal(slices.Sorted(slices.Values(order)), s.Sizes), "%v is no permutation of %v", order, s.Sizes)
		}
		o.Sweeps++
		d := cmp.Diff(s.Order, must.Get(NewSweep(o))(t).Order[:len(s.Order)])
		must.Need(t, d == "", "one sweep more changes the others:\n%s", d)
	})
}

// The order must not favour a place for any size: over many sweeps, each size is at each place
// equally often, within five standard errors.
func TestSweepOrderIsUniform(t *testing.T) {
	s := must.Get(NewSweep(SweepOptions{Smallest: 8, Largest: 16, Sweeps: sweepLimit, Seed: 1}))(t)
	n := len(s.Sizes)
	for _, size := range s.Sizes {
		count := make([]int, n)
		for _, order := range s.Order {
			count[slices.Index(order, size)]++
		}
		for place, c := range count {
			mean := float64(sweepLimit) / float64(n)
			d := float64(c) - mean
			must.True(t, d*d <= 25*mean, "size %d is %d times at place %d, expected %.0f", size, c, place, mean)
		}
	}
}

func TestSweepFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		o    SweepOptions
		want []string
	}{
		{"negative", SweepOptions{Smallest: -1}, []string{"smallest size -1"}},
		{"huge", SweepOptions{Largest: 1<<63 - 1}, []string{"largest size"}},
		{"crossed", SweepOptions{Smallest: 64, Largest: 32}, []string{"between 64 and 32"}},
		{"between the sizes", SweepOptions{Smallest: 33, Largest: 47}, []string{"between 33 and 47"}},
		{"few", SweepOptions{Sweeps: 4}, []string{"4 sweeps", "at least 5"}},
		{"many", SweepOptions{Sweeps: 1001}, []string{"1001 sweeps"}},
		{"several", SweepOptions{Smallest: -3, Largest: -2, Sweeps: -1}, []string{"smallest", "-1 sweeps", "no power"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewSweep(c.o)
			must.Need(t, err != nil && s.Sizes == nil, "sizes %v, error %v", s.Sizes, err)
			for _, w := range c.want {
				must.Contain(t, err.Error(), w)
			}
		})
	}
}

func TestSweepOrderIsThePlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := SweepOptions{Sweeps: rapid.IntRange(LeastSweeps, 12).Draw(t, "sweeps"), Seed: rapid.Uint64().Draw(t, "seed")}
		s := must.Get(NewSweep(o))(t)
		n := rapid.IntRange(1, o.Sweeps).Draw(t, "n")
		got := SweepOrder(s.Sizes, o.Seed, n)
		must.Need(t, slices.Equal(got, s.Order[n-1]), "sweep %d: %v, want %v", n, got, s.Order[n-1])
	})
}
