package pingpong

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// soon is the longest that anything here may take before it counts as hanging.
const soon = 20 * time.Second

// wire opens connections between the two ends of a test in one process: the
// near end dials, the far end accepts.
type wire struct {
	listener *net.TCPListener
	dial     string // address for the near end

	mu     sync.Mutex
	opened int
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &wire{listener: l, dial: l.Addr().String()}
}

func (w *wire) env(h model.Host) engine.Env {
	return engine.Env{Host: h, Open: func(ctx context.Context, _ int, o engine.SocketOptions) (engine.Opened, error) {
		open := w.connect
		if h == model.Far {
			open = w.accept
		}
		c, err := open(ctx)
		if err != nil {
			return engine.Opened{}, err
		}
		warnings, err := sockio.Apply(c, o)
		return engine.Opened{Conns: []*net.TCPConn{c}, Warnings: warnings}, err
	}}
}

func (w *wire) connect(ctx context.Context) (*net.TCPConn, error) {
	w.mu.Lock()
	w.opened++
	w.mu.Unlock()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", w.dial)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

func (w *wire) accept(ctx context.Context) (*net.TCPConn, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	return w.listener.AcceptTCP()
}

// side is one end of a prepared test and what became of it.
type side struct {
	engine.Test
	mu      sync.Mutex
	samples []model.Sample
	report  model.EndReport
	err     error
	done    chan struct{} // closed when Run has returned
}

func (e *side) run(ctx context.Context) {
	e.done = make(chan struct{})
	go func() {
		defer close(e.done)
		e.report, e.err = e.Run(ctx, func(s []model.Sample) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.samples = append(e.samples, s...)
		})
	}()
}

func (e *side) taken() []model.Sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]model.Sample(nil), e.samples...)
}

// await fails the test when c is not closed soon.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		t.Fatalf("%s: still waiting after %v", what, soon)
	}
}

// prepare returns both ends of f, not started.
func prepare(t *testing.T, e *Engine, w *wire, f model.Flow) (near, far *side) {
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
	near, far = &side{Test: a}, &side{Test: b.test}
	t.Cleanup(func() {
		for _, e := range []*side{near, far} {
			if err := e.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	return near, far
}

// conduct runs both ends until they return by themselves.
func conduct(t *testing.T, near, far *side) {
	t.Helper()
	near.run(t.Context())
	far.run(t.Context())
	await(t, near.done, "near end")
	await(t, far.done, "far end")
	await(t, near.Measured(), "near end's measured")
	await(t, far.Measured(), "far end's measured")
	if near.err != nil || far.err != nil {
		t.Fatalf("run: near %v, far %v", near.err, far.err)
	}
}

// sweepOf returns a flow over sizes with short trials.
func sweepOf(d model.Direction, s model.Sweep, sizes ...units.Bytes) model.Flow {
	s.Sizes = sizes
	return model.Flow{Engine: Name, Direction: d, Sweep: &s}
}

// quick returns an engine that gives up soon.
func quick() *Engine {
	e := New(nil)
	e.bounds = bounds{
		leader: 200 * time.Millisecond, follower: time.Second, pause: time.Second, batch: 5 * time.Second,
		connect: time.Second, grace: 100 * time.Millisecond,
	}
	return e
}
