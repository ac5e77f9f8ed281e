package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/app/watch"
	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
)

// noKnobs is why an order of a hub changes nothing.
const noKnobs = "a hub orders measurements, and never a change of a setting"

// visit chooses the runs of a lease: those of a look, or one stream until it is decided.
type visit struct {
	watch.Request
	order wirefleet.Order
}

// Next implements trial.Steer.
func (v visit) Next(_ context.Context, runs []model.Run) (trial.Block, error) {
	o := v.order
	if o.Lease.Kind == fleet.Visit {
		b, _ := v.Own(runs)
		return b, nil
	}
	if o.Stream == nil || o.Doubt == nil {
		return trial.Block{}, errors.New("the hub orders a confirmation of nothing")
	}
	if len(runs) >= min(o.Runs, series.MostRuns) || o.Doubt.Judge(o.Stream.Numbers(runs)) != series.Open {
		return trial.Block{}, nil
	}
	return v.Again(*o.Stream), nil
}

// nothing is a store that keeps nothing: a lease keeps its result itself.
type nothing struct{}

// CreateSession implements trial.Store.
func (nothing) CreateSession(context.Context, model.Session) error { return nil }

// UpdateSession implements trial.Store.
func (nothing) UpdateSession(context.Context, model.Session) error { return nil }

// AddRun implements trial.Store.
func (nothing) AddRun(context.Context, string, model.Run, []model.Sample, []model.Change) error {
	return nil
}

// SetChanges implements trial.Store.
func (nothing) SetChanges(context.Context, string, []model.Change) error { return nil }

// SetPlan implements trial.Store.
func (nothing) SetPlan(context.Context, string, model.Plan) error { return nil }

// Samples implements trial.Store.
func (nothing) Samples(context.Context, string, int) ([]model.Sample, error) { return nil, nil }

// quietly drops the events of a trial, which has no terminal.
type quietly struct{ app.Observer }

// Observe implements app.Observer.
func (q quietly) Observe(e app.Event) {
	if t, ok := e.(app.Trouble); ok {
		q.Observer.Observe(t)
	}
}

// measure carries out an order within its window, and returns the lease with its result.
func (m *Member) measure(ctx context.Context, o wirefleet.Order) fleet.Lease {
	l := o.Lease
	ctx, cancel := context.WithTimeoutCause(ctx, m.guard.left(l.Until), errors.New("it took longer than its window"))
	defer cancel()
	env := m.env
	env.Observer, env.Asker, env.Calm = quietly{m.env.Observer}, app.NoUser{}, 0
	e, err := target.Connect(ctx, env, app.ThisMachine, o.Far, func(ctx context.Context, h model.Host) (wire.Peer, error) {
		if h == model.Near {
			return m.server.Near(ctx, noKnobs), nil
		}
		p, err := tls.Dial(ctx, secretOf(o), model.Egress{})
		return p, fault.WithKind(fault.Unreachable, err)
	})
	if err != nil {
		return failed(ctx, l, err)
	}
	defer e.Close()
	if m.c.Simulate != nil {
		if l.Runs, err = m.c.Simulate(ctx, o, e.Far); err != nil {
			return failed(ctx, l, err)
		}
		l.State = fleet.Done
		return l
	}
	if o.Stream != nil && o.Stream.Part() == series.Packets {
		for range min(o.Runs, series.MostRuns) {
			l.Runs = packetsOf(ctx, e, l.Runs, o.Stream.Direction)
		}
		if len(l.Runs) == 0 {
			return failed(ctx, l, errors.New("no packet was tried"))
		}
		l.State = fleet.Done
		return l
	}
	q := watch.Request{ProbeOnly: l.ProbeOnly || m.c.Limits.ProbeOnly, Streams: watch.DefaultStreams, Time: fleet.BulkTime, Rate: o.Rate}
	t := trial.New(env, e, nothing{}, model.KindWatch, "", nil, q.Plan())
	t.Steer = visit{q, o}
	s, err := t.Run(ctx)
	for _, r := range s.Runs {
		if one, ok := fleet.RunOf(r); ok {
			l.Runs = append(l.Runs, one)
		}
	}
	if len(l.Runs) == 0 { // else each number counts by itself
		if err == nil {
			err = errors.New("no run was valid")
		}
		return failed(ctx, l, err)
	}
	if l.Kind == fleet.Visit {
		l.Runs = packetsOf(ctx, e, l.Runs, model.To, model.From)
	}
	l.State, l.Reason = fleet.Done, ""
	l.Print = fingerprint.Take(s.Hosts, fact.Unknown[time.Duration]("not measured"))
	l.Print.AddSettings(s.Hosts)
	return l
}

// packetTime bounds the search for the largest packet of a direction: one that was not searched
// to the end does not count.
const packetTime = 4 * time.Second

// packetsOf adds runs that find which packets pass in directions, as far as they succeed.
func packetsOf(ctx context.Context, e *target.Ends, runs []fleet.Run, directions ...model.Direction) []fleet.Run {
	ctx, cancel := context.WithTimeout(ctx, packetTime*time.Duration(len(directions)))
	defer cancel()
	most := min(e.Hosts[0].LargestPacket(), e.Hosts[1].LargestPacket(), mtu.Most)
	for _, d := range directions {
		if most == 0 {
			break // no host knows its interface
		}
		if run, err := trial.Packets(ctx, e, d, most); err == nil {
			if one, ok := fleet.RunOf(run); ok {
				runs = append(runs, one)
			}
		}
	}
	return runs
}

// failed returns a lease that ended with an error.
func failed(ctx context.Context, l fleet.Lease, err error) fleet.Lease {
	l.Runs, l.State, l.Reason = nil, fleet.Failed, plain.Words(fault.Sentence(err))
	switch {
	case context.Cause(ctx) != nil:
		l.Reason = fmt.Sprint(context.Cause(ctx))
	case errors.Is(err, session.ErrVersion):
		l.State = fleet.Skipped
	case errors.Is(err, session.ErrRefused), errors.Is(err, session.ErrBusy):
		l.State = fleet.Skipped
	case fault.KindOf(err) == fault.Unreachable:
		l.State = fleet.Unreachable
	}
	return l
}
