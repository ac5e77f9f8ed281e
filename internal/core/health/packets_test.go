package health

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// TestPacketSizes: the check reports the result of each way of trying, a router's answer,
// trouble in one direction alone, a mismatch, and ways that disagree.
func TestPacketSizes(t *testing.T) {
	const to = model.To
	way := func(change func(w *model.Way)) func(*model.Session) {
		return func(s *model.Session) {
			w := &s.Check.Ways[0]
			w.Datagrams, w.Exact, w.DatagramsExact = fact.Known(w.Asked, "agents"), true, true
			change(w)
		}
	}
	passes := func(w *model.Way, asked, datagrams, probes int) {
		w.Asked, w.Datagrams, w.Passes = asked, fact.Known(datagrams, "agents"), fact.Known(probes, "probes")
	}
	for name, c := range map[string]struct {
		change       func(*model.Session)
		state        State
		number, says string
		from         string // evidence
	}{
		"all pass": {way(func(*model.Way) {}), OK, "1500", "as large as", "datagrams between the agents: packets of 1500 bytes pass, of 1500 tried"},
		"a router told": {way(func(w *model.Way) {
			passes(w, 1500, 1400, 1400)
			w.Reported, w.Router, w.RouterMTU = true, "10.0.0.9", 1400
		}), Poor, "1400", "router 10.0.0.9 (MTU 1400) says so", "router 10.0.0.9 (MTU 1400) said"},
		"black hole, this way only": {way(func(w *model.Way) { passes(w, 1500, 1400, 1400) }), Bad, "1400", "this way only, the other one passes 1500", "echo requests and refused ports: packets of 1400"},
		"mismatch": {func(s *model.Session) {
			way(func(w *model.Way) { passes(w, 9000, 1500, 1500) })(s)
			s.Hosts[0].MTU = fact.Known(9000, "test")
		}, Poor, "1500", "an MTU mismatch: desk has 9000 and nas has 1500", ""},
		"echoes are cut":  {way(func(w *model.Way) { passes(w, 1500, 1500, 1300) }), OK, "1500", "echo requests pass only up to 1300", ""},
		"UDP is filtered": {way(func(w *model.Way) { passes(w, 1500, 0, 1500) }), OK, "1500", "UDP is filtered", "datagrams between the agents: not even small ones"},
		"UDP is cut":      {way(func(w *model.Way) { passes(w, 1500, 1300, 1500) }), Bad, "1300", "echo requests pass up to 1500, and datagrams do not", ""},
		"no agent":        {way(func(w *model.Way) { w.Datagrams = fact.Unknown[int]("not visible: iperf3 does not do that") }), OK, "1500", "as large as", "datagrams between the agents: not visible: iperf3"},
	} {
		s := session()
		c.change(s)
		for _, l := range Judge(s) {
			if l.Thing != "mtu" || l.Direction != to {
				continue
			}
			must.True(t, l.State == c.state && l.Number == c.number && strings.Contains(l.Text, c.says) &&
				strings.Contains(strings.Join(l.Evidence, "\n"), c.from), "%s: %+v", name, l)
		}
	}
}

// TestOptionsOnTheWay: the check reports a rewritten MSS and lost ECN marks per direction; lost
// marks do no harm while ECN is off.
func TestOptionsOnTheWay(t *testing.T) {
	tcpOf := func(s *model.Session) *model.TCPSummary { return s.Runs[0].Sent(model.To) }
	for name, c := range map[string]struct {
		change func(*model.Session)
		state  State
		says   string
	}{
		"nothing":         {func(*model.Session) {}, OK, "scaling"},
		"a rewritten MSS": {func(s *model.Session) { tcpOf(s).MSS = fact.Known(1148, "TCP_INFO") }, Poor, "segments to nas are cut to 1148 bytes of 1448"},
		"a little less":   {func(s *model.Session) { tcpOf(s).MSS = fact.Known(1428, "TCP_INFO") }, OK, "scaling"},
		"marks are lost":  {func(s *model.Session) { s.Check.Ways[1].Marks = fact.Known(0.0, "agents") }, OK, "marks of ECN do not arrive at desk"},
		"marks are lost, and wanted": {func(s *model.Session) {
			s.Check.Ways[0].Marks, tcpOf(s).ECN = fact.Known(0.0, "agents"), fact.Known(true, "TCP_INFO")
		}, Poor, "marks of ECN do not arrive at nas"},
		"SACK is taken out": {func(s *model.Session) { tcpOf(s).SACK = fact.Known(false, "TCP_INFO") }, Poor, "lost on the way: sack"},
	} {
		s := session()
		c.change(s)
		for _, l := range Judge(s) {
			must.True(t, l.Thing != "options" || l.State == c.state && strings.Contains(l.Text, c.says), "%s: %+v", name, l)
		}
	}
}

