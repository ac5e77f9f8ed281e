// Package requests holds the parameters of engine reqresp.
package requests

import (
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Name is the engine's name.
const Name = "reqresp"

// Params are the parameters. A request has Flow.Block bytes.
type Params struct {
	Rate    float64     `json:"rate,omitempty"`    // arrivals per second over all streams, on a fixed schedule; 0 is one after the other
	Reply   units.Bytes `json:"reply,omitempty"`   // bytes of an answer; 0 is as many as the request
	Connect bool        `json:"connect,omitempty"` // a new connection for each request
	Spin    bool        `json:"spin,omitempty"`    // wait by polling
}

// Of returns the parameters of f; false where f is of another engine, or they
// cannot be read.
func Of(f model.Flow) (Params, bool) {
	if f.Engine != Name {
		return Params{}, false
	}
	p, err := traffic.Read[Params](f.Params)
	return p, err == nil
}

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{Name: Name, Demand: func(f model.Flow) traffic.Demand {
		p, _ := traffic.Read[Params](f.Params)
		return traffic.Demand{Answer: max(p.Reply, f.Block)} // no reply stated is one as long as the request
	}}
}
