package diagnose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// looked marks the counters of these groups as read.
func looked(groups ...string) []model.Counter {
	out := lists.Each(groups, func(g string) model.Counter { return model.Counter{Name: "counters_read", Of: g, Value: 3} })
	return out
}

func everything() []model.Counter { return looked("ip", "udp", "tcp", "nic", "softnet", "qdisc") }

func counted(base []model.Counter, pairs ...any) []model.Counter {
	for i := 0; i < len(pairs); i += 2 {
		name, of, _ := strings.Cut(pairs[i].(string), "/")
		base = append(base, model.Counter{Name: name, Of: of, Value: int64(pairs[i+1].(int))})
	}
	return base
}

// udpRun is a run of direction To.
func udpRun(sender, receiver model.UDPSummary, from, to []model.Counter) model.Run {
	return model.Run{Ends: []model.EndReport{
		{Host: model.Near, Counters: from, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, UDP: &sender}}},
		{Host: model.Far, Counters: to, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, UDP: &receiver}}},
	}}
}

func TestLocateUDP(t *testing.T) {
	sent := model.UDPSummary{Sent: 1000}
	lost := model.UDPSummary{Received: 900, Lost: 100}
	for _, c := range []struct {
		name      string
		run       model.Run
		where     map[Place]int64 // counts that are not 0
		explained int64
		unknown   int // places
		limits    []string
		says      []string // parts of the findings' sentences
	}{
		{name: "socket buffer", run: udpRun(sent, lost, everything(), counted(everything(), "udp_receive_buffer_errors", 60, "udp_receive_buffer_errors/IPv6", 40)),
			where: map[Place]int64{PlaceRecvSocket: 100}, explained: 100, limits: []string{"socket buffer"}, says: []string{"100 of 100 lost datagrams found the receiving socket's buffer full"}},
		{name: "what the driver alone counts", run: udpRun(sent, lost, everything(), counted(append(everything(), looked("driver")...), "nic_driver/eth0 rx_over_length_errors", 96, "nic_driver/eth0 tx_dropped", 100)),
			where: map[Place]int64{PlaceRecvCard: 96}, explained: 96, limits: []string{"receiver's card"}, says: []string{"96 of 100 lost datagrams were lost in the receiver's card: its driver alone counts them (eth0 rx_over_length_errors)"}},
		{name: "what driver and system count", run: udpRun(sent, lost, everything(), counted(append(everything(), looked("driver")...), "nic_driver/eth0 rx_missed_errors", 50, "nic_rx_missed", 50)),
			where: map[Place]int64{PlaceRecvRing: 50}, explained: 50, limits: []string{"path", "receive ring"}, says: []string{"found no free buffer", "counted by neither host"}},
		{name: "a counter of the driver that is of something else", run: udpRun(sent, lost, everything(), counted(append(everything(), looked("driver")...), "nic_driver/eth0 rx_errors_total", 4000)),
			where: map[Place]int64{}, limits: []string{"path"}, says: []string{"counted by neither host"}},
		{name: "a table of connections that is full", run: udpRun(sent, lost, everything(), counted(append(everything(), looked("track")...), "track_dropped", 80)),
			where: map[Place]int64{PlaceRecvTrack: 80}, explained: 80, limits: []string{"table of tracked connections", "path"}, says: []string{"80 of 100 lost datagrams", "were counted by neither host"}},
		{name: "nothing counted is the path", run: udpRun(sent, lost, everything(), everything()),
			limits: []string{"path"}, says: []string{"100 of 100 lost datagrams were counted by neither host"}},
		{name: "counters were not read", run: udpRun(sent, lost, nil, nil),
			unknown: len(places()) - 1, limits: []string{"path"}, says: []string{"not checked: the sender's queueing discipline"}},
		{name: "only the receiver looked at UDP", run: udpRun(sent, lost, nil, counted(looked("udp"), "udp_receive_buffer_errors", 30)),
			where: map[Place]int64{PlaceRecvSocket: 30}, explained: 30, unknown: len(places()) - 5, limits: []string{"path", "socket buffer"}, says: []string{"not checked: ", "30 of 100 lost"}},
		{
			name: "counters of groups that were not read are not believed to be zero",
			run:  udpRun(sent, lost, counted(looked("udp"), "qdisc_dropped/eth0", 100), everything()),
			// qdisc_dropped without its group cannot come from package counters.
			unknown: 3, limits: []string{"path"}, says: []string{"not checked: the sender's queueing discipline, the sender's IP layer, the sender's interface"},
		},
		{name: "queue of the sender, counted three times", run: udpRun(sent, lost, counted(everything(), "qdisc_dropped/eth0", 95, "ip_out_discards", 95, "udp_send_buffer_errors", 95), everything()),
			where: map[Place]int64{PlaceSendQueue: 95}, explained: 95, limits: []string{"sender's queue", "path"}, says: []string{"95 of 100 lost datagrams were dropped by the queueing discipline", "5 of 100"}},
		{name: "without a queueing discipline the IP layer counts", run: udpRun(sent, lost, counted(looked("ip", "udp"), "ip_out_discards", 40, "ip_out_discards/IPv6", 60), everything()),
			where: map[Place]int64{PlaceSendStack: 100}, explained: 100, unknown: 2, limits: []string{"sender's queue"}, says: []string{"below its socket"}},
		{name: "the backlog shows at the interface too", run: udpRun(sent, lost, everything(), counted(everything(), "softnet_dropped/cpu0", 30, "softnet_dropped/cpu1", 40, "nic_rx_dropped/eth0", 75)),
			where: map[Place]int64{PlaceRecvBacklog: 70, PlaceRecvDriver: 5}, explained: 75, limits: []string{"receive backlog", "path", "receiver's driver"}},
		{name: "drivers that count a full ring twice", run: udpRun(sent, lost, everything(), counted(everything(), "nic_rx_missed/eth0", 80, "nic_rx_fifo_errors/eth0", 80)),
			where: map[Place]int64{PlaceRecvRing: 80}, explained: 80, limits: []string{"receive ring", "path"}},
		{name: "everywhere a little", run: udpRun(sent, lost, counted(everything(), "nic_tx_dropped/eth0", 20), counted(everything(), "nic_rx_missed/eth0", 30, "udp_receive_buffer_errors", 40, "nic_rx_crc_errors/eth0", 1)),
			where: map[Place]int64{PlaceSendNIC: 20, PlaceRecvRing: 30, PlaceRecvSocket: 40, PlaceRecvWire: 1}, explained: 91, limits: []string{"socket buffer", "receive ring", "sender's interface", "path"}},
		{name: "other traffic was dropped too", run: udpRun(sent, lost, everything(), counted(everything(), "udp_receive_buffer_errors", 500)),
			where: map[Place]int64{PlaceRecvSocket: 500}, explained: 100, limits: []string{"socket buffer"}, says: []string{"500 packets, of which 100 lost datagrams may be a part", "more than were lost"}},
		{name: "trains count once", run: udpRun(model.UDPSummary{Sent: 1000, Segmented: true}, model.UDPSummary{Received: 900, Lost: 100, Coalesced: true}, everything(), counted(everything(), "udp_receive_buffer_errors", 10)),
			where: map[Place]int64{PlaceRecvSocket: 10}, explained: 10, limits: []string{"path", "socket buffer"}, says: []string{"trains that count once may hide more", "at least 10 (trains count once)"}},
		{name: "whole trains reach the backlog, but not a socket that does not ask for them", run: udpRun(model.UDPSummary{Sent: 1000, Segmented: true}, lost, everything(), counted(everything(), "softnet_dropped/cpu0", 10, "udp_receive_buffer_errors", 20)),
			where: map[Place]int64{PlaceRecvBacklog: 10, PlaceRecvSocket: 20}, explained: 30, limits: []string{"path", "socket buffer", "receive backlog"}, says: []string{"at least 10 (trains count once) found the receiving core's backlog", "20 of 100 lost datagrams found"}},
		{name: "refused is not lost", run: udpRun(model.UDPSummary{Sent: 1000, Refused: 7}, model.UDPSummary{Received: 1000}, everything(), everything()),
			where: map[Place]int64{PlaceSendSocket: 7}, limits: []string{"sender's socket"}, says: []string{"7 datagrams refused by the sender's kernel"}},
		{name: "nothing lost: what others lost is no finding", run: udpRun(sent, model.UDPSummary{Received: 1000}, everything(), counted(everything(), "udp_receive_buffer_errors", 9)),
			where: map[Place]int64{PlaceRecvSocket: 9}},
		{name: "one", run: udpRun(sent, model.UDPSummary{Received: 999, Lost: 1}, everything(), counted(everything(), "udp_no_port", 1)),
			where: map[Place]int64{PlaceRecvPort: 1}, explained: 1, limits: []string{"closed port"}, says: []string{"1 of 1 lost datagram came for a port"}},
		{name: "linerate's own probes of the path arrive at closed ports", run: traced(udpRun(sent, lost, everything(), counted(everything(), "udp_no_port", 50)), true),
			where: map[Place]int64{}, limits: []string{"path"}},
		{name: "a receiver that answers no probe, and other datagrams for a closed port", run: traced(udpRun(sent, lost, everything(), counted(everything(), "udp_no_port", 130)), false),
			where: map[Place]int64{PlaceRecvPort: 30}, explained: 30, limits: []string{"path", "closed port"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, ok := LocateUDP(c.run, model.To)
			must.Need(t, ok, "not located")
			for _, d := range l.Drops {
				must.Equal(t, d.Count.Or(0), c.where[d.Place], "%s", d.Place)
				must.Equal(t, strings.HasPrefix(string(d.Place), "sender"), d.Host == model.Near, "%s is at host %s", d.Place, d.Host)
			}
			must.True(t, l.Explained == c.explained && l.Explained+l.Path == l.Lost && len(l.Unknown()) == c.unknown, "explained %d, path %d of %d, unknown %v", l.Explained, l.Path, l.Lost, l.Unknown())
			var limits []string
			var text strings.Builder
			for _, f := range l.Findings() {
				limits = append(limits, f.Limit)
				text.WriteString(f.Evidence + "\n")
			}
			slices.Sort(limits)
			slices.Sort(c.limits)
			must.True(t, slices.Equal(limits, c.limits), "limits %q, want %q\n%s", limits, c.limits, text.String())
			for _, part := range c.says {
				must.Contain(t, text.String(), part)
			}
		})
	}
}

