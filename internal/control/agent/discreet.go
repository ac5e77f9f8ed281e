package agent

import (
	"slices"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/regex"
)

// What a controller without a key is told, besides model.HostFacts.Public: its own
// traffic, whole; of what the host counts meanwhile, which is also what others do
// there, how busy its processors are and where packets were dropped. Neither the
// kernel's log nor names of files or interfaces.

// publicCounters are the names of counters and samples of package watch that
// everybody is told.
func publicCounters() []string {
	return append(diagnose.UDPCounters(), "cpu_busy", "cpu_softirq", "cpu_steal", "cpu_busy_ms", "cpu_softirq_ms", "cpu_steal_ms")
}

// publicParts are the parts of a host that everybody is told of: the groups of
// counters that were read, and the families of addresses.
func publicParts() []string {
	return []string{"", "IPv6", "cpu", "softnet", "ip", "udp", "tcp", "nic", "driver", "qdisc", "self"}
}

// publicSamples returns those of s that everybody is told.
func publicSamples(s []model.Sample) []model.Sample {
	return slices.DeleteFunc(slices.Clone(s), func(one model.Sample) bool {
		return one.Of != "" || !slices.Contains(publicCounters(), string(one.Metric))
	})
}

// publicReport returns what everybody is told of a run.
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

// aPath is an absolute path of a file, of Unix or of Windows.
var aPath = regex.New(`(^|[\s"'(=:])(/[^\s/"'():,;]+(/[^\s"'():,;]*)?|[A-Za-z]:\\[^\s"':(),;]*)`)

// withoutPath returns s with a word for every path in it.
func withoutPath(s string) string { return aPath.ReplaceAllString(s, "${1}a file of this server") }

// discreet is err as a controller without a key is told it.
type discreet struct{ err error }

// Error is the sentence without paths.
func (d discreet) Error() string { return withoutPath(d.err.Error()) }

// Unwrap returns the error, for its kind.
func (d discreet) Unwrap() error { return d.err }

// tell returns err as the controller is told it.
func (a *agent) tell(err error) error {
	if err == nil || !a.Discreet {
		return err
	}
	return discreet{err}
}
