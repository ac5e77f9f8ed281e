package loaded

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/measure/hops"
)

// trace finds the routers on the path of a direction, at its sender. Nil traces nothing.
type trace struct {
	direction model.Direction
	tracer    *hops.Tracer
	why       error // reason for having no tracer
	timers    []*time.Timer

	bits, nanos atomic.Uint64 // sent by the load, and in which time
}

// startTrace begins a trace if the flow requests it and this end is its sender.
func (r *course) startTrace(ctx context.Context) *trace {
	p, err := traffic.Read[probes.Params](r.spec.Params)
	if err != nil || !p.Trace || r.spec.Direction.Sender() != r.host {
		return nil
	}
	t := &trace{direction: r.spec.Direction}
	local, peer := addrPort(r.tcp.LocalAddr()), addrPort(r.tcp.RemoteAddr())
	if r.udp != nil {
		peer = addrPort(r.udp.RemoteAddr())
	}
	t.tracer, t.why = hops.Start(ctx, hops.Config{
		Direction: r.spec.Direction, Local: local.Addr(), Peer: peer, Egress: r.egress, Lead: r.spec.Lead, Rate: t.rate, Fail: r.Fail,
	})
	return t
}

func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// loads marks the start of the load, with its warm-up.
func (t *trace) loads(f model.Flow) {
	if t == nil || t.tracer == nil {
		return
	}
	t.tracer.Quiet()
	t.timers = []*time.Timer{time.AfterFunc(f.Omit, t.tracer.Load), time.AfterFunc(f.Omit+f.Duration, t.tracer.End)}
}

// sent counts what the load has sent.
func (t *trace) sent(rate float64, length time.Duration) {
	if t != nil {
		t.bits.Add(uint64(rate * length.Seconds()))
		t.nanos.Add(uint64(length))
	}
}

// rate returns the load's rate so far, bit/s, 0 if unknown.
func (t *trace) rate() float64 {
	if n := t.nanos.Load(); n > 0 {
		return float64(t.bits.Load()) / (float64(n) / 1e9)
	}
	return 0
}

// report ends the trace and returns its result, nil if none was requested.
func (t *trace) report(ctx context.Context) *model.Trace {
	if t == nil {
		return nil
	}
	if t.tracer == nil {
		return &model.Trace{Direction: t.direction, Why: t.why.Error()}
	}
	for _, timer := range t.timers {
		timer.Stop()
	}
	out := t.tracer.Report(ctx)
	return &out
}
