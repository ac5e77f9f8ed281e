package report

import (
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

func (b *builder) header() Header {
	return Header{
		Near: b.names.Near, Far: b.names.Far,
		Link:      b.s.WireRate,
		NearMTU:   b.facts(model.Near).MTU,
		FarMTU:    b.facts(model.Far).MTU,
		RTT:       limits.LeastRTT(b.s),
		Ceiling:   b.ceiling(),
		NearQdisc: b.facts(model.Near).Qdisc,
		FarQdisc:  b.facts(model.Far).Qdisc,
		DataPath:  b.s.Plan.Path.String(),
	}
}

// facts returns the facts that host h reported; all unknown if it reported none.
func (b *builder) facts(h model.Host) model.HostFacts {
	for _, f := range b.s.Hosts {
		if f.Host == h {
			return f
		}
	}
	silent := model.HostFacts{Host: h}
	silent.MTU = fact.Unknown[int]("the host did not report it")
	return silent
}

// summaries returns the senders' kernel summaries of the counted runs, of one direction and
// setting unless they are "".
func (b *builder) summaries(d model.Direction, setting string) []*model.TCPSummary {
	var all []*model.TCPSummary
	for _, r := range b.counted {
		if setting != "" && r.Setting != setting {
			continue
		}
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.TCP != nil && (d == "" || f.Direction == d) {
					all = append(all, f.TCP)
				}
			}
		}
	}
	return all
}

// ceiling returns the lower of the two directions' ceilings.
func (b *builder) ceiling() fact.Of[units.BitRate] {
	to, from := limits.OfPath(b.s, model.To).Rate, limits.OfPath(b.s, model.From).Rate
	if to.IsKnown() && from.IsKnown() && from.Or(0) < to.Or(0) {
		return from
	}
	return to
}

func (b *builder) lines() []Line {
	lines := []Line{}
	runs := b.baselineRuns()
	for _, d := range []model.Direction{model.To, model.From} {
		rates := runValues(runs, d, model.Goodput)
		if len(rates) == 0 {
			continue
		}
		sums := b.summaries(d, b.s.Plan.Baseline)
		goodput := stats.Median(rates)
		path := limits.OfPath(b.s, d)
		ceiling := path.Against(units.BitRate(goodput))
		l := Line{
			Direction: d, Label: b.names.Way(d), Setting: b.s.Plan.Baseline, Runs: len(rates), Goodput: units.BitRate(goodput),
			Ceiling:     path.Rate,
			Share:       fact.Unknown[float64](ceiling.Reason()),
			Congestion:  congestion(sums),
			Retransmits: b.retransmits(runs, d, sums),
			NearCPU:     traffic.CPU(runs, d, model.Near),
			FarCPU:      traffic.CPU(runs, d, model.Far),
			LoadedRTT:   loadedRTT(sums),
			Datagrams:   b.datagrams(runs, d),
		}
		if c, ok := ceiling.Get(); ok && c > 0 {
			l.Share = fact.Known(goodput/float64(c), "measured rate and ceiling")
		}
		lines = append(lines, l)
	}
	return lines
}

// OfCeiling formats a share of a ceiling. A share above 1 that does not refute the ceiling is
// within the resolution of the measurement: data that arrived before the window, in a program's
// last read or behind a hole, is read in it, which is a percent of a run of a second (package
// limits).
func OfCeiling(share float64, write func(float64) string) string {
	if math.Round(1000*share) > 1000 {
		return "about 100 %"
	}
	return write(share)
}

// Percent formats a share with one decimal.
func Percent(share float64) string { return units.Percent(math.Round(1000*share) / 10).String() }

// refuted warns of ceilings that a measurement refutes, unless a finding says so.
func (b *builder) refuted(lines []Line) []string {
	var out []string
	for _, l := range lines {
		said := func(f model.Finding) bool { return f.Direction == l.Direction && f.Rule == "B32" && !f.Loss }
		if l.Ceiling.IsKnown() && !l.Share.IsKnown() && !slices.ContainsFunc(b.s.Findings, said) {
			out = append(out, l.Label+": "+l.Share.Reason())
		}
	}
	return out
}

// runValues returns the values of the runs for one metric and direction.
func runValues(runs []model.Run, d model.Direction, m model.Metric) []float64 {
	var all []float64
	for i := range runs {
		if v, ok := runs[i].Value(d, m); ok {
			all = append(all, v)
		}
	}
	return all
}

// congestion returns the congestion control of the runs, all of them if they differ.
func congestion(sums []*model.TCPSummary) fact.Of[string] {
	var names []string
	source := "no kernel reported it"
	for _, sum := range sums {
		if name, ok := sum.Congestion.Get(); ok && !slices.Contains(names, name) {
			names = append(names, name)
			source = sum.Congestion.Source()
		}
	}
	if len(names) == 0 {
		return fact.Unknown[string](source)
	}
	return fact.Known(strings.Join(names, ", "), source)
}

// retransmits sums the retransmitted segments of all runs; unknown if those of one run are.
func (b *builder) retransmits(runs []model.Run, d model.Direction, sums []*model.TCPSummary) fact.Of[int64] {
	if all := runValues(runs, d, model.Retransmits); b.s.Kind == model.KindImported {
		sum := 0.0
		for _, v := range all {
			sum += v
		}
		if len(all) < len(runs) {
			return fact.Unknown[int64]("the files do not say it of each run")
		}
		return fact.Known(int64(sum), "the imported files")
	}
	total := fact.Unknown[int64]("no kernel reported it")
	for i, sum := range sums {
		n, ok := sum.Retransmits.Get()
		if !ok {
			return sum.Retransmits
		}
		if i == 0 {
			total = sum.Retransmits
			continue
		}
		total = fact.Known(total.Or(0)+n, sum.Retransmits.Source())
	}
	return total
}

func loadedRTT(sums []*model.TCPSummary) fact.Of[time.Duration] {
	var all []float64
	for _, sum := range sums {
		if v, ok := sum.RTT.Get(); ok {
			all = append(all, float64(v))
		}
	}
	if len(all) == 0 {
		return fact.Unknown[time.Duration]("no kernel reported it")
	}
	return fact.Known(time.Duration(stats.Median(all)), "median over runs of the sender's smoothed round trip")
}
