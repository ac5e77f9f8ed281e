// Package requests holds the parameters of engine reqresp.
package requests

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Name is the engine's name.
const Name = "reqresp"

// Params are the parameters. A request has Flow.Block bytes.
type Params struct {
	Rate    float64     `json:"rate,omitempty"`    // requests per second over all streams, on a fixed schedule; 0 is one after the other
	Reply   units.Bytes `json:"reply,omitempty"`   // bytes of an answer; 0 is as many as the request
	Connect bool        `json:"connect,omitempty"` // a new connection for each request
	Spin    bool        `json:"spin,omitempty"`    // wait by polling
}

// Of returns the parameters of f; false if f is of another engine, or they cannot be parsed.
func Of(f model.Flow) (Params, bool) {
	if f.Engine != Name {
		return Params{}, false
	}
	p, err := traffic.Read[Params](f.Params)
	return p, err == nil
}

// Unknown is the most connections that may be open at the port for fresh connections in
// addition to the requesting end's: those without a cookie, and those whose end the peer has
// not noticed yet.
const Unknown = 64

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Choose: "--requests", Initial: traffic.Write(Params{}),
		Demand: func(f model.Flow) traffic.Demand {
			p, _ := traffic.Read[Params](f.Params)
			d := traffic.Demand{Answer: max(p.Reply, f.Block)} // the default reply is as long as the request
			if p.Connect {
				d.Sockets = Unknown + 1
			}
			return d
		},
		Judge: func(_ model.Flow, ends []model.EndReport) string {
			if slices.ContainsFunc(ends, func(e model.EndReport) bool { return len(e.Values) > 0 }) {
				return ""
			}
			return "no request was answered"
		},
		Metrics: func(f model.Flow) traffic.Metrics {
			rate := model.RequestRate
			if asked, _ := Of(f); asked.Connect {
				rate = model.ConnectRate
			}
			return traffic.Metrics{Measured: []model.Metric{rate, model.LatencyP50, model.LatencyP99}, Objective: model.LatencyP50}
		},
		Warnings: overdue,
		Options: []traffic.Option{
			traffic.Param(traffic.Option{
				Name: "requests", Chooses: true,
				Usage: "requests and answers instead of bulk: so many per second on a fixed schedule; 0: one after the other",
			}, parseRate, func(p *Params) *float64 { return &p.Rate }),
			traffic.Param(traffic.Option{
				Name: "reply", Usage: "with --requests: bytes of an answer (default: as the request, -l)",
			}, traffic.Bytes, func(p *Params) *units.Bytes { return &p.Reply }),
			traffic.Param(traffic.Option{ // its runs count connections, not requests
				Name: "connect", Usage: "with --requests: a new connection for each", Switch: true, Chooses: true, Fixed: true,
			}, traffic.Switch, func(p *Params) *bool { return &p.Connect }),
			traffic.Param(traffic.Option{
				Name: "spin", Usage: "with --requests: wait by polling, which costs a core and saves a wake-up", Switch: true,
			}, traffic.Switch, func(p *Params) *bool { return &p.Spin }),
		},
	}
}

// parseRate parses the number of requests per second; 0 is one after the other.
func parseRate(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "/s")), 64)
	if err != nil || n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fault.New(fault.Usage, fmt.Errorf("%.60q is not a number of requests per second", text), "write it like 1000, or 0 for one after the other")
	}
	return n, nil
}

// busyStreams is the share of its time that a connection may be in use before requests start to
// wait for it (p).
const busyStreams = 0.9

// overdue warns if more requests were due than the connections can answer, one at a time each:
// the requests then wait in the client's queue, not in the network.
func overdue(f model.Flow, runs []model.Run) []string {
	r, _ := Of(f)
	if r.Rate == 0 {
		return nil
	}
	for _, l := range traffic.Latencies(runs) {
		service, known := l.Times.Quantile(0.5).Get()
		streams := float64(max(1, f.Streams))
		if busy := service.Seconds() * r.Rate / streams; l.Name == model.LatencyServed && known && busy > busyStreams {
			need := math.Ceil(service.Seconds() * r.Rate / busyStreams)
			return []string{fmt.Sprintf("an answer takes %s, so that %.0f connection(s) can ask %.0f times a second at most, and %.0f were due: the rest waited; use at least -P %.0f",
				units.FormatDuration(service), streams, streams/service.Seconds(), r.Rate, need)}
		}
	}
	return nil
}
