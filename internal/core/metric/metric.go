// Package metric holds what is known of the metrics that verdicts are given on:
// their names, which way they are good, whether they can be 0, and what change of
// them matters. It is the only place that does; plans, analysis and reports ask it.
package metric

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/known"
	"linerate/internal/core/words"
)

// Info describes one metric.
type Info struct {
	ID     model.Metric
	Name   string // as sentences have it: "loss"
	Short  string // as people write it in plans and on command lines: "p99"
	LowIs  bool   // low values are good
	CanBe0 bool   // its changes are differences in its own unit, not ratios (statistics.md section 3)
	Unit   string // of a metric that can be 0: "s", or "%" for shares of 0 to 1, which are shown in percent
	// Margin is the change that a verdict takes for one, in the metric's own unit,
	// of metrics that can be 0; that of the others is the plan's.
	Margin float64
}

// Sense returns which way the metric is good.
func (i Info) Sense() stats.Sense {
	if i.LowIs {
		return stats.LowerIsBetter
	}
	return stats.HigherIsBetter
}

// Change returns gain d, positive good, as the change of the metric itself: a log
// ratio, or a difference in the metric's unit.
func (i Info) Change(d float64) float64 {
	if i.LowIs {
		return -d
	}
	return d
}

// all is the list, in the order in which reports have them.
func all() []Info {
	return []Info{
		{ID: model.Goodput, Name: "goodput", Short: "goodput"},
		{ID: model.Sent, Name: "sent rate", Short: "sent"},
		{ID: model.RequestRate, Name: "request rate", Short: "requests"},
		{ID: model.ConnectRate, Name: "connection rate", Short: "connections"},
		{ID: model.LatencyP50, Name: "median latency", Short: "latency", LowIs: true},
		{ID: model.LatencyP99, Name: "99th percentile of latency", Short: "p99", LowIs: true},
		{ID: model.AddedP50, Name: "median latency added by the load", Short: "added", LowIs: true, CanBe0: true, Unit: "s", Margin: 0.005},
		{ID: model.AddedP99, Name: "99th percentile of latency added by the load", Short: "added-p99", LowIs: true, CanBe0: true, Unit: "s", Margin: 0.010},
		{ID: model.RTT, Name: "round trip", Short: "rtt", LowIs: true},
		{ID: model.RTTMin, Name: "least round trip", Short: "least-rtt", LowIs: true},
		{ID: model.Jitter, Name: "jitter", Short: "jitter", LowIs: true, CanBe0: true, Unit: "s", Margin: 0.001},
		{ID: model.LossRatio, Name: "loss", Short: "loss", LowIs: true, CanBe0: true, Unit: "%", Margin: 0.005},
		{ID: model.RetransmitRatio, Name: "share sent again", Short: "retransmits", LowIs: true, CanBe0: true, Unit: "%", Margin: 0.005},
		{ID: model.CPUPerGbitNear, Name: "CPU per Gbit (near end)", Short: "cpu-near", LowIs: true},
		{ID: model.CPUPerGbitFar, Name: "CPU per Gbit (far end)", Short: "cpu-far", LowIs: true},
	}
}

// CPU is what people write for the CPU per Gbit of both ends.
const CPU = "cpu"

// Of returns what is known of m, and false where no verdict is given on it.
func Of(m model.Metric) (Info, bool) {
	for _, i := range all() {
		if i.ID == m {
			return i, true
		}
	}
	return Info{}, false
}

// Name is what people call m, or m itself.
func Name(m model.Metric) string {
	if i, ok := Of(m); ok {
		return i.Name
	}
	return string(m)
}

// ByName returns the metric that people write as name: Info.Short or the metric
// itself. CPU, which is two metrics, is none.
func ByName(name string) (Info, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, i := range all() {
		if i.Short == name || string(i.ID) == name {
			return i, true
		}
	}
	return Info{}, false
}

// Names returns the names that ByName knows, as people write them.
func Names() []string {
	out := lists.Each(all(), func(i Info) string { return i.Short })
	return out
}

// Unknown says that name is no metric, and which one may be meant; more are names
// that are right beside those of the metrics.
func Unknown(name string, more ...string) error {
	names := slices.Concat(Names(), more)
	nearest, least := "", 3
	for _, n := range names {
		if d := words.Distance(name, n); d < least {
			nearest, least = n, d
		}
	}
	if nearest != "" {
		return fmt.Errorf("%q is no metric; do you mean %s?", name, nearest)
	}
	return fmt.Errorf("%q is no metric; there are %s", name, strings.Join(names, ", "))
}

// Default guards: harm that a setting may not do unseen, loose enough that a path
// as noisy as most decides them with the comparison itself (statistics.md section
// 6.4, all proposed).
const (
	latencyGuard = 50    // percent: a setting that doubles the latency is stopped
	cpuGuard     = 50    // percent, of each end
	lossGuard    = 0.005 // half a percent of all packets
	goodputGuard = 10    // percent, where latency is what decides
)

// Objective is the metric that decides where the user names none: of traffic that
// is about latency that, else goodput.
func Objective(f model.Flow) model.Metric {
	m, _ := known.Metrics(f)
	return cmp.Or(m.Objective, model.Goodput)
}

// Guards are those of a plan whose user names none: what the engine measures of
// latency, loss and CPU, and goodput where something else decides. Where settings are
// measured with other engines, it is what all of them measure.
func Guards(f model.Flow, objective model.Metric, engines ...string) []model.Guard {
	var out []model.Guard
	for _, m := range Measured(f) {
		if !ServedBy(m, engines) {
			continue
		}
		if g := Guarding(m); g != nil && m != objective && m != model.LatencyP50 {
			out = append(out, *g)
		}
	}
	return out
}

// Guarding is the default guard of a metric, nil where it has none.
func Guarding(m model.Metric) *model.Guard {
	margin := 0.0
	switch m {
	case model.LatencyP50, model.LatencyP99, model.RTT:
		margin = latencyGuard
	case model.LossRatio, model.RetransmitRatio:
		margin = lossGuard
	case model.CPUPerGbitNear, model.CPUPerGbitFar:
		margin = cpuGuard
	case model.Goodput:
		margin = goodputGuard
	default:
		return nil
	}
	return &model.Guard{Metric: m, Margin: margin, Default: true}
}

// Measured returns the metrics that runs of f have values for, where the systems
// tell them, in the order of reports.
func Measured(f model.Flow) []model.Metric {
	if m, ok := known.Metrics(f); ok {
		return m.Measured
	}
	return []model.Metric{model.Goodput}
}

// Serves reports whether m can decide or guard a plan of f: what Measured lists,
// and what has values under a condition, such as latency added to that before a
// load. Of engines that do not say what they measure everything may.
func Serves(f model.Flow, m model.Metric) bool {
	all, ok := known.Metrics(f)
	return !ok || slices.Contains(all.Measured, m) || slices.Contains(all.Also, m)
}

// ServedBy reports whether m can decide or guard with each of these engines, too.
func ServedBy(m model.Metric, engines []string) bool {
	return !slices.ContainsFunc(engines, func(e string) bool { return !Serves(model.Flow{Engine: e}, m) })
}

// List names metrics for people, as they write them.
func List(metrics []model.Metric) string {
	var names []string
	for _, m := range metrics {
		if i, ok := Of(m); ok {
			names = append(names, i.Short)
		}
	}
	return strings.Join(names, ", ")
}
