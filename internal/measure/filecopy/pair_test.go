package filecopy

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
)

// soon is the longest that anything here may take before it counts as hanging.
const soon = 20 * time.Second

// wire opens connections between the two ends of a test in one process: the
// near end dials, the far end accepts.
type wire struct {
	listener net.Listener
	to       string // where the near end dials; "" is the listener
}

func newWire(t testing.TB) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &wire{listener: l, to: l.Addr().String()}
}

func (w *wire) env(h model.Host) engine.Env {
	return engine.Env{Host: h, Open: func(ctx context.Context, _ int, _ engine.SocketOptions) (engine.Opened, error) {
		var (
			c   net.Conn
			err error
		)
		if h == model.Near {
			c, err = (&net.Dialer{}).DialContext(ctx, "tcp", w.to)
		} else {
			c, err = w.listener.Accept()
		}
		if err != nil {
			return engine.Opened{}, err
		}
		return engine.Opened{Conns: []*net.TCPConn{c.(*net.TCPConn)}}, nil
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

func (e *end) run(ctx context.Context) {
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

// prepare returns both ends of f, not started.
func prepare(t testing.TB, near, far *Engine, w *wire, f model.Flow) (a, b *end) {
	t.Helper()
	other := make(chan *end, 1)
	go func() {
		test, err := far.Prepare(t.Context(), w.env(model.Far), f)
		other <- &end{Test: test, err: err}
	}()
	test, err := near.Prepare(t.Context(), w.env(model.Near), f)
	a, b = &end{Test: test}, <-other
	if err != nil || b.err != nil {
		t.Fatalf("prepare: near %v, far %v", err, b.err)
	}
	t.Cleanup(func() {
		for _, e := range []*end{a, b} {
			if err := e.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	return a, b
}

// conduct runs both ends as a session does: it stops the sender when the
// receiver has returned.
func conduct(t testing.TB, a, b *end, d model.Direction) {
	t.Helper()
	a.run(t.Context())
	b.run(t.Context())
	receiver, sender := b, a
	if d == model.From {
		receiver, sender = a, b
	}
	await(t, receiver.done, "receiver")
	sender.Stop()
	await(t, sender.done, "sender")
}

func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		t.Fatalf("%s: still waiting after %v", what, soon)
	}
}

// home is a folder for files, and an engine with its state.
type home struct {
	*Engine
	state, folder string
}

func newHome(t testing.TB) home {
	t.Helper()
	folder := t.TempDir()
	h := home{state: filepath.Join(folder, "state"), folder: filepath.Join(folder, "files")}
	if err := os.Mkdir(h.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	h.Engine = New(h.state, Options{NamedPaths: true})
	return h
}

// left returns the files that are in folder and below.
func left(t testing.TB, folder string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkEmpty demands that nothing of linerate's is left.
func (h home) checkEmpty(t testing.TB) {
	t.Helper()
	if files := append(left(t, h.state), left(t, h.folder)...); len(files) > 0 {
		t.Errorf("left behind: %q", files)
	}
}

// peer is the far end of a connection whose near end a test plays itself.
type peer struct {
	*net.TCPConn
	*end
}

// script starts the far end of f, which receives, and returns its peer.
func script(t testing.TB, e *Engine, f model.Flow) peer {
	t.Helper()
	w := newWire(t)
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	test, err := e.Prepare(t.Context(), w.env(model.Far), f)
	if err != nil {
		t.Fatal(err)
	}
	far := &end{Test: test}
	t.Cleanup(func() {
		if err := far.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := c.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	far.run(t.Context())
	return peer{c.(*net.TCPConn), far}
}

func (p peer) say(t testing.TB, m message) {
	t.Helper()
	if err := writeMessage(p.TCPConn, m); err != nil {
		t.Fatal(err)
	}
}

func (p peer) hear(t testing.TB, kind string) message {
	t.Helper()
	m, err := readMessage(p.TCPConn, kind)
	if err != nil {
		t.Fatalf("wait for %q: %v", kind, err)
	}
	return m
}

// begin plays a sender of n bytes up to where it is told to go.
func (p peer) begin(t testing.TB, n int64) {
	t.Helper()
	p.say(t, message{Kind: kindOffer, Bytes: n})
	p.hear(t, kindReady)
	p.say(t, message{Kind: kindReady})
	p.hear(t, kindGo)
}