// TestLocateUDPMainFirst: the largest part is the first finding, whichever host is to blame,
// and the other direction blames the other host.
func TestLocateUDPMainFirst(t *testing.T) {
	r := model.Run{Ends: []model.EndReport{
		{Host: model.Near, Counters: counted(everything(), "udp_receive_buffer_errors", 70), Flows: []model.FlowReport{
			{Direction: model.From, Role: model.Receiver, UDP: &model.UDPSummary{Lost: 100}},
		}},
		{Host: model.Far, Counters: counted(everything(), "qdisc_dropped/eth0", 20)}, // it did not report its flow
	}}
	l, ok := LocateUDP(r, model.From)
	must.Need(t, ok && !l.Sent.IsKnown(), "%+v, %v", l, ok)
	f := l.Findings()
	must.True(t, len(f) == 3 && f[0].Limit == "socket buffer" && f[0].Host == model.Near && f[0].Share.Or(0) == 0.7 &&
		f[1].Limit == "sender's queue" && f[1].Host == model.Far && f[2].Limit == "path" && f[2].Share.Or(0) == 0.1, "%+v", f)
	_, ok = LocateUDP(r, model.To)
	must.True(t, !ok, "a direction without a measurement was located")
}

// TestSentLess: datagrams that were never sent did not arrive: the path is not at its best.
func TestSentLess(t *testing.T) {
	for rate, kind := range map[units.BitRate]model.FindingKind{100e6: model.FindingFull, 500e6: model.FindingNotFound} {
		r := udpRun(model.UDPSummary{Sent: 8300}, model.UDPSummary{Received: 8300}, everything(), everything())
		r.Flow = model.Flow{Engine: udp.Name, Direction: model.To, Params: traffic.Write(udp.Params{Rate: rate})}
		r.Ends[0].Flows[0].Bytes, r.Ends[0].Flows[0].Window = 12e6, time.Second
		l, _ := LocateUDP(r, model.To)
		e := Evidence{Direction: model.To, Run: &r, Sender: End{Host: model.Near, Flow: &r.Ends[0].Flows[0]}}
		got := datagrams(e, l)
		must.True(t, len(got) == 1 && got[0].Kind == kind, "%s: %+v", rate, got)
	}
}

