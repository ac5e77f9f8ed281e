package tune_test

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// outcome sums up searches in worlds.
type outcome struct {
	reached, slower int
	runs, changed   []float64
	untrimmed       []float64 // runs of those with nothing to trim
}

// inSilence searches worlds whose diagnosis has a rule for one of four resources.
func inSilence(t *testing.T, worlds uint64, change func(*world), o tune.Options, before ...tune.Input) (out outcome) {
	t.Helper()
	for seed := range worlds {
		w := newWorld(seed, 1)
		w.silent = true
		if change != nil {
			change(w)
		}
		o.Seed = seed
		m := tune.Replay(tune.Record{Options: o, Inputs: before}, nil)
		play(t, w, m)
		s, _ := m.Winner()
		if w.capacity(s) >= 0.95*w.best() {
			out.reached++
		}
		if w.capacity(s) < 0.999*w.capacity(model.Setting{}) {
			out.slower++
		}
		if !slices.ContainsFunc(m.Fates(), func(f tune.Fate) bool { return f.State == tune.Trimmed || f.State == tune.Helped }) {
			out.untrimmed = append(out.untrimmed, float64(m.Runs()))
		}
		out.runs, out.changed = append(out.runs, float64(m.Runs())), append(out.changed, float64(len(s.Assignments)))
	}
	t.Logf("thorough %v: 95 %% of the best in %d of %d worlds, %d slower than before; median of runs %.0f; %.1f settings",
		o.Thorough, out.reached, worlds, out.slower, stats.Median(out.runs), stats.Mean(out.changed))
	return out
}

func thorough() tune.Options {
	o := options()
	o.Thorough = true
	return o
}

// Where three of four limits have no rule, a search that follows the diagnosis finds nothing,
// and one that screens the other settings once finds most of the gain, with few settings.
func TestThorough(t *testing.T) {
	plain, all := inSilence(t, 300, nil, options()), inSilence(t, 300, nil, thorough())
	must.True(t, plain.reached <= 100 && all.reached >= 230 && all.slower <= 3 && !(stats.Median(all.runs) > 120) && !(stats.Mean(all.changed) > 3), "wanted at most 100 without, and at least 230 with a screening, at most 3 slower, 120 runs, 3 settings")
}

// Where nothing helps, a screening claims no more than the confirmation supports, and stays
// within the budget.
func TestThoroughInVain(t *testing.T) {
	in := func(w *world) {
		for i := range w.useful {
			w.useful[i].factor = step(1)
		}
	}
	n := lists.Count(inSilence(t, 200, in, thorough()).changed, func(c float64) bool { return c > 0 })
	t.Logf("%d of 200 worlds ask for a confirmation", n)
	must.True(t, n <= 60, "%d of 200 worlds ask for a confirmation", n)
	few := inSilence(t, 50, in, thorough(), tune.Input{Runs: 40}).untrimmed
	must.True(t, len(few) >= 25 && slices.Max(few) <= 40, "a budget of 40 runs: %v", few)
}

// The runs that break have a setting in common, and the search finds it by that: the setting is
// out for good, and the search still screens the others.
func TestThoroughWithWhatBreaks(t *testing.T) {
	const worlds = 100
	broke, reached := 0, 0
	for seed := range uint64(worlds) {
		w := newWorld(seed, 1)
		w.silent = true
		w.useful[5].levels, w.breaks = []int64{77}, "77" // one without an effect
		o := thorough()
		o.Seed = seed
		m := tune.New(o)
		play(t, w, m)
		s, _ := m.Winner()
		for _, f := range m.Fates() {
			if f.State == tune.Broke && len(f.Setting.Assignments) == 1 {
				must.Need(t, f.Levels == "far."+string(w.useful[5].name) && f.Detail == "the link was lost",
					"seed %d: %s is said to break runs: %s", seed, f.Setting.Name, f.Detail)
				broke++
			}
		}
		if w.capacity(s) >= 0.95*w.best() {
			reached++
		}
		for _, a := range s.Assignments {
			must.Need(t, a.Value != "77", "seed %d: it is in the winner", seed)
		}
	}
	t.Logf("named in %d of %d worlds, 95 %% of the best in %d", broke, worlds, reached)
	must.True(t, broke >= worlds/2 && reached >= worlds*13/20, "wanted it named in half of the worlds, and 95 %% of the best in 65")
}

