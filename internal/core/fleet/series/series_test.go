package series

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/must"
)

// TestSum has the vector of fleet.md section 6.3.
func TestSum(t *testing.T) {
	var c Sum
	want := []float64{0, 0, .2, 0, 1.5, 3.6, 10.6, 11.8}
	for i, z := range []float64{.3, -.5, 1.2, .4, 2.5, 3.1, 9, 2.2} {
		c.Add(z, i+1)
		must.True(t, math.Abs(c.C-want[i]) < 1e-9 && (c.C >= alarm) == (i+1 >= 7), "value %d: %v instead of %v", i+1, c.C, want[i])
	}
	must.Equal(t, c.since, 5, "since")
}

// TestJudge has the vector of fleet.md section 6.4: the evidence after each run, and the end.
func TestJudge(t *testing.T) {
	m := math.Log(1 / .9)
	runs := []float64{.21, .26, .19, .24, .23, .18, .27, .22, .25, .20, .24}
	e := stats.NewEvidence(-m)
	for i, want := range []float64{1.832273, 3.475740, 6.470397, 12.449909, 24.054391, 45.810086, 90.056450, 176.166979, 347.352393, 679.709713, 1343.958863} {
		e.Add(-runs[i])
		must.True(t, math.Abs(math.Exp(e.Max().NotAbove)/want-1) < 1e-6, "after %d: %v instead of %v", i+1, math.Exp(e.Max().NotAbove), want)
	}
	runs = append(runs, .22, .22, .22, .22)
	for sign, worse := range map[float64]bool{1: true, -1: false} {
		p := Suspicion{Worse: worse, Reference: 5, Margin: m}
		at := func(of []float64) (v Verdict) {
			y := lists.Each(of, func(d float64) float64 { return 5 + sign*d })
			return p.Judge(y)
		}
		must.Equal(t, at(runs[:11]), Open, "of 1,344")
		must.Equal(t, at(runs), Confirmed, "after 15 runs")
		must.Equal(t, at(make([]float64, 8)), Refuted, "no change")
		must.Equal(t, at([]float64{m, m - .01, m + .01}), Open, "at the margin")
	}
}

// world is a path whose level wanders from hour to hour; noise and wander are scatters.
type world struct {
	noise, wander, phi, stalls float64
	evening                    float64 // how much worse the number is from 20 to 24 o'clock
}

// watched feeds that many hourly looks at a world to a series. The number becomes worse by drop
// from look at on, and recovers from look back on. It returns the reported changes.
func (w world) watched(rng *rand.Rand, looks, at, back int, drop float64) (told []Change, runs int, s *Series) {
	s = &Series{Margin: math.Log(1.1)}
	state := 0.0
	now := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	for i := range looks {
		state = w.phi*state + w.wander*math.Sqrt(1-w.phi*w.phi)*rng.NormFloat64()
		level := state
		if i >= at && i < back {
			level += drop
		}
		if now.Hour() >= 20 {
			level += w.evening
		}
		one := func() float64 {
			if rng.Float64() < w.stalls {
				return level + .7 // a run that stalled carries half
			}
			return level + w.noise*rng.NormFloat64()
		}
		p, suspect := s.Add(Look{now, strconv.Itoa(i)}, one())
		var more []float64
		for suspect && p.Judge(more) == Open {
			more = append(more, one())
		}
		runs += len(more)
		if suspect {
			if c, ok := s.Settle(p, more); ok {
				told = append(told, c)
			}
		}
		now = now.Add(time.Hour)
	}
	return told, runs, s
}

// usual is a path whose single runs carry little information.
var usual = world{noise: .05, wander: .03, phi: .7, stalls: .02}

// TestPlanted counts how many looks a series needs to report a worse path, and its recovery.
func TestPlanted(t *testing.T) {
	for name, c := range map[string]struct {
		world
		left         float64 // share of what it carried before
		looks, least int     // within that many looks, at least so many of 40 paths get a report
	}{
		"-20 %":        {usual, .8, 4, 34},
		"-20 %, later": {usual, .8, 24, 39},
		"-30 %":        {usual, .7, 2, 38},
		"-50 %":        {usual, .5, 2, 40},
		"-20 %, quiet": {world{noise: .02}, .8, 1, 39},
	} {
		const paths, at, back = 40, 240, 280
		found, returned, size := 0, 0, 0
		for i := range paths {
			told, _, _ := c.watched(rand.New(rand.NewPCG(uint64(i), 1)), 320, at, back, -math.Log(c.left))
			for _, one := range told {
				look := must.Get(strconv.Atoi(one.Found.ID))(t)
				since := must.Get(strconv.Atoi(one.Since.ID))(t)
				switch {
				case one.Worse && look >= at && look < min(back, at+c.looks):
					found++
					if math.Abs(float64(since-at)) <= 3 && math.Exp(-one.By.Low) > c.left*.9 && math.Exp(-one.By.High) < c.left*1.1 {
						size++
					}
				case !one.Worse && look >= back && look < back+c.looks:
					returned++
				}
			}
		}
		t.Logf("%s: within %d looks %d of %d reported, with time and size %d, the return %d", name, c.looks, found, paths, size, returned)
		must.True(t, found >= c.least && returned >= c.least-4 && size >= found-4, "%s: told %d, with time and size %d, the return %d of %d", name, found, size, returned, paths)
	}
}

