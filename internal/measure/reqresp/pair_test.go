package reqresp

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// soon is the longest that anything here may take before it counts as hanging.
const soon = 10 * time.Second

// wire opens connections between the two ends of a test in one process: the
// near end dials, the far end accepts.
type wire struct {
	listener net.Listener
	target   string // that the near end dials
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &wire{listener: l, target: l.Addr().String()}
}

func (w *wire) env(h model.Host) engine.Env {
	return engine.Env{Host: h, Open: func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		var out engine.Opened
		for range n {
			var c net.Conn
			var err error
			if h == model.Far {
				c, err = w.listener.Accept()
			} else {
				c, err = (&net.Dialer{Control: sockio.Control(o)}).DialContext(ctx, "tcp", w.target)
			}
			if err != nil {
				return out, err
			}
			warnings, err := sockio.Apply(c.(*net.TCPConn), o)
			if err != nil {
				return out, err
			}
			out.Conns = append(out.Conns, c.(*net.TCPConn))
			out.Warnings = append(out.Warnings, warnings...)
		}
		return out, nil
	}}
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

// latency returns the distribution called name of direction d.
func (e *end) latency(t *testing.T, d model.Direction, name string) model.Latency {
	t.Helper()
	for _, l := range e.report.Latencies {
		if l.Name == name && l.Direction == d {
			return l
		}
	}
	t.Fatalf("no latency %q %s: %+v", name, d, e.report.Values)
	return model.Latency{}
}

func (e *end) value(t *testing.T, d model.Direction, m model.Metric) float64 {
	t.Helper()
	for _, v := range e.report.Values {
		if v.Metric == m && v.Direction == d {
			return v.Value
		}
	}
	t.Fatalf("no value %q %s: %+v", m, d, e.report.Values)
	return 0
}

func at(t *testing.T, h *hist.Histogram, q float64) time.Duration {
	t.Helper()
	v, known := h.Quantile(q).Get()
	if !known {
		t.Fatalf("quantile %v: %s", q, h.Quantile(q).Reason())
	}
	return v
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

// asker and answerer return the two ends by what they do in direction d.
func roles(near, far *end, d model.Direction) (asking, answering *end) {
	if d == model.From {
		return far, near
	}
	return near, far
}