// TestDisturbed: where the hypervisor ran other guests, a rate slightly below the ceiling says
// little about the path; one far below it still does.
func TestDisturbed(t *testing.T) {
	for rate, want := range map[float64]State{940e6: OK, 770e6: Unseen, 300e6: Poor, 50e6: Bad} {
		s := session()
		set(&s.Runs[0], model.To, model.Goodput, rate)
		s.Findings = []model.Finding{{Rule: "B23", Limit: "hypervisor", Host: model.Far, Direction: model.To}}
		for _, l := range Judge(s) {
			must.True(t, l.Thing != "speed" || l.Direction != model.To || l.State == want, "%v: %+v", rate, l)
		}
	}
}

// TestCrowded: an unexplained gap says little about the path where other programs used all
// processors of an end, and is POOR where processors were free, including those that only other
// programs may use. More than the host has is no evidence.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		busy   float64
		listed int // processors that the host counts, of which this program may use 4
		want   State
	}{{3.9, 4, Unseen}, {1, 4, Poor}, {5.2, 4, Poor}, {3.9, 8, Poor}, {7.2, 8, Unseen}} {
		s := session()
		set(&s.Runs[0], model.To, model.Goodput, 770e6)
		end := &s.Runs[0].Ends[1]
		end.SystemBusy = fact.Known(c.busy, "test")
		for i := range c.listed {
			end.Counters = append(end.Counters, model.Counter{Name: "cpu_busy_ms", Of: fmt.Sprint("cpu", i), Value: 1})
		}
		s.Findings = []model.Finding{{Kind: model.FindingNotFound, Direction: model.To}}
		for _, l := range Judge(s) {
			must.True(t, l.Thing != "speed" || l.Direction != model.To || l.State == c.want, "%+v: %+v", c, l)
		}
	}
}

// TestClockAndBuffer: data in the sender's buffer was written but has not arrived, which is not
// a clock fault.
func TestClockAndBuffer(t *testing.T) {
	for buffer, want := range map[units.Bytes]State{0: Unseen, 80e6: OK} {
		s := session()
		f := &s.Runs[0].Ends[0].Flows[0]
		f.Bytes += f.Bytes / 8
		f.TCP.SendBuffer = fact.Known(buffer, "SO_SNDBUF")
		for _, l := range Judge(s) {
			must.True(t, l.Thing != "clock" || l.State == want, "a buffer of %s: %+v", buffer, l)
		}
	}
}

// TestResends: packets sent again while TCP fills the path are the cost of a full queue. They
// are loss where the path is not full, and nothing where other programs had the host.
func TestResends(t *testing.T) {
	for name, c := range map[string]struct {
		rate, again, busy float64
		want              State
	}{
		"a full path, and little":    {940e6, 0.0009, 1, OK},
		"a full path":                {940e6, 0.016, 1, Unseen},
		"a full path, and more":      {940e6, 0.06, 1, Poor},
		"not full":                   {700e6, 0.016, 1, Bad},
		"not full, and a little":     {700e6, 0.004, 1, Poor},
		"not full on a crowded host": {700e6, 0.016, 3.9, Unseen},
	} {
		s := session()
		s.Runs = s.Runs[:2] // no datagrams
		set(&s.Runs[0], model.To, model.Goodput, c.rate)
		set(&s.Runs[0], model.To, model.RetransmitRatio, c.again)
		s.Runs[0].Ends[1].SystemBusy = fact.Known(c.busy, "test")
		s.Findings = []model.Finding{{Kind: model.FindingNotFound, Direction: model.To}}
		for _, l := range Judge(s) {
			must.True(t, l.Thing != "loss" || l.Direction != model.To || l.State == c.want, "%s: %+v", name, l)
		}
	}
}

