package claims

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"linerate/bench/internal/peers"
	"linerate/bench/internal/results"
	"linerate/bench/internal/stand"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	core "linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
	"linerate/internal/measure/tcpbulk"
)

// Keys of the bulk tests.
const (
	rateKey     = "bit/s"
	costKey     = "s/GB" // CPU of both ends
	nearCostKey = "s/GB near"
	farCostKey  = "s/GB far"
)

// bulk is one situation of the claim.
type bulk struct {
	mtu, streams, block int
	uncopied            bool // neither end of linerate copies, and the sender of iperf3
}

// bulks returns the rows. All have one block size, plus a larger one where it matters most.
func bulks() []bulk {
	return []bulk{
		{1500, 1, 128 << 10, false}, {1500, 1, 512 << 10, false}, {1500, 8, 128 << 10, false}, {1500, 64, 128 << 10, false}, {1500, 1000, 128 << 10, false},
		{9000, 1, 128 << 10, false}, {9000, 8, 128 << 10, false}, {1500, 1, 128 << 10, true}, {9000, 1, 128 << 10, true},
	}
}

func (k bulk) String() string {
	how := ""
	if k.uncopied {
		how = ", without copies"
	}
	return fmt.Sprintf("MTU %d, %s, %s%s", k.mtu, streams(k.streams), kibi(k.block), how)
}

// Bars of the claim.
const (
	fewBar  = 0.97 // of the best peer's rate, with 1 and 8 streams
	manyBar = 1.0  // with 64 and more
	costBar = 1.05 // of the best peer's CPU per byte
)

// runTCP compares bulk transfers.
func runTCP(ctx context.Context, b *Bench) (results.Section, error) {
	d, rounds := b.duration(2*time.Second, time.Second), b.rounds(3)
	var situations []*situation
	for _, k := range bulks() {
		s, err := b.bulk(k, d)
		if err != nil {
			return results.Section{}, err
		}
		situations = append(situations, s)
	}
	busy, err := b.play(ctx, rounds, situations)
	if err = errors.Join(err, b.Stand.MTU(ctx, 1500)); err != nil {
		return results.Section{}, err
	}
	out := results.Section{Name: "tcp", Title: "TCP bulk against C peers"}
	var rows [][]string
	for i, k := range bulks() {
		s := situations[i]
		for _, c := range s.contenders {
			rows = append(rows, bulkRow(s, k, c.name))
		}
		out.Verdicts = append(out.Verdicts, judgeBulk(s, k, busy)...)
	}
	threads := "one thread for all streams, before 3.16"
	if version := stand.Output(ctx, peers.Iperf3, "--version"); peers.Iperf3Threads(version) {
		threads = "a thread per stream"
	}
	facts := append(stand.Facts(ctx),
		fmt.Sprintf("programs: iperf3 is %s (%s), iperf is %s, nuttcp is %s, qperf is %s; tuned alike: block size, %s, TCP_NODELAY (qperf has no such option)",
			stand.Output(ctx, peers.Iperf3, "--version"), threads, stand.Output(ctx, peers.Iperf2, "--version"),
			stand.Output(ctx, peers.Nuttcp, "-V"), stand.Output(ctx, peers.Qperf, "--version"), stand.Congestion),
		fmt.Sprintf("who can: iperf3 and nuttcp have at most %d streams, qperf has one; only iperf goes to 1000, with a thread for each", peers.Iperf3Streams),
		fmt.Sprintf("%d rounds of %v, nothing omitted, rate at the receiver; ratios are taken within a round: median [range]", rounds, d),
		"a run of a peer counts as no shorter than three quarters of its CPU time on all cores: the 1000 threads of iperf do not all run at one time, and it tells the time of the longest",
		"CPU is user and system of a process, by wait4, whole life; time that the kernel spends in interrupts is charged to whom it interrupts",
		fmt.Sprintf("others: cores that anything else kept busy during the runs, median; between the runs it was %.2f", busy),
	)
	out.Body = list(append(facts, notes(situations)...)...) + table([]string{
		"MTU", "streams", "block", "program", "Gbit/s", "rate, linerate to it", "CPU s/GB sender", "receiver", "both", "CPU, linerate to it", "others",
	}, rows)
	return out, nil
}

