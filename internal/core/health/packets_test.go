package health

import (
	"fmt"
	"strings"
	"testing"

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
			w.Told, w.Router, w.RouterMTU = true, "10.0.0.9", 1400
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
			must.True(t, l.Thing != "loss" || l.Direction != model.To || l.State == c.want && strings.Contains(l.Text, c.says), "%s: %+v", name, l)
		}
	}
}
