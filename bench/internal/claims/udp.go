package claims

import (
	"context"
	"fmt"
	"time"

	"linerate/bench/internal/peers"
	"linerate/bench/internal/ratio"
	"linerate/bench/internal/results"
	"linerate/bench/internal/stand"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/udpflow"
)

// Keys of the datagram tests.
const (
	sentKey     = "sent/s"
	receivedKey = "received/s"
	lossKey     = "loss"      // 0…1
	perKey      = "us/packet" // CPU of both ends per datagram sent
)

// Bars of the claim.
const (
	packetsBar = 0.95 // of the best peer, datagram by datagram
	cutBar     = 20.0 // of iperf3's rate, with segmentation
)

// The names of the programs that let the kernel cut trains.
const (
	cutName       = "linerate, segmented"
	cutIperf3Name = "iperf3 --gsro"
	fullSize      = 1472 // fills a packet of 1500 bytes
)

// runUDP compares unpaced datagrams.
func runUDP(ctx context.Context, b *Bench) (results.Section, error) {
	d, rounds := b.duration(2*time.Second, time.Second), b.rounds(3)
	var situations []*situation
	for _, size := range []int{64, fullSize} {
		s, err := b.datagrams(ctx, size, d)
		if err != nil {
			return results.Section{}, err
		}
		situations = append(situations, s)
	}
	busy, err := b.play(ctx, rounds, situations)
	if err != nil {
		return results.Section{}, err
	}
	out := results.Section{Name: "udp", Title: "UDP datagrams against C peers"}
	var rows [][]string
	for i, size := range []int{64, fullSize} {
		s := situations[i]
		for _, c := range s.contenders {
			rows = append(rows, packetRow(s, size, c.name))
		}
		out.Verdicts = append(out.Verdicts, judgePackets(s, size, busy)...)
	}
	out.Verdicts = append(out.Verdicts, judgeCut(situations[1], busy))
	facts := append(stand.Facts(ctx),
		fmt.Sprintf("programs: iperf3 is %s, iperf is %s, nuttcp is %s; each with its own unlimited rate, and the receive buffer that it gets by itself (linerate asks for more, which root may have)",
			stand.Output(ctx, peers.Iperf3, "--version"), stand.Output(ctx, peers.Iperf2, "--version"), stand.Output(ctx, peers.Nuttcp, "-V")),
		fmt.Sprintf("%d rounds of %v, no pacing; ratios are taken within a round: median [range]", rounds, d),
		"datagram by datagram unless it says segmented: then the kernel cuts trains (UDP_SEGMENT) and joins them (UDP_GRO), and a veth carries a train as one unit",
		"loss is at the receiver: 1 - received/sent, as each program's receiver counts it",
		fmt.Sprintf("others: cores that anything else kept busy during the runs, kernel threads too, median; between the runs it was %.2f", busy),
	)
	out.Body = list(append(facts, notes(situations)...)...) + table([]string{
		"payload", "program", "k sent/s", "sent, linerate to it", "k received/s", "received, linerate to it", "loss %", "CPU µs/datagram", "others",
	}, rows)
	return out, nil
}

// datagrams returns the contenders for one size.
func (b *Bench) datagrams(ctx context.Context, size int, d time.Duration) (*situation, error) {
	s := &situation{name: fmt.Sprintf("%d B", size)}
	flow := model.Flow{
		Engine: udpflow.Name, Direction: model.To, Duration: d, Interval: d, Block: units.Bytes(size),
		Params: traffic.Write(udp.Params{Plain: true}),
	}
	if err := s.addOwn(b, ownName, flow, "", readDatagrams); err != nil {
		return nil, err
	}
	o := peers.UDP{To: stand.FarAddress, Size: size, Time: d}
	s.add(b, peers.Iperf3, peers.Iperf3UDP(o), datagramsOf(func(out stand.Outcome) (peers.Datagrams, error) {
		return peers.ParseIperf3UDP(out.Client)
	}))
	s.add(b, peers.Iperf2, peers.Iperf2UDP(o), datagramsOf(func(out stand.Outcome) (peers.Datagrams, error) {
		return peers.ParseIperf2UDP(out.Server)
	}))
	s.add(b, peers.Nuttcp, peers.NuttcpUDP(o), datagramsOf(func(out stand.Outcome) (peers.Datagrams, error) {
		return peers.ParseNuttcpUDP(out.Client)
	}))
	if size != fullSize {
		return s, nil
	}
	flow.Params = traffic.Write(udp.Params{})
	if err := s.addOwn(b, cutName, flow, "", readDatagrams); err != nil {
		return nil, err
	}
	if stand.Help(ctx, peers.Iperf3, "--gsro") {
		o.Cut = true
		s.add(b, cutIperf3Name, peers.Iperf3UDP(o), datagramsOf(func(out stand.Outcome) (peers.Datagrams, error) {
			return peers.ParseIperf3UDP(out.Client)
		}))
	}
	return s, nil
}

