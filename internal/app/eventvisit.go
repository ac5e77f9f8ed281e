package app

import (
	"net/netip"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// The events of a server.
func (VisitBegan) event()   {}
func (VisitRuns) event()    {}
func (VisitSampled) event() {}
func (VisitRan) event()     {}
func (VisitEnded) event()   {}
func (VisitRefused) event() {}

// Visit is a client of this machine as a server: a linerate session, or a test by another
// program, which is one run.
type Visit struct {
	ID       uint64 // 1…, in the order of arrival
	Protocol string // linerate, iperf3, iperf2, netpipe, udpstp
	Key      string // name of the key, or of an iperf3 user; "" for none
	From     netip.Addr
}

// VisitBegan reports a visit that was let in.
type VisitBegan struct{ Visit Visit }

// VisitRuns reports a run of a visit whose traffic begins. The direction is the client's.
type VisitRuns struct {
	ID   uint64
	Flow model.Flow
}

// VisitSampled holds this end's samples of an interval of a run.
type VisitSampled struct {
	ID      uint64
	Samples []model.Sample
}

// VisitRan reports a run that ended; Err says why it is incomplete.
type VisitRan struct {
	ID             uint64
	Sent, Received units.Bytes // by this host
	Took           time.Duration
	Err            error
}

// VisitEnded reports the end of a visit; Err says what ended it, if the client did not.
type VisitEnded struct {
	ID   uint64
	Took time.Duration
	Err  error
}

// VisitRefused records a client that was turned away. ID is 0.
type VisitRefused struct {
	Visit Visit
	Err   error
}
