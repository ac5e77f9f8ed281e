package live

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"linerate/internal/app"
	"linerate/internal/core/analysis"
	"linerate/internal/core/candidate"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/must"
)

// clock is a time that tests set.
type clock struct{ time.Time }

func (c *clock) now() time.Time         { return c.Time }
func (c *clock) passes(d time.Duration) { c.Time = c.Add(d) }
func newClock() *clock                  { return &clock{time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)} }
func at(block, position int) app.Progress {
	return app.Progress{Block: block, MaxBlocks: 20, Position: position, RunsInBlock: 4}
}

// experiment returns a session with three settings and both directions.
func experiment() model.Session {
	p := model.Plan{
		Baseline: "current", Twin: "current (twin)", Objective: model.Goodput, Directions: []model.Direction{model.To, model.From},
		Flow: model.Flow{Duration: 10 * time.Second}, Margin: 3,
	}
	for _, name := range []string{"current", "64KiB", "1MiB", "4MiB", "current (twin)"} {
		p.Settings = append(p.Settings, model.Setting{Name: name})
	}
	for range 20 {
		p.Order = append(p.Order, []string{"current", "64KiB", "1MiB", "4MiB"})
	}
	return model.Session{Near: "desk", Far: "root@nas", Kind: model.KindRun, Title: "buffers of the nas", Plan: p}
}

// interval returns both ends' samples of one second.
func interval(d model.Direction, rate, trip float64) app.Sampled {
	return app.Sampled{Progress: at(6, 2), Samples: []model.Sample{
		{Host: d.Receiver(), Direction: d, Metric: model.Goodput, Length: time.Second, Value: rate},
		{Host: d.Sender(), Direction: d, Metric: model.RTT, Length: time.Second, Value: trip},
		{Host: d.Sender(), Direction: d, Metric: model.CPU, Length: time.Second, Value: 1},
		{Host: d.Receiver(), Direction: d, Metric: model.StreamGoodput, Of: "1", Length: time.Second, Value: 1},
	}}
}

// inBlock6 returns an experiment after five blocks, during a run.
func inBlock6(c *clock) *State {
	t := New(experiment(), c.now)
	seven, three := 7.0, 3.0
	verdict := func(setting string, d model.Direction, o model.Outcome, e *float64, low, estimate, high model.Bound) model.Verdict {
		return model.Verdict{Setting: setting, Direction: d, Metric: model.Goodput, Outcome: o, Blocks: 5, Estimate: float64(estimate), Interval: model.Interval{Low: low, High: high}, Evidence: e}
	}
	t.Observe(app.RunBegan{Progress: at(5, 4)})
	t.Observe(interval(model.From, 611.2e6, 0.00084))
	t.Observe(app.RunEnded{Progress: at(5, 4), Run: model.Run{Number: 20, Block: 5, Setting: "4MiB", State: model.RunValid}})
	p := at(5, 0)
	p.Elapsed, p.AtMost = 4*time.Minute, 12*time.Minute
	t.Observe(app.BlockEnded{Progress: p, Result: analysis.Result{Blocks: 5, Enough: 120, Leaving: []string{"64KiB"}, Verdicts: []model.Verdict{
		verdict("64KiB", model.To, model.Worse, nil, -0.98, -0.94, -0.9), verdict("1MiB", model.To, model.Undecided, &seven, -0.01, 0.021, 0.05),
		verdict("4MiB", model.To, model.Better, &three, 0.08, 0.1, 0.12), verdict("64KiB", model.From, model.Equivalent, nil, -0.01, 0, 0.01),
		verdict("1MiB", model.From, model.Undecided, &three, -0.1, 0.2, 0.4), verdict("4MiB", model.From, model.Undecided, nil, -0.1, 0.2, 0.4),
	}}})
	c.passes(4 * time.Minute)
	run := at(6, 2)
	run.Setting, run.Direction, run.Elapsed, run.AtMost = "1MiB", model.To, 4*time.Minute, 12*time.Minute
	t.Observe(app.RunBegan{Progress: run})
	for i := range 12 {
		e := interval(model.To, 100e6*float64(i), 0.0012)
		e.Progress = run
		t.Observe(e)
	}
	t.Say("nas: irqbalance moves interrupts while this measures")
	c.passes(7 * time.Second)
	return t
}

