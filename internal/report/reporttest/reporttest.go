// Package reporttest holds realistic hand-made sessions with which every format is tested.
package reporttest

import (
	"fmt"
	"math"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/units"
)

// Case is a session with its samples by number of run.
type Case struct {
	Name    string
	Session model.Session
	Samples model.Held
}

// Cases returns all sessions, newly made at each call.
func Cases() []Case {
	return []Case{
		quickTest(), sequential(), fixed(), noisy(), interrupted(), untrustworthy(), silent(), guarded(),
		datagramTest(), sweepTest(), requestTest(), copyTest(), searchTest(), unevenTest(), checkTest(), gridTest(), farEndsTest(), meshTest(),
	}
}

// noise is a fixed series of relative deviations, about 1 % wide.
func noise(i int) float64 {
	return [...]float64{0.004, -0.011, 0.008, 0.002, -0.006, 0.009, -0.003, 0.001, 0.005, -0.004}[i%10]
}

func began() time.Time { return time.Date(2026, 11, 21, 1, 32, 9, 0, time.UTC) }

// base returns a finished session between desk and nas on gigabit Ethernet.
func base(id string, kind model.Kind, p model.Plan) model.Session {
	host := func(h model.Host, name, addr string) model.HostFacts {
		return model.HostFacts{
			Host: h, Name: name, OS: "linux", Arch: "amd64", Kernel: fact.Known("6.8.0", "uname"), CPUs: 8, Version: "0.1.0",
			Address: addr, Interface: fact.Known("eth0", "route"), MTU: fact.Known(1500, "sysfs"),
			LinkRate: fact.Known(units.BitRate(1e9), "sysfs"), Congestion: fact.Known("cubic", "sysctl"),
			Qdisc: fact.Unknown[string]("not allowed"),
			Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("65536", "sysctl")},
		}
	}
	desk := host(model.Near, "desk", "192.0.2.1")
	describe(&desk)
	return model.Session{
		ID: id, Kind: kind, Title: "desk -> nas", Command: []string{"linerate", string(kind), "nas"}, Near: "this machine", Far: "root@nas",
		Version: "0.1.0", Created: began(), Ended: began().Add(20 * time.Minute), State: model.SessionDone, Plan: p,
		Hosts:    []model.HostFacts{desk, host(model.Far, "nas", "192.0.2.2")},
		WireRate: fact.Known(units.BitRate(1e9), "sysfs"),
	}
}

func flow(d model.Direction) model.Flow {
	return model.Flow{Engine: "tcpbulk", Direction: d, Duration: 20 * time.Second, Omit: 3 * time.Second, Interval: time.Second}
}

// add appends a run of setting with the given goodput in each part of d, and
// three intervals of samples, the first of them warm-up.
func (c *Case) add(block int, setting string, d model.Direction, goodput float64) {
	n := len(c.Session.Runs) + 1
	at := began().Add(time.Duration(n) * 30 * time.Second)
	r := model.Run{
		Number: n, Block: block, Attempt: 1, Position: 1, Setting: setting, Flow: flow(d),
		Started: at, Ended: at.Add(25 * time.Second), State: model.RunValid,
	}
	near := model.EndReport{Host: model.Near, CPUUser: 200 * time.Millisecond, CPUSystem: 1600 * time.Millisecond, CPUWindow: 20 * time.Second, SystemBusy: fact.Known(0.4, "procfs")}
	far := near
	far.Host, far.CPUSystem = model.Far, 2600*time.Millisecond
	for _, part := range d.Parts() {
		r.Values = append(r.Values, model.Value{Direction: part, Metric: model.Goodput, Value: goodput},
			model.Value{Direction: part, Metric: model.RTT, Value: 0.00086})
		size := units.Bytes(goodput * 20 / 8)
		sender := model.FlowReport{Direction: part, Role: model.Sender, Bytes: size, Window: 20 * time.Second, TCP: summary()}
		receiver := model.FlowReport{Direction: part, Role: model.Receiver, Bytes: size, Window: 20 * time.Second}
		if part == model.To {
			near.Flows, far.Flows = append(near.Flows, sender), append(far.Flows, receiver)
		} else {
			near.Flows, far.Flows = append(near.Flows, receiver), append(far.Flows, sender)
		}
		for i := range 3 {
			c.Samples[n] = append(c.Samples[n], model.Sample{
				Host: part.Receiver(), Direction: part, Metric: model.Goodput, Start: time.Duration(i) * time.Second,
				Length: time.Second, Value: goodput * (1 + noise(n+i)), Omitted: i == 0,
			})
		}
	}
	r.Ends = []model.EndReport{near, far}
	c.Session.Runs = append(c.Session.Runs, r)
}

