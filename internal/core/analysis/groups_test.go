package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/stats"
	"linerate/internal/must"
)

// split holds the true effects of a grid of two MTUs, which are held, and four windows.
type split struct {
	mtu, window float64 // log gains of the second MTU, and of the second window
	both        float64 // what the two give beyond that
	first       float64 // what the run after a change of the MTU loses
}

// heldPlan returns a plan of two MTUs by four windows that holds the MTU.
func heldPlan(t testing.TB, seed uint64, mode func(*plan.Request)) model.Plan {
	return newPlan(t, 0, func(o *plan.Request) {
		o.Factors = []model.Factor{plantest.Factor("link.mtu", "1500", "3000"), plantest.Factor("window", "1", "2", "3", "4")}
		o.Settings = plantest.Settings(o.Factors...)
		o.Held, o.Seed = "link.mtu", seed
		if mode != nil {
			mode(o)
		}
	})
}

// ofGroups returns the rate of a session's runs. Every change of the MTU moves all runs until
// the next change by 3 % up or down (standard deviation), each run varies by 1 % on its own,
// and a drift of 5 % continues from run to run.
func ofGroups(p model.Plan, e split) rate {
	rng := rand.New(rand.NewPCG(p.Seed, 0x67726f7570)) // "group"
	const shared, own, drifting, stay = 0.03, 0.01, 0.05, 0.9
	shift, drift := 0.0, drifting*rng.NormFloat64()
	return func(setting string, block, position int) float64 {
		drift = stay*drift + drifting*math.Sqrt(1-stay*stay)*rng.NormFloat64()
		y, begin := drift+own*rng.NormFloat64(), 1
		for _, g := range plan.Groups(p, block) {
			if begin == position {
				shift, y = shared*rng.NormFloat64(), y-e.first
			}
			begin += len(g)
		}
		if strings.HasPrefix(setting, "mtu=3000") {
			y += e.mtu
		}
		if strings.HasSuffix(setting, "window=2") {
			y += e.window
		}
		if setting == "mtu=3000 window=2" {
			y += e.both
		}
		return 1e9 * math.Exp(y+shift)
	}
}

// asIfAnew judges the MTU as if every run changed it: each window of each block contributes a
// difference of its own.
func asIfAnew(p model.Plan, runs []model.Run) bool {
	var d []float64
	for b := p.NullBlocks + 1; b <= len(p.Order); b++ {
		y := map[string]float64{}
		for _, r := range runs {
			if r.Block == b {
				y[r.Setting] = math.Log(r.Values[0].Value)
			}
		}
		for _, l := range p.Factors[1].Levels {
			d = append(d, y[plan.Cell(p.Factors[0].Levels[1], l)]-y[plan.Cell(p.Factors[0].Levels[0], l)])
		}
	}
	i := stats.TInterval(d, 0.95)
	return i.Low > 0 || i.High < 0
}

// tally counts the sessions with a verdict of better or worse, by what the verdict is about.
type tally struct{ mtu, window, both, setting, anew int }

// splitSessions returns the tally of that many sessions, each with all its blocks done.
func splitSessions(t *testing.T, sessions int, mode func(*plan.Request), e split) tally {
	var n tally
	count := func(to *int, yes bool) {
		if yes {
			*to++
		}
	}
	says := func(o model.Outcome) bool { return o == model.Better || o == model.Worse }
	for seed := range uint64(sessions) {
		p := heldPlan(t, seed, mode)
		runs := runsOf(p, len(p.Order), ofGroups(p, e))
		found := Factorials(p, runs)
		must.Need(t, len(found) == 1 && len(found[0].Mains) == 4 && len(found[0].Pairs) == 1, "seed %d: %+v", seed, found)
		f := found[0]
		count(&n.mtu, says(f.Mains[0].Outcome))
		count(&n.window, says(f.Mains[1].Outcome)) // of the second window
		count(&n.both, says(f.Pairs[0].Outcome))
		count(&n.setting, slices.ContainsFunc(Analyse(p, runs).Verdicts, func(v model.Verdict) bool {
			return v.Metric == model.Goodput && says(v.Outcome)
		}))
		count(&n.anew, asIfAnew(p, runs))
	}
	t.Logf("of %d sessions: MTU %d, window %d, interaction %d, any setting %d, as if every run were changed anew %d",
		sessions, n.mtu, n.window, n.both, n.setting, n.anew)
	return n
}

