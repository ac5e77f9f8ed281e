package trial_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/experiment"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/engines"
	"linerate/internal/measure/iperf3/peer"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
)

// stand is an experiment on two hosts of this process.
type stand struct {
	t *testing.T
	*apptest.Bed
	person *apptest.Person
	env    app.Env
	store  *sqlite.Store
	ends   *target.Ends
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{t: t, Bed: apptest.NewBed(t), person: &apptest.Person{}}
	s.env = apptest.Env(s.person)
	st := must.Get(sqlite.Open(t.Context(), sqlite.Memory))(t)
	s.store = st
	t.Cleanup(func() { _ = st.Close() })
	s.open()
	return s
}

func (s *stand) open() {
	s.t.Helper()
	e := must.Get(target.Connect(s.t.Context(), s.env, "near", "far", s.Dial))(s.t)
	s.ends = e
	s.t.Cleanup(e.Close)
}

// settings returns two, of which the second one changes both hosts.
func settings() []model.Setting {
	return []model.Setting{{Name: "current"}, {Name: "big", Assignments: []model.Assignment{
		{Host: model.Near, Knob: "tcp.recv_buffer_max", Value: "9000"}, {Host: model.Far, Knob: "link.mtu", Value: "9000"},
	}}}
}

func shortFlow() model.Flow {
	return model.Flow{Engine: agenttest.EngineName, Direction: model.To, Streams: 1, Duration: 60 * time.Millisecond, Interval: 20 * time.Millisecond}
}

// design returns a plan of that many blocks of short runs.
func design(t *testing.T, blocks int, flow model.Flow, all ...model.Setting) model.Plan {
	t.Helper()
	p := must.Get(plan.New(plan.Request{Plan: model.Plan{Settings: all, Flow: flow, Mode: model.FixedBlocks, MaxBlocks: blocks, Settle: -1, Seed: 1, Guards: []model.Guard{}}, Null: plan.NullNone}))(t)
	return p
}

func (s *stand) trial(st trial.Store, p model.Plan) *trial.Trial {
	return trial.New(s.env, s.ends, st, model.KindRun, "a title", []string{"linerate", "run"}, p)
}

// stored checks that the store has the session as the trial returned it.
func (s *stand) stored(want model.Session) {
	s.t.Helper()
	got, err := s.store.Session(s.t.Context(), want.ID)
	if err != nil || got.State != want.State || got.Reason != want.Reason || len(got.Runs) != len(want.Runs) || len(got.Changes) != len(want.Changes) {
		s.t.Errorf("stored: %s %q, %d runs, %d changes, %v; returned: %s %q, %d runs, %d changes",
			got.State, got.Reason, len(got.Runs), len(got.Changes), err, want.State, want.Reason, len(want.Runs), len(want.Changes))
	}
}

// over also ends the session, which has left the hosts as they were.
func (s *stand) over(want model.Session) {
	s.t.Helper()
	s.stored(want)
	s.ends.Close()
	s.Untouched()
}

// once calls f at the first event of a type.
func once[E app.Event](f func(E)) func(app.Event) {
	done := false
	return func(e app.Event) {
		if one, ok := e.(E); ok && !done {
			done = true
			f(one)
		}
	}
}

// kinds returns the events of an experiment in order, without samples.
func kinds(events []app.Event) []string {
	var all []string
	for _, e := range events {
		if name := strings.TrimPrefix(fmt.Sprintf("%T", e), "app."); name != "Sampled" && name != "Recovered" {
			all = append(all, name)
		}
	}
	return all
}

