// Package metric describes the metrics that verdicts are given on: their names, their sense,
// whether they can be 0, and which change of them matters. Plans, analysis and reports take
// this from here only.
package metric

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
)

// Info describes one metric.
type Info struct {
	ID     model.Metric
	Name   string // in sentences: "loss"
	Short  string // in plans and on command lines: "p99"
	LowIs  bool   // low values are good
	CanBe0 bool   // its changes are differences in its own unit, not ratios (statistics.md section 3)
	Unit   string // of a metric that can be 0: "s", or "%" for shares of 0 to 1, which are shown in percent
	// Margin is the least change that matters, in the metric's own unit, for metrics that can
	// be 0; the others use the plan's margin.
	Margin float64
}

// Sense returns whether high or low values are good.
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

// all returns the metrics in the order of reports.
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

// CPU is the user's name for the CPU per Gbit of both ends.
const CPU = "cpu"

// Of returns the description of m, and false if no verdicts are given on it.
func Of(m model.Metric) (Info, bool) {
	for _, i := range all() {
		if i.ID == m {
			return i, true
		}
	}
	return Info{}, false
}

// Name returns the display name of m, or m itself.
func Name(m model.Metric) string {
	if i, ok := Of(m); ok {
		return i.Name
	}
	return string(m)
}

// ByName returns the metric called name: by Info.Short or the metric itself. It reports false
// for CPU, which is two metrics.
func ByName(name string) (Info, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, i := range all() {
		if i.Short == name || string(i.ID) == name {
			return i, true
		}
	}
	return Info{}, false
}

// Names returns the names that ByName accepts.
func Names() []string {
	out := lists.Each(all(), func(i Info) string { return i.Short })
	return out
}

// Unknown returns the error for a name that is not a metric, with the most similar valid name;
// more are valid names besides the metrics.
func Unknown(name string, more ...string) error {
	names := slices.Concat(Names(), more)
	nearest, least := "", 3
	for _, n := range names {
		if d := plain.Distance(name, n); d < least {
			nearest, least = n, d
		}
	}
	if nearest != "" {
		return fmt.Errorf("%q is no metric; do you mean %s?", name, nearest)
	}
	return fmt.Errorf("%q is no metric; there are %s", name, strings.Join(names, ", "))
}

// Default guards: harm that a setting may not do unseen, loose enough that a path of usual
// noise decides them together with the comparison itself (statistics.md section 6.4, all
// proposed).
const (
	latencyGuard = 50    // percent: stops a setting that doubles the latency
	cpuGuard     = 50    // percent, of each end
	lossGuard    = 0.005 // half a percent of all packets
	goodputGuard = 10    // percent, if latency is the objective
)

// Objective returns the default objective: latency for traffic that is about latency, otherwise
// goodput.
func Objective(f model.Flow) model.Metric {
	m, _ := OfFlow(f)
	return cmp.Or(m.Objective, model.Goodput)
}

// Guards returns a plan's default guards: on the engine's latency, loss and CPU metrics, and on
// goodput if that is not the objective. If settings use other engines, only metrics that all of
// them measure are included.
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

// Guarding returns the default guard of a metric, nil if it has none.
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

// Measured returns the metrics that runs of f have values for, if the systems report them, in
// the order of reports.
func Measured(f model.Flow) []model.Metric {
	if m, ok := OfFlow(f); ok {
		return m.Measured
	}
	return []model.Metric{model.Goodput}
}

// Serves reports whether m can be the objective or a guard in a plan of f: the metrics of
// Measured, and those that have values under a condition, such as added latency, which needs
// probes before the load. For an engine that does not declare its metrics it is always true.
func Serves(f model.Flow, m model.Metric) bool {
	all, ok := OfFlow(f)
	return !ok || slices.Contains(all.Measured, m) || slices.Contains(all.Also, m)
}

// ServedBy reports whether m can be the objective or a guard with each of these engines, too.
func ServedBy(m model.Metric, engines []string) bool {
	return !slices.ContainsFunc(engines, func(e string) bool { return !Serves(model.Flow{Engine: e}, m) })
}

// List names metrics as the user writes them.
func List(metrics []model.Metric) string {
	var names []string
	for _, m := range metrics {
		if i, ok := Of(m); ok {
			names = append(names, i.Short)
		}
	}
	return strings.Join(names, ", ")
}
