package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func options(settings int) Request {
	o := Request{Plan: model.Plan{Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 10 * time.Second}}}
	for i := range settings {
		o.Settings = append(o.Settings, model.Setting{Name: fmt.Sprintf("s%d", i)})
	}
	return o
}

func mustNew(t testing.TB, o Request) model.Plan {
	t.Helper()
	return must.Get(New(o))(t)
}

func TestTwoSettingsStartWithBaselinePairs(t *testing.T) {
	p := mustNew(t, options(2))
	must.Need(t, p.NullBlocks == 4 && p.Twin == "" && p.MaxBlocks == 20 && len(p.Order) == 24,
		"null blocks %d, twin %q, most blocks %d, order of %d", p.NullBlocks, p.Twin, p.MaxBlocks, len(p.Order))
	for _, block := range p.Order[:4] {
		must.True(t, slices.Equal(block, []string{"s0", "s0"}), "null block %v", block)
	}
	want := model.Plan{Mode: model.Sequential, Margin: 3, Tolerance: 5, Confidence: 0.95, Settle: 2 * time.Second, Baseline: "s0"}
	got := model.Plan{Mode: p.Mode, Margin: p.Margin, Tolerance: p.Tolerance, Confidence: p.Confidence, Settle: p.Settle, Baseline: p.Baseline}
	must.NoDiff(t, cmp.Diff(want, got), "defaults")
}

func TestThreeSettingsGetATwin(t *testing.T) {
	o := options(3)
	o.Settings[1].Assignments = []model.Assignment{{Knob: "window", Value: "65536"}}
	o.Baseline = "s1"
	p := mustNew(t, o)
	twin, ok := p.Setting("s1 (twin)")
	must.Need(t, ok && p.Twin == twin.Name && p.NullBlocks == 0, "twin %q, null blocks %d", p.Twin, p.NullBlocks)
	must.True(t, slices.Equal(twin.Assignments, o.Settings[1].Assignments), "twin assigns %v", twin.Assignments)
	must.Same(t, Candidates(p), []string{"s0", "s2"}, "candidates")
	must.Equal(t, len(o.Settings), 3, "the caller's settings changed")
}

func TestNullCheckOnRequest(t *testing.T) {
	o := options(2)
	o.Null = NullTwin
	if p := mustNew(t, o); p.Twin == "" || p.NullBlocks != 0 || len(p.Order[0]) != 3 {
		t.Errorf("twin %q, null blocks %d, block %v", p.Twin, p.NullBlocks, p.Order[0])
	}
	o = options(3)
	o.Null = NullNone
	p := mustNew(t, o)
	must.True(t, p.Twin == "" && p.NullBlocks == 0, "twin %q, null blocks %d, want neither", p.Twin, p.NullBlocks)
}

func TestSingleSettingIsMeasuredAlone(t *testing.T) {
	o := options(1)
	o.Mode, o.MaxBlocks, o.Settle = model.FixedBlocks, 3, -1
	p := mustNew(t, o)
	must.NoDiff(t, cmp.Diff([][]string{{"s0"}, {"s0"}, {"s0"}}, p.Order), "order")
	must.Equal(t, p.Settle, 0, "settle")
}

func TestSameSeedSameOrder(t *testing.T) {
	for _, settings := range []int{2, 4, 9} {
		o := options(settings)
		o.Incomplete = settings == 9
		o.Seed = 42
		a, b := mustNew(t, o), mustNew(t, o)
		must.NoDiff(t, cmp.Diff(a, b), "%d settings (-first +second)", settings)
		o.Seed = 43
		must.True(t, !cmp.Equal(a.Order, mustNew(t, o).Order), "%d settings: another seed, the same order", settings)
	}
}

func TestLawBlocksAreBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options(rapid.IntRange(2, 14).Draw(t, "settings"))
		o.MaxBlocks = rapid.IntRange(10, 25).Draw(t, "blocks") // 13 comparisons need 10
		o.Seed = rapid.Uint64().Draw(t, "seed")
		o.Incomplete = len(o.Settings) > 4 && rapid.Bool().Draw(t, "incomplete")
		p := must.Get(New(o))(t)
		must.Need(t, len(p.Order) == p.NullBlocks+p.MaxBlocks, "order of %d for %d + %d blocks", len(p.Order), p.NullBlocks, p.MaxBlocks)
		count := map[string]int{}
		for _, block := range p.Order[p.NullBlocks:] {
			checkBlock(t, p, block)
			for _, name := range block {
				count[name]++
			}
			low, high := extremes(p, count)
			must.Need(t, high-low <= 1, "candidates run between %d and %d times at some block", low, high)
		}
		low, high := extremes(p, count)
		must.Need(t, low == high && low >= o.MaxBlocks && low <= o.MaxBlocks+2 && high == Comparisons(p), "candidates run %d to %d times, asked for %d, Comparisons %d", low, high, o.MaxBlocks, Comparisons(p))
	})
}

