package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
)

const (
	// runSlack is what a run may take besides its warm-up and measured time: the two ends
	// start and stop one after the other.
	runSlack = time.Minute
	// perPoint is what one message size of a sweep may take on average, so that a sweep
	// ends even if the controller does not stop it.
	perPoint = 30 * time.Second
	// queued is how many batches of samples wait for a slow controller before the run is
	// abandoned: some minutes at one a second.
	queued = 256
	// finishing is how long a run may take to end after its last event.
	finishing = 5 * time.Second
)

// run is one run at this end, from Prepare to its result.
type run struct {
	number uint64
	flow   model.Flow
	ctx    context.Context // of the run; its cause says why it ended
	cancel context.CancelCauseFunc
	timer  *time.Timer // ends a run that is not started in time

	prepared chan struct{} // closed when test or err is set
	test     engine.Test
	err      error

	mu       sync.Mutex
	port     *data.Port // accepting ends only
	warnings []string
	followed bool
	started  bool
	start    chan struct{} // closed by Start

	conns []*net.TCPConn // the opened ones, and what each has sent
	last  []int64
	sent  atomic.Int64 // bytes, from the samples
	tells func() int64 // bytes, as the engine counts them; nil if it does not
	give  func()       // returns the run's part of the session's share

	unwatched []string // why counters are missing; owned by the measuring goroutine

	closed sync.Once
	gone   chan struct{} // closed when nothing of the run is left
}

// errNotStarted ends a prepared run that was never started.
var errNotStarted = errors.New("the run was not started")

// maxPrepared is how many runs may be prepared at a time: two protocols, from either end.
const maxPrepared = 4

// current returns the prepared runs, or the one that has started.
func (a *agent) current() []*run {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.runs)
}

// numbered returns the current run with number n.
func (a *agent) numbered(n uint64) (*run, error) {
	for _, r := range a.current() {
		if r.number == n {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%w: run %d is not prepared", session.ErrState, n)
}

// allowed returns the engine of f, or why f may not run here.
func (a *agent) allowed(f model.Flow) (engine.Engine, error) {
	i := slices.IndexFunc(a.Engines, func(e engine.Engine) bool { return e.Name() == f.Engine })
	if i < 0 {
		return nil, fmt.Errorf("no engine %q in linerate %s: %w", f.Engine, a.Version, errors.ErrUnsupported)
	}
	if err := a.Limits.check(f, a.Engines[i].Kind().Of(f)); err != nil {
		return nil, err
	}
	if err := a.Engines[i].Validate(f); err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrInvalid, err)
	}
	return a.Engines[i], nil
}

// longest returns how long a run may take, from its preparation on.
func (a *agent) longest(p session.Preparation) time.Duration {
	f := p.Flow
	measured := f.Length()
	switch {
	case f.Points > 0:
		measured = min(time.Duration(f.Points)*perPoint, session.MaxDuration)
	case f.Duration == 0: // ended by a number of bytes
		measured = session.MaxDuration
	default:
	}
	if a.Limits.MaxTime > 0 {
		measured = min(measured, a.Limits.MaxTime)
	}
	return a.within(p) + measured + runSlack
}

// within returns how long a run may take from its preparation to its start. A run that is not
// started holds its slots, so only a known controller gets longer than the default.
func (a *agent) within(p session.Preparation) time.Duration {
	if a.grant.Share.Class() == budget.Anonymous {
		return a.Config.Prepare
	}
	return max(a.Config.Prepare, p.Within)
}

// stopAfter returns after how long this end stops by itself, without a message from the
// controller; 0 is never, except when the run's context ends. A run without a duration of its
// own, such as a sweep or a copy, gets the longest time allowed.
func (a *agent) stopAfter(f model.Flow) time.Duration {
	if f.Points > 0 || f.Duration == 0 {
		return a.Limits.MaxTime
	}
	if a.grant.Share.Class() != budget.Anonymous {
		return 0
	}
	return f.Length() + stopSlack
}

