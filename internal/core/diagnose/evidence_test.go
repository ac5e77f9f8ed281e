package diagnose

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// session is a short test between two hosts that report everything.
func session() *model.Session {
	s := &model.Session{
		Kind: model.KindTest, WireRate: known(units.BitRate(1e9)),
		Plan: model.Plan{Baseline: "current", Settings: []model.Setting{{Name: "current"}}, MaxBlocks: 1, Mode: model.FixedBlocks,
			Order: [][]string{{"current"}}, Directions: []model.Direction{model.To, model.From}, Flow: model.Flow{Engine: "tcpbulk", Direction: model.To}},
	}
	for _, h := range []model.Host{model.Near, model.Far} {
		s.Hosts = append(s.Hosts, model.HostFacts{
			Host: h, MTU: known(1500), Address: "192.0.2.1",
			Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": known("65536 of " + string(h))},
			NICs:  []model.NIC{{Name: "eth" + string(h), Bus: model.Bus{Kind: known("pcie")}}},
		})
	}
	for i, d := range s.Plan.Directions {
		tcp := busy()
		tcp.RwndLimited = known(7 * time.Second)
		tcp.PeerWindow, tcp.RTT = known(units.Bytes(65536)), known(10*time.Millisecond)
		s.Runs = append(s.Runs, model.Run{
			Number: i + 1, Block: 1, Attempt: 1, Position: 1, Setting: "current", State: model.RunValid,
			Flow:   model.Flow{Engine: "tcpbulk", Direction: d, Streams: 2},
			Values: []model.Value{{Direction: d, Metric: model.Goodput, Value: 50e6 + float64(i)*1e6}},
			Ends: []model.EndReport{
				{Host: d.Sender(), CPUUser: time.Second, CPUWindow: 10 * time.Second, SystemBusy: known(0.5),
					Counters: counted(everything(), "qdisc_dropped/eth0", 4),
					Flows:    []model.FlowReport{{Direction: d, Role: model.Sender, Window: 10 * time.Second, TCP: &tcp}}},
				{Host: d.Receiver(), CPUSystem: 2 * time.Second, CPUWindow: 10 * time.Second,
					Counters: counted(everything(), "softnet_dropped/cpu0", 3, "softnet_dropped/cpu1", 5),
					Flows:    []model.FlowReport{{Direction: d, Role: model.Receiver}}},
			},
		})
	}
	return s
}

// TestCollect checks what a rule may see in both directions: the facts and counters of the
// right host, the plan, the samples, the other direction.
func TestCollect(t *testing.T) {
	s := session()
	for _, d := range s.Plan.Directions {
		run := Looked(s)[d]
		samples := []model.Sample{
			{Host: d.Sender(), Direction: d, Metric: model.Cwnd, Value: 1, Omitted: true},
			{Host: d.Sender(), Direction: d, Metric: model.Cwnd, Value: 2},
			{Host: d.Receiver(), Metric: "cpu_softirq", Of: "cpu1", Value: 0.9},
		}
		e, ok := Collect(s, run, d, samples)
		must.Need(t, ok, "%s: nothing collected", d)
		for name, good := range map[string]bool{
			"run":      e.Run.Number == run.Number && e.Streams == 2,
			"goodput":  e.Goodput == units.BitRate(run.Values[0].Value) && e.Window == 10*time.Second,
			"other":    e.Other.IsKnown() && e.Other.Or(0) != e.Goodput,
			"ceiling":  e.Ceiling.IsKnown() && len(e.Path.Limits) > 0 && e.RTT.Or(0) == 10*time.Millisecond,
			"hosts":    e.Sender.Host == d.Sender() && e.Receiver.Host == d.Receiver(),
			"settings": e.Receiver.Knob("tcp.recv_buffer_max").Or("") == "65536 of "+string(d.Receiver()),
			"unknown":  !e.Sender.Knob("no.such").IsKnown(),
			"CPU":      e.Sender.CPU.Or(0) == 0.1 && e.Receiver.CPU.Or(0) == 0.2 && e.Sender.Report.SystemBusy.Or(0) == 0.5,
			"counters": e.Sender.Counters.Moved("qdisc_dropped").Or(0) == 4 && e.Receiver.Counters.Moved("softnet_dropped").Or(0) == 8,
			"by core":  e.Receiver.Counters.By("softnet_dropped")["cpu1"] == 5,
			"stood":    e.Sender.Counters.Moved("tcp_timeouts").Or(-1) == 0,
			"unread":   !e.Sender.Counters.Moved("nic_driver").IsKnown() && !e.Sender.Counters.Moved("cpu_busy_ms").IsKnown(),
			"samples":  len(e.Sampled(d.Sender(), model.Cwnd)) == 1 && len(e.Sampled(d.Receiver(), "cpu_softirq")) == 1,
		} {
			must.True(t, good, "%s: %s: %+v", d, name, e)
		}
		share, ok := e.TCP.Share(e.TCP.RwndLimited)
		nic, told := e.Sender.NIC()
		must.True(t, told && nic.Name == "eth"+string(d.Sender()) && ok && share == 0.7, "%s: interface %+v, share %v", d, nic, share)
	}
	_, ok := Collect(s, s.Runs[0], model.From, nil)
	must.True(t, !ok, "collected in a direction that the run did not measure")
	// Hosts without a report leave everything unknown.
	s.Hosts, s.Runs[0].Ends = nil, nil
	e, ok := Collect(s, s.Runs[0], model.To, nil)
	_, told := e.Sender.NIC()
	must.True(t, ok && !told && e.Window == 0 && !e.Sender.CPU.IsKnown() && !e.Sender.Counters.Moved("tcp_timeouts").IsKnown(), "%+v", e)
	f := Find(e)
	must.True(t, len(f) == 1 && f[0].Kind == model.FindingNotFound && len(f[0].RuledOut) == 0, "%+v", f)
}