func summary() *model.TCPSummary {
	return &model.TCPSummary{
		Congestion: fact.Known("cubic", "TCP_INFO"), MSS: fact.Known(1448, "TCP_INFO"), Timestamps: fact.Known(true, "TCP_INFO"),
		Retransmits: fact.Known(int64(0), "TCP_INFO"), RTT: fact.Known(860*time.Microsecond, "TCP_INFO"),
		RTTMin: fact.Known(210*time.Microsecond, "TCP_INFO"),
		BBR:    &model.BBRSummary{Rate: fact.Known(units.BitRate(941e6), "TCP_CC_INFO"), InFlight: fact.Known(int64(70), "TCP_CC_INFO")},
	}
}

// quickTest is `linerate test`: one direction is at the link's limit, and a small window limits
// the other.
func quickTest() Case {
	p := model.Plan{Settings: []model.Setting{{Name: "as-is"}}, Baseline: "as-is", Mode: model.FixedBlocks, MaxBlocks: 1,
		Directions: []model.Direction{model.To, model.From}, Margin: 3, Tolerance: 5, Confidence: 0.95, Order: [][]string{{"as-is"}}}
	c := Case{"test", base("20261121T013209-x7k2", model.KindTest, p), map[int][]model.Sample{}}
	c.add(1, "as-is", model.To, 934.8e6)
	c.add(1, "as-is", model.From, 611.2e6)
	c.Session.Findings = []model.Finding{
		{Rule: "ceiling", Kind: model.FindingFull, Direction: model.To, Host: model.Near, Limit: "link", Evidence: "99.3 % of the 941.5 Mbit/s that this link can carry", Share: fact.Unknown[float64]("no time")},
		{Rule: "B07", Direction: model.From, Host: model.Near, Limit: "receive window", Evidence: "64 KiB at 0.86 ms allows 610 Mbit/s",
			Share: fact.Known(0.71, "TCP_INFO"), Implied: fact.Known(units.BitRate(610e6), "window over round trip"),
			Explains: fact.Known(1.0, "gap between bound and ceiling"), Confidence: 0.95,
			Proof:   []model.Proof{{Text: "64 KiB at 0.86 ms allows 610 Mbit/s", Source: "TCP_INFO snd_wnd, rtt"}},
			Missing: []model.Missing{{What: "counters of both hosts", How: "reach the host over ssh"}},
			Knobs:   []model.KnobID{"tcp.recv_buffer_max"}},
		{Rule: "B30", Kind: model.FindingBeside, Direction: model.From, Limit: "queue that is too long", Evidence: "under load the round trip grows from 0.21 ms to 86 ms",
			Share: fact.Unknown[float64]("no time"), Confidence: 0.85, RuledOut: []string{"loss"},
			NoKnob: "the queue is in a device on the way: shape a little below its rate"},
	}
	return c
}

// unevenTest is `linerate test` on a path that carries ten times as much in one direction as in
// the other, and whose ceiling is wrong for one direction.
func unevenTest() Case {
	c := quickTest()
	c.Name, c.Session.ID, c.Session.Findings = "uneven", "20261121T013309-u5e0", nil
	c.Session.WireRate = fact.Known(units.BitRate(5e6), "the lab's wire")
	c.Session.Near, c.Session.Far = "lab:rate=50mbit,to.rate=5mbit", "lab:rate=50mbit,to.rate=5mbit"
	c.Session.Hosts[0].PathRate, c.Session.Hosts[1].PathRate = c.Session.WireRate, fact.Known(units.BitRate(50e6), "the lab's wire")
	c.Samples = model.Held{}
	for i, rate := range []float64{6.1e6, 46.9e6} {
		c.Session.Runs[i].Values[0].Value = rate
	}
	return c
}

// windows is the plan of an experiment over window sizes.
func windows(mode model.Mode, names ...string) model.Plan {
	p := model.Plan{Baseline: names[0], Factor: "window", Flow: flow(model.To), Directions: []model.Direction{model.To}, Mode: mode,
		MaxBlocks: 20, Margin: 3, Tolerance: 5, Confidence: 0.95, Settle: 2 * time.Second, Seed: 42}
	for i, name := range names {
		p.Settings = append(p.Settings, model.Setting{Name: name, Assignments: []model.Assignment{{Knob: "window", Value: fmt.Sprint(65536 << i)}}})
	}
	for range p.MaxBlocks {
		p.Order = append(p.Order, names)
	}
	return p
}

