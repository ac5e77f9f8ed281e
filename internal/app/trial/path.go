// Package trial carries out an experiment from its plan to its verdict: the check of the path
// before it, its runs, the outcome of its changes, and the analysis.
package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/control/runner"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/fault"
	"linerate/internal/measure/engines"
)

// FitSearch bounds a search without a chosen highest rate by the known rate of the path.
func FitSearch(e *target.Ends, p *model.Plan) {
	rate, ok := e.WireRate.Get()
	if !ok || p.Search == nil || p.Search.High != HighestRate {
		return
	}
	search := *p.Search // payload can only be less than the link's rate
	search.High = max(search.Low, rate)
	p.Search = &search
}

// probeTime is long enough for a few round trips of most paths.
const probeTime = 300 * time.Millisecond

// Probe makes a short run: it shows early whether data connections work, and measures the
// round trip.
func Probe(ctx context.Context, e *target.Ends, flow model.Flow) (fact.Of[time.Duration], error) {
	flow.Direction, flow.Duration, flow.Bytes, flow.Omit, flow.Interval = model.To, probeTime, 0, 0, probeTime/2
	flow.Streams = 1
	run, _, err := e.Runner.Run(ctx, runner.Spec{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: model.Setting{Name: "probe"}, Flow: flow,
	}, func(model.Host, []model.Sample) {})
	rtt := fact.Unknown[time.Duration]("no TCP_INFO on " + e.Hosts[0].OS)
	for _, end := range run.Ends {
		for _, f := range end.Flows {
			if f.TCP != nil && f.TCP.RTTMin.IsKnown() {
				rtt = f.TCP.RTTMin
			}
		}
	}
	if err != nil && !errors.Is(err, runner.ErrInvalid) {
		return rtt, err
	}
	return rtt, nil
}

// Arrives checks, for a setting with a larger MTU than the hosts have, whether flow arrives
// under it in the given directions: if full packets vanish, each run would wait in vain. It
// returns what does not arrive, "" for nothing.
func Arrives(ctx context.Context, e *target.Ends, s model.Setting, flow model.Flow, directions []model.Direction) (string, error) {
	size := 0
	for _, a := range s.Assignments {
		f := e.Host(a.Host).Facts
		if n, err := strconv.Atoi(a.Value); err == nil && a.Knob == "link.mtu" && n > f.MTU.Or(0) {
			size = n
		}
	}
	if size == 0 {
		return "", nil
	}
	flow = probes.Load(flow)
	flow.Duration, flow.Bytes, flow.Omit, flow.Interval = probeTime, 0, 0, probeTime/2
	for _, d := range directions {
		flow.Direction = d
		if first := arrives(ctx, e, s, flow); first || arrives(ctx, e, s, flow) { // a busy host may use up one run's time
			continue
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		return fmt.Sprintf("packets of %d bytes do not arrive %s", size, e.Names().Way(d)), nil
	}
	return "", nil
}

// arrives reports whether anything of flow arrives. It returns true on other failures, which
// are left for the runs to report.
func arrives(ctx context.Context, e *target.Ends, s model.Setting, flow model.Flow) bool {
	run, _, err := e.Runner.Run(ctx, runner.Spec{Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: s, Flow: flow}, func(model.Host, []model.Sample) {})
	if err != nil {
		return !errors.Is(err, runner.ErrInvalid) && ctx.Err() == nil
	}
	v, ok := run.Value(flow.Direction, model.Goodput)
	return !ok || v > 0
}

// Packets has the agents find the largest packet of up to most bytes that passes in a direction, and
// whether ECN marks arrive, with datagrams to each other.
func Packets(ctx context.Context, e *target.Ends, d model.Direction, most int) (model.Run, error) {
	run, _, err := e.Runner.Run(ctx, runner.Spec{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: model.Setting{Name: packets.Name},
		Flow: model.Flow{Engine: packets.Name, Direction: d, Params: traffic.Write(packets.Params{Most: most})},
	}, nil)
	return run, err
}

// askTime is long enough to learn whether a host has a congestion control.
const askTime = 50 * time.Millisecond

// asks is how often to try: when a run fails, the error of the other end, which does not know
// the reason, may come first.
const asks = 3

// congestions refuses a plan with a congestion control that a sender does not have, before
// its first run. Only the kernel knows, and it may load one on demand, so a very short run
// requests each.
func (t *Trial) congestions(ctx context.Context) error {
	p := t.Session.Plan
	names := []string{p.Flow.Congestion}
	for _, s := range p.Settings {
		for _, a := range s.Assignments {
			if a.Host == "" && a.Knob == "congestion" {
				names = append(names, a.Value)
			}
		}
	}
	directions := p.Directions
	if len(directions) == 0 {
		directions = []model.Direction{p.Flow.Direction}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for i := range len(directions) * len(t.ends.All()) {
			e, d := t.ends.All()[i/len(directions)], directions[i%len(directions)]
			if name == "" {
				continue
			}
			flow := probes.Load(p.Flow)
			flow.Direction, flow.Duration, flow.Bytes, flow.Omit, flow.Interval, flow.Streams, flow.Congestion = d, askTime, 0, 0, askTime, 1, name
			spec := runner.Spec{Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: model.Setting{Name: "congestion control " + name}, Flow: flow}
			for range asks {
				_, _, err := e.Runner.Run(ctx, spec, func(model.Host, []model.Sample) {})
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if errors.Is(err, errors.ErrUnsupported) {
					return fault.Usagef("%w", err)
				}
				if err == nil {
					break
				}
			}
		}
	}
	return nil
}

// MayTune returns an error early if the plan changes a host that may not be changed.
func MayTune(e *target.Ends, p model.Plan) error {
	for _, other := range e.Others {
		if err := MayTune(other, p); err != nil {
			return err
		}
	}
	for _, as := range assigned(p) {
		if as.Host != "" && e.Far == nil {
			return fault.New(fault.Unsupported, fmt.Errorf("%s: with %s only settings of the flow can be tried", as.Knob, e.Foreign()),
				"start linerate serve or a linerate agent on that host")
		}
		c := e.Client(as.Host)
		if as.Host == "" {
			continue
		}
		if err := app.MayTune(c, string(as.Knob)+" cannot be set"); err != nil {
			return err
		}
	}
	return nil
}

// Takes returns an error if the engine of a plan does not accept the flow or a setting of it,
// before any host is asked.
func Takes(env app.Env, p model.Plan) error {
	all := env.Engines.Make(engines.Options{})
	e, err := engines.ByName(all, p.Flow.Engine)
	if err != nil {
		return fault.WithKind(fault.Usage, err)
	}
	for _, d := range p.Directions {
		flow := p.Flow
		flow.Direction = d
		if err := e.Validate(flow); err != nil {
			return fault.WithKind(fault.Usage, err)
		}
		for _, s := range p.Settings {
			of := slices.DeleteFunc(slices.Clone(s.Assignments), func(a model.Assignment) bool { return a.Host != "" })
			set, err := knob.ApplyFlow(flow, of, env.Kinds()...)
			other := e
			if err == nil && set.Engine != p.Flow.Engine {
				other, err = engines.ByName(all, set.Engine)
			}
			if err == nil {
				err = other.Validate(set)
			}
			if err != nil {
				return fault.WithKind(fault.Usage, fmt.Errorf("setting %s: %w", s.Name, err))
			}
		}
	}
	return nil
}