// TestEvidenceOfLoss: loss is ok, POOR or BAD only where the datagrams prove it, whatever share
// of them was lost.
func TestEvidenceOfLoss(t *testing.T) {
	for name, c := range map[string]struct {
		lost, of float64
		want     State
		says     string
	}{
		"none of enough":   {0, 3000, OK, "of datagrams at"},
		"none of few":      {0, 850, Unseen, "not enough evidence: 0 of 850, so between 0 % and 0.35 %"},
		"one of many":      {1, 40000, OK, ""},
		"few of few":       {1, 900, Unseen, "not enough evidence: 1 of 900"},
		"above 0.1 %":      {16, 4200, Poor, "16 of 4200, so between 0.24 % and 0.58 %"},
		"1.1 %, or 0.91":   {86, 7854, Bad, "86 of 7854, so between 0.91 % and 1.3 %"},
		"2 %":              {84, 4200, Bad, "84 of 4200, so between 1.7 % and 2.4 %"},
		"2 % of few":       {2, 100, Bad, "2 of 100, so between 0.36 % and 6.2 %"},
		"all but the last": {99, 100, Bad, ""},
	} {
		s := session()
		set(&s.Runs[3], model.To, model.LossRatio, c.lost/c.of)
		s.Runs[3].Ends[0].Flows[0].UDP = &model.UDPSummary{Received: int64(c.of - c.lost), Lost: int64(c.lost)}
		for _, l := range Judge(s) {
			must.True(t, l.Thing != "loss" || l.Direction != model.To || l.State == c.want && strings.Contains(l.Text, c.says) && !strings.Contains(l.Text, "quota"), "%s: %+v", name, l)
		}
	}
}

// machine is a desk with gigabit Ethernet and a router that answers.
func machine() Machine {
	return Machine{
		Facts: model.HostFacts{Name: "desk", Interface: fact.Known("eth0", "test"),
			Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("6291456", "test"), "tcp.window_scaling": fact.Known("1", "test")},
			NICs: []model.NIC{{Name: "eth0", Up: fact.Known(true, "test"), Media: model.Media{
				Speed: fact.Known(units.BitRate(1e9), "test"), Duplex: fact.Known("full", "test"), Supported: fact.Known([]string{"10baseT/Half", "100baseT/Full", "1000baseT/Full"}, "test")}}}},
		Gateway: "10.0.0.254", RTT: fact.Known(300*time.Microsecond, "echo reply"), Way: model.Way{Asked: 1500, Passes: fact.Known(1500, "test")},
		Boot: fact.Known(Errors{Packets: 1e9, Broken: 3, Dropped: 70}, "test"), Lately: fact.Known(Errors{Packets: 300}, "test"), Over: 3 * time.Second,
	}
}

