package report

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func TestTries(t *testing.T) {
	tcp := model.TCPSummary{RTTMin: fact.Known(10*time.Millisecond, "test")}
	s := model.Session{
		ID: "x", Kind: model.KindTest, Near: "this machine", Far: "lab:rate=1gbit,rtt=10ms",
		WireRate: fact.Known(units.BitRate(1e9), "test"),
		Runs: []model.Run{{Number: 1, State: model.RunValid, Ends: []model.EndReport{{
			Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, TCP: &tcp}},
		}}}},
		Findings: []model.Finding{{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max"}}},
	}
	for _, h := range []model.Host{model.Near, model.Far} {
		s.Hosts = append(s.Hosts, model.HostFacts{
			Host: h, MTU: fact.Known(1500, "test"),
			Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("65536", "test")},
		})
	}
	first := func() string { return Build(s, Options{}).Next[0].Command }
	// The path holds 1.18 MB; the suggestion is twice that and no more.
	must.Equal(t, first(), "linerate run lab:rate=1gbit,rtt=10ms --factor far.tcp.recv_buffer_max=256KiB,1MiB,4MiB,16MiB", "suggested")
	s.Far = "exec:10.0.0.2 ip netns exec b linerate agent"
	got, want := first(), "linerate run 'exec:10.0.0.2 ip netns exec b linerate agent' --factor far.tcp.recv_buffer_max=256KiB,1MiB,4MiB,16MiB"
	must.True(t, got == want, "suggested %q, want %q", got, want)
	s.Far = "linerate://nas:5299"
	got, want = first(), "linerate show x"
	must.True(t, got == want, "suggested %q for a host that measures only, want %q", got, want)
	s.Findings[0].Host, s.Findings[0].Direction = model.Near, model.From
	must.Equal(t, first(), "linerate run linerate://nas:5299 --direction from --factor near.tcp.recv_buffer_max=256KiB,1MiB,4MiB,16MiB", "suggested")
	s.WireRate = fact.Unknown[units.BitRate]("virtual")
	got, want = first(), "linerate run linerate://nas:5299 --direction from --factor near.tcp.recv_buffer_max=256KiB,1MiB,4MiB,16MiB"
	must.True(t, got == want, "suggested %q without knowing the path, want %q", got, want)
	// A queue that is too long gets a remedy that keeps it short, with no promise of rate.
	s.Findings = []model.Finding{{Rule: "B30", Direction: model.From, Knobs: []model.KnobID{"qdisc"}}}
	s.Far, s.Hosts[1].Knobs["qdisc"] = "lab:rate=1gbit,rtt=10ms", fact.Known("pfifo_fast", "test")
	must.Equal(t, first(), "linerate tune lab:rate=1gbit,rtt=10ms --goal latency")
}

