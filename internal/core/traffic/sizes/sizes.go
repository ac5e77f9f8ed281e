// Package sizes holds the parameters of engine pingpong: messages of many sizes.
package sizes

import (
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Name is the engine's name.
const Name = "pingpong"

// The modes of a sweep.
const (
	PingPong = "pingpong" // one message in flight: there, and back
	Both     = "both"     // both ends send at the same time
	Stream   = "stream"   // one message after the other, answered once at the end
)

// Params are the parameters. Flow.Points is the number of sizes.
type Params struct {
	Sizes []units.Bytes `json:"sizes"`           // of messages, in the order in which they are measured
	Mode  string        `json:"mode,omitempty"`  // PingPong ("" too), Both, Stream
	Fresh bool          `json:"fresh,omitempty"` // a new connection for each size
	Spin  bool          `json:"spin,omitempty"`  // wait by polling, which costs a core and saves a wake-up
}

// Of returns the parameters of f; false if f is neither of this engine nor of NetPIPE, which
// chooses sizes by itself, or if they cannot be parsed.
func Of(f model.Flow) (Params, bool) {
	if f.Engine != Name && f.Engine != NetPIPE {
		return Params{}, false
	}
	p, err := traffic.Read[Params](f.Params)
	return p, err == nil
}

// NetPIPE is the engine of flows that an NPtcp receiver answered; they follow NetPIPE's own
// schedule.
const NetPIPE = "netpipe"

// With returns f with the parameters p.
func With(f model.Flow, p Params) model.Flow {
	f.Params, f.Points = traffic.Write(p), len(p.Sizes)
	return f
}

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Command: "sweep", Why: "message sizes are not compared by plans",
		Demand: func(f model.Flow) traffic.Demand {
			p, _ := traffic.Read[Params](f.Params)
			return traffic.Demand{Message: slices.Max(append(p.Sizes, 0))}
		},
		Judge: judge,
	}
}

// NPtcp returns the kind of traffic that an NPtcp receiver answers.
func NPtcp() traffic.Kind {
	return traffic.Kind{Name: NetPIPE, Command: "sweep", Why: "message sizes are not compared by plans", Judge: judge}
}

// judge requires a size that was measured.
func judge(_ model.Flow, ends []model.EndReport) string {
	if slices.ContainsFunc(ends, func(e model.EndReport) bool { return len(e.Points) > 0 }) {
		return ""
	}
	return "no message size was measured"
}
