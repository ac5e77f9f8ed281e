package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"linerate/bench/internal/observe"
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

// Keys of the paced tests.
const (
	errorKey = "error" // of the rate, relative
	p50Key   = "p50"   // seconds
	p99Key   = "p99"
	maxKey   = "max"
)

// errorBar is the largest error of a rate, in percent.
const errorBar = 0.1

// targets are the rates, bit/s of payload.
func targets() []float64 { return []float64{100e6, 1e9} }

// fairQueue is the queue that holds packets until their time.
const fairQueue = "fq"

// runPacing compares how evenly datagrams leave at a given rate.
func runPacing(ctx context.Context, b *Bench) (results.Section, error) {
	d, rounds := b.duration(10*time.Second, 2*time.Second), b.rounds(1)
	var situations []*situation
	// A veth has no queue of its own. If the kernel has fq, it is installed for the programs
	// that leave pacing to it.
	kernel := b.Stand.Queue(ctx, fairQueue)
	if err := b.Stand.Queue(ctx, "noqueue"); err != nil {
		return results.Section{}, err
	}
	for _, rate := range targets() {
		s, err := b.paced(rate, d)
		if err != nil {
			return results.Section{}, err
		}
		situations = append(situations, s)
		if kernel != nil {
			continue
		}
		if s, err = b.pacedByKernel(rate, d); err != nil {
			return results.Section{}, err
		}
		situations = append(situations, s)
	}
	if kernel != nil {
		situations[0].notes = append(situations[0].notes, fmt.Sprintf("pacing by the kernel: left out: this kernel has no fq queue (%v)", kernel))
	}
	busy, err := b.play(ctx, rounds, situations)
	if err = errors.Join(err, b.Stand.Queue(ctx, "noqueue")); err != nil {
		return results.Section{}, err
	}
	out := results.Section{Name: "pacing", Title: "Pacing of UDP against C peers"}
	var rows [][]string
	for _, s := range situations {
		for _, c := range s.contenders {
			rows = append(rows, pacedRow(s, c.name))
		}
		out.Verdicts = append(out.Verdicts, judgePacing(s, busy))
	}
	facts := append(stand.Facts(ctx),
		fmt.Sprintf("programs: iperf3 is %s, iperf is %s, nuttcp is %s", stand.Output(ctx, peers.Iperf3, "--version"),
			stand.Output(ctx, peers.Iperf2, "--version"), stand.Output(ctx, peers.Nuttcp, "-V")),
		fmt.Sprintf("datagrams of %d bytes of payload, %d rounds of %v, order alternating; the rate is of payload, in every program", fullSize, rounds, d),
		"judged by an observer of their own kind for all: a ring of packet(7) at the receiving interface, with the kernel's time of each packet; the first and the last quarter second do not count",
		fmt.Sprintf("others: cores that anything else kept busy during the runs, the observer not included; between the runs it was %.2f", busy),
	)
	out.Body = list(append(facts, notes(situations)...)...) + table([]string{
		"target", "program", "rate error %", "ideal gap µs", "gap p50 µs", "p99 µs", "max µs", "CPU of the sender, cores", "others",
	}, rows)
	return out, nil
}

// mega prints a rate.
func mega(rate float64) string { return fmt.Sprintf("%.0f Mbit/s", rate/1e6) }

// paced returns the programs that pace by themselves.
func (b *Bench) paced(rate float64, d time.Duration) (*situation, error) {
	s := &situation{name: mega(rate), prepare: func(ctx context.Context) error { return b.Stand.Queue(ctx, "noqueue") }}
	if err := s.addPacedOwn(b, rate, d, "clock"); err != nil {
		return nil, err
	}
	o := peers.UDP{To: stand.FarAddress, Size: fullSize, Rate: rate, Time: d}
	s.addPaced(b, peers.Iperf3, peers.Iperf3UDP(o), rate, d)
	s.addPaced(b, peers.Iperf2, peers.Iperf2UDP(o), rate, d)
	s.addPaced(b, peers.Nuttcp, peers.NuttcpUDP(o), rate, d)
	return s, nil
}

