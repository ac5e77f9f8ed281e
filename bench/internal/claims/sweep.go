package claims

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"linerate/bench/internal/peers"
	"linerate/bench/internal/ratio"
	"linerate/bench/internal/results"
	"linerate/bench/internal/stand"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/measure/netpipe"
	"linerate/internal/measure/pingpong"
)

// sweepBar is the limit of a message's time relative to NPtcp's, the median over sizes.
const sweepBar = 1.03

// runSweep compares the curves over message sizes point by point.
func runSweep(ctx context.Context, b *Bench) (results.Section, error) {
	// The time for a size: seven trials of a tenth of it, and their calibration.
	share, rounds, most := b.duration(500*time.Millisecond, 100*time.Millisecond), b.rounds(2), 1<<20
	if b.Quick {
		most = 1 << 10
	}
	sizes, err := netpipe.Sizes(netpipe.Settings{Start: 1, Upper: most})
	if err != nil {
		return results.Section{}, err
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	s := &situation{name: "sweep"}
	if err := b.sweepers(s, sizes, share, most); err != nil {
		return results.Section{}, err
	}
	busy, err := b.play(ctx, rounds, []*situation{s})
	if err != nil {
		return results.Section{}, err
	}
	out := results.Section{Name: "sweep", Title: "Message sizes against NPtcp"}
	verdict := results.Verdict{
		Claim: "sweep", What: fmt.Sprintf("1 B to %s: time of a message, median over %d sizes", kibi(most), len(sizes)),
		Bar: fmt.Sprintf("≤ %.2f of NPtcp", sweepBar), Word: noPeer,
	}
	rows, medians := sweepRows(s, sizes)
	if r := ratio.Of(medians); r.Count > 0 {
		verdict.Result, verdict.Word = against(r, peers.NPtcp), judge(r.Median, false, sweepBar, max(busy, s.others()))
	}
	out.Verdicts = []results.Verdict{verdict}
	facts := append(stand.Facts(ctx),
		fmt.Sprintf("NPtcp without perturbation, its own trials of about a quarter second; linerate's trials of %v; both with TCP_NODELAY, blocking; %d rounds", share/10, rounds),
		fmt.Sprintf("both numbers are of the fastest of %d trials, the one that NPtcp tells; the median is of all seven of linerate's", npTrials),
		"ratios are taken within a round: median [range]; below 1 linerate is faster",
		fmt.Sprintf("others: cores that anything else kept busy: %.2f during the runs, %.2f between them", s.others(), busy),
	)
	out.Body = list(append(facts, s.notes...)...) + table([]string{
		"bytes", "NPtcp µs", "linerate µs", "time, linerate to NPtcp", "linerate median µs", "NPtcp Gbit/s", "linerate Gbit/s",
	}, rows)
	return out, nil
}

// sweepers adds both programs. The values have a key for each size.
func (b *Bench) sweepers(s *situation, list []int, share time.Duration, most int) error {
	var own sizes.Params
	for _, n := range list {
		own.Sizes = append(own.Sizes, units.Bytes(n))
	}
	flow := sizes.With(model.Flow{
		Engine: pingpong.Name, Direction: model.To, Duration: share * time.Duration(len(list)),
	}, own)
	err := s.addOwn(b, ownName, flow, "", func(r reports) (values, error) {
		times, err := trialsOf(r.near)
		v := values{}
		for n, t := range times {
			v[sizeKey(n)], v[medianKey(n)] = t.fastest, t.median
		}
		return v, err
	})
	if err != nil {
		return err
	}
	out := filepath.Join(b.Work, "np.out")
	command := peers.NPtcpSizes(stand.FarAddress, 1, most, out)
	if !stand.Installed(command.Program) {
		s.notes = append(s.notes, "left out: NPtcp is not installed")
		return nil
	}
	p := stand.Pair{Server: command.Server, Client: command.Client, Port: command.Port, Time: 2 * time.Minute}
	s.contenders = append(s.contenders, contender{peers.NPtcp, b.duel(p, func(stand.Outcome) (values, error) {
		times, err := readNetPIPE(out)
		v := values{}
		for n, t := range times {
			v[sizeKey(n)] = t
		}
		return v, err
	})})
	return nil
}

func sizeKey(n int) string   { return fmt.Sprintf("%d B", n) }
func medianKey(n int) string { return fmt.Sprintf("%d B, median", n) }

// sweepRows returns the table, and the ratio of each size.
func sweepRows(s *situation, sizes []int) (rows [][]string, medians []float64) {
	for _, n := range sizes {
		key := sizeKey(n)
		r := s.ratio(ownName, peers.NPtcp, key)
		if r.Count > 0 {
			medians = append(medians, r.Median)
		}
		rows = append(rows, []string{
			fmt.Sprint(n), s.median(peers.NPtcp, key, "%.2f", 1e6), s.median(ownName, key, "%.2f", 1e6), r.String(),
			s.median(ownName, medianKey(n), "%.2f", 1e6), gigas(s.spread(peers.NPtcp, key), n), gigas(s.spread(ownName, key), n),
		})
	}
	return rows, medians
}

// gigas returns the rate of messages of n bytes that take t.
func gigas(t ratio.Spread, n int) string {
	if t.Median <= 0 {
		return ""
	}
	return fmt.Sprintf("%.3f", float64(n)*8/t.Median/1e9)
}
