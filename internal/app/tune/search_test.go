package tune

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/experiment"
	"linerate/internal/control/runner"
	"linerate/internal/core/candidate"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
)

// stand is a search between two hosts of this process.
type stand struct {
	*apptest.Bed
	person *apptest.Person
	env    app.Env
	ends   *target.Ends
	store  *sqlite.Store
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{Bed: apptest.NewBed(t), person: &apptest.Person{}}
	s.env = apptest.Env(s.person)
	s.env.Catalogue = knob.NewIndex()
	var err error
	s.store, err = sqlite.Open(t.Context(), sqlite.Memory)
	must.Do(t, err)
	t.Cleanup(func() { _ = s.store.Close() })
	s.ends = must.Get(target.Connect(t.Context(), s.env, "near", "far", s.Dial))(t)
	t.Cleanup(s.ends.Close)
	return s
}

// mtu is an idea that the user must agree to.
func mtu() tune.Idea {
	set := []model.Assignment{{Host: model.Far, Knob: "link.mtu", Value: "9000"}}
	return tune.Idea{Ask: "may cut the connection", Candidate: candidate.Candidate{
		Setting: model.Setting{Name: "far.link.mtu=9000", Assignments: set}, Direction: model.To, Rule: "B29", Levels: "far.link.mtu",
		Now: fact.Known("1500", "test"), Allows: fact.Unknown[units.BitRate]("test"),
	}}
}

// search continues a search whose first diagnosis found an idea. No gain is large enough for
// its margin: the rates of this process mean nothing.
func (s *stand) search(ctx context.Context, t *testing.T, r Request) (Outcome, error) {
	t.Helper()
	flow := model.Flow{Engine: agenttest.EngineName, Direction: model.To, Streams: 1, Duration: 60 * time.Millisecond, Interval: 20 * time.Millisecond}
	p := must.Get(plan.New(plan.Request{Plan: model.Plan{
		Settings: []model.Setting{{Name: tune.Baseline}}, Baseline: tune.Baseline, Flow: flow, Directions: []model.Direction{model.To},
		Mode: model.FixedBlocks, MaxBlocks: 1, Settle: -1, Seed: 1, Guards: []model.Guard{}, Data: r.Data,
	}, Null: plan.NullNone}))(t)
	p.Order, r.Directions = nil, p.Directions
	look := tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Known(0.1, "test")}, Ideas: []tune.Idea{mtu()}}
	rec := tune.Record{Options: tune.Options{Margin: 5, RaceBlocks: 2}, Inputs: []tune.Input{{Look: &look}}}
	return search(ctx, s.env, s.ends, s.store, r, trial.New(s.env, s.ends, s.store, model.KindTune, "", []string{"linerate", "tune"}, p), rec)
}

// A setting that can cut the connection is measured only if the user agrees, now or before;
// after either answer both hosts hold their old values, and the answer is stored.
func TestWhatIsAskedFor(t *testing.T) {
	yes := func(context.Context, app.Question) (app.Answer, error) { return app.Answer{Yes: true}, nil }
	no := func(context.Context, app.Question) (app.Answer, error) { return app.Answer{}, nil }
	for name, c := range map[string]struct {
		answer func(context.Context, app.Question) (app.Answer, error)
		risky  bool
		asked  int
		tried  bool
	}{
		"yes": {yes, false, 1, true}, "no": {no, false, 1, false}, "nobody is there": {nil, false, 1, false}, "said before": {nil, true, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			s.person.Answer = c.answer
			out, err := s.search(t.Context(), t, Request{Risky: c.risky})
			must.Need(t, err == nil && out.Search.State == model.SessionDone && out.Confirmation == nil, "%s %q, %v", out.Search.State, out.Search.Reason, err)
			asked := s.person.Asked()
			must.True(t, len(asked) == c.asked && (c.asked == 0 || asked[0].Kind == app.TryRisky && asked[0].What == "far.link.mtu=9000" && asked[0].Why == "may cut the connection"), "asked %+v", asked)
			applied := slices.ContainsFunc(out.Search.Runs, func(r model.Run) bool { return r.Setting == "far.link.mtu=9000" })
			f := out.Record.Ideas[0]
			must.True(t, applied == c.tried && (f.State != tune.Waiting) == c.tried, "applied %v, fate %+v", applied, f)
			told := apptest.Events[app.Searched](s.person)
			must.True(t, len(told) != 0 && told[len(told)-1].Step.Kind == tune.KindEnd, "told %+v", told)
			kept, err := s.store.Session(t.Context(), out.Search.ID)
			rec, ok, bad := tune.Read(&kept)
			must.True(t, err == nil && bad == nil && ok && len(rec.Inputs) == len(out.Record.Inputs), "stored %+v, %v, %v", rec, err, bad)
			s.ends.Close()
			s.Untouched()
		})
	}
}