// TestMachine breaks one thing of a machine at a time.
func TestMachine(t *testing.T) {
	media := func(m *Machine) *model.Media { return &m.Facts.NICs[0].Media }
	for name, c := range map[string]struct {
		change func(m *Machine)
		thing  string
		want   State
		says   string
	}{
		"nothing":            {func(*Machine) {}, "", OK, ""},
		"no gateway":         {func(m *Machine) { m.Gateway = "" }, "gateway", Unseen, "no default route"},
		"a silent gateway":   {func(m *Machine) { m.RTT = fact.Unknown[time.Duration]("no answer in time") }, "gateway", Unseen, "says nothing of others"},
		"a slow gateway":     {func(m *Machine) { m.RTT = fact.Known(40*time.Millisecond, "echo reply") }, "gateway", Poor, "as over radio"},
		"a black hole":       {func(m *Machine) { m.Way = model.Way{Asked: 9000, Passes: fact.Known(1500, "test"), Exact: true} }, "mtu", Bad, "black hole"},
		"a told MTU":         {func(m *Machine) { m.Way = model.Way{Asked: 1500, Passes: fact.Known(1400, "test"), Reported: true} }, "mtu", Poor, "says so"},
		"no probes answered": {func(m *Machine) { m.Way.Passes = fact.Unknown[int]("not asked") }, "mtu", Unseen, "not asked"},
		"a slow mode":        {func(m *Machine) { media(m).Speed = fact.Known(units.BitRate(100e6), "test") }, "link", Poor, "the card can do 1 Gbit/s"},
		"half duplex":        {func(m *Machine) { media(m).Duplex = fact.Known("half", "test") }, "link", Poor, "share the wire"},
		"a cut cable":        {func(m *Machine) { m.Facts.NICs[0].Up = fact.Known(false, "test") }, "link", Bad, "carries nothing"},
		"a virtual link": {func(m *Machine) {
			*media(m) = model.Media{Speed: fact.Unknown[units.BitRate]("virtual"), Duplex: fact.Unknown[string]("virtual")}
		}, "link", Unseen, "not visible: virtual"},
		"no interface":    {func(m *Machine) { m.Facts.Interface = fact.Unknown[string]("no route") }, "link", Unseen, "no interface"},
		"broken frames":   {func(m *Machine) { m.Lately = fact.Known(Errors{Packets: 300, Broken: 2}, "test") }, "errors", Bad, ""},
		"drops":           {func(m *Machine) { m.Lately = fact.Known(Errors{Packets: 300, Dropped: 2}, "test") }, "errors", Poor, ""},
		"broken long ago": {func(m *Machine) { m.Boot = fact.Known(Errors{Packets: 1e6, Broken: 30}, "test") }, "errors", Poor, "30 broken"},
		"no counters":     {func(m *Machine) { m.Boot = fact.Unknown[Errors]("not on plan9") }, "errors", Unseen, "plan9"},
		"no scaling":      {func(m *Machine) { m.Facts.Knobs["tcp.window_scaling"] = fact.Known("0", "test") }, "buffers", Poor, "window scaling is off"},
		"no settings":     {func(m *Machine) { m.Facts.Knobs = nil }, "buffers", Unseen, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine()
			c.change(&m)
			for _, l := range m.Lines() {
				switch {
				case l.Thing == c.thing && (l.State != c.want || !strings.Contains(l.Text, c.says)):
					t.Errorf("%+v, want %s, %q", l, c.want, c.says)
				case l.Thing != c.thing && l.State != OK && l.State != Unseen, c.thing == "" && l.State != OK:
					t.Errorf("%+v", l)
				}
			}
		})
	}
	must.Equal(t, fastest([]string{"10baseT/Half", "2500baseT/Full", "400Gbase/x", "FIBRE", "autoselect"}), 2.5e9, "the fastest mode")
}

