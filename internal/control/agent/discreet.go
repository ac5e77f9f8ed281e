package agent

import (
	"slices"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/regex"
)

// A controller without a key sees, besides model.HostFacts.Public, all of its own traffic. The
// host's counters also reflect what others do there, so of those it sees only how busy the CPUs
// were and where packets were dropped. It sees neither the kernel's log nor names of files or
// interfaces.

// publicCounters returns the names of package counters's counters and samples that every
// controller may see.
func publicCounters() []string {
	return append(diagnose.UDPCounters(), "cpu_busy", "cpu_softirq", "cpu_steal", "cpu_busy_ms", "cpu_softirq_ms", "cpu_steal_ms")
}

// publicParts returns the parts of a host that every controller may see: the groups of
// counters that were read, and the address families.
func publicParts() []string {
	return []string{"", "IPv6", "cpu", "softnet", "ip", "udp", "tcp", "nic", "driver", "qdisc", "self"}
}

// publicSamples returns the samples of s that every controller may see.
func publicSamples(s []model.Sample) []model.Sample {
	return slices.DeleteFunc(slices.Clone(s), func(one model.Sample) bool {
		return one.Of != "" || !slices.Contains(publicCounters(), string(one.Metric))
	})
}

// publicReport returns the part of a run's report that every controller may see.
func publicReport(r model.EndReport) model.EndReport {
	sums := map[[2]string]int{} // where in counters
	var counters []model.Counter
	for _, c := range r.Counters {
		if !slices.Contains(publicCounters(), c.Name) {
			continue
		}
		if !slices.Contains(publicParts(), c.Of) {
			c.Of = ""
		}
		at, twice := sums[[2]string{c.Name, c.Of}]
		if twice {
			counters[at].Value += c.Value
			continue
		}
		sums[[2]string{c.Name, c.Of}] = len(counters)
		counters = append(counters, c)
	}
	r.Counters = counters
	r.Points = slices.Clone(r.Points)
	for i := range r.Points {
		r.Points[i].Log = nil
	}
	r.Warnings = withoutPaths(r.Warnings)
	return r
}

func withoutPaths(texts []string) []string {
	out := lists.Each(texts, withoutPath)
	return out
}

// aPath matches an absolute path of a file, of Unix or Windows.
var aPath = regex.New(`(^|[\s"'(=:])(/[^\s/"'():,;]+(/[^\s"'():,;]*)?|[A-Za-z]:\\[^\s"':(),;]*)`)

// withoutPath replaces every path in s.
func withoutPath(s string) string { return aPath.ReplaceAllString(s, "${1}a file of this server") }

// discreet is err without paths, for a controller without a key.
type discreet struct{ err error }

// Error returns the message without paths.
func (d discreet) Error() string { return withoutPath(d.err.Error()) }

// Unwrap returns the original error.
func (d discreet) Unwrap() error { return d.err }

// tell returns err as the controller may see it.
func (a *agent) tell(err error) error {
	if err == nil || !a.Discreet {
		return err
	}
	return discreet{err}
}