// readDatagrams takes linerate's values: what was sent from the sender, the rest from the
// receiver.
func readDatagrams(r reports) (values, error) {
	near, err := one(r.near)
	if err != nil {
		return nil, err
	}
	far, err := one(r.far)
	if err != nil {
		return nil, err
	}
	if near.UDP == nil || far.UDP == nil || near.UDP.Sent == 0 {
		return nil, fmt.Errorf("the reports have no datagrams")
	}
	sent := float64(near.UDP.Sent)
	return values{
		sentKey: sent / near.Window.Seconds(), receivedKey: float64(far.UDP.Received) / far.Window.Seconds(),
		lossKey: float64(far.UDP.Lost) / sent, packetsKey: sent,
	}, nil
}

// packetsKey is how many datagrams were sent.
const packetsKey = "packets"

// datagramsOf converts a peer's report to values.
func datagramsOf(parse func(stand.Outcome) (peers.Datagrams, error)) func(stand.Outcome) (values, error) {
	return func(out stand.Outcome) (values, error) {
		p, err := parse(out)
		if err != nil {
			return nil, err
		}
		return values{
			sentKey: p.Sent / p.Seconds, receivedKey: p.Received / p.Seconds, lossKey: p.Lost / p.Sent, packetsKey: p.Sent,
		}, nil
	}
}

// packetRow returns the table row of one program.
func packetRow(s *situation, size int, name string) []string {
	sent, received := "", ""
	if name != ownName {
		sent, received = s.ratio(ownName, name, sentKey).String(), s.ratio(ownName, name, receivedKey).String()
	}
	return []string{
		fmt.Sprint(size), name, s.median(name, sentKey, "%.0f", 1e-3), sent, s.median(name, receivedKey, "%.0f", 1e-3), received,
		s.median(name, lossKey, "%.2f", 100), s.median(name, perKey, "%.2f", 1), s.median(name, othersKey, "%.2f", 1),
	}
}

// judgePackets compares single datagrams with the best peer in each value, and the loss with
// that of the peer that received most.
func judgePackets(s *situation, size int, busy float64) []results.Verdict {
	busy = max(busy, s.others())
	rivals := s.foreign(cutName, cutIperf3Name)
	var out []results.Verdict
	for _, key := range []string{sentKey, receivedKey} {
		v := results.Verdict{
			Claim: "udp", What: fmt.Sprintf("%d B, datagram by datagram: %s", size, key),
			Bar: fmt.Sprintf("≥ %.2f of the best peer", packetsBar), Word: noPeer,
		}
		if best := s.best(key, true, rivals); best != "" {
			r := s.ratio(ownName, best, key)
			v.Result, v.Word = against(r, best), judge(r.Median, true, packetsBar, busy)
		}
		out = append(out, v)
	}
	v := results.Verdict{
		Claim: "udp", What: fmt.Sprintf("%d B, datagram by datagram: loss", size), Bar: "≤ that of the peer that receives most", Word: noPeer,
	}
	if best := s.best(receivedKey, true, rivals); best != "" {
		mine, theirs := s.spread(ownName, lossKey).Median*100, s.spread(best, lossKey).Median*100
		v.Result = fmt.Sprintf("%.2f %% against %.2f %% of %s", mine, theirs, best)
		switch v.Word = judge(0, false, 0, busy); {
		case v.Word == "met" && mine > theirs:
			v.Word = fmt.Sprintf("missed by %.2f percentage points", mine-theirs)
		}
	}
	return append(out, v)
}

// judgeCut compares trains with iperf3's single datagrams.
func judgeCut(s *situation, busy float64) results.Verdict {
	v := results.Verdict{
		Claim: "udp", What: fmt.Sprintf("%d B, segmented: received/s", fullSize), Bar: fmt.Sprintf("≥ %.0f times iperf3 without", cutBar),
	}
	r := s.ratio(cutName, peers.Iperf3, receivedKey)
	if r == (ratio.Spread{}) {
		v.Word = noPeer
		return v
	}
	v.Result, v.Word = against(r, peers.Iperf3), judge(r.Median, true, cutBar, max(busy, s.others()))
	return v
}