// The suggested experiment reaches the hosts as the test did, and makes the same traffic, so
// that pasting it asks the same question.
func TestTryReachesTheHostsAgain(t *testing.T) {
	tcp := model.TCPSummary{RTTMin: fact.Known(10*time.Millisecond, "test")}
	for name, c := range map[string]struct {
		near, far string
		command   []string
		host      model.Host // to blame
		flow      model.Flow
		want      string // between "linerate run " and " --factor"; "" for no suggestion
	}{
		"ssh with sudo": {far: "alice@nas", command: []string{"linerate", "test", "alice@nas", "--sudo"}, want: "alice@nas --sudo"},
		"ssh as a user, whose far end is to change": {far: "alice@nas", command: []string{"linerate", "test", "alice@nas"}, want: "alice@nas --sudo"},
		"ssh as root":                              {far: "root@nas", command: []string{"linerate", "test", "root@nas"}, want: "root@nas"},
		"ssh URL with a port":                      {far: "ssh://alice@nas:2222", want: "ssh://alice@nas:2222 --sudo"},
		"ssh as the configuration says":            {far: "ssh://nas", want: "ssh://nas"},
		"a user of ssh, and this end is to change": {far: "alice@nas", host: model.Near, want: "alice@nas"},
		"both ends by ssh": {near: "bob@desk", far: "alice@nas", command: []string{"linerate", "test", "--from=bob@desk", "alice@nas", "--sudo=true", "--keep-agent", "--trust-far-binary"},
			want: "alice@nas --from bob@desk --sudo --trust-far-binary --keep-agent"},
		"a switch that was turned off":        {far: "root@nas", command: []string{"linerate", "test", "root@nas", "--sudo=false"}, want: "root@nas"},
		"commands":                            {near: "exec:10.0.0.1 ip netns exec a linerate agent", far: "exec:10.0.0.2 ip netns exec b linerate agent", want: "'exec:10.0.0.2 ip netns exec b linerate agent' --from 'exec:10.0.0.1 ip netns exec a linerate agent'"},
		"a server that measures only":         {far: "linerate://x@nas:5299"},
		"another program":                     {far: "iperf3://nas"},
		"a server, and this end is to change": {far: "linerate://x@nas:5299", host: model.Near, command: []string{"linerate", "test", "@nas.link"}, want: "@nas.link"},
		"a store of its own":                  {far: "root@nas", command: []string{"linerate", "test", "root@nas", "--db", "my results.db"}, want: "root@nas"},
		"the same traffic": {far: "root@nas", flow: model.Flow{Engine: "tcpbulk", Streams: 4, MSS: 1000, Congestion: "bbr", Block: 65000, Nagle: true},
			want: "root@nas -P 4 -l 65000B -M 1000 -C bbr --nagle"},
		"the same datagrams": {far: "root@nas", flow: model.Flow{Engine: "udpflow", Params: traffic.Write(udp.Params{Rate: 123456789})}, want: "root@nas --udp -b 123456789"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.host == "" {
				c.host = model.Far
			}
			if c.near == "" {
				c.near = "this machine"
			}
			s := model.Session{
				ID: "x", Kind: model.KindTest, Near: c.near, Far: c.far, Command: c.command, Plan: model.Plan{Flow: c.flow},
				WireRate: fact.Known(units.BitRate(1e9), "test"),
				Runs: []model.Run{{Number: 1, State: model.RunValid, Ends: []model.EndReport{{
					Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, TCP: &tcp}},
				}}}},
				Findings: []model.Finding{{Direction: model.To, Host: c.host, Knobs: []model.KnobID{"tcp.recv_buffer_max"}}},
			}
			for _, h := range []model.Host{model.Near, model.Far} {
				s.Hosts = append(s.Hosts, model.HostFacts{Host: h, MTU: fact.Known(1500, "test"),
					Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("65536", "test")}})
			}
			next := Build(s, Options{}).Next
			again := next[len(next)-1].Command
			store := ""
			if slices.Contains(c.command, "--db") {
				store = " --db 'my results.db'"
			}
			must.Equal(t, again, "linerate show x"+store, "see again")
			if c.want == "" {
				must.True(t, len(next) == 1, "suggested %q", next[0].Command)
				return
			}
			must.Equal(t, next[0].Command, "linerate run "+c.want+" --factor "+string(c.host)+".tcp.recv_buffer_max=256KiB,1MiB,4MiB,16MiB"+store)
		})
	}
}

