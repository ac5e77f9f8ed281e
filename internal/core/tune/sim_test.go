package tune_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/core/candidate"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// world is a path with known truth: the narrowest resource sets the rate, and each useful
// setting widens one resource (statistics.md section 11.1).
type world struct {
	rng     *rand.Rand
	caps    []float64 // of each resource, bit/s
	link    float64   // nothing widens this one
	useful  []lever
	drift   float64
	right   float64 // chance that the diagnosis names the narrowest resource
	latency map[string]float64
	noise   float64 // factor on the noise of section 13
	tail    float64 // noise of the guarded metric, log ratio; 0 is that of noise
	silent  bool    // the diagnosis has a rule for the first resource only
	breaks  string  // the value of the setting that breaks its runs
}

// lever is a setting of the world: levels of a size, or a switch.
type lever struct {
	name     model.KnobID
	resource int // the one it widens, -1 for none
	levels   []int64
	now      int64
	factor   func(v int64) float64 // on the resource's capacity
}

// capacity returns the true rate with a setting.
func (w *world) capacity(s model.Setting) float64 {
	caps, all := slices.Clone(w.caps), 1.0
	for _, l := range w.useful {
		v := l.now
		for _, a := range s.Assignments {
			if a.Knob == l.name {
				v, _ = strconv.ParseInt(a.Value, 10, 64)
			}
		}
		if l.resource < 0 {
			all *= l.factor(v)
			continue
		}
		caps[l.resource] *= l.factor(v)
	}
	return min(slices.Min(caps), w.link) * all
}

// run returns one run with the noise of statistics.md section 13.
func (w *world) run(s model.Setting) tune.Reading {
	w.drift = 0.9*w.drift + 0.05*math.Sqrt(1-0.81)*w.rng.NormFloat64()*w.noise
	u := (0.015*w.rng.NormFloat64() + 0.022*w.rng.NormFloat64()) * w.noise
	r := tune.Reading{Log: math.Log(w.capacity(s)) + w.drift + u}
	harm := 0.0
	for _, a := range s.Assignments {
		harm -= w.latency[a.Value]
		if w.breaks != "" && a.Value == w.breaks {
			r.Failed = "the link was lost"
		}
	}
	r.Harm = []float64{harm + cmp.Or(w.tail, 0.02*w.noise)*w.rng.NormFloat64()}
	return r
}

// look diagnoses: the levers of the narrowest resource first, or of another one where the
// diagnosis is wrong; then all without a rule.
func (w *world) look(s model.Setting) tune.Look {
	reached := w.capacity(s) / w.link
	narrowest := 0
	caps := slices.Clone(w.caps)
	for i := range caps {
		for _, l := range w.useful {
			for _, a := range s.Assignments {
				if v, _ := strconv.ParseInt(a.Value, 10, 64); a.Knob == l.name && l.resource == i {
					caps[i] *= l.factor(v)
				}
			}
		}
		if caps[i] < caps[narrowest] {
			narrowest = i
		}
	}
	if w.rng.Float64() > w.right {
		narrowest = w.rng.IntN(len(w.caps))
	}
	look := tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Known(reached, "the world")}}
	order := slices.Clone(w.useful)
	slices.SortStableFunc(order, func(a, b lever) int {
		score := func(l lever) int {
			if l.resource == narrowest {
				return 0
			}
			return 1
		}
		return score(a) - score(b)
	})
	for _, l := range order {
		named := l.resource == narrowest || w.right < 1
		if w.silent {
			named = named && l.resource == 0
		}
		if !named && !w.silent {
			continue
		}
		for i, v := range l.levels {
			if !named && i < len(l.levels)-1 {
				continue // the rest have one best guess
			}
			a := model.Assignment{Host: model.Far, Knob: l.name, Value: strconv.FormatInt(v, 10)}
			idea := tune.Idea{Candidate: candidate.Candidate{
				Setting: model.Setting{Name: fmt.Sprintf("far.%s=%d", l.name, v), Assignments: []model.Assignment{a}}, Direction: model.To, Rule: fmt.Sprintf("B%02d", l.resource),
				Now:    fact.Known(strconv.FormatInt(l.now, 10), "the world"),
				Levels: "far." + string(l.name), Allows: fact.Known(units.BitRate(min(w.link, max(1, float64(l.resource+2))*l.factor(v)*caps[max(0, l.resource)])), "the world"),
			}}
			if named {
				look.Ideas = append(look.Ideas, idea)
			} else {
				look.Rest = append(look.Rest, idea)
			}
		}
	}
	return look
}

