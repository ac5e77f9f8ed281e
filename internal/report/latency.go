package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Latency is one distribution of times, over all counted runs together.
type Latency struct {
	Name      string                 `json:"name"`                // the engine's name: "idle udp"
	Label     string                 `json:"label"`               // for display: "idle", "under load to nas", "to nas"
	Probe     string                 `json:"probe,omitempty"`     // "udp", "tcp", "http"; "" if it is not a probe
	Direction model.Direction        `json:"direction,omitempty"` // of the load
	P50       fact.Of[time.Duration] `json:"p50_ns"`
	P90       fact.Of[time.Duration] `json:"p90_ns"`
	P99       fact.Of[time.Duration] `json:"p99_ns"`
	P999      fact.Of[time.Duration] `json:"p99_9_ns"`
	Max       fact.Of[time.Duration] `json:"max_ns"`
	Sent      int64                  `json:"sent"`
	Lost      int64                  `json:"lost"`
	Rate      fact.Of[float64]       `json:"rate"`     // answered per second, median over runs; requests only
	Added     fact.Of[time.Duration] `json:"added_ns"` // by the load: difference of the medians
	Times     *hist.Histogram        `json:"-"`        // the full distribution
}

// Within says how long half of them took, and how long 99 %, if there are enough answers.
func (l Latency) Within(half string) string {
	text := fmt.Sprintf("%s within %s", half, units.FormatDuration(l.P50.Or(0)))
	if p99, ok := l.P99.Get(); ok {
		text += ", 99 % within " + units.FormatDuration(p99)
	}
	return text
}

// LatencyName returns a name that is unique among the distributions of a session.
func LatencyName(m Latency) string {
	switch {
	case m.Probe != "":
		return m.Label + ", " + strings.ToUpper(m.Probe)
	case m.Name == model.LatencyRequest:
		return m.Label + ", from when it was due"
	case m.Name == model.LatencyServed:
		return m.Label + ", from when it was sent"
	}
	return m.Label
}

// latencies merges the distributions of all counted runs of the baseline. Each quantile is
// taken over all runs' times together, never a mean of quantiles.
func (b *builder) latencies() []Latency {
	out := []Latency{}
	for _, l := range traffic.Latencies(b.baselineRuns()) {
		out = append(out, b.latency(&l))
	}
	slices.SortStableFunc(out, func(x, y Latency) int { return cmp.Compare(rank(x), rank(y)) })
	addLoad(out)
	return out
}

// rank orders idle ones first, and then by direction like the lines.
func rank(l Latency) int {
	return slices.Index([]model.Direction{"", model.To, model.From, model.Both}, l.Direction)
}

func (b *builder) latency(m *model.Latency) Latency {
	at := func(q float64) fact.Of[time.Duration] { return m.Times.Percentile(q, uint64(max(0, m.Lost))) }
	l := Latency{
		Name: m.Name, Label: m.Name, Direction: m.Direction, Sent: m.Sent, Lost: m.Lost,
		P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999),
		Rate:  b.requestRate(m),
		Times: m.Times,
		Max:   m.Times.Max(), Added: fact.Unknown[time.Duration]("no load to compare with"),
	}
	if m.Name == model.LatencyRequest || m.Name == model.LatencyServed {
		l.Label = b.names.Way(m.Direction)
	}
	if what, probe, ok := strings.Cut(m.Name, " "); ok && slices.Contains([]string{"udp", "tcp", "http"}, probe) {
		l.Probe, l.Label = probe, what
		if what == "loaded" {
			l.Label = "under load " + b.names.Way(m.Direction)
		}
	}
	return l
}

// requestRate returns how many requests, or connections, were answered per second.
func (b *builder) requestRate(m *model.Latency) fact.Of[float64] {
	if m.Name != model.LatencyRequest {
		return fact.Unknown[float64]("not a series of requests")
	}
	for _, metric := range []model.Metric{model.ConnectRate, model.RequestRate} {
		if v := runValues(b.baselineRuns(), m.Direction, metric); len(v) > 0 {
			return fact.Known(stats.Median(v), "median over runs")
		}
	}
	return fact.Unknown[float64]("no run reported it")
}

// addLoad computes by how much the median of each probe under load exceeds that of the same
// probe without load.
func addLoad(all []Latency) {
	for i := range all {
		if all[i].Direction == "" {
			continue
		}
		for _, idle := range all {
			if idle.Direction != "" || idle.Probe != all[i].Probe {
				continue
			}
			under, ok1 := all[i].P50.Get()
			before, ok2 := idle.P50.Get()
			if ok1 && ok2 {
				all[i].Added = fact.Known(under-before, fmt.Sprintf("medians of %d and %d probes", all[i].Sent, idle.Sent))
			}
		}
	}
}
