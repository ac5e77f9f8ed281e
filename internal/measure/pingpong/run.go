package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/run"
	"linerate/internal/panics"
)

// opener makes a link from a connection.
type opener func(c *net.TCPConn, spin bool) (*plane.Link, error)

// flow is a flow with this engine's parameters.
type flow struct {
	model.Flow
	Sweep sizes.Params
}

// test is one end of one run. When it is stopped, a running batch may end first, so that the
// other end can be told.
type test struct {
	*engine.Life
	engine    *Engine
	env       engine.Env
	flow      flow
	mode      mode
	direction model.Direction // in which the leader sends first
	leads     bool
	out, in   []byte
	sent      atomic.Int64 // bytes, over all connections

	mu       sync.Mutex
	link     *plane.Link // nil if there is no connection
	broken   bool        // every link is to be interrupted
	warnings []string
}

// Close implements engine.Test. It waits for Run.
func (t *test) Close() error {
	t.Stop()
	t.interrupt()
	return t.End(t.disconnect)
}

// interrupt ends all waiting on the current link and every later one.
func (t *test) interrupt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = true
	if t.link != nil {
		t.link.Interrupt()
	}
}

// isStopped reports whether Stop was called.
func (t *test) isStopped() bool {
	select {
	case <-t.Stopping():
		return true
	default:
		return false
	}
}

// warn adds a warning to the report, once.
func (t *test) warn(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	t.warnings = lists.Once(t.warnings, text)
}

// connect opens the next connection.
func (t *test) connect(ctx context.Context) error {
	opened, err := t.env.Open(ctx, 1, engine.SocketOptions{
		Window: int(t.flow.Window), MSS: t.flow.MSS, NoDelay: !t.flow.Nagle, Congestion: t.congestion(),
	})
	if err != nil {
		return fmt.Errorf("open connection: %w", err)
	}
	if len(opened.Conns) != 1 {
		for _, c := range opened.Conns {
			err = errors.Join(err, c.Close())
		}
		return errors.Join(fmt.Errorf("open connection: got %d", len(opened.Conns)), err)
	}
	l, err := t.engine.open(opened.Conns[0], t.flow.Sweep.Spin)
	if err != nil {
		return errors.Join(fmt.Errorf("open connection: %w", err), opened.Conns[0].Close())
	}
	l.Count(&t.sent)
	for _, w := range opened.Warnings {
		t.warn("%s", w)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.link = l
	if t.broken {
		l.Interrupt()
	}
	return nil
}

// congestion returns the algorithm of this end, which sends in every mode except as the
// follower of a stream.
func (t *test) congestion() string {
	if t.mode == stream && !t.leads {
		return ""
	}
	return t.flow.Congestion
}

// disconnect closes the current connection, if there is one.
func (t *test) disconnect() error { return t.drop((*plane.Link).Close) }

// drop ends the current connection, if there is one, with how.
func (t *test) drop(how func(*plane.Link) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.link == nil {
		return nil
	}
	l := t.link
	t.link = nil
	return how(l)
}

// reconnect replaces the current connection, which how ends, by the next one.
func (t *test) reconnect(ctx context.Context, how func(*plane.Link) error) error {
	// Errors of an abandoned connection do not matter.
	_ = t.drop(how)
	ctx, cancel := context.WithTimeout(ctx, t.engine.bounds.connect)
	defer cancel()
	return t.connect(ctx)
}

// peer returns the protocol over the current connection.
func (t *test) peer() *peer { return &peer{link: t.link, out: t.out, in: t.in} }

// Run implements engine.Test. It may be called once.
func (t *test) Run(ctx context.Context, emit func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := t.Begin(ctx)
	if err != nil {
		return model.EndReport{}, err
	}
	defer end(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer t.watch(ctx)()
	defer cancel()

	defer plane.Thread(t.link)()
	r := &course{test: t, Meter: run.Meter{Host: t.env.Host, Spec: t.flow.Flow, Emit: emit}}
	waiting := t.link.Waiting()
	if t.flow.Sweep.Spin && waiting != "polling thread" {
		t.warn("waiting by polling is not possible on %s: %s", runtime.GOOS, waiting)
	}
	defer r.openLog()()
	r.StartClock()
	if t.leads {
		err = r.lead(ctx)
	} else {
		err = r.follow(ctx)
	}
	r.Shut()
	r.Warnings = t.warnings
	report = r.Report(waiting)
	report.Points = r.points
	return report, err
}

// watch interrupts a run when its ctx ends, or if it continues too long after Stop. wait waits
// for the watcher.
func (t *test) watch(ctx context.Context) (wait func()) {
	var watching sync.WaitGroup
	watching.Go(panics.From(t.Fail, func() {
		select {
		case <-ctx.Done():
			t.interrupt()
			return
		case <-t.Stopping():
		}
		grace := time.NewTimer(t.engine.bounds.grace)
		defer grace.Stop()
		select {
		case <-ctx.Done():
		case <-grace.C:
		}
		t.interrupt()
	}))
	return watching.Wait
}

// course is one running test.
type course struct {
	run.Meter
	*test
	points []model.Point
	log    LogReader // nil if there is no log
}

// openLog opens the kernel's log, and returns the function that closes it.
func (r *course) openLog() (closeLog func()) {
	none := func() {}
	if r.engine.openLog == nil {
		return none
	}
	log, err := r.engine.openLog()
	if err != nil {
		r.warn("the kernel's log is not read: %v", err)
		return none
	}
	r.log = log
	return func() { _ = log.Close() } // opened for reading only
}

// logged returns what the kernel logged since the last call.
func (r *course) logged() []string {
	if r.log == nil {
		return nil
	}
	lines, err := r.log.Lines()
	if err != nil {
		r.warn("read the kernel's log: %v", err)
	}
	return lines
}