// fill adds blocks of all settings, with their true goodputs in order.
func (c *Case) fill(blocks int, goodputs ...float64) {
	for b := range blocks {
		for i, g := range goodputs {
			c.add(b+1, c.Session.Plan.Settings[i].Name, model.To, g*(1+noise(3*b+i)))
		}
	}
}

func interval(low, high float64, method string) model.Interval {
	return model.Interval{Low: model.Bound(low), High: model.Bound(high), Confidence: 0.95, Method: method}
}

// sequential is a finished experiment with four levels and a null twin.
func sequential() Case {
	p := windows(model.Sequential, "64K", "128K", "256K", "512K", "64K-twin")
	p.Twin, p.Levels = "64K-twin", []string{"64K", "128K", "256K", "512K"}
	c := Case{"sequential", base("20261121T020000-p2m9", model.KindRun, p), map[int][]model.Sample{}}
	c.Session.Reason = "decided"
	c.fill(8, 320e6, 598e6, 927e6, 934e6, 320.5e6)
	v := func(setting string, o model.Outcome, size string, g, half float64) model.Verdict {
		family := interval(g-1.4*half, g+1.4*half, "sign evidence")
		return model.Verdict{Setting: setting, Baseline: "64K", Direction: model.To, Metric: model.Goodput, Outcome: o, Size: size,
			Blocks: 8, Estimate: g, Interval: interval(g-half, g+half, "sign evidence"), Family: &family, Evidence: new(214.0)}
	}
	twin := v("64K-twin", model.Equivalent, "", 0.0015, 0.012)
	twin.IsTwin, twin.Family, twin.Evidence = true, nil, new(0.8)
	c.Session.Verdicts = []model.Verdict{
		v("128K", model.Better, "at least the margin", 0.625, 0.021),
		v("256K", model.Better, "at least the margin", 1.064, 0.025),
		v("512K", model.Better, "at least the margin", 1.071, 0.024),
		twin,
	}
	c.Session.Plateaus = []model.Plateau{{Direction: model.To, Metric: model.Goodput, Decided: true, Level: "256K", Baseline: "64K", Tolerance: 5}}
	for range 8 {
		c.Session.Changes = append(c.Session.Changes, model.Change{Run: 3, Host: model.Far, Knob: "tcp.recv_buffer_max", Native: "net.ipv4.tcp_rmem", Old: "4096 131072 65536", New: "4096 131072 6291456", State: model.ChangeUndone})
	}
	return c
}

// fixed is an experiment with a given number of blocks that shows one difference too small to
// matter, one undecided, and one in a metric where lower is better.
func fixed() Case {
	p := windows(model.FixedBlocks, "as-is", "bbr", "nagle")
	p.MaxBlocks, p.Order, p.Factor = 10, p.Order[:10], ""
	c := Case{"fixed", base("20261121T030000-c0de", model.KindRun, p), map[int][]model.Sample{}}
	c.Session.Reason = "planned blocks done"
	c.fill(10, 934e6, 934.5e6, 920e6)
	v := func(setting string, m model.Metric, o model.Outcome, g, low, high, p float64) model.Verdict {
		family := interval(1.3*low, 1.3*high, "exact signed-rank")
		return model.Verdict{Setting: setting, Baseline: "as-is", Direction: model.To, Metric: m, Outcome: o, Blocks: 10,
			Estimate: g, Interval: interval(low, high, "exact signed-rank"), Family: &family, P: new(p)}
	}
	undecided := v("nagle", model.Goodput, model.Undecided, -0.015, -0.044, 0.013, 0.41)
	undecided.MoreBlocks = 14
	shorter := v("bbr", model.RTT, model.Better, 0.42, 0.33, 0.51, 0.0039)
	shorter.Size = "at least the margin"
	fewer := v("bbr", model.Retransmits, model.Worse, -12.4, -20.1, -5.2, 0.0078)
	c.Session.Verdicts = []model.Verdict{
		v("bbr", model.Goodput, model.Equivalent, 0.0005, -0.0032, 0.0042, 1), undecided, shorter, fewer,
	}
	c.Session.Changes = []model.Change{
		{Run: 2, Host: model.Near, Knob: "tcp.congestion", Native: "net.ipv4.tcp_congestion_control", Old: "cubic", New: "bbr", State: model.ChangeUndone},
		{Run: 4, Host: model.Near, Knob: "tcp.congestion", Native: "net.ipv4.tcp_congestion_control", Old: "cubic", New: "bbr", State: model.ChangeForeign},
		{Run: 5, Host: model.Far, Knob: "tcp.congestion", Native: "net.ipv4.tcp_congestion_control", Old: "cubic", New: "bbr", State: model.ChangeFailed, Detail: "no such algorithm"},
	}
	return c
}

