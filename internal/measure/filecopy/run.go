package filecopy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
	"linerate/internal/panics"
)

// test is one end of one run.
type test struct {
	*engine.Life
	engine   *Engine
	host     model.Host
	spec     model.Flow // zero fields filled in
	copy     files.Params
	conn     *net.TCPConn
	warnings []string
	share    *budget.Share // of this end's memory and disk
	most     units.Bytes   // most that may be moved; 0 is no limit

	closing sync.Once
	failure error // of closing
}

func newTest(e *Engine, host model.Host, f model.Flow, opened engine.Opened) *test {
	return &test{
		Life: engine.NewLife(), engine: e, host: host, spec: f, copy: settings(f), conn: opened.Conns[0], warnings: opened.Warnings,
	}
}

// Close implements engine.Test. It waits for Run, which removes the files.
func (t *test) Close() error {
	t.Stop()
	t.closing.Do(func() { // which also ends what Run waits for
		if err := t.conn.Close(); !errors.Is(err, net.ErrClosed) {
			t.failure = err
		}
	})
	return t.End(func() error { return t.failure })
}

// Run implements engine.Test. It may be called once. It removes its files before it returns.
func (t *test) Run(ctx context.Context, emit func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := t.Begin(ctx)
	if err != nil {
		return model.EndReport{}, err
	}
	defer end(&err)
	if !t.measures() {
		t.Complete()
	}
	r := &course{test: t, emit: emit, over: make(chan struct{})}
	r.maker = maker{engine: t.engine, copy: t.copy, bytes: int64(t.spec.Bytes), halted: r.halted, share: t.share, most: t.most}
	var watching sync.WaitGroup
	watching.Go(panics.From(r.fail, func() { r.watch(ctx) }))
	err = r.work()
	close(r.over)
	watching.Wait()
	for _, s := range r.stores {
		if failed := s.close(); failed != nil {
			err = errors.Join(err, fmt.Errorf("clean up: %w", failed))
		}
	}
	if err != nil {
		return model.EndReport{}, fmt.Errorf("%s %s: %w", t.copy.Mode, t.spec.Direction, err)
	}
	return r.report(), nil
}

// sends reports whether this is the direction's sender.
func (t *test) sends() bool { return t.spec.Direction.Sender() == t.host }

// measures reports whether this end's window is that of the run.
func (t *test) measures() bool {
	if t.copy.Mode == files.Read || t.copy.Mode == files.Memory {
		return t.sends()
	}
	return !t.sends()
}

// course is a running test.
type course struct {
	*test
	maker  maker
	emit   func([]model.Sample)
	stores []*store
	meter  *meter // nil before the clock started
	flows  []model.FlowReport
	how    []string
	over   chan struct{} // closed when the work is done

	sending bool // bytes of the file may be on their way

	ending   sync.Mutex   // held while halt or finished is set together with its deadline
	halt     atomic.Bool  // the work is to end
	finished atomic.Bool  // only the peer's final message is missing
	cause    atomic.Value // the reason, a string
}

// lastWord is how long a stopped end still waits for the peer's final message.
const lastWord = 2 * time.Second

func (r *course) halted() bool { return r.halt.Load() }

// fail ends the run because of a bug in one of its goroutines.
func (r *course) fail(err error) {
	r.Fail(err)
	r.interrupt("a bug in linerate")
}

// watch stops the work when the run is stopped.
func (r *course) watch(ctx context.Context) {
	select {
	case <-r.over:
		return
	case <-r.Stopping():
		r.interrupt("stopped")
	case <-ctx.Done():
		r.interrupt(context.Cause(ctx).Error())
	}
}

// interrupt stops the work with a reason, unless only the peer's final message is missing.
func (r *course) interrupt(why string) {
	r.cause.CompareAndSwap(nil, why)
	r.ending.Lock()
	defer r.ending.Unlock()
	if r.finished.Load() {
		_ = r.conn.SetDeadline(time.Now().Add(lastWord))
		return
	}
	r.halt.Store(true)
	// It fails only on a closed connection, on which nothing waits.
	_ = r.conn.SetDeadline(time.Unix(1, 0))
}

// finish records that only the peer's final message is missing. An end that was stopped just
// before still waits for it.
func (r *course) finish() {
	r.ending.Lock()
	defer r.ending.Unlock()
	r.finished.Store(true)
	if r.halted() {
		_ = r.conn.SetDeadline(time.Now().Add(lastWord))
	}
}

// why replaces an error that only results from an interruption.
func (r *course) why(err error) error {
	text, ok := r.cause.Load().(string)
	switch {
	case !ok || !r.halted():
		return err
	case text == errHalted.Error():
		return errHalted
	}
	return fmt.Errorf("%w: %s", errHalted, text)
}

// keep makes the run remove s when it ends.
func (r *course) keep(s *store, err error) (*store, error) {
	if s != nil {
		r.stores = append(r.stores, s)
	}
	return s, err
}

// work does this end's part.
func (r *course) work() error {
	buf, free, err := allocate(max(int64(r.spec.Block), alignment))
	if err != nil {
		return err
	}
	r.maker.buf = buf[:r.spec.Block]
	r.stores = append(r.stores, &store{where: "buffer", free: free})
	switch {
	case r.copy.Mode == files.Copy || r.copy.Mode == files.Network:
		if r.sends() {
			err = r.send()
		} else {
			err = r.receive()
		}
	case r.measures():
		err = r.alone()
	default:
		err = r.wait()
	}
	if err == nil {
		return nil
	}
	err = r.why(err)
	var said *errPeer
	if heard := r.tell(err); errors.Is(err, errHalted) && errors.As(heard, &said) && said.text != err.Error() {
		err = heard // it had failed before this end was stopped while creating its source
	}
	if r.flows != nil && errors.Is(err, errHalted) && !errors.As(err, &said) {
		r.warnings = append(r.warnings, err.Error()+": not compared, not complete")
		return nil
	}
	return err
}

// tell sends the peer the reason for the end, if the peer still expects messages. At a sender
// it returns the receiver's earlier failure, or the read error.
func (r *course) tell(err error) (heard error) {
	// In any case, the peer sees the end of the connection.
	defer func() { _ = r.conn.CloseWrite() }()
	var said *errPeer
	if errors.As(err, &said) || r.finished.Load() || r.sending {
		return nil // it knows; or the message would look like file data
	}
	_ = r.conn.SetDeadline(time.Now().Add(lastWord))
	failed := writeMessage(r.conn, message{Kind: kindFail, Text: err.Error()})
	_ = r.conn.CloseWrite()
	if r.sends() {
		for heard == nil { // before the file's data, the receiver sends messages
			_, heard = readMessage(r.conn, kindReady, kindGo)
		}
	}
	if failed != nil {
		return heard
	}
	// Closing now would reset the connection while data is in flight to this end, and the
	// message would be lost: wait for the peer to close.
	for {
		n, err := r.conn.Read(r.maker.buf)
		if n == 0 || err != nil {
			return heard
		}
	}
}

// report returns this end's report.
func (r *course) report() model.EndReport {
	out := model.EndReport{Host: r.host, Waiting: strings.Join(r.how, "; "), SystemBusy: idle()}
	if r.meter != nil {
		out = r.meter.Report(out.Waiting)
	}
	out.Flows, out.Warnings = r.flows, r.warnings
	for _, s := range r.stores {
		out.Warnings = append(out.Warnings, s.warned...)
	}
	return out
}