// pacedByKernel returns the programs that leave pacing to the queue.
func (b *Bench) pacedByKernel(rate float64, d time.Duration) (*situation, error) {
	s := &situation{name: mega(rate) + ", by fq", prepare: func(ctx context.Context) error { return b.Stand.Queue(ctx, fairQueue) }}
	if err := s.addPacedOwn(b, rate, d, "kernel"); err != nil {
		return nil, err
	}
	o := peers.UDP{To: stand.FarAddress, Size: fullSize, Rate: rate, Kernel: true, Time: d}
	s.addPaced(b, peers.Iperf3+" --fq-rate", peers.Iperf3UDP(o), rate, d)
	return s, nil
}

// observed adds an observer to p, and returns the function that reads its result.
func (b *Bench) observed(p stand.Pair, rate float64, d time.Duration) (stand.Pair, func(stand.Outcome) (values, error)) {
	margin := min(250*time.Millisecond, d/10)
	// Some programs send faster and longer than requested.
	most := int(rate / 8 / fullSize * (d.Seconds() + 2) * 2)
	p.Beside = observe.Arguments(b.Self, stand.Device, fullSize, margin, most)
	p.Time = d
	return p, func(out stand.Outcome) (values, error) {
		var r observe.Report
		if err := json.Unmarshal(out.Beside, &r); err != nil {
			return nil, fmt.Errorf("read report of observer: %w", err)
		}
		if r.Missed > 0 {
			return nil, fmt.Errorf("the observer missed %d packets", r.Missed)
		}
		return values{
			errorKey: r.Rate/rate - 1, p50Key: r.P50.Seconds(), p99Key: r.P99.Seconds(), maxKey: r.Max.Seconds(),
			senderKey: out.ClientCPU.Seconds() / d.Seconds(), idealKey: fullSize * 8 / rate,
		}, nil
	}
}

const (
	senderKey = "cores of the sender"
	idealKey  = "ideal gap"
)

func (s *situation) addPaced(b *Bench, name string, command peers.Command, rate float64, d time.Duration) {
	if !stand.Installed(command.Program) {
		s.notes = append(s.notes, fmt.Sprintf("%s: left out: %s is not installed", name, command.Program))
		return
	}
	p, read := b.observed(stand.Pair{
		Server: command.Server, Client: command.Client, Port: command.Port, Datagrams: command.Datagrams,
		Endless: command.Endless, Lines: command.Lines,
	}, rate, d)
	s.contenders = append(s.contenders, contender{name, b.duel(p, read)})
}

// addPacedOwn adds linerate with one of its two kinds of pacing.
func (s *situation) addPacedOwn(b *Bench, rate float64, d time.Duration, how string) error {
	p, err := b.ownPair(model.Flow{
		Engine: udpflow.Name, Direction: model.To, Duration: d, Interval: d, Block: fullSize,
		Params: traffic.Write(udp.Params{Rate: units.BitRate(rate), Pacing: how}),
	}, "")
	if err != nil {
		return err
	}
	p, read := b.observed(p, rate, d)
	s.contenders = append(s.contenders, contender{ownName, b.duel(p, read)})
	return nil
}

// pacedRow returns the table row of one program.
func pacedRow(s *situation, name string) []string {
	off := s.spread(name, errorKey)
	shown := ratio.Spread{Median: off.Median * 100, Low: off.Low * 100, High: off.High * 100, Count: off.Count}
	return []string{
		s.name, name, shown.Format("%+.3f"), s.median(name, idealKey, "%.1f", 1e6), s.median(name, p50Key, "%.1f", 1e6),
		s.median(name, p99Key, "%.1f", 1e6), s.median(name, maxKey, "%.0f", 1e6), s.median(name, senderKey, "%.2f", 1),
		s.median(name, othersKey, "%.2f", 1),
	}
}

// judgePacing compares linerate's rate with the target.
func judgePacing(s *situation, busy float64) results.Verdict {
	off := make([]float64, 0, len(s.runs[ownName]))
	for _, x := range s.series(ownName, errorKey) {
		off = append(off, math.Abs(x)*100)
	}
	got := ratio.Of(off).Median
	v := results.Verdict{
		Claim: "pacing", What: s.name + ": rate error", Bar: fmt.Sprintf("≤ %.1f %%", errorBar), Result: fmt.Sprintf("%.3f %%", got),
	}
	switch v.Word = judge(0, false, 0, max(busy, s.others())); {
	case v.Word == "met" && got > errorBar:
		v.Word = fmt.Sprintf("missed by %.3f percentage points", got-errorBar)
	}
	return v
}