// TestTrial carries out a plan: events come in order, every run is stored, and the hosts are
// restored.
func TestTrial(t *testing.T) {
	s := newStand(t)
	got, err := s.trial(s.store, design(t, 2, shortFlow(), settings()...)).Run(t.Context())
	must.Need(t, err == nil && got.State == model.SessionDone && len(got.Runs) >= 4 && len(got.Verdicts) != 0,
		"%s, %d runs, %d verdicts, %v", got.State, len(got.Runs), len(got.Verdicts), err)
	want := []string{"Looking", "TrialBegan"}
	for _, r := range got.Runs { // a busy machine may cut a run short, and its block is repeated
		if r.Position == 1 {
			want = append(want, "BlockBegan")
		}
		want = append(want, "RunBegan", "RunEnded")
		if r.Position == 2 && r.State == model.RunValid {
			want = append(want, "BlockEnded")
		}
	}
	told := kinds(s.person.Events())
	must.True(t, slices.Equal(told, append(want, "TrialEnded")), "told %v, want %v", told, want)
	all := apptest.Events[app.Sampled](s.person)
	must.True(t, len(all) != 0 && len(all[0].Samples) != 0 && all[0].MaxBlocks == 2 && all[0].RunsInBlock == 2, "samples: %+v", all)
	last := apptest.Events[app.BlockEnded](s.person)[1]
	must.True(t, last.Block == got.Runs[len(got.Runs)-1].Block && len(last.Result.Verdicts) != 0, "the last block: %+v", last.Progress)
	for _, c := range got.Changes {
		must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
	}
	must.True(t, len(got.Changes) >= 4 && got.Title == "a title" && got.Near == "near" && got.Far == "far" && len(got.Hosts) == 2 && len(got.Warnings) >= 2, "%d changes, %q, %s, %s, %d hosts, %q", len(got.Changes), got.Title, got.Near, got.Far, len(got.Hosts), got.Warnings)
	s.over(got)
}