func paused(c *clock, still ...string) *State {
	t := inBlock6(c)
	t.TogglePause()
	t.Observe(app.RunEnded{Progress: at(6, 2), Run: model.Run{Number: 22, Block: 6, Setting: "1MiB", State: model.RunInvalid, Reason: "a host was busy"}})
	if !t.Rest(still) {
		panic("does not wait")
	}
	c.passes(90 * time.Second)
	return t
}

func searching(c *clock) *State {
	t := New(model.Session{Near: "desk", Far: "root@nas", Kind: model.KindTune, Plan: model.Plan{Baseline: "current", Directions: []model.Direction{model.To}, Settings: []model.Setting{{Name: "current"}}}}, c.now)
	idea := func(name string, s tune.State, blocks int, gain model.Bound) tune.Fate {
		return tune.Fate{Idea: tune.Idea{Candidate: candidate.Candidate{Setting: model.Setting{Name: name}}}, State: s, Blocks: blocks, Gain: gain}
	}
	t.Observe(app.RunBegan{Progress: app.Progress{Block: 9, Position: 1, RunsInBlock: 3, Setting: "tcp.recv_buffer_max=4MiB", Direction: model.To}})
	t.Observe(app.Searched{Left: 2 * time.Minute, Record: tune.Record{Options: tune.Options{Objective: model.Goodput}, Ideas: []tune.Fate{
		idea("tcp.congestion=bbr", tune.NoEffect, 4, 0.004), idea("far.tcp.recv_buffer_max=4MiB", tune.Helped, 3, 1.2),
		idea("tcp.recv_buffer_max=4MiB", tune.Racing, 2, 0.1), idea("link.gro=on", tune.Waiting, 0, 0),
	}}})
	c.passes(83 * time.Second)
	return t
}

func checking(c *clock) *State {
	s := model.Session{Near: "desk", Far: "root@nas", Kind: model.KindCheck, Plan: model.Plan{Settings: []model.Setting{{Name: "current"}}}}
	for _, name := range []string{"tcp-to", "tcp-from", "udp-to"} {
		s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: name})
		s.Plan.Tests = append(s.Plan.Tests, model.Test{Name: name, Flow: model.Flow{Direction: model.To}})
	}
	s.Plan.Tests[1].Flow.Direction = model.From
	t := New(s, c.now)
	t.Observe(app.RunEnded{Run: model.Run{Number: 1, Setting: "tcp-to", State: model.RunValid, Flow: s.Plan.Tests[0].Flow, Values: []model.Value{
		{Direction: model.To, Metric: model.Goodput, Value: 941.5e6}, {Direction: model.To, Metric: model.LatencyP50, Value: 0.00123456},
	}}})
	t.Observe(app.RunBegan{Progress: app.Progress{Block: 2, MaxBlocks: 3, Position: 1, RunsInBlock: 1, Setting: "tcp-from", Direction: model.From, AtMost: 20 * time.Second}})
	t.Observe(app.Sampled{Samples: []model.Sample{{Host: model.Near, Direction: model.From, Metric: model.Goodput, Value: 5e8, Omitted: true}, {Direction: model.From, Metric: model.LatencyP50, Value: 0.0031}}})
	t.mu.Lock()
	t.at.Block, t.at.MaxBlocks, t.at.Setting, t.at.AtMost = 2, 3, "tcp-from", 20*time.Second
	t.mu.Unlock()
	c.passes(5 * time.Second)
	return t
}

// sgr are colours.
var sgr = regexp.MustCompile("\x1b\\[[0-9]+m")