// play drives the machine through the world and returns its last step.
func play(t testing.TB, w *world, m *tune.Machine) tune.Step {
	t.Helper()
	for range 2000 {
		switch s := m.Next(); s.Kind {
		case tune.KindLook:
			m.Looked(w.look(s.Settings[0]))
		case tune.KindAsk:
			m.Answered(true)
		case tune.KindRace, tune.KindScreen, tune.KindTrim, tune.KindPlateau:
			b := tune.Block{}
			for _, i := range w.rng.Perm(len(s.Settings)) {
				b[s.Settings[i].Name] = w.run(s.Settings[i])
			}
			must.Need(t, len(b) == len(s.Settings), "two settings of one name in %v", s.Settings)
			m.Measured(b)
		case tune.KindConfirm, tune.KindEnd:
			return s
		}
	}
	t.Fatal("the search does not end")
	return tune.Step{}
}

// step returns the factor of a switch.
func step(f float64) func(int64) float64 {
	return func(v int64) float64 {
		if v == 0 {
			return 1
		}
		return f
	}
}

// small is the current size of every buffer.
const small = 64 << 10

// size returns the factor of a buffer, which is proportional.
func size(v int64) float64 { return float64(v) / small }

// newWorld draws a world: a window, an MTU, the place of interrupts, their moderation, a
// congestion control, and five settings that do nothing or harm.
func newWorld(seed uint64, right float64) *world {
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &world{rng: rng, link: 1e9, right: right, noise: 1, latency: map[string]float64{}}
	for range 4 {
		w.caps = append(w.caps, 1e9*(0.5+rng.Float64()))
	}
	w.caps[rng.IntN(4)] = 1e9 * (0.2 + 0.4*rng.Float64())
	w.useful = []lever{
		{"tcp.recv_buffer_max", 0, []int64{128 << 10, 512 << 10, 2 << 20}, small, size},
		{"link.mtu", 1, []int64{9000}, 0, step(1.3)},
		{"nic.gro", 1, []int64{1}, 0, step(1.4)},
		{"irq", 2, []int64{1}, 0, step(2)},
		{"congestion", 3, []int64{1}, 0, step(2.5)},
	}
	for i := range 5 {
		w.useful = append(w.useful, lever{model.KnobID("idle" + strconv.Itoa(i)), -1, []int64{1}, 0, step(1 - 0.03*float64(i%3))})
	}
	return w
}

// best returns the highest rate of the world.
func (w *world) best() float64 {
	all := model.Setting{}
	for _, l := range w.useful {
		if l.resource >= 0 {
			all.Assignments = append(all.Assignments, model.Assignment{Knob: l.name, Value: strconv.FormatInt(l.levels[len(l.levels)-1], 10)})
		}
	}
	return w.capacity(all)
}

// options returns those of the simulations: a margin of 3 %, and a limit of half as much
// latency again.
func options() tune.Options {
	return tune.Options{Margin: stats.LogMargin(3), Guards: []model.Guard{{Metric: model.LatencyP99, Margin: 50}}}
}

// The closed loop in worlds with a known best: it nearly always reaches 95 % of it, keeps few
// settings, and leaves no host slower than before, even where the diagnosis is often wrong.
func TestReachesTheBest(t *testing.T) {
	for _, c := range []struct {
		right    float64
		atLeast  int
		mostRuns float64
	}{{1, 265, 40}, {0.9, 280, 100}, {0.5, 280, 120}} {
		const worlds = 300
		var runs, changed []float64
		reached, slower := 0, 0
		for seed := range uint64(worlds) {
			w, m := newWorld(seed, c.right), tune.New(options())
			play(t, w, m)
			s, _ := m.Winner()
			if w.capacity(s) >= 0.95*w.best() {
				reached++
			}
			if w.capacity(s) < w.capacity(model.Setting{})*0.999 {
				slower++
			}
			runs, changed = append(runs, float64(m.Runs())), append(changed, float64(len(s.Assignments)))
		}
		t.Logf("diagnosis right in %.0f %%: 95 %% of the best in %d of %d worlds; median of runs %.0f; %.1f settings; %d slower than before",
			100*c.right, reached, worlds, stats.Median(runs), stats.Mean(changed), slower)
		must.True(t, reached >= c.atLeast && slower <= 3 && !(stats.Median(runs) > c.mostRuns) && !(stats.Mean(changed) > 3), "wanted %d, at most 3 slower, %.0f runs, 3 settings", c.atLeast, c.mostRuns)
	}
}

