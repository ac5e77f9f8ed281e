// Package bulk holds the parameters of engine tcpbulk.
package bulk

import (
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
)

// Name is the engine's name.
const Name = "tcpbulk"

// Params are the parameters.
type Params struct {
	Rate units.BitRate `json:"rate,omitempty"` // of payload, per direction, over all streams; 0 is as fast as possible
}

// Paced returns f with its TCP streams, or those that it probes beside, held to rate per
// direction; false where f sends something else.
func Paced(f model.Flow, rate units.BitRate) (model.Flow, bool) {
	if probes.Load(f).Engine != Name {
		return f, false
	}
	return probes.WithLoad(f, traffic.Write(Params{Rate: rate})), true
}

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Title: "TCP",
		Metrics: func(model.Flow) traffic.Metrics {
			return traffic.Metrics{Measured: append([]model.Metric{model.Goodput, model.RTT, model.RetransmitRatio}, traffic.PerGbit()...)}
		},
	}
}