// TestGolden: the screen at known moments, on terminals of several sizes.
func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(*clock) *State
		size Size
	}{
		"run":            {inBlock6, Size{80, 24}},
		"run-wide":       {inBlock6, Size{120, 30}},
		"run-narrow":     {inBlock6, Size{40, 24}},
		"run-low":        {inBlock6, Size{80, 10}},
		"paused":         {func(c *clock) *State { return paused(c) }, Size{80, 24}},
		"paused-narrow":  {func(c *clock) *State { return paused(c) }, Size{40, 16}},
		"paused-changed": {func(c *clock) *State { return paused(c, "tcp.sack on nas") }, Size{80, 24}},
		"tune":           {searching, Size{80, 24}},
		"proof":          {proving, Size{80, 24}},
		"check":          {checking, Size{80, 24}},
		"begin":          {func(c *clock) *State { return New(experiment(), c.now) }, Size{80, 24}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.of(newClock()).View(c.size)
			must.Golden(t, filepath.Join("testdata", name+".txt"), sgr.ReplaceAllString(got, "")+"\n")
		})
	}
}

// TestFits: whatever the size, there are no wider and no more rows.
func TestFits(t *testing.T) {
	for _, of := range []func(*clock) *State{inBlock6, searching, checking, func(c *clock) *State { return paused(c) }} {
		s := of(newClock())
		for columns := 20; columns < 130; columns += 7 {
			for rows := 6; rows < 40; rows += 3 {
				all := strings.Split(sgr.ReplaceAllString(s.View(Size{columns, rows}), ""), "\n")
				must.True(t, len(all) == rows, "%d rows in %dx%d", len(all), columns, rows)
				for _, row := range all {
					n := utf8.RuneCountInString(row)
					must.True(t, n <= columns, "%d columns in %dx%d: %q", n, columns, rows, row)
				}
				must.True(t, strings.Contains(all[len(all)-1], "q stops") || columns <= 30, "%dx%d does not say how to stop: %q", columns, rows, all[len(all)-1])
			}
		}
	}
}

// TestNothingForeign: names from other hosts cannot move the cursor.
func TestNothingForeign(t *testing.T) {
	c := newClock()
	s := experiment()
	bad := "a\x1b[2Jb\nc"
	s.Title, s.Plan.Settings[1].Name, s.Near, s.Far = bad, bad, bad, bad
	st := New(s, c.now)
	st.Say(bad)
	st.Observe(app.RunBegan{Progress: app.Progress{Setting: bad, Direction: model.To}})
	st.Observe(app.RunEnded{Run: model.Run{State: model.RunInvalid, Setting: bad, Reason: bad}})
	st.TogglePause()
	st.Rest([]string{bad})
	got := sgr.ReplaceAllString(st.View(Size{80, 30}), "")
	must.True(t, !strings.ContainsAny(got, "\x1b\r") && strings.Count(got, "\n") == 29, "%q", got)
}

// TestPause: a pause begins between two runs, is shown, and does not count as work.
func TestPause(t *testing.T) {
	c := newClock()
	s := inBlock6(c)
	must.True(t, !s.Rest(nil), "paused without being asked")
	must.True(t, s.TogglePause() == Pausing && s.TogglePause() == Going && !s.Rest(nil), "a wish that was taken back is kept")
	s.TogglePause()
	left, _ := s.left()
	for range 2 {
		must.True(t, s.Rest(nil), "does not pause")
	}
	c.passes(time.Hour)
	again, _ := s.left()
	must.True(t, again == left, "%v is left after a pause, and %v before it", again, left)
	must.True(t, s.TogglePause() == Going && !s.Rest(nil), "does not go on")
}