// A search that is cut short in a run is stored up to there, its hosts are restored, and it
// continues with the same race.
func TestCutShortAndResumed(t *testing.T) {
	s := newStand(t)
	ctx, stop := context.WithCancel(t.Context())
	s.person.On = func(e app.Event) {
		if began, ok := e.(app.RunBegan); ok && began.Setting == "far.link.mtu=9000" {
			stop()
		}
		if began, ok := e.(app.TrialBegan); ok {
			kept := must.Get(s.store.Session(t.Context(), began.Session.ID))(t)
			_, ok, err := tune.Read(&kept)
			must.True(t, ok && err == nil, "what is killed now cannot go on: %v", err)
		}
	}
	out, err := s.search(ctx, t, Request{Risky: true})
	must.Need(t, out.Search.State == model.SessionInterrupted && (errors.Is(err, context.Canceled) || err == nil || fault.KindOf(err) == fault.Interrupted), "%s %q, %v", out.Search.State, out.Search.Reason, err)
	f := out.Record.Ideas[0]
	must.True(t, f.State == tune.Racing || f.State == tune.Waiting, "fate %+v", f)
	s.ends.Close()
	s.Untouched()
	s.person.On = nil
	s.ends = must.Get(target.Connect(t.Context(), s.env, "near", "far", s.Dial))(t)
	defer s.ends.Close()
	kept := must.Get(s.store.Session(t.Context(), out.Search.ID))(t)
	again, err := Resume(t.Context(), s.env, s.ends, s.store, kept, Request{Risky: true})
	must.True(t, err == nil && again.Search.State == model.SessionDone && again.Search.ID == out.Search.ID && again.Record.Ideas[0].Blocks == 2,
		"%s %q, %+v, %v", again.Search.State, again.Search.Reason, again.Record.Ideas, err)
}

// looks counts how often a trial looks whether its hosts are busy.
type looks struct {
	experiment.Runner
	n int
}

func (l *looks) Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	if s.Setting.Name == "idle" {
		l.n++
		return model.Run{}, nil, nil
	}
	return l.Runner.Run(ctx, s, emit)
}

// TestOneWait: a search that goes on waits for its hosts once, and not again before the proof.
func TestOneWait(t *testing.T) {
	s := newStand(t)
	l := &looks{Runner: s.ends.Runner}
	s.ends.Runner, s.env.Calm = l, time.Minute
	won := mtu()
	won.Ask = ""
	runs, inputs := []model.Run(nil), []tune.Input{{Look: &tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Known(0.1, "test")}, Ideas: []tune.Idea{won}}}}
	for block := range 2 {
		for i, setting := range []string{tune.Baseline, won.Setting.Name} {
			runs = append(runs, model.Run{Number: len(runs) + 1, Block: block + 1, Setting: setting, State: model.RunValid, Flow: model.Flow{Direction: model.To},
				Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 1e6 + 1e9*float64(i)}}})
		}
		inputs = append(inputs, tune.Input{Block: block + 1})
	}
	inputs = append(inputs, tune.Input{Look: &tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Known(1.0, "test")}}})
	text := must.Get(tune.Record{Options: tune.Options{NoPlateau: true}, Inputs: inputs}.Text())(t)
	flow := model.Flow{Engine: agenttest.EngineName, Direction: model.To, Streams: 1, Duration: 60 * time.Millisecond, Interval: 20 * time.Millisecond}
	old := trial.New(s.env, s.ends, s.store, model.KindTune, "", nil, model.Plan{
		Settings: []model.Setting{{Name: tune.Baseline}}, Baseline: tune.Baseline, Flow: flow, Directions: []model.Direction{model.To}, Objective: model.Goodput, Margin: 5, Settle: -1, Guards: []model.Guard{},
	}).Session
	old.Runs, old.Tuning, old.State = runs, text, model.SessionInterrupted
	must.Do(t, s.store.CreateSession(t.Context(), old))
	out, err := Resume(t.Context(), s.env, s.ends, s.store, old, Request{})
	must.True(t, err == nil && out.Confirmation != nil && l.n == 1, "%s, %d looks, %v", out.Search.State, l.n, err)
}