func checkBlock(t *rapid.T, p model.Plan, block []string) {
	seen := map[string]bool{}
	for _, name := range block {
		_, ok := p.Setting(name)
		must.Need(t, ok && !seen[name], "block %v: %q unknown or twice", block, name)
		seen[name] = true
	}
	must.Need(t, seen[p.Baseline] && (p.Twin == "" || seen[p.Twin]), "block %v lacks the baseline or its twin", block)
	most := len(p.Settings)
	must.Need(t, (!p.Incomplete || len(block) == 5) && (p.Incomplete || len(block) == most), "block %v of %d settings", block, most)
}

func extremes(p model.Plan, count map[string]int) (low, high int) {
	for i, name := range Candidates(p) {
		if i == 0 {
			low = count[name]
		}
		low, high = min(low, count[name]), max(high, count[name])
	}
	return low, high
}

// Each setting is first about equally often: within 5 sigma of a fair draw.
func TestOrderIsUniform(t *testing.T) {
	o := options(3)
	o.Mode, o.MaxBlocks, o.Seed, o.Null = model.FixedBlocks, 6000, 7, NullNone
	count := map[string]int{}
	for _, block := range mustNew(t, o).Order {
		count[strings.Join(block, " ")]++
	}
	must.Need(t, len(count) == 6, "%d of 6 permutations: %v", len(count), count)
	for order, n := range count {
		must.True(t, n >= 1000-145 && n <= 1000+145, "%s: %d times of 6000, want about 1000", order, n)
	}
}

func factorOptions(values ...string) Request {
	o := options(1)
	for i, v := range values {
		o.Settings = append(o.Settings, model.Setting{Name: fmt.Sprintf("w%d", i), Assignments: []model.Assignment{
			{Host: model.Near, Knob: "buf", Value: v}, {Host: model.Far, Knob: "buf", Value: v}, {Knob: "mss", Value: "1400"},
		}})
	}
	o.Factor = "buf"
	return o
}

func TestFactorSortsLevelsAndKeepsCompleteBlocks(t *testing.T) {
	p := mustNew(t, factorOptions("1048576", "65536", "131072", "262144", "2097152", "524288", "4194304"))
	must.Same(t, p.Levels, []string{"w1", "w2", "w3", "w5", "w0", "w4", "w6"}, "levels")
	must.True(t, len(p.Order[0]) == 9 && p.MaxBlocks == 20, "block of %d settings, %d blocks", len(p.Order[0]), p.MaxBlocks)
}