// TestGrades: docs/find-the-limit.md lists the default grades, and a session stores the grades
// in use.
func TestGrades(t *testing.T) {
	manual := string(must.Get(os.ReadFile("../../../docs/find-the-limit.md"))(t))
	for _, g := range Grades() {
		poor, bad := g.value(g.Poor), g.value(g.Bad)
		must.Contain(t, manual, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", g.Name, g.What, poor, bad, g.From))
	}
	s := session()
	set(&s.Runs[3], model.To, model.LossRatio, 0.004)
	s.Check.Grades = "loss=0.5%,2%;queueing=1s,2s"
	for _, l := range Judge(s) {
		must.True(t, l.Thing != "loss" || l.Direction != model.To || l.State == OK, "0.4 %% where 0.5 %% is POOR: %+v", l)
	}
	for text, want := range map[string]string{
		"los=1%,2%":       "there are loss, resent, overflow",
		"loss=1%":         "write two values",
		"loss=2%,1%":      "BAD is the worse",
		"speed=10%,90%":   "BAD is the worse",
		"queueing=1%,2%":  "queueing=30 ms,200 ms",
		"loss=fast,loose": "write two values",
	} {
		must.Say(t, must.Err(ParseGrades(text)), want, "%s", text)
	}
}

// TestFullPath: the packets that a flow sends again while it fills the path get grades step by
// step, and below the first grade they show nothing about the path. A user's grade of resent
// applies there too.
func TestFullPath(t *testing.T) {
	for _, c := range []struct {
		share  float64
		grades string
		want   State
	}{{0.049, "", Unseen}, {0.05, "", Poor}, {0.119, "", Poor}, {0.12, "", Bad}, {0.049, "resent=1%,2%", Bad}, {0.049, "overflow=1%,9%", Poor}} {
		s := session()
		s.Check.Grades = c.grades
		s.Runs = s.Runs[:2]
		set(&s.Runs[0], model.To, model.RetransmitRatio, c.share)
		for _, l := range Judge(s) {
			if l.Thing == "loss" && l.Direction == model.To {
				must.Equal(t, l.State, c.want, "%g with %q: %+v", c.share, c.grades, l)
			}
		}
	}
}

// TestBalance: where the rate of the path is unknown, the check does not pass over a direction
// that reaches a seventh of the other one.
func TestBalance(t *testing.T) {
	for rate, want := range map[float64]State{900e6: Unseen, 134e6: Poor, 50e6: Bad} {
		s := session()
		s.WireRate = fact.Unknown[units.BitRate]("virtual")
		s.Runs = s.Runs[:2]
		set(&s.Runs[0], model.To, model.Goodput, rate)
		for _, l := range Judge(s) {
			must.True(t, l.Thing != "speed" || l.Direction != model.To || l.State == want && strings.Contains(l.Text, "--rate"), "%g: %+v", rate, l)
		}
	}
}

// TestLongerVectors checks the numbers of a longer path against diagnosis.md sections 2.2 and
// 2.3, computed by hand: W = rate x rtt / 8 bytes; CUBIC p = rtt / (w / 1.054)^(4/3) and Reno p
// = 1.5 / w^2 with w = W / MSS segments, the larger of the two; the start takes ceil(log2(w /
// 10)) round trips.
func TestLongerVectors(t *testing.T) {
	for name, c := range map[string]struct {
		l     Longer
		mss   int
		cc    string
		says  map[string]string // by thing: a part of number and text
		proof string            // of the budget of loss
	}{
		"10 Gbit/s at 80 ms": {Longer{10e9, 80 * time.Millisecond}, 1448, "cubic", map[string]string{
			"window": "95.4 MiB", "loss": "1 in 33000000 ", "start": "1.04 s until one stream is at full speed: 13 round trips of doubling from 10 segments"}, "1 in 3200000000 for Reno"},
		"10 Gbit/s at 100 ms, jumbo": {Longer{10e9, 100 * time.Millisecond}, 8948, "cubic", map[string]string{
			"window": "119 MiB", "loss": "1 in 3100000 ", "start": "1.1 s until one stream is at full speed: 11 round trips"}, "1 in 130000000 for Reno"},
		"1 Gbit/s at 10 ms, where Reno's bound is the larger one": {Longer{1e9, 10 * time.Millisecond}, 1448, "cubic", map[string]string{
			"window": "1.19 MiB", "loss": "1 in 500000 ", "start": "70 ms until one stream is at full speed: 7 round trips"}, "1 in 500000 for Reno"},
		"100 Mbit/s at 200 ms": {Longer{100e6, 200 * time.Millisecond}, 1448, "cubic", map[string]string{
			"window": "2.38 MiB", "loss": "1 in 97000 ", "start": "1.6 s until one stream is at full speed: 8 round trips"}, "1 in 2000000 for Reno"},
		"the bounds of CUBIC and Reno are none of BBR": {Longer{10e9, 80 * time.Millisecond}, 1448, "bbr", map[string]string{
			"loss": "2 % of segments may be lost for bbr", "start": "1.04 s"}, ""},
	} {
		s := session()
		for i := range s.Runs {
			if tcp := s.Runs[i].Sent(model.To); tcp != nil {
				tcp.MSS, tcp.Congestion = fact.Known(c.mss, "test"), fact.Known(c.cc, "test")
			}
		}
		for _, line := range Carries(s, c.l) {
			if line.Direction != model.To {
				continue
			}
			must.Contain(t, line.Number+" "+line.Text, c.says[line.Thing], "%s: %s", name, line.Thing)
			must.True(t, line.Thing != "loss" || strings.Contains(strings.Join(line.Evidence, " "), c.proof), "%s: %v", name, line.Evidence)
			must.True(t, line.Thing != "start" || c.cc != "bbr" || line.State == OK, "BBR paces by itself: %+v", line)
		}
	}
	s := session()
	set(&s.Runs[0], model.To, model.RetransmitRatio, 0.005)
	for cc, want := range map[string]State{"cubic": Poor, "bbr": OK} {
		s.Runs[0].Sent(model.To).Congestion = fact.Known(cc, "test")
		for _, line := range Carries(s, Longer{1e9, 50 * time.Millisecond}) {
			must.True(t, line.Thing != "loss" || line.Direction != model.To || line.State == want, "half a percent of loss with %s: %+v", cc, line)
		}
	}
}