// TestInterruptedAndResumed stops an experiment in a run, and continues it over new sessions:
// no complete block is repeated.
func TestInterruptedAndResumed(t *testing.T) {
	s := newStand(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.person.On = func(e app.Event) {
		if r, ok := e.(app.Sampled); ok && r.Block == 2 {
			stop()
		}
	}
	cut, err := s.trial(s.store, design(t, 3, shortFlow(), settings()...)).Run(ctx)
	must.Need(t, fault.KindOf(err) == fault.Interrupted && cut.State == model.SessionInterrupted && cut.Reason == "interrupted by the user",
		"%s %q, %v", cut.State, cut.Reason, err)
	last := cut.Runs[len(cut.Runs)-1]
	must.True(t, last.State == model.RunInterrupted && last.Block == 2, "the last run: block %d, %s", last.Block, last.State)
	s.over(cut)

	s.person.On = nil
	s.open()
	card := func(mac string) []model.NIC { return []model.NIC{{MAC: fact.Known(mac, "test")}} }
	for name, c := range map[string]struct {
		far, host string
		nics      []model.NIC
		resumes   bool
	}{
		"as before":                  {"far", "elsewhere", nil, true},
		"by another address":         {"10.0.0.2", "test", nil, true},
		"one card more":              {"10.0.0.2", "test", append(card("02:00:00:00:00:02"), card("02:00:00:00:00:01")...), true},
		"another host":               {"10.0.0.2", "elsewhere", nil, false},
		"another of the same name":   {"10.0.0.2", "test", card("02:00:00:00:00:02"), false},
		"a lab, and now a real host": {"lab:lan", "test", nil, false},
	} {
		before := must.Get(s.store.Session(t.Context(), cut.ID))(t)
		s.ends.Hosts[1].NICs, before.Hosts[1].NICs = card("02:00:00:00:00:01"), c.nics
		before.Far, before.Hosts[1].Name = c.far, c.host
		_, err := trial.Resume(s.env, s.ends, s.store, before)
		must.True(t, (err == nil) == c.resumes && (err == nil || fault.KindOf(err) == fault.Usage && fault.HintOf(err) != ""), "%s: %v", name, err)
	}
	again := must.Get(trial.Resume(s.env, s.ends, s.store, must.Get(s.store.Session(t.Context(), cut.ID))(t)))(t)
	got, err := again.Run(t.Context())
	must.Need(t, err == nil && got.State == model.SessionDone && got.Reason != cut.Reason, "%s %q, %v", got.State, got.Reason, err)
	counts := map[int]int{}
	for i, r := range got.Runs {
		must.True(t, r.Number == i+1, "run %d is called %d", i+1, r.Number)
		if r.State == model.RunValid && (r.Block != 2 || r.Attempt > cut.Runs[len(cut.Runs)-1].Attempt) {
			counts[r.Block]++
		}
	}
	want := map[int]int{1: 2, 2: 2, 3: 2}
	must.True(t, maps.Equal(counts, want), "valid runs of each block: %v, want %v", counts, want)
	s.over(got)
}

// TestExperiment plans by the round trip of a short run, and refuses to change a host that
// may only be measured.
func TestExperiment(t *testing.T) {
	s := newStand(t)
	flow := shortFlow()
	flow.Engine = bulk.Name
	var rtt fact.Of[time.Duration]
	tr, err := trial.Experiment(t.Context(), s.env, s.ends, s.store, "", nil, flow, func(r fact.Of[time.Duration]) (model.Plan, error) {
		rtt = r
		return design(t, 1, shortFlow(), settings()...), nil
	})
	must.Need(t, err == nil && tr.Session.Kind == model.KindRun && tr.Session.ID != "", "%v", err)
	must.True(t, rtt.IsKnown() || rtt.Reason() != "", "the round trip: %v", rtt)
	wrong := errors.New("no such setting")
	_, err = trial.Experiment(t.Context(), s.env, s.ends, s.store, "", nil, flow, func(fact.Of[time.Duration]) (model.Plan, error) {
		return model.Plan{}, wrong
	})
	must.True(t, errors.Is(err, wrong), "%v", err)
	s.ends.Close()

	s.Configure = func(h model.Host, _ int, c *agent.Config) {
		if h == model.Far {
			c.Knobs, c.NoKnobs = nil, "it only measures"
		}
	}
	s.open()
	err = trial.MayTune(s.ends, design(t, 1, shortFlow(), settings()...))
	must.True(t, fault.KindOf(err) == fault.Unsupported && fault.HintOf(err) != "" && strings.Contains(err.Error(), "link.mtu cannot be set on "), "%v", err)
	_, err = trial.Resume(s.env, s.ends, s.store, model.Session{Plan: design(t, 1, shortFlow(), settings()...)})
	must.True(t, fault.KindOf(err) == fault.Unsupported, "%v", err)
	s.ends.Close()
}

// TestForeignPeer measures with a foreign server, and refuses to change settings of its host.
func TestForeignPeer(t *testing.T) {
	agenttest.NoLeaks(t)
	ctx, stop := context.WithCancel(t.Context())
	l := must.Get(new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- peer.Serve(ctx, l, peer.ServerConfig{}) }()
	defer func() {
		stop()
		<-served
	}()
	person := &apptest.Person{}
	env := apptest.Env(person)
	near, far, err := target.Pair("", "iperf3://"+l.Addr().String(), env)
	must.Do(t, err)
	e := must.Get(target.New(env, target.Options{}).Open(ctx, near, far))(t)
	defer e.Close()
	must.True(t, e.Far == nil && e.Foreign() == far.Text && len(e.Hosts) == 2 && !e.Hosts[1].Kernel.IsKnown(), "%+v", e.Hosts)
	err = trial.MayTune(e, design(t, 1, shortFlow(), settings()...))
	must.True(t, fault.KindOf(err) == fault.Unsupported && strings.Contains(err.Error(), "only settings of the flow"), "%v", err)
	idle := model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Duration: 400 * time.Millisecond, Interval: 400 * time.Millisecond}
	run, _, err := e.Idle.Run(ctx, runner.Spec{Number: 1, Flow: idle}, func(model.Host, []model.Sample) {})
	must.True(t, err == nil && len(run.Ends) == 2 && run.Ends[0].CPUWindow > 0, "the near end alone: %+v, %v", run, err)
	st := must.Get(sqlite.Open(ctx, sqlite.Memory))(t)
	defer func() { _ = st.Close() }()
	env.Calm = time.Nanosecond
	p := design(t, 1, model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Duration: time.Second, Interval: time.Second / 2},
		model.Setting{Name: "current"}, model.Setting{Name: "two", Assignments: []model.Assignment{{Knob: "streams", Value: "2"}}})
	got, err := trial.New(env, e, st, model.KindTest, "", nil, p).Run(ctx)
	must.Need(t, err == nil && trial.Measured(got), "%s %q, %v", got.State, got.Reason, err)
	v, ok := got.Runs[0].Value(model.To, model.Goodput)
	must.True(t, ok && v > 0, "%+v", got.Runs[0].Values)
	asked := slices.DeleteFunc(apptest.Events[app.Warning](person), func(w app.Warning) bool { return !strings.Contains(w.Text, "cannot be asked how busy it is") })
	must.Equal(t, len(asked), 1, "said that the far end cannot be asked")
}