// A rate that the link cannot carry shows that the link's rate is wrong, so the path does not
// count as full.
func TestRefutedCeiling(t *testing.T) {
	s := session()
	s.WireRate = known(units.BitRate(10e6))
	for _, f := range Session(s, nil) {
		must.True(t, f.Rule != "ceiling", "50 Mbit/s are said to fill a link of 10: %+v", f)
	}
}

func TestSession(t *testing.T) {
	s := session()
	found := Session(s, nil)
	must.Need(t, len(found) == 2, "%+v", found)
	for i, d := range s.Plan.Directions {
		f := found[i]
		must.True(t, f.Direction == d && f.Rule == "B07" && f.Host == d.Receiver(), "%+v, want the receive window of %s", f, d.Receiver())
	}
	// Lost datagrams are located where both hosts counted, and UDP has no TCP rules.
	s = session()
	s.Plan.Directions, s.Runs = s.Plan.Directions[:1], s.Runs[:1]
	for i := range s.Runs[0].Ends {
		f := &s.Runs[0].Ends[i].Flows[0]
		f.TCP, f.UDP = nil, &model.UDPSummary{Sent: 1000, Lost: 100}
	}
	s.Runs[0].Ends[1].CPUSystem = time.Minute
	found = Session(s, nil)
	must.True(t, len(found) != 0 && !slices.ContainsFunc(found, func(f model.Finding) bool { return !f.Loss }), "%+v", found)
	s.Runs[0].Ends[1].Counters = nil
	found = Session(s, nil)
	must.True(t, len(found) == 1 && found[0].Kind == model.FindingNotFound && len(found[0].Missing) == 1, "without counters: %+v", found)
}

// The median run is one that counts: not a run of a spoilt and repeated block, and not an
// arbitrary one of two equal runs.
func TestMedianRun(t *testing.T) {
	run := func(number, block, attempt int, state model.RunState, goodput float64) model.Run {
		return model.Run{Number: number, Block: block, Attempt: attempt, Position: 1, Setting: "as is", State: state,
			Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: goodput}}}
	}
	s := &model.Session{
		Plan: model.Plan{Settings: []model.Setting{{Name: "as is"}}, Baseline: "as is", MaxBlocks: 3,
			Order: [][]string{{"as is"}, {"as is"}, {"as is"}}, Mode: model.FixedBlocks, Flow: model.Flow{Direction: model.To}},
		Runs: []model.Run{
			run(1, 1, 1, model.RunInvalid, 1e9), run(2, 2, 1, model.RunValid, 5e8), run(3, 3, 1, model.RunValid, 5e8), run(4, 1, 2, model.RunValid, 4e8),
		},
	}
	must.Equal(t, Looked(s)[model.To].Number, 2, "run")
	s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: "b"})
	s.Plan.Order = [][]string{{"as is", "b"}, {"as is", "b"}}
	other := func(number, block, attempt int, state model.RunState) model.Run {
		r := run(number, block, attempt, state, 1e6)
		r.Setting, r.Position = "b", 2
		return r
	}
	s.Runs = []model.Run{
		run(1, 1, 1, model.RunValid, 9e8), other(2, 1, 1, model.RunInvalid), // spoilt: not counted
		run(3, 1, 2, model.RunValid, 1e8), other(4, 1, 2, model.RunValid),
		run(5, 2, 1, model.RunValid, 2e8), other(6, 2, 1, model.RunValid),
	}
	r := Looked(s)[model.To]
	must.True(t, r.Number == 3, "run %d of a spoilt block", r.Number)
	must.True(t, len(Looked(&model.Session{})) == 0, "a run of a session without runs")
}

