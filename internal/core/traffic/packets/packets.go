// Package packets holds the parameters and the results of engine packets: the largest IP
// packets between the two ends of a session, and whether ECN marks arrive.
package packets

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Name is the engine's name.
const Name = "packets"

// Params are the parameters.
type Params struct {
	Most int `json:"most"` // bytes of the largest IP packet to try, 128 to 65535
}

// between is about how far apart large packets are sent: an answer is awaited for longer, and only the few
// sizes that pass are sent sooner.
const between = 50 * time.Millisecond

// What the sender of a direction reports.
const (
	Passes model.Metric = "packet_passes" // bytes of the largest IP packet that arrived; 0: not even a small one
	Exact  model.Metric = "packet_exact"  // 1: one byte more was tried and lost
	Marks  model.Metric = "packet_marks"  // share of packets whose ECN mark arrived, 0…1; no value if no host reports it
)

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Command: "check", Why: "sizes of packets are not compared by plans",
		Demand: func(f model.Flow) traffic.Demand {
			p, _ := traffic.Read[Params](f.Params)
			return traffic.Demand{Datagrams: true, Rate: units.BitRate(8 * float64(p.Most) / between.Seconds())}
		},
		Judge: func(f model.Flow, ends []model.EndReport) string {
			for _, e := range ends {
				for _, v := range e.Values {
					if v.Metric == Passes && v.Direction == f.Direction {
						return ""
					}
				}
			}
			return "no packet was tried"
		},
	}
}