// TestFirstHour08ReportEndsWithKeep: the report of an experiment with a clear winner ends with
// the command that keeps it, with the hosts' addresses.
func TestFirstHour08ReportEndsWithKeep(t *testing.T) {
	both := []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: "0"}, {Host: model.Far, Knob: "tcp.sack", Value: "0"}}
	for name, c := range map[string]struct {
		near, far string
		command   []string
		set       []model.Assignment
		outcome   model.Outcome
		want      []string
	}{
		"far":                {set: both[1:], want: []string{"linerate keep x root@nas"}},
		"near":               {set: both[:1], want: []string{"linerate keep x"}},
		"both":               {set: both, want: []string{"linerate keep x root@nas --both"}},
		"sudo and store":     {far: "me@nas", command: []string{"linerate", "run", "me@nas", "--db", "a b.db"}, set: both[1:], want: []string{"linerate keep x me@nas --sudo --db 'a b.db'"}},
		"a command":          {far: "exec:10.0.0.2 ip netns exec b linerate agent", set: both[1:], want: []string{"linerate keep x 'exec:10.0.0.2 ip netns exec b linerate agent'"}},
		"two far machines":   {near: "root@desk", set: both, want: []string{"linerate keep x root@desk", "linerate keep x root@nas"}},
		"the nearer of them": {near: "root@desk", set: both[:1], want: []string{"linerate keep x root@desk --role sender"}},
		"a lab":              {near: "lab:lan", far: "lab:lan", set: both},
		"not better":         {set: both, outcome: model.Equivalent},
		"of the traffic":     {set: []model.Assignment{{Knob: "window", Value: "65536"}}},
		"measures only":      {far: "linerate://nas:5299", set: both[1:]},
	} {
		s := model.Session{
			ID: "x", Kind: model.KindRun, Near: "this machine", Far: "root@nas", State: model.SessionDone, Command: c.command,
			Plan:     model.Plan{Baseline: "current", Directions: []model.Direction{model.To}, Settings: []model.Setting{{Name: "current"}, {Name: "y", Assignments: c.set}}},
			Verdicts: []model.Verdict{{Setting: "y", Baseline: "current", Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 6, Estimate: 0.1}},
		}
		s.Near, s.Far = cmp.Or(c.near, s.Near), cmp.Or(c.far, s.Far)
		s.Verdicts[0].Outcome = cmp.Or(c.outcome, model.Better)
		var got []string
		for _, step := range Build(s, Options{}).Next {
			if strings.HasPrefix(step.What, "keep ") {
				got = append(got, step.Command)
			}
		}
		must.True(t, slices.Equal(got, c.want), "%s: %q, want %q", name, got, c.want)
	}
}

// TestWhatGoesOn: a check that a busy host disturbed ends with itself, and a search with what
// goes on, with all the time that it takes, or with a wider look where nothing was left to try.
func TestWhatGoesOn(t *testing.T) {
	s := model.Session{ID: "x", Kind: model.KindCheck, Near: "this machine", Far: "nas", State: model.SessionDone, Command: []string{"linerate", "check", "nas", "--quick"}, WireRate: fact.Known(units.BitRate(13e7), "test"),
		Findings: []model.Finding{{Direction: model.To, Host: model.Far, Limit: "hypervisor"}},
		Runs:     []model.Run{{Number: 1, State: model.RunValid, Flow: model.Flow{Direction: model.To}, Values: []model.Value{{Metric: model.Goodput, Direction: model.To, Value: 1e8}}}}}
	for _, h := range []model.Host{model.Near, model.Far} {
		s.Hosts = append(s.Hosts, model.HostFacts{Host: h, MTU: fact.Known(1500, "test")})
	}
	again := Step{"measure again while the hosts have less to do", "linerate check nas --quick"}
	must.True(t, slices.Contains(Build(s, Options{}).Next, again), "disturbed: %+v", Build(s, Options{}).Next)
	s.Findings = nil
	must.True(t, !slices.Contains(Build(s, Options{}).Next, again), "undisturbed: %+v", Build(s, Options{}).Next)

	s.Kind, s.Command = model.KindTune, []string{"linerate", "tune", "nas", "--budget", "1m", "--data", "30MB", "--only=tcp.sack", "--seed=3", "--db", "r.db"}
	for want, c := range map[string]struct {
		state          model.SessionState
		reason, proven string
	}{
		"linerate tune --resume x --db r.db":                           {state: model.SessionInterrupted},
		"linerate tune nas --only=tcp.sack --db r.db":                  {reason: tune.BudgetSpent},
		"linerate tune nas --budget 1m --data 30MB --seed=3 --db r.db": {reason: tune.NoneAllowed},
		"linerate check nas --db r.db":                                 {reason: tune.NothingLeft},
		"linerate show x --db r.db":                                    {reason: tune.NothingLeft, proven: "y"},
	} {
		s.State = cmp.Or(c.state, model.SessionDone)
		got := afterSearch(s, tune.Record{Reason: c.reason, Confirmation: c.proven, Options: tune.Options{Objective: model.Goodput}})
		must.Equal(t, got.Command, want, got.What)
	}
}

