// Package known lists the kinds of traffic that plans compare, for code that evaluates a stored
// plan without the program's own list.
package known

import (
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
)

// All returns the kinds of the list.
func All() traffic.Kinds {
	return traffic.Kinds{bulk.Kind(), udp.Kind(), requests.Kind(), probes.Kind(bulk.Kind(), udp.Kind())}
}

// Metrics returns the metrics of f, and false if its engine is not in the list. A flow without
// an engine is bulk.
func Metrics(f model.Flow) (traffic.Metrics, bool) {
	if f.Engine == "" {
		f.Engine = bulk.Name
	}
	kind, ok := All().ByName(f.Engine)
	if !ok || kind.Metrics == nil {
		return traffic.Metrics{}, false
	}
	return kind.Metrics(f), true
}
