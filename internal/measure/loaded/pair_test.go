package loaded

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpbulk"
)

// soon is the longest that anything here may take before it counts as hanging.
const soon = 15 * time.Second

// wire opens connections between the two ends of a test in one process: the
// near end dials, the far end accepts.
type wire struct {
	listener net.Listener
	near     func(func() error) error // runs what the near end does, where it is
	far      func(func() error) error
	nearUDP  string      // address
	noUDP    bool        // of the far end
	halfUDP  bool        // the far end cannot open its socket
	addrs    chan string // of UDP sockets, from one end to the other
	replies  chan string
}

func here(f func() error) error { return f() }

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &wire{
		listener: l, near: here, far: here, nearUDP: "127.0.0.1:0",
		addrs: make(chan string, 1), replies: make(chan string, 1),
	}
}

func (w *wire) env(h model.Host) engine.Env {
	e := engine.Env{Host: h, Open: func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		return w.open(ctx, h, n, o)
	}}
	e.OpenUDP = func(ctx context.Context, _ int) ([]*net.UDPConn, error) {
		if h == model.Near {
			return w.openNear(ctx)
		}
		return w.openFar(ctx)
	}
	if w.noUDP && h == model.Far {
		e.OpenUDP = nil
	}
	return e
}

func (w *wire) open(ctx context.Context, h model.Host, n int, o engine.SocketOptions) (engine.Opened, error) {
	var out engine.Opened
	for range n {
		var c net.Conn
		var err error
		if h == model.Far {
			c, err = w.listener.Accept()
		} else {
			err = w.near(func() (err error) {
				c, err = (&net.Dialer{Control: sockio.Control(o)}).DialContext(ctx, "tcp", w.listener.Addr().String())
				return err
			})
		}
		if err != nil {
			return out, err
		}
		if _, err := sockio.Apply(c.(*net.TCPConn), o); err != nil {
			return out, err
		}
		out.Conns = append(out.Conns, c.(*net.TCPConn))
	}
	return out, nil
}

// dialUDP opens a connected socket.
func dialUDP(ctx context.Context, local, remote string) (*net.UDPConn, error) {
	a, err := net.ResolveUDPAddr("udp", local)
	if err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{LocalAddr: a}).DialContext(ctx, "udp", remote)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// openNear finds a free port, tells it, and connects it to the one it is told.
func (w *wire) openNear(ctx context.Context) (socks []*net.UDPConn, err error) {
	return socks, w.near(func() error {
		probe, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", w.nearUDP)
		if err != nil {
			return err
		}
		own := probe.LocalAddr().String()
		probe.Close()
		w.addrs <- own
		select {
		case peer := <-w.replies:
			c, err := dialUDP(ctx, own, peer)
			socks = []*net.UDPConn{c}
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func (w *wire) openFar(ctx context.Context) (socks []*net.UDPConn, err error) {
	if w.halfUDP {
		return nil, net.ErrClosed
	}
	return socks, w.far(func() error {
		select {
		case peer := <-w.addrs:
			c, err := dialUDP(ctx, "", peer)
			if err != nil {
				return err
			}
			socks = []*net.UDPConn{c}
			w.replies <- c.LocalAddr().String()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
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

func (e *end) latency(t *testing.T, name string) model.Latency {
	t.Helper()
	for _, l := range e.report.Latencies {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no latency %q: %+v", name, e.report.Values)
	return model.Latency{}
}

func (e *end) value(t *testing.T, d model.Direction, m model.Metric) time.Duration {
	t.Helper()
	for _, v := range e.report.Values {
		if v.Metric == m && v.Direction == d {
			return time.Duration(v.Value * float64(time.Second))
		}
	}
	t.Fatalf("no value %q %s: %+v", m, d, e.report.Values)
	return 0
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

// await fails the test when c is not closed soon.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		t.Fatalf("%s: still waiting after %v", what, soon)
	}
}

// session runs both ends as the runner of a session does: it starts the
// receiver, then the sender, waits for the receiver's result, or for both to
// have measured, and stops both.
func session(t *testing.T, near, far *end, d model.Direction) {
	t.Helper()
	first, second := far, near
	if d == model.From {
		first, second = near, far
	}
	first.run(t.Context())
	second.run(t.Context())
	if d == model.Both {
		await(t, first.Measured(), "far end measured")
		await(t, second.Measured(), "near end measured")
	} else {
		await(t, first.done, "receiver")
	}
	near.Stop()
	far.Stop()
	await(t, near.done, "near end")
	await(t, far.done, "far end")
	if near.err != nil || far.err != nil {
		t.Fatalf("run: near %v, far %v", near.err, far.err)
	}
}

// brief is a short flow with a time without load.
func brief(d model.Direction) model.Flow {
	return model.Flow{
		Engine: Name, Direction: d, Omit: 50 * time.Millisecond, Duration: 400 * time.Millisecond,
		Interval: 100 * time.Millisecond, Window: 64 << 10, Loaded: &model.Loaded{Idle: 300 * time.Millisecond},
	}
}

func bulk() *Engine { return New(tcpbulk.New()) }

// linkOf is a known link rate.
func linkOf(r units.BitRate) fact.Of[units.BitRate] { return fact.Known(r, "test") }