// TestGroupsShareTheirShift: the runs of a group share the shift that the change of the held
// factor causes. Without a difference, the held factor gets a verdict of better or worse in at
// most 5 % of 400 sessions. Within the chance of 400 sessions, the same holds for the factor
// inside the groups, the interaction and any setting, even where the first run after each
// change is 8 % slower. The same runs, judged as if every run changed the MTU, give four times
// as many wrong sessions.
func TestGroupsShareTheirShift(t *testing.T) {
	t.Parallel()
	const sessions, most = 400, 400 * 5 / 100
	chance := 2 * math.Sqrt(sessions*0.05*0.95) // two standard errors
	for name, c := range map[string]struct {
		mode  func(*plan.Request)
		first float64
	}{"sequential": {nil, 0}, "fixed": {fixed(12), 0}, "fixed, first run slower": {fixed(12), 0.08}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := splitSessions(t, sessions, c.mode, split{first: c.first})
			must.True(t, n.mtu <= most, "MTU: %d false verdicts of %d sessions", n.mtu, sessions)
			for what, wrong := range map[string]int{"window": n.window, "interaction": n.both, "any setting": n.setting} {
				must.True(t, float64(wrong) <= most+chance, "%s: %d false verdicts of %d sessions", what, wrong, sessions)
			}
			must.True(t, c.first != 0 || n.anew >= 4*most,
				"only %d of %d sessions are fooled as if every run were changed anew: this shift shows nothing", n.anew, sessions)
		})
	}
}

// TestGroupsHideNoEffect: 80 % of the sessions find a true 5 % of the held factor although
// groups differ by 3 % on their own. They also find a true 3 % inside the groups and an
// interaction of 8 % with the held factor, since the shared shift of a group cancels.
func TestGroupsHideNoEffect(t *testing.T) {
	t.Parallel()
	const sessions = 100
	for name, mode := range map[string]func(*plan.Request){
		"fixed": fixed(14), "sequential": func(o *plan.Request) { o.MaxBlocks = 24 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := splitSessions(t, sessions, mode, split{mtu: math.Log(1.05), window: math.Log(1.03)})
			must.True(t, n.mtu >= sessions*80/100 && n.window >= sessions*80/100, "found of %d: MTU %d, window %d", sessions, n.mtu, n.window)
			n = splitSessions(t, sessions, mode, split{both: math.Log(1.08)})
			must.True(t, n.both >= sessions*80/100, "found of %d: interaction %d", sessions, n.both)
		})
	}
}

// A decided candidate stays in its group until all are decided.
func TestNobodyLeavesAGroup(t *testing.T) {
	p := heldPlan(t, 1, nil)
	y := func(setting string, block, position int) float64 {
		v := 1e9 * (1 + 0.001*float64((block+3*position)%5))
		if setting == "mtu=3000 window=4" {
			v *= 2
		}
		return v
	}
	decided := func(p model.Plan) (Result, bool) {
		r := Analyse(p, runsOf(p, p.NullBlocks+14, y))
		return r, slices.ContainsFunc(r.Verdicts, func(v model.Verdict) bool { return v.Setting == "mtu=3000 window=4" && v.Outcome == model.Better })
	}
	r, ok := decided(p)
	must.True(t, ok && len(r.Leaving) == 0, "leaving %v of %+v", r.Leaving, r.Verdicts)
	p.Held = "" // the same runs of a plan without groups
	r, ok = decided(p)
	must.True(t, ok && slices.Contains(r.Leaving, "mtu=3000 window=4"), "leaving %v of %+v", r.Leaving, r.Verdicts)
}

// watchedPlan compares s1 with s0 to the far end, and watches the other direction.
func watchedPlan(t *testing.T, guards ...model.Guard) model.Plan {
	t.Helper()
	return newPlan(t, 2, func(o *plan.Request) {
		o.Null, o.MaxBlocks, o.Guards = plan.NullNone, 12, append([]model.Guard{}, guards...)
		o.Directions, o.Watched = []model.Direction{model.To}, []model.Direction{model.From}
	})
}

// watched plays a plan over a path with that noise. s1 gains gain to the far end and other from
// there, and takes three times the CPU, which a guard of the plan may see.
func watched(p model.Plan, seed uint64, noise, gain, other float64) Result {
	rng := rand.New(rand.NewPCG(seed, 9))
	var runs []model.Run
	for block := range p.Order {
		for _, name := range p.Order[block] {
			for _, d := range p.Ways(block + 1) {
				r := model.Run{Number: len(runs) + 1, Block: block + 1, Attempt: 1, Setting: name, State: model.RunValid, Flow: p.Flow}
				r.Flow.Direction = d
				is := map[model.Direction]float64{model.To: gain, model.From: other}[d]
				cpu := 0.03
				if name == p.Baseline {
					is, cpu = 0, 0.01
				}
				r.Values = []model.Value{
					{Metric: model.Goodput, Direction: d, Value: 1e8 * math.Exp(is+noise*rng.NormFloat64())},
					{Metric: model.RTT, Direction: d, Value: 0.01 * math.Exp(0.5*rng.NormFloat64())},
					{Metric: model.CPUPerGbitNear, Direction: d, Value: cpu * (1 + 0.01*float64(block))},
				}
				runs = append(runs, r)
			}
		}
		if r := Analyse(p, runs); r.Done {
			return r
		}
	}
	return Analyse(p, runs)
}

