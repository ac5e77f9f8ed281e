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

// Visit is a client of this machine as a server: a session of linerate's own, or a test
// of another program, which is one run.
type Visit struct {
	ID       uint64 // 1…, in the order in which they came
	Protocol string // linerate, iperf3, iperf2, netpipe, udpstp
	Key      string // name of the key, or of an iperf3 user; "" is none
	From     netip.Addr
}

// VisitBegan is a visit that was let in.
type VisitBegan struct{ Visit Visit }

// VisitRuns is a run of a visit whose traffic begins. Its direction is as the client
// sees it.
type VisitRuns struct {
	ID   uint64
	Flow model.Flow
}

// VisitSampled is what this end saw of an interval of a run.
type VisitSampled struct {
	ID      uint64
	Samples []model.Sample
}

// VisitRan is a run that ended; Err says why it is not whole.
type VisitRan struct {
	ID             uint64
	Sent, Received units.Bytes // by this host
	Took           time.Duration
	Err            error
}

// VisitEnded is a visit that is over; Err says what ended it, where it did not do so
// itself.
type VisitEnded struct {
	ID   uint64
	Took time.Duration
	Err  error
}

// VisitRefused is somebody who was turned away. ID is 0.
type VisitRefused struct {
	Visit Visit
	Err   error
}
