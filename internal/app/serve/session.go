package serve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/control/access"
	"linerate/internal/control/agent"
	"linerate/internal/control/audit"
	"linerate/internal/control/tuner"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
)

// protocolName is the name of linerate's own protocol in the audit log.
const protocolName = "linerate"

// find implements tls.Config.Find.
func (s *Server) find(secret []byte) (tls.Key, bool) {
	g, ok := s.ring.Find(secret)
	switch {
	case !ok && s.c.Tickets != nil:
		return s.c.Tickets.Find(secret)
	case !ok, g.Right != access.Measure && g.Right != access.Tune:
		return tls.Key{}, false
	}
	return tls.Key{Name: g.Name, Tune: g.Right == access.Tune, Over: g.Over}, true
}

// welcome gives a session its own view of this host: the interface and the route are those
// that lead to v, whatever address the controller claims, and no session sees another's. A
// session that may tune gets a connection to the tuner.
func (s *Server) welcome(v tls.Visitor, c *agent.Config) {
	h := local.New(s.env, local.Options{State: s.c.State})
	c.Facts = func(ctx context.Context, _ string) (model.HostFacts, error) { return h.Facts(ctx, v.Addr.String()) }
	c.LinkRate, c.Watch = h.LinkRate, h.Watch
	id := s.visits.begin(ofSession(v), v.Key.Name)
	c.Sampled = func(samples []model.Sample) { s.visits.sampled(id, samples) }
	record := func(e audit.Event) {
		e.Protocol, e.Key, e.From = protocolName, v.Key.Name, v.Addr
		s.log.Record(e)
	}
	c.Runs = func(f model.Flow) func(model.EndReport, error) {
		s.visits.tell(app.VisitRuns{ID: id, Flow: f})
		return recordRun(func(e audit.Event, err error) {
			record(e)
			if e.Kind == audit.RunEnd {
				s.visits.ran(id, e, err)
			}
		}, s.env.Now, f)
	}
	switch {
	case v.Key.Anonymous():
		c.NoKnobs = "this linerate serve lets clients without a key measure, and change no settings"
	case !v.Key.Tune:
		c.NoKnobs = fmt.Sprintf("the key %s has the right to measure, not to change settings of this host", v.Key.Name)
	case s.tuner == nil:
		c.NoKnobs = "linerate serve was started there without --allow-tune: it changes no settings of its host"
	default:
		hand := &tuner.Hand{Tuner: s.tuner, Request: tuner.Request{Secret: v.Secret, Peer: v.Addr.String()}, Version: s.env.Version, Catalogue: s.env.Catalogue, Record: record}
		c.Knobs, c.ByHand, c.Commands = hand, hand.Settings, s.c.AllowCommands
	}
	record(audit.Event{Kind: audit.SessionBegin})
}

// recordRun records the beginning of a run, and returns a function that records its end.
func recordRun(record func(audit.Event, error), now func() time.Time, f model.Flow) func(model.EndReport, error) {
	began := now()
	record(audit.Event{Kind: audit.RunBegin, Engine: f.Engine, Direction: string(f.Direction)}, nil)
	return func(r model.EndReport, err error) {
		e := audit.Event{Kind: audit.RunEnd, Engine: f.Engine, Direction: string(f.Direction), Took: now().Sub(began), Outcome: audit.OK}
		for _, flow := range r.Flows {
			if flow.Role == model.Sender {
				e.Sent += flow.Bytes
			} else {
				e.Received += flow.Bytes
			}
		}
		if err != nil {
			e.Outcome, e.Reason = audit.Failed, err.Error()
		}
		record(e, err)
	}
}

func (s *Server) refused(from netip.Addr, err error) {
	s.visits.refuse(protocolName, "", from, err)
	s.log.Record(audit.Event{Kind: audit.Refused, Protocol: protocolName, From: from, Outcome: audit.Denied, Reason: err.Error()})
}

func (s *Server) dropped(from netip.Addr, why error) {
	s.log.Record(audit.Event{Kind: audit.Dropped, Protocol: protocolName, From: from, Reason: why.Error()})
}

func (s *Server) ended(v tls.Visitor, took time.Duration, err error) {
	s.visits.end(ofSession(v), took, err)
	e := audit.Event{Kind: audit.SessionEnd, Protocol: protocolName, Key: v.Key.Name, From: v.Addr, Took: took, Outcome: audit.OK}
	switch {
	case errors.Is(err, tls.ErrKeyOver):
		e.Outcome, e.Reason = audit.Cut, err.Error()
	case err != nil:
		e.Outcome, e.Reason = audit.Failed, err.Error()
	}
	s.log.Record(e)
	if s.c.Tickets != nil { // last: the next session begins after this one in the log
		s.c.Tickets.Ended(v.Key.Name)
	}
}
