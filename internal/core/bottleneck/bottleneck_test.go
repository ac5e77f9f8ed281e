package bottleneck

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// noisy returns rate in n blocks, each off by up to about spread.
func noisy(rate, spread float64, n, phase int) Rates {
	wobble := [...]float64{0.4, -1, 0.7, 0.2, -0.6, 0.9, -0.3, 0.1}
	r := Rates{}
	for b := range n {
		r[b+1] = rate * (1 + spread*wobble[(b*3+phase)%len(wobble)])
	}
	return r
}

func TestVerdicts(t *testing.T) {
	const (
		network, read, write, memory = 940e6, 600e6, 300e6, 40e9
		spread                       = 0.01
	)
	turns := func(r ...float64) float64 {
		sum := 0.0
		for _, v := range r {
			sum += 1 / v
		}
		return 1 / sum
	}
	for name, c := range map[string]struct {
		copy         string
		rate, spread float64
		blocks       int
		verdict      Verdict
		part         string // the slowest
		tied         []string
	}{
		"network":           {MemoryToMemory, 935e6, spread, 4, OnePart, Network, nil},
		"disk write":        {MemoryToDisk, 298e6, spread, 4, OnePart, Write, nil},
		"disk read":         {DiskToMemory, 595e6, spread, 4, OnePart, Read, nil},
		"all three":         {DiskToDisk, 297e6, spread, 4, OnePart, Write, nil},
		"two blocks suffer": {DiskToDisk, 297e6, 0.3, 2, CannotTell, Write, nil},
		"one block":         {DiskToDisk, 297e6, spread, 1, CannotTell, Write, nil},
		"in turn":           {DiskToDisk, turns(network, read, write), spread, 4, Turns, Write, nil},
		"shared bus":        {DiskToMemory, turns(network, read), spread, 4, Turns, Read, nil},
		"partly":            {DiskToDisk, 230e6, spread, 4, Partly, Write, nil},
		"something else":    {DiskToDisk, 50e6, spread, 4, Unexplained, Write, nil},
		"a cache":           {MemoryToDisk, 900e6, spread, 4, Faster, Write, nil},
		"noise":             {MemoryToDisk, 298e6, 0.5, 4, CannotTell, Write, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Rates: map[string]Rates{
				c.copy: noisy(c.rate, c.spread, c.blocks, 1), Network: noisy(network, c.spread, c.blocks, 2),
				Read: noisy(read, c.spread, c.blocks, 3), Write: noisy(write, c.spread, c.blocks, 4), Memory: noisy(memory, c.spread, c.blocks, 5),
			}}
			got := Limits(in)
			must.Need(t, len(got) == 1, "%+v", got)
			if l := got[0]; l.Verdict != c.verdict || l.Parts[0].Name != c.part || l.Copy != c.copy {
				t.Errorf("%+v, want %s of %s", l, c.verdict, c.part)
			} else if c.spread == spread && c.blocks > 1 && !slices.Equal(l.Tied, c.tied) {
				t.Errorf("tied %q", l.Tied)
			}
		})
	}
}

// TestCannotTell: two blocks that vary give the range of both, not an interval from nothing to
// many times what a copy can do.
func TestCannotTell(t *testing.T) {
	l := Limits(Input{Rates: map[string]Rates{
		MemoryToDisk: {1: 1e8, 2: 4e8}, Network: {1: 9e8, 2: 9e8}, Write: {1: 4e8, 2: 2e8},
	}})[0]
	must.Equal(t, l.Verdict, CannotTell)
	must.Equal(t, [2]float64{math.Round(100 * l.Low), math.Round(100 * l.High)}, [2]float64{25, 200})
	must.Contain(t, Direction{Receiver: "nas"}.verdictText(l), "in 2 blocks it reached 25 % to 200 % of its slowest part, writing at nas")
}

// TestTied: two equally fast parts both appear in the answer.
func TestTied(t *testing.T) {
	in := Input{Rates: map[string]Rates{
		DiskToMemory: noisy(500e6, 0.01, 4, 0), Read: noisy(500e6, 0.01, 4, 1), Network: noisy(501e6, 0.01, 4, 2),
	}}
	l := Limits(in)[0]
	must.True(t, l.Verdict == SeveralOf && len(l.Tied) == 1 && l.Tied[0] != l.Parts[0].Name, "%+v", l)
}

