package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
	"linerate/internal/panics"
)

const (
	// streamCost is the memory of a stream besides its blocks: stacks, counters and histograms
	// (measured: 20 to 50 KiB).
	streamCost = 64 << 10
	// leastBlock is the block charged to a flow that states none: engines use 512 KiB at most.
	leastBlock = 512 << 10
	// datagramCost is the memory of a stream of datagrams: trains of 64 KiB, sixteen in and
	// some out.
	datagramCost = 1280 << 10
	// readingBytes is what a stream stores per interval: a round trip, in a list that grows
	// by doubling.
	readingBytes = 8
	// spareSockets are the sockets of a run besides its streams: rendezvous, probes, listeners.
	spareSockets = 16

	// chargeEvery is how often a run's traffic and time are charged.
	chargeEvery = time.Second
	// stopSlack is how long after its measured time an anonymous client's run may still send:
	// the two ends start and stop one after the other.
	stopSlack = 10 * time.Second
	// farewell is how long a session may still send the reason after its lifetime is over.
	farewell = 5 * time.Second
)

// holds returns the most that one end of f, with demand d, takes of its host, as the controller
// requests it. The storage of a copy is taken once its size is known.
func holds(f model.Flow, d traffic.Demand, here model.Host) budget.Amounts {
	streams, block := int64(max(1, f.Streams)), int64(f.Block)
	block = cmp.Or(block, leastBlock)
	block = max(block, int64(d.Message)) + int64(d.Answer)
	if f.Direction == model.Both {
		streams *= 2
	}
	each := block + streamCost
	if d.Datagrams {
		each += datagramCost
	}
	// All streams share two more blocks, one for each direction.
	each += 2 * readingBytes * intervals(f)
	a := budget.Amounts{Descriptors: int(2*streams) + d.Sockets + spareSockets, Memory: units.Bytes(streams*each + 2*block)}
	if d.Datagrams && (f.Direction == model.Both || f.Direction.Sender() == here) {
		a.UDP = d.Rate
	}
	return a
}

// intervals returns how many samples f asks for per stream.
func intervals(f model.Flow) int64 {
	whole, each := f.Length(), f.Interval
	if each <= 0 {
		each = time.Second
	}
	return int64(whole / each)
}

// reserve takes what f, with demand d, needs from the session's share, before anything is opened.
func (a *agent) reserve(f model.Flow, d traffic.Demand) (give func(), err error) {
	share := a.grant.Share
	if share == nil {
		return func() {}, nil
	}
	if err := errors.Join(share.Spend(0), share.Use(0)); err != nil {
		return nil, OverBudget(err)
	}
	need := holds(f, d, a.host)
	if most := share.Limits().UDP; most != 0 && d.Datagrams && d.Rate == 0 {
		return nil, fmt.Errorf("%w: UDP as fast as it goes, and this server allows %v: ask for a rate", session.ErrRefused, max(0, most))
	}
	give, err = share.Take(need)
	if err != nil {
		return nil, OverBudget(err)
	}
	return give, nil
}

// chargeMemory takes memory from the session's share until give is called.
func (a *agent) chargeMemory(n units.Bytes) (give func(), err error) {
	if give, err = a.grant.Share.Take(budget.Amounts{Memory: n}); err != nil {
		err = OverBudget(err)
	}
	return give, err
}

// counted wraps open so that the run records what it opens.
func (r *run) counted(open func(context.Context, int, engine.SocketOptions) (engine.Opened, error)) func(context.Context, int, engine.SocketOptions) (engine.Opened, error) {
	return func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		opened, err := open(ctx, n, o)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.conns = append(r.conns, opened.Conns...)
		return opened, err
	}
}

// sampled counts the bytes that this end sent according to samples.
func (r *run) sampled(here model.Host, samples []model.Sample) {
	for _, s := range samples {
		if s.Host == here && s.Metric == model.Sent && s.Value > 0 {
			r.sent.Add(int64(s.Value / 8 * s.Length.Seconds()))
		}
	}
}

