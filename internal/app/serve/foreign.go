package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/app/trial"
	"linerate/internal/control/audit"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/program"
)

// Foreign configures servers of foreign programs.
type Foreign struct {
	Addrs program.Values // where to listen, by the program's name
	Given program.Values // other flags of those programs
}

// check refuses invalid combinations, before anything is opened.
func (f Foreign) check(all program.List) error {
	for _, p := range all {
		addr := f.Addrs[p.Name]
		if addr == "" {
			for _, flag := range p.ServerFlags {
				if _, given := f.Given[flag.Name]; given {
					return fault.WithHint(fault.Usagef("--%s belongs to --%s", flag.Name, p.Name), "add --%s, or leave it out", p.Name)
				}
			}
			continue
		}
		_, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = new(net.Resolver).LookupPort(context.Background(), "tcp", port)
		}
		if err != nil {
			return fault.WithHint(fault.Usagef("--%s: %w", p.Name, err), "write it like --%s=10.0.0.2:%s or --%[1]s=:%[2]s", p.Name, p.Listens())
		}
		if p.CheckServe != nil {
			if err := p.CheckServe(f.Given); err != nil {
				return err
			}
		}
	}
	return nil
}

// listenForeign opens the requested ports. They answer once serve is called.
func (s *Server) listenForeign(ctx context.Context) (servers []Listener, err error) {
	for _, p := range s.env.AllPrograms() {
		if s.c.Foreign.Addrs[p.Name] == "" {
			continue
		}
		l, err := s.listenFor(ctx, p)
		if err != nil {
			for _, l := range servers {
				l.Close()
			}
			return nil, err
		}
		servers = append(servers, l)
	}
	return servers, nil
}

// listenFor opens the port of one program.
func (s *Server) listenFor(ctx context.Context, p program.Program) (Listener, error) {
	at, err := p.Listen(ctx, s.c.Foreign.Addrs[p.Name])
	if err != nil {
		return Listener{}, fault.WithHint(fmt.Errorf("--%s: %w", p.Name, err), "use --%s=ADDRESS:PORT for another port", p.Name)
	}
	one := Listener{Name: p.Name, Addr: at.Addr(), Close: at.Close}
	one.Serve, err = p.Serve(ctx, at, program.Host{
		Budget: s.budget, Unknown: s.files.Listener, LinkRate: new(local.Machine).LinkRate(), Given: s.c.Foreign.Given, Certificate: s.identity.Certificate,
		Note: s.say(p.Name + ": "),
		Tell: func(e program.Event) {
			s.log.Record(foreignEvent(p.Name, e))
			s.visits.foreign(p.Name, e)
			if e.Over && len(e.Ends) > 0 {
				for _, w := range e.Ends[0].Warnings {
					s.say(p.Name + ": ")(e.From.Unmap().String() + ": " + w)
				}
			}
		},
		Sampled: func(from netip.AddrPort, samples []model.Sample) { s.visits.foreignSampled(p.Name, from, samples) },
		Keep:    func(t program.Test) { s.keep(p.Name, t) },
	})
	if err != nil {
		one.Close()
		return one, fmt.Errorf("--%s: %w", p.Name, err)
	}
	return one, nil
}

// foreignEvent returns the audit log entry for a client of a foreign program: one that never
// began was refused, one that the budget or the end of the server ended was cut.
func foreignEvent(protocol string, e program.Event) audit.Event {
	out := audit.Event{
		Kind: audit.RunEnd, Protocol: protocol, From: e.From, Key: e.Key, Took: e.Took, Engine: e.Flow.Engine, Outcome: audit.OK,
	}
	out.Sent, out.Received = e.Moved()
	if out.Sent+out.Received > 0 {
		out.Direction = string(e.Flow.Direction)
	}
	switch {
	case !e.Over:
		out.Kind = audit.RunBegin
		return out
	case e.Err == nil:
		return out
	case !e.Began:
		out.Kind, out.Outcome = audit.Refused, audit.Denied
	case errors.Is(e.Err, budget.ErrSpent), errors.Is(e.Err, context.Canceled):
		out.Outcome = audit.Cut
	default:
		out.Outcome = audit.Failed
	}
	out.Reason = e.Err.Error()
	return out
}

// keep passes on the measurement of a client of a foreign program, as a session whose near
// end is the client. The budget limits how many.
func (s *Server) keep(protocol string, t program.Test) {
	if s.c.Served == nil || s.budget.Record(t.From, t.Key) != nil {
		return
	}
	s.c.Served(served(s.env, protocol, t))
}

// served returns the session of a client's test, as its server saw it.
func served(env app.Env, protocol string, t program.Test) model.Session {
	now := env.Now()
	name, err := os.Hostname()
	name = cmp.Or(name, "this host")
	if err != nil {
		name = "this host"
	}
	flow := t.Flow
	flow.Duration = max(t.Took, time.Millisecond)
	run := model.Run{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: trial.Current,
		Started: now.Add(-t.Took), Ended: now, State: model.RunValid, Ends: t.Ends,
	}
	var ends []model.FlowReport
	for _, e := range t.Ends {
		run.Values = append(run.Values, e.Values...)
		ends = append(ends, e.Flows...)
	}
	for _, d := range flow.Direction.Parts() {
		f, ok := counts(ends, d)
		if !ok {
			continue
		}
		flow.Streams, flow.Duration = max(flow.Streams, len(f.Streams)), max(f.Window, time.Millisecond)
		if kind, known := env.Kinds().ByName(flow.Engine); known && kind.Judge == nil {
			run.Values = append(run.Values, model.Value{Direction: d, Metric: model.Goodput, Value: float64(f.Bytes) * 8 / f.Window.Seconds()})
		}
	}
	run.Flow = flow
	out := model.Session{
		ID: trial.NewSessionID(now), Kind: model.KindServed, Title: protocol + " client", Near: t.From.String(), Far: name, Version: env.Version,
		Created: run.Started, Ended: now, State: model.SessionDone, Reason: "its client ended it",
		Plan: trial.Repeated(flow, []model.Direction{flow.Direction}, 1),
	}
	if t.Err != nil {
		run.State, run.Reason = model.RunInvalid, t.Err.Error()
		out.State, out.Reason = model.SessionFailed, t.Err.Error()
	}
	out.Runs = []model.Run{run}
	return out
}

// counts returns the report that counts in direction d: the receiver's, or, for TCP without
// one, the sender's, which waits until all data is acknowledged.
func counts(ends []model.FlowReport, d model.Direction) (best model.FlowReport, ok bool) {
	for _, f := range ends {
		if f.Direction != d || f.Window <= 0 || f.Bytes <= 0 {
			continue
		}
		if f.Role == model.Receiver {
			return f, true
		}
		if f.UDP == nil && !ok {
			best, ok = f, true
		}
	}
	return best, ok
}

// GaveUpRoot reports whether the server became another user; the working directory is then a
// folder of that user's.
func (s *Server) GaveUpRoot() bool { return s.user != nil }