func TestIncomplete(t *testing.T) {
	in := Input{Rates: map[string]Rates{DiskToDisk: noisy(1e8, 0.01, 4, 0), Read: noisy(2e8, 0.01, 4, 1)}}
	l := Limits(in)[0]
	must.True(t, l.Verdict == NotMeasured && slices.Equal(l.Missing, []string{Network, Write}), "%+v", l)
	// Nothing in common: no block is complete.
	in = Input{Rates: map[string]Rates{MemoryToDisk: {1: 1e8}, Network: {2: 1e9}, Write: {3: 2e8}}}
	l = Limits(in)[0]
	must.True(t, l.Verdict == CannotTell && l.Blocks == 0, "%+v", l)
	got := Limits(Input{})
	must.True(t, got == nil, "%+v", got)
}

func TestLinkAndCore(t *testing.T) {
	in := Input{
		Rates:   map[string]Rates{MemoryToMemory: noisy(240e6, 0.01, 3, 0), Network: noisy(240e6, 0, 3, 1), Memory: noisy(8e9, 0.01, 3, 2)},
		Ceiling: fact.Known(units.BitRate(960e6), "test"),
		CPU:     map[string]map[model.Host]float64{MemoryToMemory: {model.Near: 0.4, model.Far: 0.97}},
	}
	l := Limits(in)[0]
	share, ok := l.Link.Get()
	must.True(t, ok && math.Abs(share-0.25) <= 1e-9 && l.FullCore == model.Far && l.Verdict == OnePart, "%+v", l)
}

// TestLaws: a part that is slower overall is never faster in the analysis, and a common factor
// changes nothing.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1e6, 1e11)
		n := rapid.IntRange(1, 6).Draw(t, "blocks")
		draw := func(name string) Rates {
			r := Rates{}
			base := rate.Draw(t, name)
			for b := range n {
				r[b] = base * rapid.Float64Range(0.8, 1.25).Draw(t, name)
			}
			return r
		}
		in := Input{Rates: map[string]Rates{DiskToDisk: draw("copy"), Read: draw("read"), Write: draw("write"), Network: draw("network")}}
		l := Limits(in)[0]
		must.Need(t, l.InTurn <= l.Overlap && len(l.Parts) == 3, "%+v", l)
		share := 0.0
		for i, p := range l.Parts {
			share += p.Share
			must.Need(t, i <= 0 || p.Share <= l.Parts[i-1].Share*(1+1e-9), "shares %+v", l.Parts)
		}
		must.Need(t, math.Abs(share-1) <= 1e-6, "shares add up to %v", share)
		scaled := Input{Rates: map[string]Rates{}}
		for name, r := range in.Rates {
			scaled.Rates[name] = Rates{}
			for b, v := range r {
				scaled.Rates[name][b] = 8 * v
			}
		}
		s := Limits(scaled)[0]
		must.Need(t, s.Verdict == l.Verdict && s.Parts[0].Name == l.Parts[0].Name, "%v became %v when everything was faster", l, s)
	})
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		source, sink string
		want         []string
	}{
		{"disk", "/srv", []string{MemoryToMemory, MemoryToDisk, DiskToMemory, DiskToDisk, Network, Read, Write, Memory}},
		{"memory", "disk", []string{MemoryToMemory, MemoryToDisk, Network, Write, Memory}},
		{"disk", "", []string{MemoryToMemory, DiskToMemory, Network, Read, Memory}},
		{"", "memory", []string{MemoryToMemory, Network, Memory}},
	} {
		var got []string
		for _, s := range Settings(c.source, c.sink) {
			got = append(got, s.Name)
			for _, p := range partsOf(s.Name) {
				must.True(t, slices.ContainsFunc(Settings(c.source, c.sink), func(o model.Setting) bool { return o.Name == p }),
					"%s of %q to %q lacks its part %s", s.Name, c.source, c.sink, p)
			}
		}
		must.Same(t, got, c.want, "%q to %q", c.source, c.sink)
	}
}

func TestPlan(t *testing.T) {
	o := PlanOptions{Source: "disk", Sink: "disk", Flow: model.Flow{Engine: "filecopy", Direction: model.To, Bytes: 1}, Seed: 7}
	p := must.Get(Plan(o))(t)
	must.Need(t, len(p.Order) == DefaultBlocks && p.MaxBlocks == DefaultBlocks && slices.Equal(p.Directions, []model.Direction{model.To}), "%+v", p)
	for _, block := range p.Order {
		must.Equal(t, len(slices.Compact(slices.Sorted(slices.Values(block)))), 8, "block %q", block)
	}
	again, _ := Plan(o)
	must.True(t, slices.EqualFunc(p.Order, again.Order, slices.Equal), "the same seed gives another order")
	o.Seed++
	other, _ := Plan(o)
	must.True(t, !slices.EqualFunc(p.Order, other.Order, slices.Equal), "another seed gives the same order")
	must.Fail(t, must.Err(Plan(PlanOptions{Blocks: -1, Directions: []model.Direction{model.Both}})), "no faults")
}
