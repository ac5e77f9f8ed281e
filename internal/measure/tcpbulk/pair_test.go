package tcpbulk

import (
	"context"
	"net"
	"sync"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// wire opens connections between the two ends of a test in one process: the
// near end dials, the far end accepts, one call of each at a time.
type wire struct {
	listener net.Listener
	dialer   func(context.Context, engine.SocketOptions) (*net.TCPConn, error) // nil is dial
	near     sync.Mutex
	far      sync.Mutex
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &wire{listener: l}
}

func (w *wire) env(h model.Host) engine.Env {
	return engine.Env{Host: h, Open: func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		lock, open := &w.near, w.dial
		if w.dialer != nil {
			open = w.dialer
		}
		if h == model.Far {
			lock, open = &w.far, w.accept
		}
		lock.Lock()
		defer lock.Unlock()
		var out engine.Opened
		for range n {
			c, err := open(ctx, o)
			if err != nil {
				return out, err
			}
			warnings, err := sockio.Apply(c, o)
			if err != nil {
				return out, err
			}
			out.Conns = append(out.Conns, c)
			out.Warnings = append(out.Warnings, warnings...)
		}
		return out, nil
	}}
}

func (w *wire) dial(ctx context.Context, o engine.SocketOptions) (*net.TCPConn, error) {
	c, err := (&net.Dialer{Control: sockio.Control(o)}).DialContext(ctx, "tcp", w.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

func (w *wire) accept(context.Context, engine.SocketOptions) (*net.TCPConn, error) {
	c, err := w.listener.Accept()
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// end is one end of a prepared test and what became of it.
type end struct {
	engine.Test
	mu      sync.Mutex
	samples []model.Sample
	report  model.EndReport
	err     error
	done    chan struct{} // closed when Run has returned
}

func (e *end) emit(s []model.Sample) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.samples = append(e.samples, s...)
}

func (e *end) taken() []model.Sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]model.Sample(nil), e.samples...)
}

func (e *end) run(ctx context.Context) {
	e.done = make(chan struct{})
	go func() {
		defer close(e.done)
		e.report, e.err = e.Run(ctx, e.emit)
	}()
}

// flow returns the report of direction d.
func (e *end) flow(t *testing.T, d model.Direction) model.FlowReport {
	t.Helper()
	for _, f := range e.report.Flows {
		if f.Direction == d {
			return f
		}
	}
	t.Fatalf("no report of direction %s: %+v", d, e.report)
	return model.FlowReport{}
}

// prepare returns both ends of f, not started.
func prepare(t *testing.T, e *Engine, w *wire, f model.Flow) (near, far *end) {
	t.Helper()
	type prepared struct {
		test engine.Test
		err  error
	}
	other := make(chan prepared, 1)
	go func() {
		test, err := e.Prepare(t.Context(), w.env(model.Far), f)
		other <- prepared{test, err}
	}()
	a, err := e.Prepare(t.Context(), w.env(model.Near), f)
	b := <-other
	if err != nil || b.err != nil {
		t.Fatalf("prepare: near %v, far %v", err, b.err)
	}
	near, far = &end{Test: a}, &end{Test: b.test}
	t.Cleanup(func() {
		for _, e := range []*end{near, far} {
			if err := e.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	return near, far
}

// conduct runs both ends as a session does.
func conduct(t *testing.T, near, far *end) {
	t.Helper()
	near.run(t.Context())
	far.run(t.Context())
	<-near.Measured()
	<-far.Measured()
	// An end that measured in one direction only returns by itself.
	near.Stop()
	far.Stop()
	<-near.done
	<-far.done
	if near.err != nil || far.err != nil {
		t.Fatalf("run: near %v, far %v", near.err, far.err)
	}
}