// A budget of time that is too short for any result is refused at once; one of data ends the search,
// which says so.
func TestTooLittle(t *testing.T) {
	s := newStand(t)
	_, err := s.search(t.Context(), t, Request{Request: plan.Request{Plan: model.Plan{Budget: time.Second}}})
	must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), "--budget: 1 s is too short") && len(apptest.Events[app.TrialBegan](s.person)) == 0, "%v", err)
	out, err := s.search(t.Context(), t, Request{Risky: true, Request: plan.Request{Plan: model.Plan{Data: 1}}})
	must.True(t, err == nil && out.Search.State == model.SessionDone && out.Record.Reason == tune.BudgetSpent, "%s %q %q, %v", out.Search.State, out.Search.Reason, out.Record.Reason, err)
	kept := must.Get(s.store.Session(t.Context(), out.Search.ID))(t)
	rec, _, err := tune.Read(&kept)
	must.True(t, err == nil && rec.Reason == tune.BudgetSpent, "stored %q, %v", rec.Reason, err)
}

// TestTimed: the proof and the pilots of a race have their time, and what runs took is gone.
func TestTimed(t *testing.T) {
	p := model.Plan{Flow: model.Flow{Duration: 2 * time.Second}}
	took := func(d time.Duration) []model.Run { return []model.Run{{Ended: time.Time{}.Add(d)}} }
	s := &steer{trial: &trial.Trial{Session: model.Session{Plan: p}}, machine: tune.New(tune.Options{})}
	s.request.Directions = []model.Direction{model.To}
	least := s.cost(nil).Least(1)
	for name, c := range map[string]struct {
		budget, took time.Duration
		want         int
	}{
		"the least": {least, s.cost(nil).Pilot, 6}, "as much again": {2 * least, s.cost(nil).Pilot, 6 + int(least/s.cost(nil).Run)}, "spent": {least, least, 1},
	} {
		s.request.Budget = c.budget
		must.Equal(t, s.timed(took(c.took), 0), c.want, "%s", name)
	}
}