// traced adds 50 rounds of probes of the path to a run; its receiver answers them, or does not.
func traced(r model.Run, arrived bool) model.Run {
	r.Ends[0].Trace = &model.Trace{Direction: model.To, Hops: []model.TraceHop{{TTL: 1, Loaded: make([]time.Duration, 50)}, {TTL: 2, Arrived: arrived, Loaded: make([]time.Duration, 50)}}}
	return r
}

// TestLocateUDPLaws: the parts always add up to the total, and higher counts never make the
// path lose more.
func TestLocateUDPLaws(t *testing.T) {
	names := UDPCounters()[1:]
	rapid.Check(t, func(t *rapid.T) {
		lost := rapid.Int64Range(-5, 1000).Draw(t, "lost")
		var ends [2][]model.Counter
		for i := range ends {
			ends[i] = everything()
			for range rapid.IntRange(0, 8).Draw(t, "n") {
				ends[i] = append(ends[i], model.Counter{Name: rapid.SampledFrom(names).Draw(t, "name"), Of: rapid.SampledFrom([]string{"", "eth0", "IPv6"}).Draw(t, "of"), Value: rapid.Int64Range(-3, 500).Draw(t, "value")})
			}
		}
		summary := model.UDPSummary{Lost: lost}
		l, ok := LocateUDP(udpRun(model.UDPSummary{}, summary, ends[0], ends[1]), model.To)
		must.Need(t, ok && l.Path >= 0 && l.Explained >= 0 && l.Explained+l.Path == max(0, lost) && l.Explained <= l.Counted, "%+v", l)
		for _, f := range l.Findings() {
			s, ok := f.Share.Get()
			must.Need(t, !ok || s >= lossShare && s <= 1, "share %v of %s", s, f.Limit)
			must.Need(t, f.Evidence != "" && f.Rule != "" && f.Limit != "", "%+v", f)
		}
		less, _ := LocateUDP(udpRun(model.UDPSummary{}, summary, everything(), everything()), model.To)
		must.Need(t, less.Path >= l.Path, "counting made the path lose more: %d, %d", less.Path, l.Path)
	})
}

