// Package bulk is the paper half of engine tcpbulk, which has no parameters beyond
// those of every flow.
package bulk

import (
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
)

// Name is the engine's name.
const Name = "tcpbulk"

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Title: "TCP",
		Metrics: func(model.Flow) traffic.Metrics {
			return traffic.Metrics{Measured: append([]model.Metric{model.Goodput, model.RTT, model.RetransmitRatio}, traffic.PerGbit()...)}
		},
	}
}
