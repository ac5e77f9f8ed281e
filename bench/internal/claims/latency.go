package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"linerate/bench/internal/peers"
	"linerate/bench/internal/results"
	"linerate/bench/internal/stand"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/measure/pingpong"
	"linerate/internal/measure/reqresp"
)

// Keys of the latency tests; half round trips in seconds.
const (
	meanKey    = "mean"
	fastestKey = "fastest" // mean of the fastest trial
)

// sweepName is linerate measuring like NetPIPE: in trials.
const sweepName = "linerate, in trials"

// npTrials is how many trials NPtcp makes of a size; it reports the fastest. More would be
// faster by chance.
const npTrials = 3

func latencySizes() []int { return []int{1, 64, 1024} }

// latencyBar is the limit of the smallest message's time relative to the peer's.
const latencyBar = 1.0

// waiting is one way of waiting.
type waiting struct {
	name string
	spin bool
}

func waitings() []waiting { return []waiting{{"blocking", false}, {"spinning", true}} }

// runLatency compares the round trips of small messages.
func runLatency(ctx context.Context, b *Bench) (results.Section, error) {
	d, rounds := b.duration(time.Second, time.Second), b.rounds(3)
	var situations []*situation
	for _, size := range latencySizes() {
		for _, w := range waitings() {
			s, err := b.messages(size, w, d)
			if err != nil {
				return results.Section{}, err
			}
			situations = append(situations, s)
		}
	}
	busy, err := b.play(ctx, rounds, situations)
	if err != nil {
		return results.Section{}, err
	}
	out := results.Section{Name: "latency", Title: "Small messages over TCP against C peers"}
	var rows [][]string
	for i, s := range situations {
		for _, c := range s.contenders {
			rows = append(rows, messageRow(s, c.name))
		}
		if i < len(waitings()) {
			out.Verdicts = append(out.Verdicts, judgeMessages(s, busy))
		}
	}
	facts := append(stand.Facts(ctx),
		fmt.Sprintf("programs: sockperf is %s, qperf is %s, NPtcp is of NetPIPE 3; all with TCP_NODELAY, nothing pinned, sleep states as the system sets them",
			stand.Output(ctx, peers.Sockperf, "--version"), stand.Output(ctx, peers.Qperf, "--version")),
		fmt.Sprintf("%d rounds of %v, half round trips; ratios are taken within a round, each with the number that the peer tells: median [range]", rounds, d),
		fmt.Sprintf("NPtcp and %q tell the fastest of %d trials, qperf a mean; sockperf sends at least %d bytes", sweepName, npTrials, peers.SockperfLeast),
		"spinning: both ends poll a socket that never blocks; on two cores that leaves none for anything else",
		fmt.Sprintf("others: cores that anything else kept busy during the runs, median; between the runs it was %.2f", busy),
	)
	out.Body = list(append(facts, notes(situations)...)...) + table([]string{
		"message, waiting", "program", "mean µs", "p50 µs", "p99 µs", "fastest trial µs", "linerate to it", "others",
	}, rows)
	return out, nil
}

// messages returns the contenders for one size and way of waiting.
func (b *Bench) messages(size int, w waiting, d time.Duration) (*situation, error) {
	s := &situation{name: fmt.Sprintf("%d B, %s", size, w.name)}
	err := s.addOwn(b, ownName, model.Flow{
		Engine: reqresp.Name, Direction: model.To, Duration: d, Interval: d, Block: units.Bytes(size), Params: traffic.Write(requests.Params{Spin: w.spin}),
	}, "", readRequests)
	if err != nil {
		return nil, err
	}
	s.add(b, peers.Sockperf, peers.SockperfTCP(stand.FarAddress, size, d, w.spin), latencyOf(peers.ParseSockperf))
	if w.spin {
		return s, nil
	}
	s.add(b, peers.Qperf, peers.QperfLatency(stand.FarAddress, size, d), latencyOf(peers.ParseQperfLatency))
	out := filepath.Join(b.Work, "np.out")
	s.add(b, peers.NPtcp, peers.NPtcpSizes(stand.FarAddress, size, size, out), func(stand.Outcome) (values, error) {
		times, err := readNetPIPE(out)
		return values{fastestKey: times[size]}, err
	})
	err = s.addOwn(b, sweepName, sizes.With(model.Flow{Engine: pingpong.Name, Direction: model.To, Duration: d}, sizes.Params{Sizes: []units.Bytes{units.Bytes(size)}}), "", func(r reports) (values, error) {
		times, err := trialsOf(r.near)
		return values{fastestKey: times[size].fastest}, err
	})
	return s, err
}

