// Package udp holds the parameters of engine udpflow.
package udp

import (
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
)

// Name is the engine's name.
const Name = "udpflow"

// How datagrams are paced.
const (
	PacingKernel = "kernel" // the kernel holds datagrams back
	PacingClock  = "clock"  // the sender waits
)

// MaxDatagram is the largest payload of a UDP datagram over IPv4 (RFC 768, RFC 791).
const MaxDatagram = 65507

// Params are the parameters. Datagrams have Flow.Block bytes of payload, 16 to
// MaxDatagram.
type Params struct {
	Rate   units.BitRate `json:"rate,omitempty"`   // of payload, per direction, over all streams; 0 is as fast as possible
	Back   units.BitRate `json:"back,omitempty"`   // the rate of direction From; 0 is Rate
	Pacing string        `json:"pacing,omitempty"` // PacingKernel, PacingClock; "" is the best available one
	Plain  bool          `json:"plain,omitempty"`  // no segmentation offload: the kernel handles each datagram by itself
}

// Carries reports whether the payload of f, or of the load that f probes beside, consists of
// datagrams.
func Carries(f model.Flow) bool { return probes.Load(f).Engine == Name }

// Of returns the parameters of f, or of the load that f probes beside; false if neither is of
// this engine, or they cannot be parsed.
func Of(f model.Flow) (Params, bool) {
	inner := probes.Load(f)
	if inner.Engine != Name {
		return Params{}, false
	}
	p, err := traffic.Read[Params](inner.Params)
	return p, err == nil
}

// Toward is Of with the rate of direction d, To or From.
func Toward(f model.Flow, d model.Direction) (Params, bool) {
	p, ok := Of(f)
	return p.Toward(d), ok
}

// Toward returns p with the rate of direction d, To or From.
func (p Params) Toward(d model.Direction) Params {
	if d == model.From && p.Back > 0 {
		p.Rate = p.Back
	}
	return p
}

// With returns f with the parameters p, for itself or for the load that it probes beside. It
// returns a flow of another engine unchanged.
func With(f model.Flow, p Params) model.Flow {
	if Carries(f) {
		return probes.WithLoad(f, traffic.Write(p))
	}
	return f
}

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Title: "UDP", Choose: "--udp", Initial: traffic.Write(Params{Rate: DefaultRate}),
		Demand: func(f model.Flow) traffic.Demand {
			p, _ := traffic.Read[Params](f.Params)
			if p.Rate > 0 {
				p.Rate = max(p.Rate, p.Back)
			}
			return traffic.Demand{Datagrams: true, Rate: p.Rate}
		},
		Metrics: func(model.Flow) traffic.Metrics {
			return traffic.Metrics{
				Measured: append([]model.Metric{model.Goodput, model.LossRatio}, traffic.PerGbit()...), Also: []model.Metric{model.Jitter},
			}
		},
		// The rate is a knob of the flow, which a plan may vary: see package knob.
		Options: []traffic.Option{
			traffic.Param(traffic.Option{
				Name: "pacing", Usage: "how UDP is paced: kernel or clock (default: the better one that works)",
			}, traffic.Word("pacing", PacingKernel, PacingClock), func(p *Params) *string { return &p.Pacing }),
			traffic.Param(traffic.Option{
				Name: "plain", Usage: "UDP without segmentation offload: the kernel sees each datagram by itself", Switch: true,
			}, traffic.Switch, func(p *Params) *bool { return &p.Plain }),
		},
	}
}

// DefaultRate is the default payload rate: that of iperf2 and iperf3 without -b, and low enough
// for any path.
const DefaultRate = units.BitRate(1e6)
