package metric

import (
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
)

// Kinds returns the kinds of traffic that plans compare, for code that evaluates a stored plan
// without the program's own list.
func Kinds() traffic.Kinds {
	return traffic.Kinds{bulk.Kind(), udp.Kind(), requests.Kind(), probes.Kind(bulk.Kind(), udp.Kind())}
}

// OfFlow returns the metrics of f, and false if its engine is not in Kinds. A flow without
// an engine is bulk.
func OfFlow(f model.Flow) (traffic.Metrics, bool) {
	if f.Engine == "" {
		f.Engine = bulk.Name
	}
	kind, ok := Kinds().ByName(f.Engine)
	if !ok || kind.Metrics == nil {
		return traffic.Metrics{}, false
	}
	return kind.Metrics(f), true
}
