package serve

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"linerate/internal/control/audit"
	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf2/peer"
	"linerate/internal/measure/iperf3"
	iperf3peer "linerate/internal/measure/iperf3/peer"
	"linerate/internal/measure/netpipe"
)

// foreignEvent completes what happened to a client of another program: one that
// never began was refused, one that the budget or the end of the server ended was
// cut.
func foreignEvent(protocol string, from netip.Addr, began bool, err error, e audit.Event) audit.Event {
	e.Protocol, e.From = protocol, from
	if e.Kind == "" {
		e.Kind = audit.RunEnd
	}
	switch {
	case err == nil:
		e.Outcome = audit.OK
		return e
	case !began:
		e.Kind, e.Outcome = audit.Refused, audit.Denied
	case errors.Is(err, budget.ErrSpent), errors.Is(err, context.Canceled):
		e.Outcome = audit.Cut
	default:
		e.Outcome = audit.Failed
	}
	e.Reason = err.Error()
	return e
}

// moved fills in how much a server says that it sent and received.
func moved(e audit.Event, own model.EndReport) audit.Event {
	var ways []model.Direction
	for _, f := range own.Flows {
		if f.Role == model.Sender {
			e.Sent += f.Bytes
		} else {
			e.Received += f.Bytes
		}
		ways = append(ways, f.Direction)
	}
	switch len(ways) {
	case 0:
	case 1:
		e.Direction = string(ways[0])
	default:
		e.Direction = string(model.Both)
	}
	return e
}

// iperf3Event writes down what a client of iperf3 did.
func (s *Server) iperf3Event(e iperf3peer.Event) {
	if e.Note != "" {
		s.say("iperf3: ")(e.Note)
		return
	}
	// What has no address is told without one.
	at, _ := netip.ParseAddrPort(e.Remote)
	line := audit.Event{Key: e.User, Took: e.Took, Engine: "tcpbulk"}
	if e.Params.Protocol == iperf3.UDP {
		line.Engine = "udpflow"
	}
	if e.Begun {
		line.Kind = audit.RunBegin
	}
	if e.Ran && e.Err == nil {
		s.keep(Served{"iperf3", at.Addr(), e.Took, e.Params.Protocol == iperf3.UDP, []model.EndReport{e.Own, e.Theirs}})
	}
	s.log.Record(foreignEvent("iperf3", at.Addr(), e.Ran || e.Begun, e.Err, moved(line, e.Own)))
}

// iperf2Begun writes down that a client of iperf 2 was let in.
func (s *Server) iperf2Begun(r peer.Result) {
	s.log.Record(foreignEvent("iperf2", r.Peer.Addr(), true, nil, audit.Event{Kind: audit.RunBegin, Engine: iperf2Engine(r)}))
}

// iperf2Engine is what a client of iperf 2 asks for, by linerate's name of it.
func iperf2Engine(r peer.Result) string {
	switch {
	case r.UDP:
		return "udpflow"
	case r.Bounce:
		return "pingpong"
	}
	return "tcpbulk"
}

// iperf2Result writes down what a client of iperf 2 did.
func (s *Server) iperf2Result(r peer.Result) {
	if !r.Refused && r.Err == nil && !r.Bounce {
		s.keep(Served{"iperf2", r.Peer.Addr(), r.Took, r.UDP, []model.EndReport{r.Report}})
	}
	line := audit.Event{Took: r.Took, Engine: iperf2Engine(r)}
	s.log.Record(foreignEvent("iperf2", r.Peer.Addr(), !r.Refused, r.Err, moved(line, r.Report)))
}

// netpipeBegun writes down that an NPtcp transmitter has its turn.
func (s *Server) netpipeBegun(from netip.Addr) {
	s.log.Record(foreignEvent("netpipe", from, true, nil, audit.Event{Kind: audit.RunBegin, Engine: "pingpong"}))
}

// netpipeEvent writes down what an NPtcp transmitter did.
func (s *Server) netpipeEvent(e netpipe.Event) {
	if e.Note != "" {
		s.say("netpipe: ")(e.Note)
		return
	}
	s.log.Record(foreignEvent("netpipe", e.From, e.Began, e.Err, audit.Event{Engine: "pingpong", Took: e.Took, Sent: e.Sent}))
}

// Served is a whole test of a client of another program.
type Served struct {
	Program   string
	From      netip.Addr
	Took      time.Duration
	Datagrams bool
	Ends      []model.EndReport // this one's first, then the client's where it tells
}

// keep hands over what a client measured.
func (s *Server) keep(one Served) {
	if s.c.Served != nil && len(one.Ends[0].Flows) > 0 {
		s.c.Served(one)
	}
}

// GaveUpRoot reports whether the server became another user, whose own folder is the
// working directory.
func (s *Server) GaveUpRoot() bool { return s.user != nil }