// noisy is fixed on a path with other traffic: open verdicts stay open.
func noisy() Case {
	c := fixed()
	c.Name, c.Session.ID = "noisy", "20261121T031000-101d"
	for i := range c.Session.Verdicts {
		if v := &c.Session.Verdicts[i]; v.Outcome == model.Undecided {
			v.Interval, v.MoreBlocks = interval(-0.44, 0.13, "exact signed-rank"), 1234
			family := interval(-0.5, 0.2, "exact signed-rank")
			v.Family = &family
		}
	}
	c.Session.Noise = []model.Noise{{Direction: model.To, Metric: model.Goodput, Source: "twin", Pairs: 10, Sigma: 0.31, Upper: 0.42, Checked: true, Evidence: 1}}
	return c
}

// guarded is an experiment whose two settings gain goodput, one of them at three times the
// latency, and one with an undecided guard.
func guarded() Case {
	p := windows(model.Sequential, "as-is", "deep", "calm")
	p.Factor, p.Objective, p.Watched, p.WatchBlocks = "", model.Goodput, []model.Direction{model.From}, 5
	p.Guards = []model.Guard{{Metric: model.LatencyP99, Margin: 50, Default: true}, {Metric: model.LossRatio, Margin: 0.005, Default: true}}
	c := Case{"guarded", base("20261121T070000-9a4d", model.KindRun, p), map[int][]model.Sample{}}
	c.Session.Reason = "the plan's blocks are spent"
	c.fill(9, 800e6, 24552e6, 880e6)
	v := func(setting string, m model.Metric, o model.Outcome, g, half, evidence float64, state model.GuardState) model.Verdict {
		v := model.Verdict{Setting: setting, Baseline: "as-is", Direction: model.To, Metric: m, Outcome: o, Blocks: 9, Estimate: g,
			Interval: interval(g-half, g+half, "sign evidence"), Evidence: new(evidence)}
		for _, guard := range p.Guards {
			if guard.Metric == m {
				v.Guard = &model.GuardCheck{Guard: guard, State: state}
			}
		}
		return v
	}
	deep, calm := v("deep", model.Goodput, model.Better, 3.424, 0.05, 214, ""), v("calm", model.Goodput, model.Better, 0.095, 0.03, 160, "")
	deep.Size, calm.Size = "at least the margin", "at least the margin"
	loss := v("calm", model.LossRatio, model.Undecided, -0.0011, 0.0042, 1.4, model.GuardOpen)
	loss.Guard.MoreBlocks = 4
	late, prompt := v("deep", model.LatencyP99, model.Worse, -1.13, 0.21, 190, model.GuardViolated), v("calm", model.LatencyP99, model.Undecided, 0.04, 0.19, 2.2, model.GuardHolds)
	late.Guard.EqualLoad, prompt.Guard.Tolerable, prompt.Guard.Negligible = 9, true, true
	c.Session.Verdicts = []model.Verdict{
		deep, calm,
		v("deep", model.LatencyP50, model.Worse, -1.05, 0.12, 190, ""), v("calm", model.LatencyP50, model.Better, 0.65, 0.12, 190, ""),
		late, prompt,
		v("deep", model.LossRatio, model.Undecided, -0.0002, 0.0011, 1.1, model.GuardHolds), loss,
	}
	c.Session.Noise = []model.Noise{{Direction: model.To, Metric: model.Goodput, Source: "baseline pairs", Pairs: 4, Sigma: 0.014, Upper: 0.022, Evidence: 1.2}}
	return c
}

