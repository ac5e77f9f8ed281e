package hops

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
)

// Report waits for the last answers, closes everything and returns the result.
func (t *Tracer) Report(ctx context.Context) model.Trace {
	t.End()
	wait := time.NewTimer(t.remaining())
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	wait.Stop()
	t.mu.Lock()
	sockets := slices.Clone(t.sockets)
	t.mu.Unlock()
	errs := lists.Each(sockets, func(s socket) error { return s.close() })
	t.running.Wait()
	out := model.Trace{Direction: t.direction}
	if !t.short && t.ports > 1 {
		out.Ports = t.ports
	}
	last := min(t.reach, t.farthest())
	for ttl := 1; ttl <= last; ttl++ {
		h := t.hops[ttl]
		row := model.TraceHop{TTL: ttl, Idle: h.times[idle], Loaded: h.times[loaded]}
		if a := h.answered(); a.IsValid() {
			row.Address, row.Arrived = a.String(), slices.Contains(h.address[:], t.peer)
			if slices.ContainsFunc(h.address[:], func(o netip.Addr) bool { return o.IsValid() && o != a }) {
				row.Others = lists.Each(h.address[:], text)
			}
		}
		out.Hops = append(out.Hops, row)
	}
	if last == 0 {
		out.Why = "neither a router nor the far end answers"
		if err := errors.Join(append(errs, t.failure)...); err != nil {
			out.Why = fmt.Sprintf("%s: %v", out.Why, err)
		}
	}
	return out
}

// text formats an address, "" if it is invalid.
func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// remaining returns how long to wait for the last answers: twice the longest time so far, at
// most patience.
func (t *Tracer) remaining() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var most time.Duration
	for _, h := range t.hops {
		for _, times := range h.times {
			for _, d := range times {
				most = max(most, d)
			}
		}
	}
	return min(2*most, patience)
}