// TestRates: the receiver's rate replaces the sender's, and the round trip of probes replaces the
// kernel's.
func TestRates(t *testing.T) {
	s := New(experiment(), newClock().now)
	tell := func(host model.Host, m model.Metric, v float64) {
		s.Observe(app.Sampled{Samples: []model.Sample{{Host: host, Direction: model.To, Metric: m, Value: v, Length: time.Second}}})
	}
	s.Observe(app.RunBegan{Progress: app.Progress{Direction: model.To}})
	tell(model.Near, model.Sent, 5e8)
	r, _ := s.ways[0].rate()
	must.True(t, r == 5e8, "sent %v", r)
	tell(model.Far, model.Goodput, 4e8)
	tell(model.Near, model.Sent, 6e8)
	tell(model.Far, model.Goodput, 2e8)
	r, _ = s.ways[0].rate()
	must.True(t, r == 2e8, "now %v", r)
	s.Observe(app.RunEnded{Run: model.Run{State: model.RunValid}})
	r, _ = s.ways[0].rate()
	must.True(t, r == 3e8, "mean %v", r)
	tell(model.Near, model.RTT, 0.002)
	tell(model.Near, model.LatencyP50, 0.001)
	tell(model.Near, model.RTT, 0.003)
	must.Equal(t, s.ways[0].trip, fact.Known(time.Millisecond, "probes"), "round trip")
	if n := s.Now(); len(n.Ways) != 1 || len(n.Ways[0].Rates) != 2 || n.Ways[0].Rates[1].Value != 2e8 || len(n.Ways[0].Trips) != 1 || n.Run != 1 {
		t.Errorf("tells others %+v", n)
	}
	s.Observe(app.RunBegan{Progress: app.Progress{Direction: model.To}})
	r, _ = s.ways[0].rate()
	must.True(t, r == 3e8 && len(s.Now().Ways) == 1, "before the first interval of another run: %v", r)
	tell(model.Far, model.Goodput, 7e8)
	n := s.Now()
	must.True(t, len(n.Ways[0].Rates) == 1 && n.Run == 2 && len(n.Ways[0].Trips) == 0, "another run: %+v", n)
	_, ok := s.ways[1].rate()
	must.True(t, !ok, "a rate of a direction without one")
}

// TestWarmUp: a warm-up of a fifth of a second is over when its one sample is known.
func TestWarmUp(t *testing.T) {
	for _, c := range []struct {
		omit, start, length time.Duration
		omitted             bool
		want                string
	}{
		{2 * time.Second, 0, time.Second, true, "warming up"},
		{2 * time.Second, time.Second, time.Second, true, "measuring"},
		{200 * time.Millisecond, 0, 200 * time.Millisecond, true, "measuring"},
		{2 * time.Second, 2 * time.Second, time.Second, false, "measuring"},
	} {
		session := experiment()
		session.Plan.Flow.Omit = c.omit
		state := New(session, newClock().now)
		state.Observe(app.Sampled{Samples: []model.Sample{{
			Host: model.To.Receiver(), Direction: model.To, Metric: model.Goodput, Start: c.start, Length: c.length, Omitted: c.omitted, Value: 1e6,
		}}})
		must.Equal(t, state.phase, c.want, "%+v", c)
	}
}

// BenchmarkObserve is the cost of each event; BenchmarkView that of a drawing, four times a
// second.
func BenchmarkObserve(b *testing.B) {
	s := inBlock6(newClock())
	e := interval(model.To, 9e8, 0.001)
	for b.Loop() {
		s.Observe(e)
	}
}

func BenchmarkView(b *testing.B) {
	s := inBlock6(newClock())
	for b.Loop() {
		_ = s.View(Size{80, 24})
	}
}

func ExampleState() {
	fmt.Println(len(strings.Split(inBlock6(newClock()).View(Size{80, 24}), "\n")))
	// Output: 24
}

// TestShareNeverFalls: additional work does not reduce the share that is done.
func TestShareNeverFalls(t *testing.T) {
	c := newClock()
	s := New(experiment(), c.now)
	last := 0.0
	for _, p := range []struct{ elapsed, left time.Duration }{{time.Minute, 3 * time.Minute}, {2 * time.Minute, 10 * time.Minute}, {4 * time.Minute, 4 * time.Minute}, {4 * time.Minute, 9 * time.Minute}} {
		s.Observe(app.RunBegan{Progress: app.Progress{Elapsed: p.elapsed, AtMost: p.left}})
		share := s.share(p.left)
		must.True(t, share >= last, "%v after %v", share, last)
		last = share
	}
	must.Equal(t, last, 0.5)
}

// proving returns the proof after a search in which one setting carried more than the baseline.
func proving(c *clock) *State {
	search := searching(c)
	for i, setting := range []string{"current", "4MiB"} {
		rate := 3e8 + 6e8*float64(i)
		for range 10 {
			search.Observe(interval(model.To, rate, 0.001))
		}
		search.Observe(app.RunEnded{Progress: app.Progress{Elapsed: 80 * time.Second}, Run: model.Run{
			Setting: setting, State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: rate}},
		}})
	}
	t := New(experiment(), c.now)
	t.Follow(search)
	p := at(1, 1)
	p.Setting, p.Direction, p.AtMost = "current", model.To, 40*time.Second
	t.Observe(app.RunBegan{Progress: p})
	return t
}