// TestFactsUnderASetting: rules see the facts of a host during the run, and the session's own
// facts stay unchanged.
func TestFactsUnderASetting(t *testing.T) {
	before := model.HostFacts{Host: model.Far, MTU: fact.Known(9000, "sysfs"), Knobs: map[model.KnobID]fact.Of[string]{"tcp.sack": fact.Known("1", "sysctl")}}
	got := under(before, model.Setting{Assignments: []model.Assignment{
		{Host: model.Far, Knob: "link.mtu", Value: "1500"}, {Host: model.Far, Knob: "tcp.sack", Value: "0"}, {Host: model.Near, Knob: "tcp.ecn", Value: "1"},
	}})
	must.True(t, got.MTU.Or(0) == 1500 && got.Knobs["tcp.sack"].Or("") == "0", "%v, %v", got.MTU, got.Knobs)
	_, ok := got.Knobs["tcp.ecn"]
	must.True(t, !ok && before.Knobs["tcp.sack"].Or("") == "1" && before.MTU.Or(0) == 9000, "the other host's setting, or the facts before: %v, %v", got.Knobs, before)
}

// TestOneAnswerForEachDirection: whatever is known, even nothing, each measured direction has
// exactly one answer, which makes a sentence.
func TestOneAnswerForEachDirection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := session()
		if rapid.Bool().Draw(t, "no rate") {
			s.WireRate = fact.Unknown[units.BitRate]("a veth pair has none")
		} else {
			s.WireRate = known(units.BitRate(math.Exp(rapid.Float64Range(math.Log(1e6), math.Log(1e11)).Draw(t, "rate"))))
		}
		for i := range s.Runs {
			r := &s.Runs[i]
			r.Values[0].Value = math.Exp(rapid.Float64Range(math.Log(1e4), math.Log(1e11)).Draw(t, "goodput"))
			switch rapid.IntRange(0, 3).Draw(t, "known") {
			case 0:
				r.Ends = nil
			case 1:
				r.Ends[0].Flows[0].TCP = nil
			case 2:
				tcp := r.Ends[0].Flows[0].TCP
				share := func(of string) fact.Of[time.Duration] {
					return known(time.Duration(rapid.Float64Range(0, 10).Draw(t, of) * float64(time.Second)))
				}
				tcp.RwndLimited, tcp.SndbufLimited, tcp.Busy = share("rwnd"), share("sndbuf"), share("busy")
				tcp.Retransmits = known(rapid.Int64Range(0, 20000).Draw(t, "again"))
				tcp.RTT = known(time.Duration(rapid.Int64Range(1e4, 1e9).Draw(t, "rtt")))
			}
		}
		found := Session(s, nil)
		for _, d := range s.Plan.Directions {
			answers := 0
			for i, f := range found {
				if f.Direction != d || f.Kind == model.FindingBeside {
					continue
				}
				answers++
				must.True(t, i == 0 || found[i-1].Direction != d, "%s: the answer is not the first: %s", d, rulesOf(found))
				text := Sentence(f, func(h model.Host) string { return string(h) })
				must.True(t, text != "" && !strings.Contains(text, "%!") && (f.Kind != model.FindingNotFound || f.Rule != "unknown" || strings.HasPrefix(text, "limit not found")), "%s: sentence %q", d, text)
			}
			must.True(t, answers == 1, "%s: %d answers: %s", d, answers, rulesOf(found))
		}
	})
}

// TestDead: zero bytes are an answer where TCP has retried or a second has passed; in a shorter
// window the hosts may have been too busy to begin.
func TestDead(t *testing.T) {
	for name, c := range map[string]struct {
		window time.Duration
		again  fact.Of[int64]
		got    units.Bytes
		want   bool
	}{
		"sent again":         {100 * time.Millisecond, fact.Known(int64(1), ""), 0, true},
		"not begun":          {100 * time.Millisecond, fact.Known(int64(0), ""), 0, false},
		"a second":           {time.Second, fact.Known(int64(0), ""), 0, true},
		"the system is mute": {100 * time.Millisecond, fact.Unknown[int64]("windows"), 0, true},
		"something arrived":  {time.Second, fact.Known(int64(1), ""), 1, false},
	} {
		r := model.Run{State: model.RunInvalid, Ends: []model.EndReport{
			{Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Window: c.window, TCP: &model.TCPSummary{Retransmits: c.again}}}},
			{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Window: c.window, Bytes: c.got}}},
		}}
		must.True(t, Dead(r, model.To) == c.want, "%s: %t", name, !c.want)
	}
}