// Prepare starts to open the connections of a run.
func (a *agent) Prepare(ctx context.Context, p session.Preparation) (int, error) {
	port, err := a.prepare(ctx, p)
	return port, a.tell(err)
}

func (a *agent) prepare(ctx context.Context, p session.Preparation) (int, error) {
	e, err := a.allowed(p.Flow)
	if err != nil {
		return 0, fmt.Errorf("prepare run: %w", err)
	}
	if p.Connect != "" && a.MayConnect != nil {
		if err := a.MayConnect(p.Connect); err != nil {
			return 0, fmt.Errorf("prepare run: %w", err)
		}
	}
	if a.MayConnect != nil && p.Egress != p.Egress.MarkOnly() {
		return 0, fmt.Errorf("prepare run: %w: this server chooses the address, interface and port of its data by itself", session.ErrRefused)
	}
	give, err := a.reserve(p.Flow, e.Kind().Of(p.Flow))
	if err != nil {
		return 0, fmt.Errorf("prepare run: %w", err)
	}
	r := &run{number: p.Run, flow: p.Flow, give: give, prepared: make(chan struct{}), start: make(chan struct{}), gone: make(chan struct{})}
	if err := a.admit(ctx, r, p); err != nil {
		give()
		return 0, fmt.Errorf("prepare run: %w", err)
	}
	ports := make(chan int, 1)
	go func() {
		defer close(r.prepared)
		r.err = guarded("prepare", func() (err error) {
			a.forget(r)
			env := engine.Env{Host: a.host, Egress: p.Egress, Open: a.restrained(r.counted(a.opener(r, p, ports))), Share: a.grant.Share, MaxBytes: a.Limits.MaxBytes}
			if !p.Loopback { // the forwarding that carries connections carries no datagrams
				env.OpenUDP = a.udpOpener(p, env.Open)
			}
			env.Counts = r.counts
			if a.LinkRate != nil {
				env.LinkRate = a.LinkRate()
			}
			r.test, err = e.Prepare(r.ctx, env, p.Flow)
			return err
		})
	}()
	if p.Connect != "" {
		return 0, nil
	}
	return a.port(ctx, r, ports)
}

// forget purges what TCP remembers. The warning is the same for every run, so that a report can
// show it once.
func (a *agent) forget(r *run) {
	if a.Purge == nil {
		return
	}
	err := a.Purge(r.ctx)
	if err == nil {
		return
	}
	why := err.Error()
	switch {
	case errors.Is(err, fs.ErrPermission):
		why = "needs root"
	case errors.Is(err, errors.ErrUnsupported):
		why = "not possible on " + runtime.GOOS
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, "what TCP remembers of earlier runs was not purged: "+why)
}

// admit makes r the session's run once the previous one is gone: a run's last event may reach
// the controller before its connections are closed.
func (a *agent) admit(ctx context.Context, r *run, p session.Preparation) error {
	if err := a.awaitGone(ctx, (*run).begun); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, other := range a.runs {
		if other.begun() || other.number == r.number || len(a.runs) == maxPrepared {
			return fmt.Errorf("%w: run %d is not finished", session.ErrState, other.number)
		}
	}
	if a.over != nil {
		return a.over
	}
	timed, stop := context.WithTimeout(a.base, a.longest(p))
	r.ctx, r.cancel = context.WithCancelCause(timed)
	context.AfterFunc(r.ctx, stop)
	a.runs = append(a.runs, r)
	r.timer = time.AfterFunc(a.within(p), func() {
		r.cancel(errNotStarted)
		a.drop(r)
	})
	return nil
}