// TestFirstHour09LongerIsACommand: "about 46 blocks more" comes with the command that runs
// them; a fixed plan has none.
func TestFirstHour09LongerIsACommand(t *testing.T) {
	o := plan.Request{Plan: model.Plan{
		Settings: []model.Setting{{Name: "current"}, {Name: "y", Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "0"}}}},
		Flow:     model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second},
	}, Null: plan.NullNone}
	s := model.Session{
		ID: "x", Kind: model.KindRun, Near: "this machine", Far: "exec:nas ssh nas linerate agent", State: model.SessionDone, Command: []string{"linerate", "run", "--db", "r.db"},
		Verdicts: []model.Verdict{{Setting: "y", Baseline: "current", Direction: model.To, Metric: model.Goodput, Outcome: model.Undecided, Blocks: 20, MoreBlocks: 46}},
	}
	var err error
	s.Plan, err = plan.New(o)
	must.Do(t, err)
	first := func() Step { return Build(s, Options{}).Next[0] }
	if got := first(); got.Command != "linerate run --resume x --max-blocks 66 --allow-exec --db r.db" || !strings.Contains(got.What, "about 46 blocks more") {
		t.Errorf("%+v", got)
	}
	own := newBuilder(&model.Session{Near: "this machine", Far: "https://nas", Command: []string{"linerate", "test", "https://nas", "--insecure"}})
	must.Equal(t, own.command("check", model.Setting{}), "linerate check https://nas --insecure", "a certificate that no authority signed")
	elsewhere := Build(s, Options{Store: "copy of r.db"}).Next[0].Command
	must.True(t, strings.HasSuffix(elsewhere, " --db 'copy of r.db'"), "read from another database: %s", elsewhere)
	s.Verdicts[0].Outcome, s.Verdicts[0].MoreBlocks = model.Equivalent, 0
	got := first()
	must.True(t, !strings.Contains(got.Command, "--resume"), "decided: %+v", got)
	s.Verdicts[0].Outcome, s.Verdicts[0].MoreBlocks = model.Undecided, 46
	o.Mode, o.MaxBlocks = model.FixedBlocks, 8
	s.Plan = must.Get(plan.New(o))(t)
	got = first()
	must.True(t, !strings.Contains(got.Command, "--resume"), "a fixed plan: %+v", got)
}

// A plan that holds a knob reports it before and after, with the runs of a group and the
// changes per block; other plans do not mention it.
func TestHeldIsToldWithItsReason(t *testing.T) {
	factors := []model.Factor{plantest.Factor("far.link.mtu", "1500", "9000"), plantest.Factor("window", "65536", "131072", "262144")}
	o := plan.Request{Plan: model.Plan{
		Settings: plantest.Settings(factors...), Factors: factors, Mode: model.FixedBlocks, MaxBlocks: 6, Seed: 3,
		Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second}, Directions: []model.Direction{model.To, model.From},
	}}
	for held, want := range map[model.KnobID]string{
		"link.mtu": "link.mtu is held over groups of 6 runs: it is hard to change, so that a block changes it 2 times and not 12, and it is judged by the means of its groups",
		"":         "",
	} {
		o.Held = held
		p := must.Get(plan.New(o))(t)
		d := NewDryRun(model.Session{Plan: p}, fact.Unknown[float64]("not measured"), knob.NewIndex(), nil)
		before, after := strings.Join(d.Outlook, "\n"), ""
		for _, row := range Method(model.Session{Plan: p, Kind: model.KindRun}, Document{}) {
			if row[0] == "held" {
				after = row[1]
			}
		}
		if after != want || want != "" && (d.Held == nil || d.Held.Runs != 6 || d.Held.Changes != 2 || !strings.Contains(before, want)) || want == "" && (d.Held != nil || strings.Contains(before, "held")) {
			t.Errorf("%q: %+v\nbefore: %s\nafter: %s", held, d.Held, before, after)
		}
	}
}

