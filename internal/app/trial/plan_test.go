package trial_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/reach"
	"linerate/internal/app/trial"
	"linerate/internal/control/experiment"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/engines"
	"linerate/internal/must"
)

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

func target(t *testing.T, text string) reach.Target {
	t.Helper()
	return must.Get(reach.Parse(text, apptest.Env(&apptest.Person{})))(t)
}

func TestPlanOfForeignPeers(t *testing.T) {
	t.Parallel()
	env := apptest.Env(&apptest.Person{})
	p, _ := planned(trial.Quick{Flow: tcp(), Repeats: 1, Idle: time.Second})
	far := target(t, "iperf3://nas")
	if err := trial.Suit(env, &far, &p, nil); err != nil || p.Flow.Engine != "tcpbulk" {
		t.Errorf("a server that answers no probes is sent %s: %v", p.Flow.Engine, err)
	}
	p.Flow.Engine = "reqresp"
	if err := trial.Suit(env, &far, &p, nil); fault.KindOf(err) != fault.Usage || fault.HintOf(err) == "" {
		t.Errorf("requests to iperf3: %v", err)
	}

	far = target(t, "netpipe://nas")
	s := trial.Sweep{Flow: model.Flow{Direction: model.To}, Params: sizes.Params{Mode: sizes.Both}, Smallest: 64, Largest: units.Bytes(1 << 20), Seed: 1}
	p, err := s.Plan(env, &far, app.Values{"min": "64", "max": "1MiB"})
	own, _ := sizes.Of(p.Flow)
	must.True(t, err == nil && p.Flow.Engine == sizes.NetPIPE && len(p.Order) == 1 && len(own.Sizes) == 0 && own.Mode == sizes.Both, "%+v, %+v, %v", p, own, err)
	s.Flow.Nagle = true
	if _, err := s.Plan(env, &far, nil); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "--nagle") {
		t.Errorf("Nagle's algorithm at NPtcp: %v", err)
	}
	elsewhere := target(t, "iperf3://nas")
	_, err = s.Plan(env, &elsewhere, nil)
	must.True(t, fault.KindOf(err) == fault.Usage, "a sweep with iperf3: %v", err)
}

func TestSweepPlan(t *testing.T) {
	t.Parallel()
	env, far := apptest.Env(&apptest.Person{}), reach.Target{Kind: reach.Here}
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
	here, agent := reach.Target{Kind: reach.Here}, target(t, "lab:rate=1gbit")
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
	if _, err := asked.Plan(here, target(t, "iperf3://nas")); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "copies no files") || fault.HintOf(err) == "" {
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
			e := &reach.Ends{NearText: app.ThisMachine, FarText: "root@nas", Far: new(session.Client), Runner: &c.crowd,
				Hosts: []model.HostFacts{{Host: model.Near, Name: "desk", CPUs: 4, Address: "192.0.2.1"}, {Host: model.Far, Name: "vm", CPUs: 4, Address: "192.0.2.2"}}}
			if c.alone {
				e.Far, e.Runner, e.Idle = nil, nil, e.Runner
			}
			began := time.Now()
			must.Do(t, trial.Calm(t.Context(), env, e))
			must.Equal(t, time.Since(began), c.took, name)
			got := apptest.Told[app.Warning](person)
			must.Need(t, len(got) == len(c.says), "%s: %+v", name, got)
			for i, text := range c.says {
				must.True(t, strings.Contains(got[i].Text, text), "%s: %q", name, got[i].Text)
			}
		})
	}
}
