// Package probes holds the parameters of engine loaded, which probes the latency without load
// for Flow.Lead and then beside a load of another engine.
package probes

import (
	"cmp"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Name is the engine's name.
const Name = "loaded"

// DefaultLoad is the default engine for the load.
const DefaultLoad = "tcpbulk"

// Params are the parameters. The rest of the flow belongs to the load.
type Params struct {
	Engine string       `json:"engine,omitempty"` // makes the load; "" is DefaultLoad
	Load   model.Params `json:"load,omitempty"`   // parameters of that engine
	Trace  bool         `json:"trace,omitempty"`  // the sender of a direction traces the routers of its path, without and under load
}

// Over returns f, a flow of any other engine, with probes beside it.
func Over(f model.Flow) model.Flow {
	f.Engine, f.Params = Name, traffic.Write(Params{Engine: f.Engine, Load: f.Params})
	return f
}

// Traced returns f, a flow of one direction with probes beside it, with a trace of its path.
func Traced(f model.Flow) model.Flow {
	p, err := traffic.Read[Params](f.Params)
	if f.Engine == Name && f.Lead > 0 && f.Duration > 0 && err == nil {
		p.Trace = true
		f.Params = traffic.Write(p)
	}
	return f
}

// Load returns the flow that f loads the path with: without probes, and f itself if it is of
// another engine. Its engine is "" if the parameters of f cannot be parsed.
func Load(f model.Flow) model.Flow {
	if f.Engine != Name {
		return f
	}
	p, err := traffic.Read[Params](f.Params)
	f.Engine, f.Params, f.Lead = cmp.Or(p.Engine, DefaultLoad), p.Load, 0
	if err != nil {
		f.Engine = ""
	}
	return f
}

// WithLoad returns f with the parameters of its load replaced by load.
func WithLoad(f model.Flow, load model.Params) model.Flow {
	if f.Engine != Name {
		f.Params = load
		return f
	}
	p, err := traffic.Read[Params](f.Params)
	if err == nil {
		p.Load = load
		f.Params = traffic.Write(p)
	}
	return f
}

// beside returns the metrics of probes beside a load that has m; idle says whether they also
// ran without load. The load's own RTT is only in Also.
func beside(m traffic.Metrics, idle bool) traffic.Metrics {
	out := traffic.Metrics{
		Measured: []model.Metric{model.Goodput, model.LatencyP50, model.LatencyP99}, Also: m.Also, Objective: model.LatencyP50,
	}
	for _, one := range m.Measured {
		switch one {
		case model.Goodput:
		case model.RTT:
			out.Also = append(out.Also, one)
		default:
			out.Measured = append(out.Measured, one)
		}
	}
	if idle {
		out.Also = append(out.Also, model.AddedP50, model.AddedP99)
	}
	return out
}

// Kind returns the kind of traffic, with any of loads beside the probes.
func Kind(loads ...traffic.Kind) traffic.Kind {
	known := traffic.Kinds(loads)
	initial, _ := known.ByName(DefaultLoad)
	return traffic.Kind{
		Name: Name, Initial: traffic.Write(Params{Engine: DefaultLoad, Load: initial.Initial}),
		Demand: func(f model.Flow) traffic.Demand {
			inner := Load(f)
			load, _ := known.ByName(inner.Engine)
			return load.Of(inner)
		},
		Metrics: func(f model.Flow) traffic.Metrics {
			inner := Load(f)
			load, ok := known.ByName(inner.Engine)
			if !ok {
				load, _ = known.ByName(DefaultLoad)
			}
			if load.Metrics == nil {
				return traffic.Metrics{Measured: []model.Metric{model.Goodput, model.LatencyP50, model.LatencyP99}, Objective: model.LatencyP50}
			}
			return beside(load.Metrics(inner), f.Lead > 0)
		},
		Loads: known.Names(), Load: Load, WithLoad: WithLoad,
		Options: []traffic.Option{{
			Name: "load", Fixed: true, // plans only: test derives it from the traffic
			Set: func(f *model.Flow, text string) error {
				name, err := traffic.Word("load", known.Names()...)(text)
				if err == nil {
					load, _ := known.ByName(name)
					f.Params = traffic.Write(Params{Engine: name, Load: load.Initial})
				}
				return err
			},
		}, {
			Name: "idle", Fixed: true, Usage: "probe the latency for so long before the load, then beside it; 0s: do not probe",
			Set: func(f *model.Flow, text string) (err error) {
				f.Lead, err = units.ParseDuration(text)
				return err
			},
		}},
	}
}