// charge counts what r sends and how long it takes until stop is called, and ends the run when
// the budget is spent. It uses the kernel's count if there is one, else the engine's or that of
// its samples; those also cover engines that open connections of their own.
func (a *agent) charge(r *run) (stop func()) {
	share := a.grant.Share
	if share == nil {
		return func() {}
	}
	begun, charged, used := time.Now(), int64(0), time.Duration(0)
	step := func() {
		sent := max(charged, r.engineSent(), r.kernelSent())
		now := time.Since(begun)
		err := errors.Join(share.Spend(units.Bytes(sent-charged)), share.Use(now-used))
		charged, used = sent, now
		if err != nil {
			r.cancel(OverBudget(err))
		}
	}
	quit := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(panics.From(r.cancel, func() {
		tick := time.NewTicker(chargeEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				step()
			case <-quit:
				return
			}
		}
	}))
	return func() {
		close(quit)
		ended.Wait()
		step()
	}
}

// counts adds sent, an engine's own count of the bytes that it has sent.
func (r *run) counts(sent func() int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.tells
	r.tells = func() int64 {
		if before != nil { // of another engine in the same run
			return before() + sent()
		}
		return sent()
	}
}

// engineSent returns how much the engine has sent by its own count.
func (r *run) engineSent() int64 {
	r.mu.Lock()
	tells := r.tells
	r.mu.Unlock()
	if tells == nil {
		return r.sent.Load()
	}
	return r.sent.Load() + tells()
}

// kernelSent returns what the kernel sent over the run's TCP connections, as far as it reports
// it.
func (r *run) kernelSent() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) < len(r.conns) {
		r.last = append(r.last, make([]int64, len(r.conns)-len(r.last))...)
	}
	var all int64
	for i, c := range r.conns {
		if info, err := tcpinfo.Read(c); err == nil { // a closed one keeps its last count
			r.last[i] = int64(info.BytesSent.Or(units.Bytes(r.last[i])))
		}
		all += r.last[i]
	}
	return all
}

// live ends the session when its lifetime is over or its right to the session is lost.
func (a *agent) live(end context.CancelFunc) {
	if at := a.grant.Share.Ends(); !at.IsZero() {
		timer := time.AfterFunc(time.Until(at), func() {
			a.expire(fmt.Errorf("%w: this server gives %s no longer sessions, and this one has had its time: open another one", session.ErrRefused, a.grant.Share.Class()), end)
		})
		context.AfterFunc(a.base, func() { timer.Stop() })
	}
	if a.grant.Over != nil {
		go panics.From(func(error) { end() }, func() {
			select {
			case <-a.grant.Over:
				a.expire(errKeyOver, end)
			case <-a.base.Done():
			}
		})()
	}
}

// errKeyOver is what a controller gets whose key is no longer valid.
var errKeyOver = fmt.Errorf("%w: the key was revoked or has expired on this server, which ends its sessions: ask for a new join link", session.ErrRefused)

// expire ends the session's runs at once, so that the controller gets the reason, and the
// connection soon after.
func (a *agent) expire(why error, end context.CancelFunc) {
	a.mu.Lock()
	a.over = why
	runs := slices.Clone(a.runs)
	a.mu.Unlock()
	for _, r := range runs {
		r.cancel(why)
	}
	late := time.AfterFunc(farewell, end)
	context.AfterFunc(a.base, func() { late.Stop() })
}

// restrained wraps open for a controller that may only measure: it allows only congestion
// controls that any program on this host may choose. Otherwise a server that runs as root
// would load a kernel module for an unknown client. A session over ssh may do what its user
// may, and one that may tune could set it for the whole host.
func (a *agent) restrained(open func(context.Context, int, engine.SocketOptions) (engine.Opened, error)) func(context.Context, int, engine.SocketOptions) (engine.Opened, error) {
	if a.Admit == nil || a.Knobs != nil {
		return open
	}
	return func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		if name := o.Congestion; name != "" && !sockio.AllowedCongestion(name) {
			return engine.Opened{}, fmt.Errorf("%w: congestion control %.32q is not one that every program of this server's host may choose: ask for another, or let this end receive",
				session.ErrRefused, name)
		}
		return open(ctx, n, o)
	}
}
