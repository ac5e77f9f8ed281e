package experiment

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// desk is a runner and a recorder whose runs take a second and follow a script.
type desk struct {
	t        *testing.T
	script   func(s runner.Spec) (model.RunState, error) // nil: all valid
	recorded []model.Run
	full     bool // the recorder has no room
}

// rate returns the rate of a setting. Blocks differ a little, as they always do in reality.
func rate(s runner.Spec) float64 {
	v := map[string]float64{"slow": 100e6, "slow (twin)": 100e6, "fast": 200e6, "same": 100e6}[s.Setting.Name]
	return v * (1 + 0.001*float64((s.Block*7+s.Position*3)%5))
}

func (d *desk) Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	r := model.Run{
		Number: s.Number, Block: s.Block, Attempt: s.Attempt, Position: s.Position,
		Setting: s.Setting.Name, Flow: s.Flow, State: model.RunValid, Started: time.Now(),
	}
	state, err := model.RunValid, error(nil)
	if d.script != nil {
		state, err = d.script(s)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	emit(model.Far, []model.Sample{{Host: model.Far, Direction: s.Flow.Direction, Metric: model.Goodput, Length: time.Second, Value: rate(s)}})
	r.State, r.Ended = state, time.Now()
	if err != nil {
		r.Reason, r.LostContact = err.Error(), errors.Is(err, runner.ErrContact)
	}
	if state == model.RunValid {
		r.Values = []model.Value{{Direction: s.Flow.Direction, Metric: model.Goodput, Value: rate(s)}}
		r.Ends = []model.EndReport{{Flows: []model.FlowReport{{Direction: s.Flow.Direction, Bytes: 1e6, Window: time.Second}}}}
	}
	return r, []model.Change{{Run: s.Number, State: model.ChangeUndone}}, err
}

// Release implements Runner: nothing is held.
func (d *desk) Release(context.Context) ([]model.Change, error) { return nil, nil }

func (d *desk) record(_ context.Context, r model.Run, samples []model.Sample, _ []model.Change) error {
	if d.full {
		return errors.New("no space left")
	}
	must.True(d.t, len(samples) == 1, "run %d recorded with %d samples, want 1", r.Number, len(samples))
	d.recorded = append(d.recorded, r)
	return nil
}

func testPlan(t *testing.T, o plan.Request, names ...string) model.Plan {
	t.Helper()
	for _, n := range names {
		o.Settings = append(o.Settings, model.Setting{Name: n, Assignments: []model.Assignment{{Knob: "mss", Value: fmt.Sprint(1000 + len(o.Settings))}}})
	}
	o.Seed = 1
	o.Flow = model.Flow{Engine: "test", Direction: model.To, Duration: time.Second}
	return must.Get(plan.New(o))(t)
}

func (d *desk) config(p model.Plan) Config {
	return Config{Plan: p, Runner: d, Record: d.record, Now: time.Now}
}

// order returns what ran, as block.attempt:setting.
func order(runs []model.Run) []string {
	out := lists.Each(runs, func(r model.Run) string { return fmt.Sprintf("%d.%d:%s", r.Block, r.Attempt, r.Setting) })
	return out
}

func TestRunsThePlanInItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		p := testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 7}}, "slow", "fast", "same")
		out := must.Get(Run(t.Context(), d.config(p)))(t)
		must.Need(t, out.State == model.SessionDone, "Run = %s", out.State)
		var want []string
		for b, names := range p.Order {
			for _, n := range names {
				want = append(want, fmt.Sprintf("%d.1:%s", b+1, n))
			}
		}
		must.Same(t, order(d.recorded), want, "ran")
		must.True(t, len(out.Changes) == len(want), "%d changes reported, want %d", len(out.Changes), len(want))
	})
}

func TestStopsWhenDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		var ended int
		c := d.config(testPlan(t, plan.Request{}, "slow", "fast"))
		c.Observe = func(e Event) {
			if e.Kind == BlockEnded {
				ended++
			}
		}
		out := must.Get(Run(t.Context(), c))(t)
		must.Need(t, out.Reason == "every comparison is decided", "Run = %q", out.Reason)
		// Four baseline pairs, then the six blocks that a comparison needs at least.
		must.True(t, ended == 4+6 && out.Result.Verdicts[0].Outcome == model.Better, "%d blocks, verdict %s; want 10 and better", ended, out.Result.Verdicts[0].Outcome)
	})
}

func TestInvalidBlockIsRepeatedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, script: func(s runner.Spec) (model.RunState, error) {
			if s.Block == 2 && s.Attempt == 1 && s.Position == 2 || s.Block == 3 {
				return model.RunInvalid, fmt.Errorf("a knob did not read back: %w", runner.ErrInvalid)
			}
			return model.RunValid, nil
		}}
		p := testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 4}, Null: plan.NullNone}, "slow", "fast")
		out := must.Get(Run(t.Context(), d.config(p)))(t)
		var blocks []string
		for _, r := range d.recorded {
			if r.Position == 1 {
				blocks = append(blocks, fmt.Sprintf("%d.%d", r.Block, r.Attempt))
			}
		}
		// An invalid run ends its block at once; the third block never succeeds.
		must.Same(t, blocks, []string{"1.1", "2.1", "3.1", "4.1", "2.2", "3.2", "3.3"}, "blocks")
		must.Equal(t, out.Reason, "1 of 4 blocks were given up after 3 invalid attempts each", "reason")
	})
}

func TestInterruptAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 7}}, "slow", "fast", "same")
		want := must.Get(Run(t.Context(), (&desk{t: t}).config(p)))(t)
		// Stop during a run in the third block.
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		first := &desk{t: t}
		out, err := Run(ctx, first.config(p))
		must.Need(t, errors.Is(err, context.DeadlineExceeded) && out.State == model.SessionInterrupted, "Run = %s, %v", out.State, err)
		last := first.recorded[len(first.recorded)-1]
		must.True(t, last.State == model.RunInterrupted && len(first.recorded) == 10, "%d runs recorded, the last %s; want 10 and interrupted", len(first.recorded), last.State)
		second := &desk{t: t}
		c := second.config(p)
		c.Past = first.recorded
		got, err := Run(t.Context(), c)
		must.Need(t, err == nil && got.State == model.SessionDone, "resumed Run = %s, %v", got.State, err)
		r := second.recorded[0]
		must.True(t, r.Block == 3 && r.Attempt == 2 && r.Position == 1 && r.Number == 11, "resumed with %+v, want the third block from its start", r)
		for i, v := range got.Result.Verdicts {
			w := want.Result.Verdicts[i]
			must.True(t, v.Outcome == w.Outcome && v.Estimate == w.Estimate && v.Interval == w.Interval, "verdict %+v, uninterrupted %+v", v, w)
		}
	})
}

func TestLostHostIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := func(s runner.Spec) (model.RunState, error) {
			if s.Block == 2 && s.Attempt == 1 {
				return model.RunInvalid, fmt.Errorf("host far: %w", runner.ErrContact)
			}
			return model.RunValid, nil
		}
		p := testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 3}, Null: plan.NullNone}, "slow", "fast")
		d, again := &desk{t: t, script: lost}, 0
		c := d.config(p)
		c.Reconnect = func(context.Context) (Runner, error) {
			again++
			return d, nil
		}
		if out, err := Run(t.Context(), c); err != nil || again != 1 || out.State != model.SessionDone {
			t.Errorf("Run = %s, %v after %d calls, want done after 1", out.State, err, again)
		}
		d = &desk{t: t, script: lost}
		c = d.config(p)
		c.Patience = time.Minute
		began, away := time.Now(), 0
		c.Reconnect = func(context.Context) (Runner, error) { away++; return nil, errors.New("no route to host") }
		if out, err := Run(t.Context(), c); err == nil || out.State != model.SessionInterrupted || !strings.Contains(err.Error(), "tried for 55 s") || away != 10 {
			t.Errorf("Run without a host = %s, %v after %d attempts in %s, want interrupted", out.State, err, away, time.Since(began))
		}
		d = &desk{t: t, script: lost} // a link that comes back within half a minute ends nothing
		c = d.config(p)
		c.Patience = time.Minute
		back := time.Now().Add(30 * time.Second)
		c.Reconnect = func(context.Context) (Runner, error) {
			if time.Now().Before(back) {
				return nil, errors.New("no route to host")
			}
			return d, nil
		}
		must.Equal(t, must.Get(Run(t.Context(), c))(t).State, model.SessionDone, "Run with a host that came back")
		d, away = &desk{t: t, script: lost}, 0 // a host that refuses is not retried
		c = d.config(p)
		c.Patience = time.Minute
		c.Reconnect = func(context.Context) (Runner, error) { away++; return nil, session.ErrRefused }
		_, err := Run(t.Context(), c)
		must.True(t, errors.Is(err, session.ErrRefused) && away == 1, "Run with a host that refuses: %v after %d attempts", err, away)
	})
}

