package claims

import (
	"context"
	"fmt"
	"time"

	"linerate/bench/internal/ratio"
	"linerate/bench/internal/results"
	"linerate/bench/internal/side"
	"linerate/bench/internal/stand"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/tcpbulk"
)

// The two variants of the same run.
const (
	sampledName = ownName
	bareName    = "without sampling"
)

// samplingBar is the largest relative cost of sampling.
const samplingBar = 0.01

func samplingStreams() []int { return []int{1, 64} }

// runSampling compares a bulk run that samples each second with one that does not.
func runSampling(ctx context.Context, b *Bench) (results.Section, error) {
	d, rounds := b.duration(4*time.Second, 2*time.Second), b.rounds(4)
	var situations []*situation
	for _, n := range samplingStreams() {
		s := &situation{name: streams(n)}
		flow := model.Flow{
			Engine: tcpbulk.Name, Direction: model.To, Streams: n, Duration: d, Interval: time.Second,
			Block: units.Bytes(128 << 10), Congestion: stand.Congestion,
		}
		if err := s.addOwn(b, sampledName, flow, stand.Device, readBulk); err != nil {
			return results.Section{}, err
		}
		flow.Interval = d
		if err := s.addOwn(b, bareName, flow, "", readBulk); err != nil {
			return results.Section{}, err
		}
		situations = append(situations, s)
	}
	busy, err := b.play(ctx, rounds, situations)
	if err != nil {
		return results.Section{}, err
	}
	cost, err := side.SamplingCost(ctx, b.Self, stand.Device)
	if err != nil {
		return results.Section{}, err
	}
	out := results.Section{Name: "sampling", Title: "What sampling costs"}
	var rows [][]string
	for i, s := range situations {
		rate, cpu := s.ratio(sampledName, bareName, rateKey), s.ratio(sampledName, bareName, costKey)
		rows = append(rows, []string{
			s.name, s.median(sampledName, rateKey, "%.1f", 1e-9), s.median(bareName, rateKey, "%.1f", 1e-9), rate.Format("%.3f"),
			s.median(sampledName, costKey, "%.4f", 1), s.median(bareName, costKey, "%.4f", 1), cpu.Format("%.3f"),
			s.median(sampledName, othersKey, "%.2f", 1),
		})
		spent := cost.Each(samplingStreams()[i])
		out.Verdicts = append(out.Verdicts,
			judgeSampling(s.name+": throughput", "≥ 0.99 of that without", rate, 1-rate.Median, max(busy, s.others())),
			judgeSampling(s.name+": CPU per byte", "≤ 1.01 of that without", cpu, cpu.Median-1, max(busy, s.others())),
			results.Verdict{
				Claim: "sampling", What: s.name + ": CPU of the sampling itself", Bar: "< 1 % of a core",
				Result: fmt.Sprintf("%.3f %%", spent.Seconds()*100), Word: judge(spent.Seconds()*100, false, 1, 0),
			})
	}
	facts := append(stand.Facts(ctx),
		fmt.Sprintf("both are linerate: one reads TCP_INFO of every stream at the sender and the host's counters at both ends each second, the other only at the edges of the run; %d rounds of %v", rounds, d),
		fmt.Sprintf("read by itself, many times: the host's counters take %v of CPU, TCP_INFO of a stream %v", cost.Host.Round(time.Microsecond), cost.Stream.Round(10*time.Nanosecond)),
		"ratios are taken within a round: median [range]; a range that is wider than the bar and holds 1 shows neither a cost nor none",
		fmt.Sprintf("others: cores that anything else kept busy during the runs, median; between the runs it was %.2f", busy),
	)
	out.Body = list(append(facts, notes(situations)...)...) + table([]string{
		"streams", "Gbit/s sampled", "Gbit/s without", "rate, sampled to without", "CPU s/GB sampled", "CPU s/GB without", "CPU, sampled to without", "others",
	}, rows)
	return out, nil
}

// judgeSampling judges a cost that may be smaller than the spread of the runs.
func judgeSampling(what, bar string, r ratio.Spread, cost, busy float64) results.Verdict {
	v := results.Verdict{Claim: "sampling", What: what, Bar: bar, Result: r.Format("%.3f")}
	v.Word = judge(0, false, 0, busy)
	switch {
	case v.Word != "met" || cost < samplingBar:
	case r.Low <= 1 && r.High >= 1:
		v.Word = fmt.Sprintf("not shown: the runs spread by %.0f %%", (r.High-r.Low)*100)
	default:
		v.Word = fmt.Sprintf("missed by %.1f percentage points", (cost-samplingBar)*100)
	}
	return v
}