// TestTakes reports what an engine does not support before any host is asked.
func TestTakes(t *testing.T) {
	env := apptest.Env(&apptest.Person{})
	flow := model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Duration: time.Second, Interval: time.Second}
	p := model.Plan{Flow: flow, Directions: []model.Direction{model.To}, Settings: []model.Setting{{Name: "current"}}}
	must.OK(t, trial.Takes(env, p))
	p.Settings = append(p.Settings, model.Setting{Name: "many", Assignments: []model.Assignment{{Knob: "streams", Value: "100000"}}})
	err := trial.Takes(env, p)
	must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), "setting many"), "%v", err)
	p.Flow.Engine = "nothing"
	must.Equal(t, fault.KindOf(trial.Takes(env, p)), fault.Usage)
}

// balanced makes runs without traffic in which a setting is better in every second block and
// worse in the others, so that no number of them decides anything.
type balanced struct{}

// Run implements experiment.Runner.
func (balanced) Run(_ context.Context, s runner.Spec, _ func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	value, now := 1e9, time.Now()
	if s.Setting.Name != "current" {
		value += 1e7 * float64(1-2*(s.Block%2))
	}
	return model.Run{
		Number: s.Number, Block: s.Block, Position: s.Position, Attempt: s.Attempt, Setting: s.Setting.Name, Flow: s.Flow,
		Started: now, Ended: now, State: model.RunValid, Values: []model.Value{{Direction: s.Flow.Direction, Metric: model.Goodput, Value: value}},
	}, nil, nil
}

// Release implements experiment.Runner: nothing is held.
func (balanced) Release(context.Context) ([]model.Change, error) { return nil, nil }