// Settings in --only and --never, and measure-only hosts, refuse an idea.
func TestIdeasThatAreRefused(t *testing.T) {
	s := newStand(t)
	for name, c := range map[string]struct {
		request Request
		refused string
	}{
		"nothing named":    {Request{}, ""},
		"never":            {Request{Never: []string{"link.mtu"}}, "it may not be tried: --never"},
		"never there":      {Request{Never: []string{"far.link.mtu"}}, "it may not be tried: --never"},
		"never elsewhere":  {Request{Never: []string{"near.link.mtu"}}, ""},
		"only another one": {Request{Only: []string{"tcp.sack"}}, "other settings were asked for: --only"},
		"only this one":    {Request{Only: []string{"far.link.mtu"}}, ""},
	} {
		i := (&steer{env: s.env, ends: s.ends, request: c.request}).idea(mtu().Candidate)
		must.True(t, i.Refused == c.refused && (i.Ask == "") == (c.refused != ""), "%s: refused %q, ask %q", name, i.Refused, i.Ask)
	}
	algorithm := mtu()
	algorithm.Setting = model.Setting{Name: "bbr", Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.congestion_control", Value: "bbr"}}}
	for _, takes := range []bool{false, true} { // a host takes what it has
		if takes {
			s.ends.Close()
			s.Replace(model.Far, map[model.KnobID]string{"tcp.congestion_control": "reno"})
			s.ends = must.Get(target.Connect(t.Context(), s.env, "near", "far", s.Dial))(t)
			defer s.ends.Close()
		}
		st := &steer{trial: trial.New(s.env, s.ends, s.store, model.KindTune, "", nil, model.Plan{}), refused: map[string]string{}}
		ideas := []tune.Idea{mtu(), algorithm}
		must.Do(t, st.tryAlgorithms(t.Context(), ideas))
		must.True(t, ideas[0].Refused == "" && (ideas[1].Refused == "") == takes, "takes it %v: %q, %q", takes, ideas[0].Refused, ideas[1].Refused)
	}
}

// TestTimeIsSaidFirst: the total time is announced before the first run, and the rest falls
// with every phase.
func TestTimeIsSaidFirst(t *testing.T) {
	s := newStand(t)
	s.person.Answer = func(context.Context, app.Question) (app.Answer, error) { return app.Answer{Yes: true}, nil }
	out := must.Get(s.search(t.Context(), t, Request{Request: plan.Request{Plan: model.Plan{Directions: []model.Direction{model.To}}}}))(t)
	told := apptest.Events[app.Searched](s.person)
	must.Need(t, len(told) >= 3 && told[0].Left > 0 && told[0].Record.Runs <= 0 && out.Search.State == model.SessionDone, "told %+v", told)
	for i, one := range told[1:] {
		must.True(t, one.Left <= told[i].Left, "%v left before %s, %v after it", told[i].Left, one.Step.Kind, one.Left)
	}
}

// TestRationed: the rest has room for runs of both settings, after a proof of six blocks; a
// setting that helps leaves room for fewer, and so does one that could.
func TestRationed(t *testing.T) {
	run := func(size units.Bytes) model.Run {
		return model.Run{State: model.RunValid, Flow: model.Flow{Duration: time.Second}, Ends: []model.EndReport{
			{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Bytes: size, Window: time.Second}}},
		}}
	}
	for name, c := range map[string]struct {
		data, full units.Bytes
		runs       []model.Run
		want       int
	}{
		"no limit":        {0, 0, []model.Run{run(1e6)}, 0},
		"nothing sent":    {1e9, 0, nil, 0},
		"as the first":    {100e6, 0, []model.Run{run(1e6), run(1e6)}, 2 + 98 - 12},
		"a full path":     {100e6, 9e6, []model.Run{run(1e6)}, 1 + 7}, // 99 less 60, runs of 5 each
		"ten times as it": {100e6, 0, []model.Run{run(1e6), run(9e6)}, 2 + 6},
		"no room":         {30e6, 9e6, []model.Run{run(1e6)}, 1},
		"spent":           {3e6, 0, []model.Run{run(2e6), run(2e6)}, 1},
	} {
		must.Equal(t, rationed(c.data, c.full, c.runs, 1, len(c.runs)), c.want, "%s", name)
	}
}

// recorded returns a real run in a lab whose second host has a small send buffer.
func recorded(t *testing.T) model.Session {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "core", "diagnose", "testdata", "send-buffer.json")))(t)
	var r struct{ Session model.Session }
	must.Do(t, json.Unmarshal(text, &r))
	return r.Session
}

// blindly returns the run as another second of it may look: the kernel did not see that the
// buffer was full.
func blindly(run model.Run) model.Run {
	run.Ends = slices.Clone(run.Ends)
	for i := range run.Ends {
		run.Ends[i].Flows = slices.Clone(run.Ends[i].Flows)
		for k, f := range run.Ends[i].Flows {
			if f.TCP != nil {
				summary := *f.TCP
				summary.SndbufLimited, summary.Cwnd = fact.Known(time.Duration(0), "test"), fact.Unknown[units.Bytes]("test")
				run.Ends[i].Flows[k].TCP = &summary
			}
		}
	}
	return run
}