func TestEnds(t *testing.T) {
	refused := errors.New("no engine \"test\"")
	for _, c := range []struct {
		name   string
		desk   desk
		change func(*model.Plan)
		state  model.SessionState
		runs   int
		fails  bool
	}{
		{name: "budget", change: func(p *model.Plan) { p.Budget = 3 * time.Second }, state: model.SessionDone, runs: 4},
		{name: "cool-down counts", change: func(p *model.Plan) { p.Budget, p.Cooldown = 3*time.Second, time.Second }, state: model.SessionDone, runs: 2},
		{name: "store full", desk: desk{full: true}, state: model.SessionInterrupted, fails: true},
		{name: "cannot be measured", desk: desk{script: func(runner.Spec) (model.RunState, error) { return model.RunInvalid, refused }},
			state: model.SessionFailed, runs: 1, fails: true},
		{name: "nothing counts", desk: desk{script: func(runner.Spec) (model.RunState, error) {
			return model.RunInvalid, fmt.Errorf("a knob did not read back: %w", runner.ErrInvalid)
		}}, change: func(p *model.Plan) { p.Order, p.MaxBlocks = p.Order[:1], 1 }, state: model.SessionFailed, runs: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.desk.t = t
				p := testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 8}, Null: plan.NullNone}, "slow", "fast")
				if c.change != nil {
					c.change(&p)
				}
				out, err := Run(t.Context(), c.desk.config(p))
				must.True(t, (err != nil) == c.fails && out.State == c.state && len(c.desk.recorded) == c.runs, "Run = %s (%s), %v after %d runs; want %s after %d", out.State, out.Reason, err, len(c.desk.recorded), c.state, c.runs)
			})
		})
	}
}

func TestDirectionsAreShuffledAndRepeatable(t *testing.T) {
	p := testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 20}, Null: plan.NullNone}, "slow", "fast")
	p.Directions = []model.Direction{model.To, model.From}
	first := map[model.Direction]int{}
	for b := range p.Order {
		one, err := slots(p, b+1, nil)
		two, _ := slots(p, b+1, nil)
		must.Need(t, err == nil && len(one) == 4 && slices.EqualFunc(one, two, func(a, b slot) bool {
			return a.setting.Name == b.setting.Name && a.direction == b.direction
		}), "block %d: %v and %v, %v", b+1, one, two, err)
		first[one[0].direction]++
	}
	must.True(t, first[model.To] >= 4 && first[model.From] >= 4, "the first direction of 20 blocks was %v", first)
	some := must.Get(slots(p, 1, []string{"fast"}))(t)
	must.True(t, len(some) == 2 && some[0].setting.Name == "slow", "without fast: %v", some)
}

// TestBusyHostIsWaitedFor: a host that is busy with others costs attempts at a block, with
// pauses between them, but does not end the experiment.
func TestBusyHostIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &desk{t: t, script: func(runner.Spec) (model.RunState, error) {
			if time.Since(began) < 25*time.Second {
				return model.RunInvalid, fmt.Errorf("%w: %w: this server already has others", runner.ErrInvalid, session.ErrBusy)
			}
			return model.RunValid, nil
		}}
		out, err := Run(t.Context(), d.config(testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 2}, Null: plan.NullNone}, "slow", "fast")))
		must.Need(t, err == nil && out.State == model.SessionDone, "%v, %v", out.State, err)
		valid := lists.Count(out.Runs, func(r model.Run) bool { return r.State == model.RunValid })
		took := time.Since(began)
		must.True(t, valid == 4 && took >= 30*time.Second && took <= 2*time.Minute, "%d valid runs of %d in %v", valid, len(out.Runs), took)
	})
}