// TestFirstHour09ResumeExtends: a finished session that left its question open continues with
// more blocks, all of which count; cases that more blocks cannot help are refused.
func TestFirstHour09ResumeExtends(t *testing.T) {
	s := newStand(t)
	s.ends.Runner = balanced{} // six real runs may all point one way by chance, and decide it
	flow := shortFlow()
	flow.Duration = 20 * time.Millisecond
	p := must.Get(plan.New(plan.Request{Plan: model.Plan{Settings: settings(), Flow: flow, MaxBlocks: 6, Settle: -1, Seed: 1, Margin: 1e-6, Guards: []model.Guard{}}, Null: plan.NullNone}))(t)
	done, err := s.trial(s.store, p).Run(t.Context())
	must.Need(t, err == nil && done.State == model.SessionDone && len(done.Runs) == 12 && done.Verdicts[0].Outcome == model.Undecided,
		"%s %q, %d runs, %+v, %v", done.State, done.Reason, len(done.Runs), done.Verdicts, err)
	if _, err := trial.Extend(done, 6, 0); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "nothing left to do") || fault.HintOf(err) == "" {
		t.Errorf("no block more: %v", err)
	}
	longer := must.Get(trial.Extend(done, 8, 0))(t)
	got, err := must.Get(trial.Resume(s.env, s.ends, s.store, longer))(t).Run(t.Context())
	must.Need(t, err == nil && got.State == model.SessionDone && len(got.Runs) == 16 && got.Verdicts[0].Blocks == 8,
		"%s %q, %d runs, %+v, %v", got.State, got.Reason, len(got.Runs), got.Verdicts, err)
	s.stored(got)
	kept := must.Get(s.store.Session(t.Context(), got.ID))(t)
	must.True(t, kept.Plan.MaxBlocks == 8 && len(kept.Plan.Order) == 8, "stored plan of %d blocks", kept.Plan.MaxBlocks)
	// The budget of data is for the whole session: it stays, is refused if it is used up, and
	// can be set again.
	paid := done
	paid.Plan.Data = 1e9
	longer, err = trial.Extend(paid, 8, 0)
	must.True(t, err == nil && longer.Plan.Data == 1e9, "%v of the data budget are left, %v", longer.Plan.Data, err)
	for i := range paid.Runs { // 1.2 GB in six blocks
		paid.Runs[i].Ends = []model.EndReport{{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Bytes: 1e8}}}}
		paid.Runs[i].Flow.Direction, paid.Runs[i].Flow.Omit = model.To, 0
	}
	if _, err := trial.Extend(paid, 8, 0); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "has sent 1.2 GB, and may send no more than 1 GB in all") || !strings.Contains(fault.HintOf(err), "--data 1.8GB") {
		t.Errorf("a budget that is spent: %v, hint %q", err, fault.HintOf(err))
	}
	must.Equal(t, must.Get(trial.Extend(paid, 8, 18e8))(t).Plan.Data, 18e8, "a budget given anew")
	fixed := done
	fixed.Plan = design(t, 2, flow, settings()...)
	quick := done
	quick.Kind = model.KindTest
	for says, one := range map[string]model.Session{"judged once": fixed, "has no blocks to add to": quick} {
		_, err := trial.Extend(one, 50, 0)
		must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), says) && fault.HintOf(err) != "", "%v, hint %q", err, fault.HintOf(err))
	}
	for kind, how := range map[model.Kind]string{
		model.KindTest: "linerate test HOST -t 30s", model.KindSweep: "linerate sweep HOST --sweeps N", model.KindCopy: "linerate copy HOST --blocks N",
		model.KindTune: "linerate tune --resume " + quick.ID, model.KindCheck: "linerate show " + quick.ID, model.KindServed: "linerate show " + quick.ID,
	} {
		quick.Kind = kind
		_, err := trial.Extend(quick, 50, 0)
		must.True(t, strings.Contains(err.Error(), "of kind "+string(kind)) && strings.Contains(fault.HintOf(err), how), "%s: %v, hint %q", kind, err, fault.HintOf(err))
	}
	s.ends.Close()
	s.Untouched()
}

// planned returns the plan of a quick look, and its faults by flag.
func planned(q trial.Quick) (model.Plan, map[string]string) {
	wrong := map[string]string{}
	p := q.Plan(engines.List(nil).Kinds(), func(flag string, err error) {
		if err != nil {
			wrong[flag] = err.Error()
		}
	})
	return p, wrong
}

func tcp() model.Flow {
	return model.Flow{Engine: "tcpbulk", Streams: 1, Duration: time.Second, Interval: time.Second}
}

func TestQuickPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q    trial.Quick
		want []model.Direction
	}{
		{trial.Quick{Repeats: 1}, []model.Direction{model.To, model.From}},
		{trial.Quick{Repeats: 2, Directions: []model.Direction{model.To}}, []model.Direction{model.To}},
		{trial.Quick{Repeats: 1000, Directions: []model.Direction{model.Both}}, []model.Direction{model.Both}},
	} {
		c.q.Flow = tcp()
		p, wrong := planned(c.q)
		must.True(t, len(wrong) <= 0 && slices.Equal(p.Directions, c.want) && len(p.Order) == c.q.Repeats && p.MaxBlocks == c.q.Repeats && p.Flow.Direction == c.want[0] && p.Flow.Engine == "tcpbulk", "%+v: %+v, %v", c.q, p, wrong)
	}
	p, _ := planned(trial.Quick{Flow: tcp(), Repeats: 1, Idle: time.Second})
	must.True(t, p.Flow.Engine == probes.Name && p.Flow.Lead == time.Second, "probes beside a load: %+v", p.Flow)
	for d, traced := range map[model.Direction]bool{model.From: true, model.Both: false} {
		p, _ := planned(trial.Quick{Flow: tcp(), Directions: []model.Direction{d}, Repeats: 1, Idle: time.Second, Trace: true})
		must.Equal(t, must.Get(traffic.Read[probes.Params](p.Flow.Params))(t).Trace, traced, "%s", d)
	}
	bytes := tcp()
	bytes.Bytes, bytes.Duration = 1000, 0
	p, _ = planned(trial.Quick{Flow: bytes, Repeats: 1, Idle: time.Second})
	must.True(t, p.Flow.Engine == "tcpbulk", "probes beside a load without a time: %+v", p.Flow)
}

func TestQuickPlanRefuses(t *testing.T) {
	t.Parallel()
	datagrams := udp.With(model.Flow{Engine: udp.Name, Duration: time.Second}, udp.Params{})
	large := datagrams
	large.Block = udp.MaxDatagram + 1
	both := []model.Direction{model.Both}
	fast := &trial.RateSearch{Loss: 0.01, Highest: trial.HighestRate}
	for want, q := range map[string]trial.Quick{
		"repeat: 0 is not between 1 and 1000":                          {Flow: tcp()},
		"repeat: 1001 is not between 1 and 1000":                       {Flow: tcp(), Repeats: 1001},
		"length: 65508 bytes are more than":                            {Flow: large, Repeats: 1},
		"search: a search is for one direction":                        {Flow: datagrams, Repeats: 1, Directions: both, Search: fast},
		"bitrate: at 1 kbit/s a run of 1 s sends less than 50 datagra": {Flow: datagrams, Repeats: 1, Search: &trial.RateSearch{Highest: 1000, Timed: true}},
		"bitrate: no datagram is due in 1 s: at 1.024 kbit/s one of 1472 bytes leaves each stream every 11.5 s; use a longer --time": {
			Flow: udp.With(datagrams, udp.Params{Rate: 1024}), Repeats: 1,
		},
	} {
		p, wrong := planned(q)
		flag, text, _ := strings.Cut(want, ": ")
		must.True(t, len(wrong) == 1 && strings.HasPrefix(wrong[flag], text) && len(p.Order) <= 2, "%v and %d blocks, want %s", wrong, len(p.Order), want) // --repeat 2000000000 took all memory
	}
}

func TestSearchPlan(t *testing.T) {
	t.Parallel()
	q := trial.Quick{
		Flow: udp.With(model.Flow{Engine: udp.Name, Duration: 9 * time.Second, Interval: 5 * time.Second, Block: 1000}, udp.Params{}), Repeats: 1, Idle: time.Second,
		Search: &trial.RateSearch{Loss: 0.001, Highest: 20e6},
	}
	p, wrong := planned(q)
	want := model.RateSearch{Low: 200e3, High: 20e6, Limit: 0.001, Resolution: 0.02, Repeats: 5}
	must.True(t, len(wrong) == 0 && *p.Search == want && p.Flow.Duration == 2*time.Second && p.Flow.Interval == 2*time.Second,
		"%+v, %+v, %v", p.Search, p.Flow, wrong)
	must.True(t, p.Flow.Engine == udp.Name && slices.Equal(p.Directions, []model.Direction{model.To}) && len(p.Order)+len(p.Settings)+p.MaxBlocks == 0, "%+v", p)
	q.Search.Timed, q.Search.Repeats = true, 3
	p, _ = planned(q)
	must.True(t, p.Flow.Duration == 9*time.Second && p.Search.Repeats == 3, "%+v, %+v", p.Search, p.Flow)
}