// noSamples is a store that has no samples.
type noSamples struct{ trial.Store }

func (noSamples) Samples(context.Context, string, int) ([]model.Sample, error) { return nil, nil }

// Runs that show a gap and nothing to try are not the last word: earlier ones of the same
// setting are diagnosed at no cost, and then more are made, up to mostLooks. If there is
// something to try, or nothing to gain, one diagnosis is enough.
func TestGlances(t *testing.T) {
	t.Parallel()
	stand := newStand(t)
	s := recorded(t)
	sees := s.Runs[0]
	misses := blindly(sees)
	full := sees
	full.Values = []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 930e6}}
	for name, c := range map[string]struct {
		runs   []model.Run
		ideas  bool
		again  model.Direction
		only   []string
		inputs []tune.Input
	}{
		"the first look shows it":      {[]model.Run{sees}, true, "", nil, nil},
		"it does not":                  {[]model.Run{misses}, false, model.To, nil, nil},
		"nor do three":                 {[]model.Run{misses, misses, misses}, false, model.To, nil, nil},
		"an earlier one did":           {[]model.Run{misses, sees, misses, misses}, true, "", nil, nil},
		"none of as many as it takes":  {slices.Repeat([]model.Run{misses}, mostLooks), false, "", nil, nil},
		"one that is too long ago did": {append([]model.Run{sees}, slices.Repeat([]model.Run{misses}, mostLooks)...), false, "", nil, nil},
		"nothing to gain":              {[]model.Run{full}, false, "", nil, nil},
		"what could help may not":      {[]model.Run{sees}, true, "", []string{"link.mtu"}, nil},
		"no budget for another look":   {[]model.Run{misses}, false, "", nil, []tune.Input{{Runs: 1}}},
	} {
		runs := slices.Clone(c.runs)
		for i := range runs {
			runs[i].Number, runs[i].Setting = i+1, tune.Baseline
		}
		steer := &steer{
			env: stand.env, ends: stand.ends, store: noSamples{}, request: Request{Request: plan.Request{Plan: model.Plan{Directions: []model.Direction{model.To}}}},
			trial: &trial.Trial{Session: s}, machine: tune.Replay(tune.Record{Inputs: c.inputs}, nil), inputs: c.inputs,
		}
		steer.request.Only = c.only
		l, again, err := steer.glances(t.Context(), model.Setting{Name: tune.Baseline}, runs)
		must.True(t, err == nil && again == c.again && (len(l.Ideas) > 0) == c.ideas && l.Values[model.To] > 0, "%s: again %q, %d ideas, %v", name, again, len(l.Ideas), err)
	}
}

// Without a ceiling no gap is known, and runs of other settings do not count.
func TestBlind(t *testing.T) {
	t.Parallel()
	to := func(setting string, state model.RunState) model.Run {
		return model.Run{Setting: setting, Flow: model.Flow{Direction: model.To}, State: state}
	}
	runs := []model.Run{to("other", model.RunValid), to(tune.Baseline, model.RunInvalid), to(tune.Baseline, model.RunValid), to(tune.Baseline, model.RunValid)}
	for name, c := range map[string]struct {
		share  fact.Of[float64]
		enough int
		want   bool
	}{
		"a gap": {fact.Known(0.3, ""), 3, true}, "a gap, and runs enough": {fact.Known(0.3, ""), 2, false},
		"nothing to gain": {fact.Known(0.98, ""), 3, false}, "nobody knows how far": {fact.Unknown[float64]("no ceiling"), 3, false},
	} {
		l := tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: c.share}}
		d, again := blind(l, tune.Baseline, runs, c.enough)
		must.True(t, again == c.want && (!again || d == model.To), "%s: %v %q", name, again, d)
	}
}