// The first blocks alone measure a watched direction, which shows whether the setting does harm
// there. The verdict comes from the other direction, no later for that.
func TestWatchedDirection(t *testing.T) {
	p := watchedPlan(t)
	n := p.RunsIn(1)
	must.Need(t, n == 4 && p.RunsIn(6) == 2 && p.Runs() == 5*4+7*2, "%d runs in block 1, %d in block 6, %d in all", n, p.RunsIn(6), p.Runs())
	for name, c := range map[string]struct {
		other float64
		state model.GuardState
		keep  bool
	}{"no harm": {0, model.GuardHolds, true}, "harm": {-0.7, model.GuardViolated, false}} {
		r := watched(p, 3, 0.01, math.Log(2), c.other)
		must.True(t, r.Done && r.Blocks == stats.RankBlocks, "%s: done %v after %d blocks", name, r.Done, r.Blocks)
		for _, v := range r.Verdicts {
			decides := v.Direction == model.To
			must.True(t, v.Metric != model.Goodput || p.DecidedBy(&v) == decides && (decides || v.Guard.State == c.state), "%s: %s %+v", name, v.Direction, v.Guard)
		}
		k := MayKeep(model.Goodput, r.Verdicts, "s1")
		must.True(t, k.May() == c.keep && k.Ask() == c.keep, "%s: %+v", name, k)
	}
}

// A guard that scatters does not delay a large effect: the session ends with the verdict, and
// the person decides whether to keep the setting. A small effect waits for its guard.
func TestOpenGuardHoldsUpNoLargeEffect(t *testing.T) {
	p := watchedPlan(t, model.Guard{Metric: model.RTT, Margin: 10})
	for gain, waits := range map[float64]bool{math.Log(4): false, math.Log(1.2): true} {
		ended, open := 0, 0
		for seed := range uint64(50) {
			r := watched(p, seed, 0.01, gain, 0)
			for _, v := range r.Verdicts {
				if v.Metric == model.RTT && v.Direction == model.To && v.Guard.State == model.GuardOpen && !v.Guard.Tolerable {
					open++
					if r.Blocks < 12 {
						ended++
					}
					must.True(t, !MayKeep(model.Goodput, r.Verdicts, "s1").May(), "gain %.1f, seed %d: kept without the person", gain, seed)
				}
			}
		}
		must.True(t, open >= 3 && (!waits || ended <= 0) && (waits || ended >= open),
			"gain %.1f: of %d sessions with an open guard %d ended early", gain, open, ended)
	}
}

// Where the data show harm, the person cannot decide either, and the session takes more data.
func TestHarmHoldsUpALargeEffect(t *testing.T) {
	r := watched(watchedPlan(t, model.Guard{Metric: model.CPUPerGbitNear, Margin: 50}), 1, 0.01, math.Log(4), 0)
	k := MayKeep(model.Goodput, r.Verdicts, "s1")
	must.True(t, r.Done && r.Blocks > stats.RankBlocks && len(k.Harms) == 1, "done %v after %d blocks: %+v", r.Done, r.Blocks, k)
}

// Without a difference, at most one session in twenty reports one, and at most as many claim
// harm in the watched direction.
func TestWatchedFalsePositives(t *testing.T) {
	const sessions = 1000
	p := watchedPlan(t)
	said, harm, covered := 0, 0, 0
	for seed := range uint64(sessions) {
		r := watched(p, seed, 0.04, 0, 0)
		for _, v := range r.Verdicts {
			switch {
			case p.DecidedBy(&v):
				if v.Outcome == model.Better || v.Outcome == model.Worse {
					said++
				}
				if v.Interval.Low <= 0 && v.Interval.High >= 0 {
					covered++
				}
			case v.Guard != nil && v.Guard.State == model.GuardViolated:
				harm++
			}
		}
	}
	t.Logf("of %d sessions without a difference %d say one, %d claim harm, %d intervals hold 0", sessions, said, harm, covered)
	must.True(t, said <= sessions/20 && harm <= sessions/20 && covered >= sessions*19/20, "more than 5 %%")
}