// bulk returns the contenders of a situation.
func (b *Bench) bulk(k bulk, d time.Duration) (*situation, error) {
	s := &situation{name: k.String(), prepare: func(ctx context.Context) error { return b.Stand.MTU(ctx, k.mtu) }}
	flow := model.Flow{
		Engine: tcpbulk.Name, Direction: model.To, Streams: k.streams, Duration: d, Interval: d,
		Block: units.Bytes(k.block), Congestion: stand.Congestion,
	}
	o := peers.TCP{To: stand.FarAddress, Streams: k.streams, Block: k.block, Time: d, Congestion: stand.Congestion, Zero: k.uncopied}
	if k.uncopied {
		if err := s.addOwn(b, copyingName, flow, "", readBulk); err != nil {
			return nil, err
		}
		flow.Params = traffic.Write(core.Params{NoCopy: true})
	}
	if err := s.addOwn(b, ownName, flow, "", readBulk); err != nil {
		return nil, err
	}
	if k.uncopied {
		s.add(b, peers.Iperf3, peers.Iperf3TCP(o), bulkOf(func(out stand.Outcome) (peers.Bulk, error) {
			return peers.ParseIperf3TCP(out.Client)
		}))
		return s, nil
	}
	if k.streams <= peers.Iperf3Streams {
		s.add(b, peers.Iperf3, peers.Iperf3TCP(o), bulkOf(func(out stand.Outcome) (peers.Bulk, error) {
			return peers.ParseIperf3TCP(out.Client)
		}))
	}
	s.add(b, peers.Iperf2, peers.Iperf2TCP(o), bulkOf(func(out stand.Outcome) (peers.Bulk, error) {
		return peers.ParseIperf2TCP(out.Server, k.streams)
	}))
	if k.streams <= peers.NuttcpStreams {
		s.add(b, peers.Nuttcp, peers.NuttcpTCP(o), bulkOf(func(out stand.Outcome) (peers.Bulk, error) {
			return peers.ParseNuttcpTCP(out.Client)
		}))
	}
	if k.streams == 1 {
		s.add(b, peers.Qperf, peers.QperfTCP(o), bulkOf(func(out stand.Outcome) (peers.Bulk, error) {
			rate, err := peers.ParseQperfTCP(out.Client)
			return peers.Bulk{Bytes: rate * d.Seconds(), Seconds: d.Seconds()}, err
		}))
	}
	return s, nil
}

// copyingName is linerate with copies, beside itself without.
const copyingName = "linerate, copying"

// readBulk takes linerate's values from the receiver.
func readBulk(r reports) (values, error) {
	f, err := one(r.far)
	return values{rateKey: float64(f.Bytes) * 8 / f.Window.Seconds(), bytesKey: float64(f.Bytes)}, err
}

// bytesKey is the payload of a run.
const bytesKey = "bytes"

// bulkOf converts a peer's report to values.
func bulkOf(parse func(stand.Outcome) (peers.Bulk, error)) func(stand.Outcome) (values, error) {
	return func(out stand.Outcome) (values, error) {
		p, err := parse(out)
		seconds := max(p.Seconds, leastSeconds(out.CPU(), runtime.NumCPU()))
		return values{rateKey: p.Bytes * 8 / seconds, bytesKey: p.Bytes}, err
	}
}

// leastSeconds returns the minimum duration of a run: both processes cannot use more than all
// cores. It allows a quarter for work before and after. Programs whose streams do not run at
// the same time and that report the time of the longest stream need it.
func leastSeconds(cpu time.Duration, cores int) float64 {
	return 0.75 * cpu.Seconds() / float64(cores)
}

// costs fills in the CPU per byte and per datagram.
func (v values) costs() {
	both := v[nearKey] + v[farKey]
	if gigas := v[bytesKey] / 1e9; gigas > 0 {
		v[nearCostKey], v[farCostKey], v[costKey] = v[nearKey]/gigas, v[farKey]/gigas, both/gigas
	}
	if n := v[packetsKey]; n > 0 {
		v[perKey] = both * 1e6 / n
	}
}

// bulkRow returns the table row of one program.
func bulkRow(s *situation, k bulk, name string) []string {
	rate, cost, how := "", "", ""
	if k.uncopied && name != copyingName {
		how = ", without copies"
	}
	if name != ownName {
		rate, cost = s.ratio(ownName, name, rateKey).String(), s.ratio(ownName, name, costKey).String()
	}
	return []string{
		fmt.Sprint(k.mtu), fmt.Sprint(k.streams), kibi(k.block), name + how, s.median(name, rateKey, "%.1f", 1e-9), rate,
		s.median(name, nearCostKey, "%.3f", 1), s.median(name, farCostKey, "%.3f", 1), s.median(name, costKey, "%.3f", 1), cost,
		s.median(name, othersKey, "%.2f", 1),
	}
}

// judgeBulk compares with the best peer in rate, and with the best in CPU, which may be another
// one.
func judgeBulk(s *situation, k bulk, busy float64) []results.Verdict {
	bar := fewBar
	if k.streams >= 64 {
		bar = manyBar
	}
	rates := results.Verdict{Claim: "tcp", What: k.String() + ": rate", Bar: fmt.Sprintf("≥ %.2f of the best peer", bar)}
	costs := results.Verdict{Claim: "tcp", What: k.String() + ": CPU per byte", Bar: fmt.Sprintf("≤ %.2f of the best peer", costBar)}
	fastest, thriftiest := s.best(rateKey, true, s.foreign(copyingName)), s.best(costKey, false, s.foreign(copyingName))
	if fastest == "" {
		rates.Word, costs.Word = noPeer, noPeer
		return []results.Verdict{rates, costs}
	}
	busy = max(busy, s.others())
	r, c := s.ratio(ownName, fastest, rateKey), s.ratio(ownName, thriftiest, costKey)
	rates.Result, rates.Word = against(r, fastest), judge(r.Median, true, bar, busy)
	costs.Result, costs.Word = against(c, thriftiest), judge(c.Median, false, costBar, busy)
	return []results.Verdict{rates, costs}
}