// gridTest is an experiment over two settings of nas with two levels each; the second helps
// only together with the first.
func gridTest() Case {
	factors := []model.Factor{plantest.Factor("far.tcp.recv_buffer_max", "65536", "1048576"), plantest.Factor("far.link.mtu", "1500", "9000")}
	factors[0].Levels[0].Name, factors[0].Levels[1].Name = "recv_buffer_max=64KiB", "recv_buffer_max=1MiB"
	settings := append([]model.Setting{{Name: "current"}}, plantest.Settings(factors...)...)
	p, err := plan.New(plan.Request{Plan: model.Plan{Settings: settings, Factors: factors, Flow: flow(model.To), Mode: model.FixedBlocks, MaxBlocks: 10, Seed: 7, Guards: []model.Guard{}, Data: 10e9, Hooks: []model.Assignment{
		{Host: model.Far, Knob: model.HookKnob, Value: model.On, Command: model.Command{Run: "sync", Undo: "exit 0", Limit: time.Minute}},
	}}})
	if err != nil {
		panic(err) // the options are constants
	}
	c := Case{"grid", base("20261121T120000-9d2f", model.KindRun, p), map[int][]model.Sample{}}
	rates := map[string]float64{"current": 320e6, p.Twin: 320e6}
	for i, name := range plan.Cells(factors) {
		rates[name] = []float64{321e6, 322e6, 590e6, 931e6}[i]
	}
	for b, names := range p.Order {
		for i, name := range names {
			c.add(b+1, name, model.To, rates[name]*(1+noise(3*b+i)))
		}
	}
	r := analysis.Analyse(p, c.Session.Runs)
	c.Session.Verdicts, c.Session.Plateaus, c.Session.Noise, c.Session.Reason = r.Verdicts, r.Plateaus, r.Noise, r.Reason
	return c
}

// interrupted is an experiment that its user stopped in block 3.
func interrupted() Case {
	p := windows(model.Sequential, "64K", "256K")
	c := Case{"interrupted", base("20261121T040000-q8r1", model.KindRun, p), map[int][]model.Sample{}}
	c.Session.State, c.Session.Reason = model.SessionInterrupted, "stopped by the user"
	c.Session.Plan.Path = model.DataPath{ConnectFrom: model.Far, Ports: model.Ports{First: 5300, Last: 5310}}
	c.fill(3, 320e6, 931e6)
	last := &c.Session.Runs[len(c.Session.Runs)-1]
	last.State, last.Reason, last.Values = model.RunInterrupted, "stopped by the user", nil
	first := &c.Session.Runs[0]
	first.State, first.Reason, first.LostContact = model.RunInvalid, "nas lost contact", true
	c.Session.Verdicts = []model.Verdict{{
		Setting: "256K", Baseline: "64K", Direction: model.To, Metric: model.Goodput, Outcome: model.Undecided, Blocks: 1, Estimate: 1.07,
		Interval: interval(math.Inf(-1), math.Inf(1), "sign evidence"), Evidence: new(1.98), MoreBlocks: 5,
	}}
	c.Session.Plateaus = []model.Plateau{{Direction: model.To, Metric: model.Goodput, From: "64K", To: "256K", Tolerance: 5, Reason: "needs 3 blocks"}}
	c.Session.Warnings = []string{"1 run of 64K was invalid: nas lost contact"}
	return c
}

// untrustworthy is an experiment whose twin came out better.
func untrustworthy() Case {
	p := windows(model.Sequential, "as-is", "bbr", "twin")
	p.Twin, p.Factor = "twin", ""
	c := Case{"untrustworthy", base("20261121T050000-bad0", model.KindRun, p), map[int][]model.Sample{}}
	c.Session.Reason = "no verdict possible"
	c.fill(7, 620e6, 700e6, 690e6)
	c.Session.Verdicts = []model.Verdict{
		{Setting: "bbr", Baseline: "as-is", Direction: model.To, Metric: model.Goodput, Outcome: model.Undecided, Blocks: 7, Estimate: 0.12,
			Interval: interval(0.06, math.Inf(1), "sign evidence"), Evidence: new(81.0), Reason: "session untrustworthy"},
		{Setting: "twin", Baseline: "as-is", Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 7, Estimate: 0.107,
			Interval: interval(0.05, 0.17, "sign evidence"), Evidence: new(81.0), IsTwin: true},
	}
	c.Session.Warnings = []string{"the baseline drifts: -0.6 % per block"}
	return c
}

// silent is a test of hosts that report nothing, which failed at once.
func silent() Case {
	s := model.Session{ID: "20261121T060000-0000", Kind: model.KindTest, Near: "local", Far: "iperf3://old:5201", Version: "0.1.0",
		Created: began(), State: model.SessionFailed, Reason: "connect old:5201: connection refused"}
	return Case{"silent", s, nil}
}