// TestDryRunCountsChanges: a value that a host already has does not count as a change, and
// copies have a duration, from their bytes and the path's ceiling.
func TestDryRunCountsChanges(t *testing.T) {
	s := model.Session{Hosts: []model.HostFacts{{Host: model.Far, Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("32768", "test")}}}}
	for _, v := range []string{"32768", "65536"} {
		s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: v, Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: v}, {Host: model.Near, Knob: "tcp.sack", Value: "0"}}})
	}
	got := lists.Each(NewDryRun(s, fact.Unknown[float64]("not measured"), knob.NewIndex(), nil).Changes, func(c DryChange) string { return c.Host.Of(model.KnobID(c.What)) + "=" + strings.Join(c.Values, ",") })
	must.Equal(t, strings.Join(got, " "), "near.tcp.sack=0 far.tcp.recv_buffer_max=65536")

	s.Plan.Flow.Bytes, s.WireRate = 25e6, fact.Known(units.BitRate(100e6), "test") // 2.1 s a copy, at 94.1 Mbit/s of payload
	s.Plan.Directions, s.Plan.Settle, s.Plan.Order = []model.Direction{model.To}, 2*time.Second, [][]string{{"32768", "65536"}}
	for i := range 2 {
		s.Hosts = append(s.Hosts[:i], model.HostFacts{Host: []model.Host{model.Near, model.Far}[i], MTU: fact.Known(1500, "test")})
	}
	took := NewDryRun(s, fact.Unknown[float64]("not measured"), knob.NewIndex(), nil).Time
	b := builder{s: &s, counted: []model.Run{{Ended: time.Time{}.Add(4 * time.Second)}, {Ended: time.Time{}.Add(6 * time.Second)}}}
	s.Plan.Flow.Duration = 0
	must.Equal(t, b.lasting(6), "1 min", "six blocks of two copies")
	must.True(t, took.Or(0).Round(time.Second) == 9*time.Second, "two copies take %v: %s", took.Or(0), took.Reason())
}

// TestCountedRuns: for a block that was repeated after an invalid run, an interruption or a
// killed controller, only the last try counts; for any other block, all its runs count.
func TestCountedRuns(t *testing.T) {
	run := func(number, block, attempt int, state model.RunState) model.Run {
		return model.Run{Number: number, Block: block, Attempt: attempt, State: state}
	}
	got := []int{}
	for _, r := range Counted([]model.Run{
		run(1, 1, 1, model.RunValid), run(2, 1, 1, model.RunValid),
		run(3, 2, 1, model.RunValid), // then the controller was killed
		run(4, 2, 2, model.RunValid), run(5, 2, 2, model.RunValid),
		run(6, 3, 1, model.RunValid), run(7, 3, 1, model.RunInvalid),
		run(8, 4, 1, model.RunValid), run(9, 4, 1, model.RunInterrupted),
		run(10, 4, 2, model.RunValid), run(11, 4, 2, model.RunValid),
		run(12, 3, 2, model.RunValid), run(13, 3, 2, model.RunInvalid),
		run(14, 5, 1, model.RunValid), // killed once more, and not resumed
	}) {
		got = append(got, r.Number)
	}
	want := []int{1, 2, 4, 5, 10, 11, 14}
	must.True(t, slices.Equal(got, want), "runs %v count, want %v", got, want)
}