// Where losses scatter the runs, a candidate of little use makes room for another after three
// blocks; its race goes on, up to the usual number of blocks, if the other does not help.
func TestScatteredRaceMakesRoom(t *testing.T) {
	idea := func(name, rule string) tune.Idea {
		return tune.Idea{Candidate: candidate.Candidate{
			Setting: model.Setting{Name: name, Assignments: []model.Assignment{{Knob: model.KnobID(name), Value: "1"}}}, Direction: model.To, Rule: rule, Levels: name,
		}}
	}
	look := tune.Look{Ideas: []tune.Idea{idea("sack", "B1"), idea("bbr", "B2")}, Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Known(0.2, "the test")}}
	for _, c := range []struct {
		bbr  float64
		want string // each race with its first and last block
	}{{1.2, "sack 1-3, bbr 1-2, bbr + sack 1-3"}, {-0.3, "sack 1-3, bbr 1-3, sack 4-8"}} {
		m, races := tune.New(options()), []string(nil)
		for m.Next().Kind == tune.KindLook || m.Next().Kind == tune.KindRace {
			step := m.Next()
			if step.Kind == tune.KindLook {
				m.Looked(look)
				if next := m.Next(); next.Kind == tune.KindRace {
					races = append(races, fmt.Sprintf("%s %d-", next.Settings[1].Name, next.Block))
				}
				continue
			}
			scatter := 0.5 * float64(step.Block%2*2-1)
			b := tune.Block{tune.Baseline: {}, "bbr": {Log: c.bbr}, "sack": {Log: 0.1 + scatter}, "bbr + sack": {Log: c.bbr}}
			m.Measured(b)
			if m.Next().Kind != tune.KindRace {
				races[len(races)-1] += strconv.Itoa(step.Block)
			}
		}
		must.Equal(t, strings.Join(races, ", "), c.want, "races with a gain of %.1f by bbr", c.bbr)
	}
}

// Two equal limits hide each other: neither setting has an effect alone.
func TestTwoEqualLimits(t *testing.T) {
	found := 0
	for seed := range uint64(100) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 3)), link: 1e9, right: 0.99, noise: 0.3, caps: []float64{3e7, 3e7}}
		w.useful = []lever{
			{"tcp.recv_buffer_max", 0, []int64{4 << 20}, small, size},
			{"tcp.send_buffer_max", 1, []int64{4 << 20}, small, size},
		}
		m := tune.New(options())
		play(t, w, m)
		if s, _ := m.Winner(); w.capacity(s) > 9e8 && len(s.Assignments) == 2 {
			found++
		}
	}
	must.True(t, found >= 95, "both settings were found in %d of 100 worlds", found)
}

// Where nothing helps, the search changes nothing, and takes few runs.
func TestNothingHelps(t *testing.T) {
	changed, runs := 0, []float64{}
	for seed := range uint64(200) {
		w := newWorld(seed, 0.5)
		for i := range w.useful {
			w.useful[i].factor = step(1)
		}
		m := tune.New(options())
		if last := play(t, w, m); last.Kind == tune.KindConfirm {
			changed++
		}
		runs = append(runs, float64(m.Runs()))
	}
	t.Logf("%d of 200 worlds ask for a confirmation, median of runs %.0f", changed, stats.Median(runs))
	must.True(t, changed <= 60, "%d of 200 worlds without anything to gain ask for a confirmation", changed)
}

// bufferWorld returns a world with one limit, the receive window, and a setting for it.
func bufferWorld(seed uint64, levels ...int64) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 7)), link: 1e9, right: 1, noise: 0.3, caps: []float64{2e8}, latency: map[string]float64{},
		useful: []lever{{"tcp.recv_buffer_max", 0, levels, small, size}}}
}

// A value that broke a run never returns, and neither does its setting.
func TestWhatBrokeNeverReturns(t *testing.T) {
	w := bufferWorld(1, 256<<10, 512<<10)
	w.breaks = strconv.Itoa(512 << 10)
	w.useful[0].levels = []int64{512 << 10}
	m := tune.New(options())
	last := play(t, w, m)
	must.True(t, last.Kind == tune.KindEnd && m.Runs() <= 2 && m.Fates()[0].State == tune.Broke && m.Fates()[0].Detail != "", "last %+v after %d runs, fates %+v", last, m.Runs(), m.Fates())
}

