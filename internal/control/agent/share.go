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
	"linerate/internal/rescue"
)

const (
	// streamCost is what a stream costs beside its blocks: stacks, counters and
	// histograms (measured: 20 to 50 KiB).
	streamCost = 64 << 10
	// leastBlock is counted for a flow that states no block: engines take 512 KiB
	// at most.
	leastBlock = 512 << 10
	// datagramCost is what a stream of datagrams costs: trains of 64 KiB, sixteen
	// in and some out.
	datagramCost = 1280 << 10
	// readingBytes is what a stream keeps of each interval: a round trip, in a list
	// that grows by doubling.
	readingBytes = 8
	// spareSockets are those of a run besides its streams: the rendezvous, probes,
	// listening ones.
	spareSockets = 16

	// chargeEvery is how often what a run sent and used is counted.
	chargeEvery = time.Second
	// stopSlack is how much longer than it measures an anonymous client's run may send: both
	// ends start and stop one after the other.
	stopSlack = 10 * time.Second
	// farewell is how long a session whose lifetime is over may still tell so.
	farewell = 5 * time.Second
)

// holds is the most that one end of f, which takes d, takes of its host in all, by what the controller
// asks for. What a copy stores is taken when its size is known.
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
	// Two blocks more are shared by all streams, one for each direction.
	each += 2 * readingBytes * intervals(f)
	a := budget.Amounts{Descriptors: int(2*streams) + d.Sockets + spareSockets, Memory: units.Bytes(streams*each + 2*block)}
	if d.Datagrams && (f.Direction == model.Both || f.Direction.Sender() == here) {
		a.UDP = d.Rate
	}
	return a
}

// intervals is how many samples f asks for of each stream.
func intervals(f model.Flow) int64 {
	whole, each := f.Length(), f.Interval
	if each <= 0 {
		each = time.Second
	}
	return int64(whole / each)
}

// reserve takes what f, which takes d, needs of the session's share, before anything is opened.
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

// counted returns open, with what it opens noted as the run's.
func (r *run) counted(open func(context.Context, int, engine.SocketOptions) (engine.Opened, error)) func(context.Context, int, engine.SocketOptions) (engine.Opened, error) {
	return func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		opened, err := open(ctx, n, o)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.conns = append(r.conns, opened.Conns...)
		return opened, err
	}
}

// sampled counts what the samples say that this end sent.
func (r *run) sampled(here model.Host, samples []model.Sample) {
	for _, s := range samples {
		if s.Host == here && s.Metric == model.Sent && s.Value > 0 {
			r.sent.Add(int64(s.Value / 8 * s.Length.Seconds()))
		}
	}
}

// charge counts what r sends and how long it takes, until stop is called, and
// ends the run when the budget is spent. What was sent is what the kernel says
// where it tells, and else what the engine or its samples say, which is also where
// an engine opens connections of its own.
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
	ended.Go(rescue.From(r.cancel, func() {
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

// counts takes what says how much an engine has sent beside what its samples say.
func (r *run) counts(sent func() int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.tells
	r.tells = func() int64 {
		if before != nil { // of an engine beside it
			return before() + sent()
		}
		return sent()
	}
}

// engineSent is what the engine says that it sent.
func (r *run) engineSent() int64 {
	r.mu.Lock()
	tells := r.tells
	r.mu.Unlock()
	if tells == nil {
		return r.sent.Load()
	}
	return r.sent.Load() + tells()
}

// kernelSent is what the kernel sent over the run's TCP connections, as far as it
// tells.
func (r *run) kernelSent() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) < len(r.conns) {
		r.last = append(r.last, make([]int64, len(r.conns)-len(r.last))...)
	}
	var all int64
	for i, c := range r.conns {
		if info, err := tcpinfo.Read(c); err == nil { // one that was closed keeps what it had
			r.last[i] = int64(info.BytesSent.Or(units.Bytes(r.last[i])))
		}
		all += r.last[i]
	}
	return all
}

// live ends the session when its lifetime is over, or what let its controller in.
func (a *agent) live(end context.CancelFunc) {
	if at := a.grant.Share.Ends(); !at.IsZero() {
		timer := time.AfterFunc(time.Until(at), func() {
			a.expire(fmt.Errorf("%w: this server gives %s no longer sessions, and this one has had its time: open another one", session.ErrRefused, a.grant.Share.Class()), end)
		})
		context.AfterFunc(a.base, func() { timer.Stop() })
	}
	if a.grant.Over != nil {
		go rescue.From(func(error) { end() }, func() {
			select {
			case <-a.grant.Over:
				a.expire(errKeyOver, end)
			case <-a.base.Done():
			}
		})()
	}
}

// errKeyOver is what the controller reads whose key is no longer valid.
var errKeyOver = fmt.Errorf("%w: the key was revoked or has expired on this server, which ends its sessions: ask for a new join link", session.ErrRefused)

// expire ends the session: its runs at once, so that the controller reads why, and the
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

// restrained returns open, which for a controller that may only measure sets no
// congestion control but one that every program of this host may choose: a server
// that runs as root would load a module of the kernel for somebody it does not
// know. What came over ssh may what its user may, and who may tune could set it
// for the whole host.
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