func TestNewReportsEveryFault(t *testing.T) {
	o := Request{Plan: model.Plan{
		Settings: []model.Setting{{Name: "a"}, {Name: "a"}, {}, {Name: "x", Assignments: []model.Assignment{{Knob: "k"}, {Knob: "k"}}}},
		Baseline: "b", Mode: "often", MaxBlocks: -1, Budget: -1, Margin: -1, Tolerance: 100, Confidence: 1, Cooldown: -1,
		Flow: model.Flow{Direction: "up", Omit: -1}, Factor: "gone",
	}, Null: "maybe"}
	_, err := New(o)
	must.Need(t, err != nil, "no error")
	for _, want := range []string{
		`setting "a" appears twice`, "setting 3 has no name", `setting "x" assigns k twice`, `baseline "b" is not`,
		`mode "often" is unknown`, "budget", "margin", "tolerance", "confidence", "cooldown", `null check "maybe"`,
		"no engine", `direction "up"`, "negative length", "neither a duration", "factor gone has 0 levels",
	} {
		must.True(t, strings.Contains(err.Error(), want), "no %q in:\n%v", want, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"nothing":            {func(o *Request) { o.Settings = nil }, "no settings"},
		"nothing to compare": {func(o *Request) { o.Settings = o.Settings[:1] }, "nothing to be compared with"},
		"sequential floor":   {func(o *Request) { o.MaxBlocks = 6 }, "at least 7 blocks"},
		"too many blocks":    {func(o *Request) { o.MaxBlocks = 1 << 40 }, "1099511627776 blocks are more than 10000"},
		"no blocks":          {func(o *Request) { o.Mode = model.FixedBlocks }, "at least 1 block"},
		"the twin's name":    {func(o *Request) { o.Settings[2].Name = "s0 (twin)" }, "null twin"},
		"equal levels":       {func(o *Request) { *o = factorOptions("1", "1.0") }, "have the same buf"},
		"worded levels":      {func(o *Request) { *o = factorOptions("1", "big") }, "not a number"},
		"different hosts":    {func(o *Request) { *o = factorOptions("1", "2"); o.Settings[1].Assignments[0].Value = "3" }, "differs between the hosts"},
		"differing others":   {func(o *Request) { *o = factorOptions("1", "2"); o.Settings[1].Assignments[2].Value = "9" }, "differ in more than buf"},
	} {
		o := options(3)
		c.change(&o)
		must.Say(t, must.Err(New(o)), c.want, "%s: error", name)
	}
	thin := options(3)
	thin.Mode, thin.MaxBlocks = model.FixedBlocks, 3
	mustNew(t, thin) // three blocks are described, without a verdict
}

func TestDirections(t *testing.T) {
	p := mustNew(t, options(2))
	must.True(t, slices.Equal(p.Directions, []model.Direction{model.To}), "directions %v, want that of the flow", p.Directions)
	o := options(2)
	o.Directions = []model.Direction{model.To, model.From}
	must.Same(t, mustNew(t, o).Directions, o.Directions, "directions")
	o.Directions = []model.Direction{model.Both, model.To, model.To}
	_, err := New(o)
	must.True(t, err != nil && strings.Contains(err.Error(), "twice") && strings.Contains(err.Error(), "beside single ones"), "error %v", err)
}

// TestFirstHour09Extend: extending a plan keeps its blocks, and gives each candidate the
// requested number of differences; a fixed plan has no continuation.
func TestFirstHour09Extend(t *testing.T) {
	for _, settings := range []int{2, 3, 9} {
		o := options(settings)
		o.Incomplete = settings == 9
		o.Budget, o.Data = time.Minute, 5e9
		p := mustNew(t, o)
		had := Comparisons(p)
		longer, err := Extend(p, had+26)
		must.Need(t, err == nil && Comparisons(longer) >= had+26 && longer.Budget == 0 && longer.Data == 5e9 && len(longer.Order) == longer.NullBlocks+longer.MaxBlocks, "%d settings: %d comparisons after %d, %d blocks, %v", settings, Comparisons(longer), had, longer.MaxBlocks, err)
		d := cmp.Diff(p.Order, longer.Order[:len(p.Order)])
		must.True(t, d == "" && len(p.Order) != len(longer.Order), "%d settings: what was planned has changed:\n%s", settings, d)
		for _, block := range longer.Order[len(p.Order):] {
			sorted := slices.Clone(block)
			slices.Sort(sorted)
			must.True(t, slices.Contains(block, p.Baseline) && len(slices.Compact(sorted)) == len(block) && len(block) == len(p.Order[len(p.Order)-1]), "%d settings: block %v", settings, block)
		}
		again, _ := Extend(p, had+26)
		must.NoDiff(t, cmp.Diff(longer, again), "the same seed gives another order")
		must.Equal(t, len(must.Get(Extend(p, had))(t).Order), len(p.Order), "no block more")
		must.Fail(t, must.Err(Extend(p, had-1)), "a plan became shorter")
	}
	o := options(2)
	o.Mode, o.MaxBlocks = model.FixedBlocks, 8
	must.Say(t, must.Err(Extend(mustNew(t, o), 20)), "a second look", "a fixed plan")
}

// TestPayload counts each direction once, including the warm-up, the messages of a sweep there
// and back, and a run without an end as the largest.
func TestPayload(t *testing.T) {
	end := func(f ...model.FlowReport) model.EndReport { return model.EndReport{Flows: f} }
	to := model.FlowReport{Direction: model.To, Bytes: 1000, Window: 2 * time.Second}
	from := model.FlowReport{Direction: model.From, Bytes: 600, Window: 2 * time.Second}
	timed := model.Run{Flow: model.Flow{Duration: 2 * time.Second, Omit: time.Second}, Ends: []model.EndReport{end(to, from), end(to, from)}}
	counted := model.Run{Flow: model.Flow{Bytes: 1000}, Ends: []model.EndReport{end(), end(to)}}
	points := model.Run{Ends: []model.EndReport{{Points: []model.Point{{Size: 10, Rounds: 5, Trials: make([]time.Duration, 3)}}}, end()}}
	for name, c := range map[string]struct {
		runs []model.Run
		want int64
	}{
		"nothing": {nil, 0}, "both directions with warm-up": {[]model.Run{timed}, 2400}, "by bytes": {[]model.Run{counted}, 1000},
		"what waits at its sender": {[]model.Run{{Flow: counted.Flow, Ends: []model.EndReport{
			end(model.FlowReport{Direction: model.To, Role: model.Sender, Bytes: 1000}), end(model.FlowReport{Direction: model.To, Role: model.Receiver, Bytes: 700}),
		}}}, 700},
		"a sweep": {[]model.Run{points}, 300}, "cut short": {[]model.Run{counted, {}}, 2000}, "cut short first": {[]model.Run{{}, counted}, 1000},
	} {
		got := Payload(c.runs)
		must.True(t, int64(got) == c.want, "%s: %d, want %d", name, got, c.want)
	}
}