// readNetPIPE reads the points of NPtcp and deletes the file, so that none is read twice.
func readNetPIPE(path string) (map[int]float64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	times, parsed := peers.ParseNetPIPE(b)
	return times, errors.Join(parsed, os.Remove(path))
}

// readRequests halves the asking end's results.
func readRequests(r reports) (values, error) {
	for _, l := range r.near.Latencies {
		if l.Times == nil || l.Times.Count() == 0 {
			continue
		}
		mean, known := l.Times.Mean().Get()
		p50, also := l.Times.Quantile(0.5).Get()
		p99, too := l.Times.Quantile(0.99).Get()
		if known && also && too && l.Lost == 0 {
			return values{meanKey: mean.Seconds() / 2, p50Key: p50.Seconds() / 2, p99Key: p99.Seconds() / 2}, nil
		}
	}
	return nil, errors.New("the report has no latency")
}

// trials is the result for a size, in seconds one way.
type trials struct{ fastest, median float64 }

// trialsOf returns the points of a sweep: the fastest of as many trials as NPtcp makes, and the
// median of all.
func trialsOf(r model.EndReport) (map[int]trials, error) {
	out := map[int]trials{}
	for _, p := range r.Points {
		if p.Stalled || len(p.Trials) < npTrials {
			return nil, fmt.Errorf("size %d: %d trials, stalled %t", p.Size, len(p.Trials), p.Stalled)
		}
		all := slices.Sorted(slices.Values(p.Trials))
		out[int(p.Size)] = trials{slices.Min(p.Trials[:npTrials]).Seconds(), all[len(all)/2].Seconds()}
	}
	if len(out) == 0 {
		return nil, errors.New("the report has no points")
	}
	return out, nil
}

// latencyOf converts the output of a peer's client to values.
func latencyOf(parse func([]byte) (peers.Latency, error)) func(stand.Outcome) (values, error) {
	return func(out stand.Outcome) (values, error) {
		l, err := parse(out.Client)
		v := values{meanKey: l.Mean}
		if l.P50 > 0 {
			v[p50Key], v[p99Key] = l.P50, l.P99
		}
		return v, err
	}
}

// alike returns the result of linerate that a program is compared with.
func alike(program string) (ours, key string) {
	switch program {
	case peers.Sockperf:
		return ownName, p50Key
	case peers.NPtcp:
		return sweepName, fastestKey
	}
	return ownName, meanKey
}

// messageRow returns the table row of one program.
func messageRow(s *situation, name string) []string {
	compared := ""
	if name != ownName && name != sweepName {
		ours, key := alike(name)
		compared = fmt.Sprintf("%s (%s)", s.ratio(ours, name, key), key)
	}
	return []string{
		s.name, name, s.median(name, meanKey, "%.2f", 1e6), s.median(name, p50Key, "%.2f", 1e6), s.median(name, p99Key, "%.2f", 1e6),
		s.median(name, fastestKey, "%.2f", 1e6), compared, s.median(name, othersKey, "%.2f", 1),
	}
}

// judgeMessages compares with each peer in the value that it reports; the worst ratio counts.
func judgeMessages(s *situation, busy float64) results.Verdict {
	v := results.Verdict{Claim: "latency", What: s.name, Bar: fmt.Sprintf("≤ %.2f of every peer", latencyBar), Word: noPeer}
	var texts []string
	worst := 0.0
	for _, p := range s.foreign(sweepName) {
		ours, key := alike(p)
		r := s.ratio(ours, p, key)
		texts = append(texts, fmt.Sprintf("%s of %s (%s)", r, p, key))
		worst = max(worst, r.Median)
	}
	if len(texts) > 0 {
		v.Result, v.Word = strings.Join(texts, ", "), judge(worst, false, latencyBar, max(busy, s.others()))
	}
	return v
}