func targetOf(t *testing.T, text string) target.Target {
	t.Helper()
	return must.Get(target.Parse(text, apptest.Env(&apptest.Person{})))(t)
}

func TestPlanOfForeignPeers(t *testing.T) {
	t.Parallel()
	env := apptest.Env(&apptest.Person{})
	p, _ := planned(trial.Quick{Flow: tcp(), Repeats: 1, Idle: time.Second})
	far := targetOf(t, "iperf3://nas")
	must.Do(t, trial.Suit(env, &far, &p, nil))
	must.Equal(t, p.Flow.Engine, "tcpbulk", "to a server that answers no probes")
	p.Flow.Engine = "reqresp"
	if err := trial.Suit(env, &far, &p, nil); fault.KindOf(err) != fault.Usage || fault.HintOf(err) == "" {
		t.Errorf("requests to iperf3: %v", err)
	}

	far = targetOf(t, "netpipe://nas")
	s := trial.Sweep{Flow: model.Flow{Direction: model.To}, Params: sizes.Params{Mode: sizes.Both}, Smallest: 64, Largest: units.Bytes(1 << 20), Seed: 1}
	p, err := s.Plan(env, &far, app.Values{"min": "64", "max": "1MiB"})
	own, _ := sizes.Of(p.Flow)
	must.True(t, err == nil && p.Flow.Engine == sizes.NetPIPE && len(p.Order) == 1 && len(own.Sizes) == 0 && own.Mode == sizes.Both, "%+v, %+v, %v", p, own, err)
	s.Flow.Nagle = true
	if _, err := s.Plan(env, &far, nil); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "--nagle") {
		t.Errorf("Nagle's algorithm at NPtcp: %v", err)
	}
	elsewhere := targetOf(t, "iperf3://nas")
	_, err = s.Plan(env, &elsewhere, nil)
	must.True(t, fault.KindOf(err) == fault.Usage, "a sweep with iperf3: %v", err)
}

func TestSweepPlan(t *testing.T) {
	t.Parallel()
	env, far := apptest.Env(&apptest.Person{}), target.Target{Kind: target.Here}
	p, err := trial.Sweep{Flow: model.Flow{Direction: model.From}, Passes: 6, Seed: 7, Cooldown: time.Second}.Plan(env, &far, nil)
	own, _ := sizes.Of(p.Flow)
	must.True(t, err == nil && len(p.Order) == 6 && p.MaxBlocks == 6 && p.Seed == 7 && p.Cooldown == time.Second && p.Flow.Direction == model.From && len(own.Sizes) >= 20 && p.Flow.Points == len(own.Sizes), "%+v, %v", p, err)
	p, _ = (trial.Sweep{Flow: model.Flow{Direction: model.To}}).Plan(env, &far, nil)
	must.True(t, p.Seed != 0 && len(p.Order) != 0, "the defaults: %+v", p)
	_, err = trial.Sweep{Flow: model.Flow{Direction: model.To}, Passes: 1}.Plan(env, &far, nil)
	must.True(t, fault.KindOf(err) == fault.Usage && errors.Unwrap(err) != nil, "one pass: %v", err)
}