// TestKilledAndResumed: an experiment that was killed after any of its runs, and is resumed from
// the recorded ones, ends with the same verdict as an uninterrupted one: no run is counted twice
// or left out.
func TestKilledAndResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 6}, Null: plan.NullNone}, "slow", "fast")
		whole := &desk{t: t}
		want := must.Get(Run(t.Context(), whole.config(p)))(t)
		must.Need(t, len(want.Result.Verdicts) != 0, "%+v", want.Result)
		for n := range whole.recorded {
			c := (&desk{t: t}).config(p)
			c.Past = slices.Clone(whole.recorded[:n]) // the contents of a store after kill -9
			got := must.Get(Run(t.Context(), c))(t)
			must.True(t, reflect.DeepEqual(got.Result.Verdicts, want.Result.Verdicts), "killed after %d runs:\n%+v, want\n%+v", n, got.Result.Verdicts, want.Result.Verdicts)
			seen := map[[3]any]bool{}
			for _, r := range got.Runs {
				key := [3]any{r.Block, r.Attempt, r.Setting}
				must.True(t, !seen[key], "killed after %d runs: block %d, attempt %d has %s twice", n, r.Block, r.Attempt, r.Setting)
				seen[key] = true
			}
		}
	})
}

// TestTests: a plan of tests does one run each in order, goes on after a failed one, and skips
// those that a dead direction makes useless.
func TestTests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := func(name string, d model.Direction, dead bool) model.Test {
			return model.Test{Name: name, IfDead: dead, Flow: model.Flow{Engine: "tcpbulk", Direction: d, Duration: time.Second}}
		}
		p := model.Plan{Baseline: "one", Settings: []model.Setting{{Name: "one"}}, Directions: []model.Direction{model.To, model.From}, Tests: []model.Test{
			test("one", model.To, false), test("one", model.From, false), test("small", model.From, true), test("many", model.From, false), test("many", model.To, false),
		}}
		d := &desk{t: t, script: func(s runner.Spec) (model.RunState, error) {
			if s.Flow.Direction == model.From && s.Setting.Name == "one" {
				return model.RunInvalid, fmt.Errorf("%w: no bytes arrived", runner.ErrInvalid)
			}
			if s.Setting.Name == "small" { // a test that cannot be measured does not end the plan
				return model.RunInvalid, errors.New("this host has no such thing")
			}
			return model.RunValid, nil
		}}
		var left, ended []time.Duration
		out, err := Run(t.Context(), Config{Plan: p, Beside: 2 * time.Second, Runner: d, Record: d.record, Now: time.Now, Observe: func(e Event) {
			if e.Kind == RunStarted {
				left = append(left, e.AtMost)
				must.Equal(t, e.MaxBlocks, len(p.Tests), "tests in all")
			}
			if e.Kind == RunSampled || e.Kind == RunEnded { // after 1 s, and at the end
				ended = append(ended, e.AtMost)
			}
		}})
		names := lists.Each(d.recorded, func(r model.Run) string { return r.Setting + " " + string(r.Flow.Direction) })
		want := []string{"one to", "one from", "small from", "many to"}
		must.True(t, err == nil && slices.Equal(names, want) && out.State == model.SessionDone && out.Reason == "all tests are done; 2 failed", "%q, %s, %q, %v", names, out.State, out.Reason, err)
		if want := []time.Duration{12 * time.Second, 9 * time.Second, 6 * time.Second, 3 * time.Second}; !slices.Equal(left, want) { // 1 s each, and 2 s besides
			t.Errorf("left: %v, want %v", left, want)
		}
		must.Same(t, ended, []time.Duration{11e9, 9e9, 8e9, 6e9, 6e9, 6e9, 2e9, 0}, "left in and after each run, of which that for a dead direction was not planned")
		full := &desk{t: t, full: true}
		out, err = Run(t.Context(), Config{Plan: p, Runner: full, Record: full.record, Now: time.Now})
		must.True(t, err != nil && out.State == model.SessionInterrupted, "what cannot be kept: %s, %v", out.State, err)
	})
}