// TestLine: a line that is too long drops the least important parts first, and never contains
// terminal control characters.
func TestLine(t *testing.T) {
	c := newClock()
	s := New(experiment(), c.now)
	c.passes(130*time.Second + 400*time.Millisecond)
	s.at, s.heard, s.runs, s.phase = app.Progress{Block: 3, MaxBlocks: 20, AtMost: 14 * time.Minute}, c.Time, 1, "measuring"
	s.run, s.lead = app.Progress{Position: 2, RunsInBlock: 5, Setting: "256K", Direction: model.To}, evidence{"256K", 12.34, 40}
	s.ways[0].running, s.ways[0].tells.Rates = true, []Point{{Value: 931.2e6}}
	for width, want := range map[int]string{
		200: "block 3/20  run 2/5  256K desk -> nas  931.2 Mbit/s  measuring  2 min 10 s, at most 14 min more  evidence so far 12.3 of 40 (256K)",
		100: "block 3/20  run 2/5  256K desk -> nas  931.2 Mbit/s  measuring  2 min 10 s, at most 14 min more",
		85:  "block 3/20  run 2/5  256K desk -> nas  931.2 Mbit/s  2 min 10 s, at most 14 min more",
		60:  "block 3/20  run 2/5  256K desk -> nas  931.2 Mbit/s",
		45:  "block 3/20  256K desk -> nas  931.2 Mbit/s",
		30:  "block 3/20  931.2 Mbit/s",
		10:  "",
	} {
		must.Equal(t, s.Line(width), want, "width %d", width)
	}
	rapid.Check(t, func(r *rapid.T) {
		s.run.Setting = rapid.String().Draw(r, "setting")
		width := rapid.IntRange(0, 200).Draw(r, "width")
		line := s.Line(width)
		must.True(r, utf8.RuneCountInString(line) <= width && !strings.ContainsAny(line, "\n\x1b"), "%q in width %d", line, width)
	})
}

// TestOneWhole: a search and its proof have one clock and one total; the share that is done never
// falls, and the remaining time covers both.
func TestOneWhole(t *testing.T) {
	c := newClock()
	s := searching(c)
	share := func(s *State) float64 {
		_ = s.View(Size{80, 24})
		return s.done
	}
	must.Contain(t, s.Line(200), "1 min 23 s, about 37 s more", "search")
	before := share(s)
	proof := New(experiment(), c.now)
	proof.Follow(s)
	proof.Observe(app.RunBegan{Progress: app.Progress{Block: 1, MaxBlocks: 12, AtMost: 40 * time.Second}})
	must.Contain(t, proof.Line(200), "1 min 23 s, at most 40 s more", "proof")
	must.True(t, before > 0.5 && share(proof) >= before, "%v, then %v", before, share(proof))
	c.passes(20 * time.Second)
	must.True(t, share(proof) > 0.8, "%v", share(proof))
}

// TestCurve: a curve holds the whole session in a limited number of points, and its colour
// distinguishes better from worse than the baseline.
func TestCurve(t *testing.T) {
	var c curve
	for i := range 100 * mostPoints {
		c.add(float64(i))
	}
	all := c.columns(40)
	must.True(t, len(c.points) < mostPoints && len(all) == 40, "%d points, %d columns", len(c.points), len(all))
	for i, v := range all { // the mean of the i-th fortieth
		must.True(t, math.Abs(v/(100*mostPoints)-(float64(i)+0.5)/40) < 0.01, "column %d is %v", i, v)
	}
	b := mean{sum: 200, n: 2}
	for rate, want := range map[float64]style{104: green, 102: normal, 98: normal, 96: red} {
		must.Equal(t, b.shade(rate, 3), want, "%v", rate)
	}
	must.Contain(t, proving(newClock()).View(Size{80, 24}), "\x1b["+string(green)+"m███████", "the better setting")
}