// awaitGone waits for a limited time until the runs that which selects are gone.
func (a *agent) awaitGone(ctx context.Context, which func(*run) bool) error {
	late := time.NewTimer(finishing)
	defer late.Stop()
	for _, r := range a.current() {
		if !which(r) {
			continue
		}
		select {
		case <-r.gone:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// port waits until an accepting end knows its port, or needs none.
func (a *agent) port(ctx context.Context, r *run, ports <-chan int) (int, error) {
	select {
	case port := <-ports:
		return port, nil
	case <-r.prepared:
		select {
		case port := <-ports: // both: prepared at once
			return port, nil
		default:
		}
		if r.err != nil {
			a.drop(r)
			return 0, fmt.Errorf("prepare run: %w", r.err)
		}
		return 0, nil
	case <-ctx.Done():
		a.drop(r)
		return 0, ctx.Err()
	}
}

// drop ends a run, waits for that and frees its resources. It may be called more than once.
func (a *agent) drop(r *run) {
	r.closed.Do(func() {
		a.mu.Lock()
		timer := r.timer // the timer may have fired before admit stored it
		a.mu.Unlock()
		timer.Stop()
		r.cancel(context.Canceled)
		<-r.prepared
		if r.test != nil {
			_ = guarded("close", r.test.Close)
		}
		r.mu.Lock()
		port := r.port
		r.mu.Unlock()
		if port != nil {
			_ = port.Close()
		}
		r.give()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.runs = slices.DeleteFunc(a.runs, func(o *run) bool { return o == r })
		close(r.gone)
	})
}

// Stop ends a started run, and drops one that was only prepared.
func (a *agent) Stop(_ context.Context, n uint64) error {
	r, err := a.numbered(n)
	if err != nil {
		return nil // it has stopped
	}
	if r.begun() {
		r.test.Stop()
		return nil
	}
	a.drop(r)
	return nil
}

// begun reports whether the traffic of a run has begun.
func (r *run) begun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

// Start begins the traffic of a prepared run, if it is the only one.
func (a *agent) Start(ctx context.Context, n uint64) error {
	r, err := a.numbered(n)
	if err != nil {
		return err
	}
	if err := a.awaitGone(ctx, func(other *run) bool { return other != r }); err != nil {
		return err
	}
	select {
	case <-r.prepared:
	default:
		return fmt.Errorf("%w: run %d is not ready", session.ErrState, n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.runs) > 1 {
		return fmt.Errorf("%w: %d runs are prepared", session.ErrState, len(a.runs))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || !r.followed || r.started {
		return fmt.Errorf("%w: run %d cannot be started", session.ErrState, n)
	}
	r.started = true
	r.timer.Stop()
	close(r.start)
	return nil
}

// Run follows a prepared run to its result.
func (a *agent) Run(ctx context.Context, n uint64, send func(session.Event) error) error {
	return a.tell(a.follow(ctx, n, send))
}

func (a *agent) follow(ctx context.Context, n uint64, send func(session.Event) error) error {
	r, err := a.numbered(n)
	if err != nil {
		return err
	}
	r.mu.Lock()
	twice := r.followed
	r.followed = true
	r.mu.Unlock()
	if twice {
		return fmt.Errorf("%w: run %d is followed already", session.ErrState, n)
	}
	defer a.drop(r)
	// The run ends with the call.
	defer context.AfterFunc(ctx, func() { r.cancel(ctx.Err()) })()
	select {
	case <-r.prepared:
	case <-r.ctx.Done():
		<-r.prepared // soon: it has the same context
	}
	if r.err != nil {
		return fmt.Errorf("prepare run: %w", r.err)
	}
	r.mu.Lock()
	ready := session.Event{Kind: session.Ready, Warnings: slices.Clone(r.warnings)}
	r.mu.Unlock()
	if a.Discreet {
		ready.Warnings = withoutPaths(ready.Warnings)
	}
	if err := send(ready); err != nil {
		return err
	}
	select {
	case <-r.start:
		return a.measure(r, send)
	case <-r.ctx.Done():
		return fmt.Errorf("%w: %w", session.ErrState, context.Cause(r.ctx))
	}
}