// Few settings get no design: the search races them. Settings that need a question or that the
// user refuses are in no screening.
func TestThoroughWithFew(t *testing.T) {
	w := bufferWorld(1, 512<<10)
	w.silent, w.right, w.useful[0].resource = true, 1, 0
	m := tune.New(thorough())
	look := w.look(m.Next().Settings[0])
	look.Rest, look.Ideas = look.Ideas, nil
	for range 3 {
		idea := look.Rest[0]
		idea.Setting.Name, idea.Levels = idea.Setting.Name+"!", idea.Levels+"!"
		idea.Ask = "may cut the connection"
		look.Rest = append(look.Rest, idea)
	}
	look.Rest[3].Ask, look.Rest[3].Refused = "", "--never"
	for m.Next().Kind == tune.KindLook {
		m.Looked(look)
	}
	s := m.Next()
	must.Need(t, s.Kind == tune.KindRace && len(s.Settings) == 2 && s.Settings[1].Name == look.Rest[0].Setting.Name, "%+v", s)
	must.True(t, math.IsNaN(float64(m.Fates()[0].Gain)) && len(m.Fates()) == 1, "%+v", m.Fates())
}

// A harmful level leaves the milder ones, and the search tries no stronger one although the
// formula promises as much of it.
func TestAMilderValueAfterAHarmfulOne(t *testing.T) {
	for seed := range uint64(50) {
		w := bufferWorld(seed, 128<<10, 256<<10, 1<<20, 4<<20)
		w.useful[0].factor = func(v int64) float64 {
			if v >= 1<<20 {
				return 0.5 // it overruns a queue
			}
			return size(v)
		}
		m := tune.New(options())
		for s := m.Next(); s.Kind != tune.KindConfirm && s.Kind != tune.KindEnd; s = m.Next() {
			if s.Kind == tune.KindLook {
				l := w.look(s.Settings[0])
				for i := range l.Ideas {
					l.Ideas[i].Allows = fact.Known(units.BitRate(1e6*float64(min(i, 2))), "a formula that does not know of the queue")
				}
				m.Looked(l)
				continue
			}
			b := tune.Block{}
			for _, x := range s.Settings {
				must.Need(t, x.Name != "far.tcp.recv_buffer_max=4194304", "the stronger value was tried")
				b[x.Name] = w.run(x)
			}
			m.Measured(b)
		}
		s, _ := m.Winner()
		must.True(t, len(s.Assignments) == 1 && s.Assignments[0].Value == strconv.Itoa(256<<10), "seed %d: winner %+v, %+v", seed, s, m.Fates())
	}
}

// The search rejects a value that gains much but harms a guard, and takes a smaller one.
func TestGuardAtEveryStep(t *testing.T) {
	for seed := range uint64(50) {
		w := bufferWorld(seed, 128<<10, 256<<10, 512<<10)
		w.latency[strconv.Itoa(512<<10)] = math.Log(3)
		w.useful[0].levels[1] = 256 << 10
		m := tune.New(options())
		play(t, w, m)
		s, ok := m.Winner()
		must.Need(t, ok && s.Assignments[0].Value != strconv.Itoa(512<<10), "seed %d: winner %+v", seed, s)
	}
}

// The guarded metric may scatter by more than its margin, as a tail of the latency does in
// short runs: a search hardly ever condemns a harmless setting for that, and does condemn a
// harmful one.
func TestGuardThatScatters(t *testing.T) {
	const worlds = 300
	for _, c := range []struct {
		harm, tail  float64
		least, most int // number of worlds that condemn it
	}{{harm: 1, tail: 0.4, most: worlds / 50}, {harm: 1, tail: 1, most: worlds / 25}, {harm: 3, tail: 0.4, least: worlds * 9 / 10, most: worlds}} {
		condemned := 0
		for seed := range uint64(worlds) {
			w := bufferWorld(seed, 512<<10)
			w.tail, w.latency[strconv.Itoa(512<<10)] = c.tail, math.Log(c.harm)
			m := tune.New(options())
			play(t, w, m)
			if f := m.Fates()[0]; f.State == tune.Guarded {
				condemned++
			}
		}
		t.Logf("%.0f times the latency, which scatters by %.1f: condemned in %d of %d worlds", c.harm, c.tail, condemned, worlds)
		must.True(t, condemned >= c.least && condemned <= c.most, "wanted %d to %d", c.least, c.most)
	}
}