// For a size that won far above what is needed, the search keeps the smallest good value.
func TestSmallestGoodValue(t *testing.T) {
	right := 0
	for seed := range uint64(50) {
		w := bufferWorld(seed, 2<<20) // 320 KiB would do: 512 KiB is the least of the halves
		m := tune.New(options())
		play(t, w, m)
		if s, _ := m.Winner(); s.Assignments[0].Value == strconv.Itoa(512<<10) {
			right++
		}
	}
	must.True(t, right >= 45, "512 KiB in %d of 50 worlds", right)
}

// The search skips what the user refuses and lists it; what needs consent comes last.
func TestAsk(t *testing.T) {
	w := bufferWorld(1, 512<<10)
	for _, agree := range []bool{false, true} {
		m := tune.New(options())
		s := m.Next()
		for ; s.Kind != tune.KindConfirm && s.Kind != tune.KindEnd; s = m.Next() {
			switch s.Kind {
			case tune.KindLook:
				l := w.look(s.Settings[0])
				l.Ideas[0].Ask = "the link may be lost"
				m.Looked(l)
			case tune.KindAsk:
				must.Need(t, s.Reason == "the link may be lost", "it asks %q", s.Reason)
				m.Answered(agree)
			case tune.KindRace, tune.KindScreen, tune.KindTrim, tune.KindPlateau:
				b := tune.Block{}
				for _, x := range s.Settings {
					b[x.Name] = w.run(x)
				}
				m.Measured(b)
			case tune.KindConfirm, tune.KindEnd:
			}
		}
		_, won := m.Winner()
		must.True(t, won == agree, "agreed %v, winner %v, %+v", agree, won, m.Fates())
	}
}

// A search ends at once at the ceiling, and stays within the budget.
func TestEndsEarly(t *testing.T) {
	w := bufferWorld(1, 512<<10)
	w.link = 2e8
	m := tune.New(options())
	if last := play(t, w, m); last.Kind != tune.KindEnd || m.Runs() != 0 {
		t.Errorf("at the ceiling: %+v after %d runs", last, m.Runs())
	}
	w, m = newWorld(3, 0.5), tune.New(options())
	m.Looked(tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Known(0.5, "test")}, Ideas: []tune.Idea{{Refused: "it may not"}}})
	must.Equal(t, m.Next().Reason, tune.NoneAllowed)
	m = tune.New(options())
	for i := range w.useful {
		w.useful[i].factor = step(1)
	}
	m.Take(tune.Input{Runs: 20}, nil) // the budget has room for as many
	last := play(t, w, m)
	must.True(t, m.Runs() <= 20 && last.Reason == tune.BudgetSpent, "%d runs of 20 by the payload: %s", m.Runs(), last.Reason)
}

// TestEachDirectionKeepsItsSetting: the search keeps a setting that helps one direction even if
// the other direction does not need it.
func TestEachDirectionKeepsItsSetting(t *testing.T) {
	var ideas []tune.Idea
	for i, d := range []model.Direction{model.To, model.From} {
		a := model.Assignment{Host: []model.Host{model.Near, model.Far}[i], Knob: "tcp.congestion_control", Value: "bbr"}
		name := a.Host.Of(a.Knob)
		ideas = append(ideas, tune.Idea{Candidate: candidate.Candidate{Setting: model.Setting{Name: name + "=bbr", Assignments: []model.Assignment{a}}, Direction: d, Rule: "B10", Levels: name}})
	}
	share := func(s model.Setting, d model.Direction) float64 {
		if slices.ContainsFunc(s.Assignments, func(a model.Assignment) bool { return a.Host == d.Sender() }) {
			return 1
		}
		return 0.1
	}
	m := tune.New(options())
	for range 100 {
		switch s := m.Next(); s.Kind {
		case tune.KindLook:
			l := tune.Look{Reached: map[model.Direction]fact.Of[float64]{}, Ideas: ideas}
			for _, d := range []model.Direction{model.To, model.From} {
				l.Reached[d] = fact.Known(share(s.Settings[0], d), "test")
			}
			m.Looked(l)
		case tune.KindConfirm, tune.KindEnd:
			got, _ := m.Winner()
			must.Len(t, got.Assignments, 2, "of %s, after %d runs", got.Name, m.Runs())
			must.True(t, m.Runs() <= 10, "%d runs: alone in its direction a setting needs no trimming", m.Runs())
			return
		case tune.KindRace, tune.KindTrim, tune.KindPlateau, tune.KindScreen, tune.KindAsk:
			b := tune.Block{}
			for _, set := range s.Settings {
				b[set.Name] = tune.Reading{Log: math.Log(share(set, s.Direction)), Harm: []float64{0}}
			}
			m.Measured(b)
		}
	}
	t.Fatal("the search does not end")
}
