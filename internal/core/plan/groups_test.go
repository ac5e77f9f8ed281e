package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/must"
)

// held are the options of a grid of so many MTUs of both hosts and windows, in which the
// MTU is held.
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

// Every block of a plan that holds a knob is complete, and changes it as often as it has
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
				size, want = 1, 2 // the pairs apply anew what they compare
			}
			if len(groups) != want || !slices.Equal(slices.Concat(groups...), p.Order[b]) {
				t.Fatalf("block %d of %v has groups %v", b+1, p.Order[b], groups)
			}
			for _, g := range groups {
				must.Need(t, len(g) == size && !slices.ContainsFunc(g, func(name string) bool { return strings.Fields(name)[0] != strings.Fields(g[0])[0] }), "block %d has a group %v", b+1, g)
			}
			sorted := slices.Sorted(slices.Values(p.Order[b]))
			must.Need(t, b < p.NullBlocks || len(slices.Compact(sorted)) == len(o.Settings), "block %d is %v", b+1, p.Order[b])
		}
	})
}

// Each setting is as often at each place of a block as any other, and each order of the
// groups and inside them as frequent: 2! groups of 3! each, 72 orders.
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
	must.True(t, len(orders) == 72 && !(chi > 112.3),
		"%d orders of 72, chi-square %.1f", len(orders), chi)
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
	ends := held(2, 2) // the hosts need not agree: what both assign is the value
	ends.Settings[0].Assignments[1].Value, ends.Settings[1].Assignments[1].Value = "9000", "9000"
	must.Len(t, Groups(mustNew(t, ends), 5), 2, "groups")
}

// A grid of more than six settings was given blocks of subsets when it went on, in which
// no factor can be judged.
func TestExtendKeepsTheBlocksOfAGridComplete(t *testing.T) {
	o := held(3, 3)
	o.Held = ""
	p := mustNew(t, o)
	longer := must.Get(Extend(p, 30))(t)
	must.Need(t, len(longer.Order) == 30, "%d blocks", len(longer.Order))
	for _, block := range longer.Order {
		must.Equal(t, len(block), 10, "block %v", block)
	}
}