// Issue 10, item 22: where a wire, a radio or something else on the path loses packets, the
// advice tells people what to do and where to look, and suggests no setting.
func TestLossAdviceSaysWhatAPersonCanDo(t *testing.T) {
	for _, p := range []Place{PlaceSendNIC, PlaceRecvWire, PlaceRecvChecksum, PlacePath} {
		a := adviceFor(p)
		for _, word := range []string{"Wi-Fi", "linerate "} {
			must.True(t, strings.Contains(a.person, word) && len(a.knobs) == 0, "%s: %q and %v, without %q", p, a.person, a.knobs, word)
		}
	}
	l := UDPLoss{Direction: model.To, Lost: 10, Path: 10}
	f := l.Findings()
	must.True(t, len(f) == 1 && f[0].NoKnob == onTheWay, "%+v", f)
	for _, word := range []string{"cable", "optics", "duplex", "Wi-Fi"} {
		must.Contain(t, atTheWire, word)
	}
}

// TestLossIsBlamedOnItsHost: a finding blames a host for dropped datagrams only where that
// host's own counters of that place moved, in both directions: the same numbers at the other
// end, or from a group that was not read, leave the blame on the path.
func TestLossIsBlamedOnItsHost(t *testing.T) {
	sent, lost := model.UDPSummary{Sent: 1000}, model.UDPSummary{Received: 900, Lost: 100}
	for _, d := range []model.Direction{model.To, model.From} {
		run := func(from, to []model.Counter) model.Run {
			return model.Run{Ends: []model.EndReport{
				{Host: d.Sender(), Counters: from, Flows: []model.FlowReport{{Direction: d, Role: model.Sender, UDP: &sent}}},
				{Host: d.Receiver(), Counters: to, Flows: []model.FlowReport{{Direction: d, Role: model.Receiver, UDP: &lost}}},
			}}
		}
		whole := func() []model.Counter { return append(everything(), looked("track")...) }
		for _, p := range places() {
			moved := counted(whole(), p.names[0], 100)
			host, there, elsewhere := d.Receiver(), run(whole(), moved), run(moved, whole())
			if p.sender {
				host, there, elsewhere = d.Sender(), elsewhere, there
			}
			unread := counted(nil, p.names[0], 100)
			silent := run(whole(), unread)
			if p.sender {
				silent = run(unread, whole())
			}
			blames := func(r model.Run) bool {
				l, ok := LocateUDP(r, d)
				return ok && slices.ContainsFunc(l.Findings(), func(f model.Finding) bool {
					return f.Host == host && f.Limit == adviceFor(p.where).limit
				})
			}
			must.True(t, blames(there), "%s: %s is not named, though %s moved there", d, p.where, p.names[0])
			must.True(t, !blames(elsewhere), "%s: %s is named, and %s moved at the other end", d, p.where, p.names[0])
			must.True(t, !blames(silent), "%s: %s is named, and nobody read its counters", d, p.where)
		}
	}
}