// TestNoChange: a path without a change gets at most one report a year. A change that returns
// every evening gets a report, and so does its end, on two working days and two of a weekend.
func TestNoChange(t *testing.T) {
	evening := usual
	evening.evening = .4
	for name, c := range map[string]struct {
		world
		most int // reports of each path
		runs float64
	}{
		"quiet":   {world{noise: .01}, 0, .1},
		"stalls":  {world{noise: .1, stalls: .05}, 0, 15},
		"usual":   {usual, 0, 6},
		"wanders": {world{noise: .15, wander: .1, phi: .7, stalls: .02}, 0, 5},
		"evening": {evening, 9, 8},
	} {
		const paths, looks = 8, 1100 // a year of looks in all
		told, runs := 0, 0
		for i := range paths {
			changes, more, s := c.watched(rand.New(rand.NewPCG(uint64(i), 2)), looks, looks, looks, 0)
			told, runs = told+len(changes), runs+more
			seen, y := s.Looks()
			level, n := s.Reference(seen[looks-1].At)
			must.True(t, len(seen) == looks && len(y) == looks && n > 0 && math.Abs(level) < .3+c.evening, "%s: %d looks, level %v", name, len(seen), level)
		}
		daily := 24 * float64(runs) / (paths * looks)
		t.Logf("%s: %d told in a year of looks, %.1f runs more a day", name, told, daily)
		must.True(t, told <= max(1, paths*c.most) && daily <= c.runs, "%s: %d told, %.1f runs more a day", name, told, daily)
	}
}

// TestCutShort: a confirmation that is cut short leaves the suspicion to the next look.
func TestCutShort(t *testing.T) {
	s := &Series{Margin: math.Log(1.1)}
	at := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	look := func(i int, y float64) (Suspicion, bool) {
		return s.Add(Look{at.Add(time.Duration(i) * time.Hour), strconv.Itoa(i)}, y)
	}
	for i := range 20 {
		_, suspect := look(i, float64(i%3)/100)
		must.True(t, !suspect, "look %d", i)
	}
	for i := 20; i < 22; i++ {
		p, suspect := look(i, .5)
		must.True(t, suspect && p.Worse && p.Judge([]float64{.5}) == Open, "look %d", i)
		_, told := s.Settle(p, []float64{.5})
		must.True(t, !told, "told after one run")
	}
	p, _ := look(22, .5)
	c, told := s.Settle(p, []float64{.5, .51, .5, .49, .5, .5, .5, .51, .49, .5, .5, .5, .5, .5, .5, .5, .5, .5})
	must.True(t, told && c.Since.ID == "20" && c.Before.ID == "19" && c.Found.ID == "22", "told %v: %+v", told, c)
	p, suspect := look(23, .01)
	must.True(t, suspect && !p.Worse, "its return: %+v", p)
	c, told = s.Settle(p, make([]float64, 20))
	usual, _ := s.Reference(at)
	must.True(t, told && !c.Worse && c.Since.ID == "23" && usual < .03, "told %v, usual %v: %+v", told, usual, c)
}

// TestPath: values survive scaling there and back, runs that carry nothing count, and
// reading a path again from its sessions gives the same state.
func TestPath(t *testing.T) {
	for _, s := range Streams() {
		for _, v := range []float64{.001, .2, 941e6} {
			must.True(t, math.Abs(s.Value(s.number(v))/v-1) < 1e-6 || s.Metric == model.Goodput && v < 1, "%v of %v", v, s)
		}
	}
	dead := model.Run{Setting: Bulk, Flow: model.Flow{Direction: model.To}, State: model.RunInvalid, Ends: []model.EndReport{
		{Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Window: 3 * time.Second}, {Direction: model.To, Role: model.Receiver, Window: 3 * time.Second}}},
	}}
	live, again := Path{Margin: math.Log(1.1)}, Path{Margin: math.Log(1.1)}
	for i := range 40 {
		s := model.Session{ID: strconv.Itoa(i), Created: time.Date(2026, 11, 2, i, 0, 0, 0, time.UTC), State: model.SessionDone}
		run := func(d model.Direction) {
			r := dead
			if i < 30 || d == model.From {
				r = model.Run{Setting: Bulk, Flow: model.Flow{Direction: d}, State: model.RunValid, Values: []model.Value{{Direction: d, Metric: model.Goodput, Value: 1e9 + 1e7*float64(i%3)}}}
			}
			s.Runs = append(s.Runs, r)
		}
		run(model.To)
		run(model.From)
		doubt, _ := live.Add(Look{s.Created, s.ID}, NumbersOf(s.Runs))
		for doubt != nil && doubt.Judge(doubt.Runs(s.Runs)) == Open {
			run(doubt.Direction)
		}
		if doubt != nil {
			told := live.Settle(doubt, doubt.Runs(s.Runs))
			must.True(t, told != nil && told.Worse && told.Since.ID == "30" && told.Metric == model.Goodput && told.Value(told.Now) < 2, "look %d: %+v", i, told)
			low, high := told.Range()
			must.True(t, low <= told.Value(told.Now) && high < 1e9, "%v to %v", low, high)
		}
		again.Take(&s, time.UTC)
	}
	again.Take(&model.Session{State: model.SessionFailed}, time.UTC)
	must.True(t, live.Count == 40 && again.Count == 40 && len(live.Changes) == 1 && len(again.Changes) == 1 && again.Missed == 1 && again.Changes[0] == live.Changes[0], "%+v and %+v", live.Changes, again.Changes)
}