// TestTestOfALostHost: a test that lost its host says nothing about the path. It is repeated on
// a new connection, no test for a dead direction follows, and if the host is lost each time the
// session may be resumed later.
func TestTestOfALostHost(t *testing.T) {
	for name, c := range map[string]struct {
		losses int
		want   []string
		state  model.SessionState
	}{
		"once":       {1, []string{"1.1:one", "1.2:one", "3.1:many"}, model.SessionDone},
		"every time": {9, []string{"1.1:one", "1.2:one", "1.3:one"}, model.SessionInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test := func(name string, dead bool) model.Test {
					return model.Test{Name: name, IfDead: dead, Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second}}
				}
				p := model.Plan{Baseline: "one", Settings: []model.Setting{{Name: "one"}}, Directions: []model.Direction{model.To}, Tests: []model.Test{
					test("one", false), test("small", true), test("many", false),
				}}
				lost := 0
				d := &desk{t: t, script: func(runner.Spec) (model.RunState, error) {
					if lost++; lost <= c.losses {
						return model.RunInvalid, fmt.Errorf("nas: %w", runner.ErrContact)
					}
					return model.RunValid, nil
				}}
				cfg := d.config(p)
				cfg.Reconnect = func(context.Context) (Runner, error) { return d, nil }
				out, err := Run(t.Context(), cfg)
				got := order(d.recorded)
				must.True(t, slices.Equal(got, c.want) && out.State == c.state && (err != nil) == errors.Is(err, runner.ErrContact) && (err == nil) == (c.state == model.SessionDone), "%v, want %v; %s, %v", got, c.want, out.State, err)
			})
		})
	}
}

// TestBetweenRuns: Between may wait between two runs, and that time counts towards no budget.
func TestBetweenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		c := d.config(testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 7}}, "slow", "fast"))
		want := 0
		for _, b := range c.Plan.Order {
			want += len(b)
		}
		c.Plan.Budget = time.Hour
		calls := 0
		c.Between = func(context.Context) error {
			calls++
			must.True(t, len(d.recorded) == calls-1, "called before run %d, when %d are recorded", calls, len(d.recorded))
			if calls == 3 {
				time.Sleep(5 * time.Hour)
			}
			return nil
		}
		out, err := Run(t.Context(), c)
		must.True(t, err == nil && out.Reason == "the plan's blocks are spent" && calls == want, "Run = %q, %v, and was asked %d times, want %d", out.Reason, err, calls, want)
	})
}

// TestBetweenRunsInterrupted: an interruption between two runs keeps the runs before it.
func TestBetweenRunsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := &desk{t: t}
		c := d.config(testPlan(t, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 7}}, "slow", "fast"))
		c.Between = func(ctx context.Context) error {
			if len(d.recorded) == 2 {
				time.AfterFunc(time.Minute, cancel)
				<-ctx.Done()
			}
			return ctx.Err()
		}
		out, err := Run(ctx, c)
		must.True(t, errors.Is(err, context.Canceled) && out.State == model.SessionInterrupted && len(out.Runs) == 2, "Run = %s, %d runs, %v", out.State, len(out.Runs), err)
	})
}

// blocks is a Steer for that many blocks.
type blocks int

func (b *blocks) Next(context.Context, []model.Run) (Steered, error) {
	if *b--; *b < 0 {
		return Steered{Reason: "done"}, nil
	}
	return Steered{Settings: []model.Setting{{Name: "one"}}, Direction: model.To}, nil
}

// TestSteeredHasNoEnd: whoever steers decides run by run, so nothing says how long it takes.
func TestSteeredHasNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, three, events := &desk{t: t}, blocks(3), 0
		p := model.Plan{Settings: []model.Setting{{Name: "one"}}, Directions: []model.Direction{model.To}, Flow: model.Flow{Duration: time.Second}}
		out, err := Run(t.Context(), Config{Plan: p, Steer: &three, Runner: d, Record: d.record, Now: time.Now, Observe: func(e Event) {
			events++
			must.Equal(t, e.AtMost, 0, "left, event %d", events)
		}})
		must.True(t, err == nil && len(out.Runs) == 3 && events > 0, "%d runs, %d events, %v", len(out.Runs), events, err)
	})
}
