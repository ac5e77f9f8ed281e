package udpflow

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
)

// wire opens sockets between the two ends of a test in one process. relay,
// where not nil, stands between each pair.
type wire struct {
	t     testing.TB
	host  string
	relay func(near, far *net.UDPConn)
	mu    sync.Mutex
	calls map[model.Host]int
	pairs [][2][]*net.UDPConn // per call
}

func newWire(t testing.TB) *wire {
	return &wire{t: t, host: "127.0.0.1", calls: map[model.Host]int{}}
}

func (w *wire) env(h model.Host) engine.Env {
	return engine.Env{Host: h, OpenUDP: func(_ context.Context, n int) ([]*net.UDPConn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := w.calls[h]
		w.calls[h]++
		if i == len(w.pairs) {
			var p [2][]*net.UDPConn
			for range n {
				near, far := w.pair()
				p[0], p[1] = append(p[0], near), append(p[1], far)
			}
			w.pairs = append(w.pairs, p)
		}
		if h == model.Near {
			return w.pairs[i][0], nil
		}
		return w.pairs[i][1], nil
	}}
}

// pair returns two sockets that reach each other.
func (w *wire) pair() (near, far *net.UDPConn) {
	if w.relay == nil {
		return w.direct()
	}
	near, left := w.direct()
	right, far := w.direct()
	w.relay(left, right)
	return near, far
}

// direct returns two sockets that are connected with each other.
func (w *wire) direct() (a, b *net.UDPConn) {
	w.t.Helper()
	ctx := context.Background()
	first, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", net.JoinHostPort(w.host, "0"))
	if err != nil {
		w.t.Fatal(err)
	}
	at := first.LocalAddr().(*net.UDPAddr)
	ca, err := (&net.Dialer{}).DialContext(ctx, "udp", at.String())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		w.t.Fatal(err)
	}
	cb, err := (&net.Dialer{LocalAddr: at}).DialContext(ctx, "udp", ca.LocalAddr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	return ca.(*net.UDPConn), cb.(*net.UDPConn)
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
	t.Fatalf("no report of direction %s: %+v, %v", d, e.report, e.err)
	return model.FlowReport{}
}

// prepare returns both ends of f, not started.
func prepare(t *testing.T, e *Engine, w *wire, f model.Flow) (near, far *end) {
	t.Helper()
	a, err := e.Prepare(t.Context(), w.env(model.Near), f)
	if err != nil {
		t.Fatalf("prepare near: %v", err)
	}
	b, err := e.Prepare(t.Context(), w.env(model.Far), f)
	if err != nil {
		t.Fatalf("prepare far: %v", err)
	}
	near, far = &end{Test: a}, &end{Test: b}
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
	near.Stop()
	far.Stop()
	<-near.done
	<-far.done
	if near.err != nil || far.err != nil {
		t.Fatalf("run: near %v, far %v", near.err, far.err)
	}
}

// everyWay is the engine in each way of talking to the kernel.
func everyWay() map[string]*Engine {
	portable := New()
	portable.portable = true
	return map[string]*Engine{"native": New(), "portable": portable}
}

// timed is a short flow at a rate that any machine carries.
func timed(d model.Direction) model.Flow {
	return model.Flow{
		Direction: d, Duration: 200 * time.Millisecond, Omit: 50 * time.Millisecond, Interval: 50 * time.Millisecond,
		UDP: &model.UDPFlow{Rate: 20e6},
	}
}
