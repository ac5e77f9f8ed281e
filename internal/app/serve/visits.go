package serve

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/audit"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/measure/program"
)

// visits tracks the present clients and reports them as events. The budget of sessions limits
// how many are let in. It is safe for concurrent use.
type visits struct {
	tell func(app.Event)

	mu   sync.Mutex
	last uint64
	open map[visitKey]uint64
}

// visitKey identifies a present visit: number is that of a session, or the port of a test by
// a foreign client, 0 if a source has only one at a time.
type visitKey struct {
	protocol string
	from     netip.Addr
	number   uint64
}

func newVisits(tell func(app.Event)) *visits {
	return &visits{tell: tell, open: map[visitKey]uint64{}}
}

// begin reports a new visit, and returns its ID.
func (v *visits) begin(k visitKey, key string) uint64 {
	v.mu.Lock()
	v.last++
	id := v.last
	v.open[k] = id
	v.mu.Unlock()
	v.tell(app.VisitBegan{Visit: app.Visit{ID: id, Protocol: k.protocol, Key: key, From: k.from}})
	return id
}

// find returns the ID of a present visit.
func (v *visits) find(k visitKey) (uint64, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id, ok := v.open[k]
	return id, ok
}

// end reports the end of a visit.
func (v *visits) end(k visitKey, took time.Duration, err error) {
	v.mu.Lock()
	id, ok := v.open[k]
	delete(v.open, k)
	v.mu.Unlock()
	if ok {
		v.tell(app.VisitEnded{ID: id, Took: took, Err: err})
	}
}

// sampled reports this end's samples.
func (v *visits) sampled(id uint64, samples []model.Sample) {
	v.tell(app.VisitSampled{ID: id, Samples: slices.Clone(samples)})
}

// ran reports the end of a run of a visit.
func (v *visits) ran(id uint64, e audit.Event, err error) {
	v.tell(app.VisitRan{ID: id, Sent: e.Sent, Received: e.Received, Took: e.Took, Err: err})
}

// refuse reports a client that was turned away.
func (v *visits) refuse(protocol, key string, from netip.Addr, err error) {
	v.tell(app.VisitRefused{Visit: app.Visit{Protocol: protocol, Key: key, From: from}, Err: err})
}

// ofSession returns the key of a linerate session.
func ofSession(v tls.Visitor) visitKey { return visitKey{protocolName, v.Addr, v.Number} }

// foreign reports a test by a foreign client: a visit with one run.
func (v *visits) foreign(protocol string, e program.Event) {
	k := visitKey{protocol, e.From.Unmap(), uint64(e.Port)}
	switch {
	case !e.Over:
		v.tell(app.VisitRuns{ID: v.begin(k, e.Key), Flow: e.Flow})
	case !e.Began && e.Err != nil:
		v.refuse(protocol, e.Key, k.from, e.Err)
	default:
		if id, ok := v.find(k); ok {
			v.ran(id, foreignEvent(protocol, e), e.Err)
			v.end(k, e.Took, e.Err)
		}
	}
}

// foreignSampled reports the samples that a foreign server took of a test.
func (v *visits) foreignSampled(protocol string, from netip.AddrPort, samples []model.Sample) {
	if id, ok := v.find(visitKey{protocol, from.Addr().Unmap(), uint64(from.Port())}); ok {
		v.sampled(id, samples)
	}
}