// TestCopyPlan: a copy and its parts in blocks, between agents, with valid sources and sinks.
func TestCopyPlan(t *testing.T) {
	t.Parallel()
	here, agent := target.Target{Kind: target.Here}, targetOf(t, "lab:rate=1gbit")
	asked := trial.Copy{
		Source: files.OnDisk, Sink: files.InMemory, Bytes: 1 << 20, Params: files.Params{Direct: true, Sync: true},
		Directions: []model.Direction{model.From, model.To}, Blocks: 2, Cooldown: time.Second,
	}
	p, err := asked.Plan(here, agent)
	own, _ := files.Of(p.Flow)
	must.True(t, err == nil && len(p.Order) == 2 && p.Seed != 0 && p.Cooldown == time.Second && p.Flow.Direction == model.From && p.Flow.Bytes == 1<<20 && p.Flow.Block == 1<<20 && own.Direct && own.Sync, "%+v, %+v, %v", p, own, err)
	asked.Params.Direct, asked.Seed = false, 7
	p, err = asked.Plan(here, agent)
	must.True(t, err == nil && p.Flow.Block == 0 && p.Seed == 7, "%+v, %v", p, err)
	if _, err := asked.Plan(here, targetOf(t, "iperf3://nas")); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "copies no files") || fault.HintOf(err) == "" {
		t.Errorf("a copy to iperf3: %v", err)
	}
	for _, bad := range []string{"pigeon", "./no/such/file"} {
		asked.Source = bad
		_, err := asked.Plan(here, agent)
		must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), "--source"), "from %s: %v", bad, err)
	}
}

// crowd is a runner between hosts on which other programs use that many CPUs, check after
// check.
type crowd struct {
	experiment.Runner
	near, far []float64
}

func (c *crowd) Run(_ context.Context, s runner.Spec, _ func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	r := model.Run{Flow: s.Flow, State: model.RunValid}
	for h, busy := range map[model.Host]*[]float64{model.Near: &c.near, model.Far: &c.far} {
		r.Ends = append(r.Ends, model.EndReport{Host: h, CPUWindow: 300 * time.Millisecond, SystemBusy: fact.Known((*busy)[0], "test")})
		if len(*busy) > 1 {
			*busy = (*busy)[1:]
		}
	}
	return r, nil, nil
}

// TestCalm: a measurement waits for hosts that other programs keep busy, names them, and goes
// on when they are idle or the time is up.
func TestCalm(t *testing.T) {
	free := []float64{0.5}
	for name, c := range map[string]struct {
		crowd      crowd
		calm, took time.Duration
		says       []string
		alone      bool // the far end is a foreign program
	}{
		"free":        {crowd{nil, free, free}, time.Minute, 0, nil, false},
		"for a while": {crowd{nil, free, []float64{3.9, 3.8, 0}}, time.Minute, 2 * time.Second, []string{"waiting up to 1 min before the first run: other programs keep 3.9 of the 4 processors of nas busy", "free again, after 2 s"}, false},
		"for ever":    {crowd{nil, []float64{3.9}, free}, 5 * time.Second, 5 * time.Second, []string{"of desk busy", "measuring all the same after 5 s: other programs keep 3.9"}, false},
		"not to wait": {crowd{nil, []float64{3.9}, free}, 0, 0, nil, false},
		"not so much": {crowd{nil, []float64{3}, free}, time.Minute, 0, nil, false},
		"cannot be":   {crowd{nil, []float64{9}, free}, time.Minute, 0, nil, false},
		"foreign":     {crowd{nil, []float64{3.9, 3.8, 0}, []float64{3.9}}, time.Minute, 2 * time.Second, []string{"the far end cannot be asked how busy it is: only desk is watched", "of desk busy", "free again, after 2 s"}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			person := &apptest.Person{}
			env := apptest.Env(person)
			env.Calm = c.calm
			e := &target.Ends{NearText: app.ThisMachine, FarText: "root@nas", Far: new(session.Client), Runner: &c.crowd,
				Hosts: []model.HostFacts{{Host: model.Near, Name: "desk", CPUs: 4, Address: "192.0.2.1"}, {Host: model.Far, Name: "vm", CPUs: 4, Address: "192.0.2.2"}}}
			if c.alone {
				e.Far, e.Runner, e.Idle = nil, nil, e.Runner
			}
			began := time.Now()
			must.Do(t, trial.Calm(t.Context(), env, e))
			must.Equal(t, time.Since(began), c.took, name)
			got := apptest.Events[app.Warning](person)
			must.Need(t, len(got) == len(c.says), "%s: %+v", name, got)
			for i, text := range c.says {
				must.True(t, strings.Contains(got[i].Text, text), "%s: %q", name, got[i].Text)
			}
		})
	}
}
