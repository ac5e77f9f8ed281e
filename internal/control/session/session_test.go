package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"linerate/internal/control/wire"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// stub is a Service whose methods tests replace as needed.
type stub struct {
	hello func(Hello) error
	facts func(ctx context.Context) error
	run   func(ctx context.Context, send func(Event) error) error
	// prepared is called for every preparation.
	prepared func(Preparation)
}

func (s stub) Hello(_ context.Context, h Hello) (Welcome, error) {
	if s.hello != nil {
		return Welcome{}, s.hello(h)
	}
	return Welcome{}, nil
}

func (s stub) Facts(ctx context.Context, _ string) (model.HostFacts, error) {
	if s.facts != nil {
		return model.HostFacts{}, s.facts(ctx)
	}
	return model.HostFacts{Name: "stub"}, nil
}

func (stub) ReadKnobs(context.Context, []model.KnobID) (map[model.KnobID]fact.Of[string], error) {
	return nil, nil
}

func (stub) Apply(context.Context, []model.Assignment, Terms) ([]model.Change, error) {
	return nil, nil
}
func (stub) Verify(context.Context) error                      { return nil }
func (stub) Extend(context.Context, time.Duration) error       { return nil }
func (stub) Undo(context.Context) ([]model.Change, error)      { return nil, nil }
func (stub) Recovered(context.Context) ([]model.Change, error) { return nil, nil }
func (s stub) Prepare(_ context.Context, p Preparation) (int, error) {
	if s.prepared != nil {
		s.prepared(p)
	}
	return 1, nil
}
func (stub) Start(context.Context, uint64) error           { return nil }
func (stub) Stop(context.Context, uint64) error            { return nil }
func (stub) Close(context.Context) ([]model.Change, error) { return nil, nil }
func (stub) Settings(context.Context) (Settings, error)    { return nil, errors.ErrUnsupported }
func (s stub) Run(ctx context.Context, _ uint64, send func(Event) error) error {
	if s.run != nil {
		return s.run(ctx, send)
	}
	return send(Event{Kind: Ready})
}

func short() Timeouts {
	return Timeouts{Hello: time.Second, Call: 5 * time.Second, Ping: 100 * time.Millisecond, Pong: 20 * time.Second, Send: 20 * time.Second}
}

// serving runs Serve on one end of a pipe and returns the other; served is
// closed when Serve has returned.
func serving(t *testing.T, s Service, timeouts Timeouts) (conn net.Conn, served <-chan struct{}) {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Serve(context.WithoutCancel(t.Context()), far, "v-agent", s, timeouts)
	}()
	t.Cleanup(func() {
		_ = near.Close()
		must.Wait(t, "the agent to end", done)
	})
	return near, done
}

func opened(t *testing.T, conn net.Conn) (*Client, error) {
	t.Helper()
	c, err := Open(t.Context(), wire.Peer{Control: conn, Name: "nas"}, Options{Host: model.Far, Version: "v-controller", Timeouts: short()})
	if err == nil {
		t.Cleanup(func() { _ = c.shut() })
	}
	return c, err
}

// TestPatienceOfAnAgent: a session with more than the usual patience asks its agent for the same.
func TestPatienceOfAnAgent(t *testing.T) {
	for call, want := range map[time.Duration]time.Duration{5 * time.Second: 0, 30 * time.Second: 0, 2 * time.Minute: 2 * time.Minute, time.Hour: MaxPrepare} {
		var got []time.Duration
		conn, _ := serving(t, stub{prepared: func(p Preparation) { got = append(got, p.Within) }}, short())
		patient := short()
		patient.Call = call
		c := must.Get(Open(t.Context(), wire.Peer{Control: conn, Name: "nas"}, Options{Host: model.Far, Version: "v-controller", Timeouts: patient}))(t)
		_, err := c.Prepare(t.Context(), Preparation{Run: 1, Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second, Interval: time.Second}})
		must.True(t, err == nil && len(got) == 1 && got[0] == want, "who waits %v for a call: prepared within %v, %v", call, got, err)
		_ = c.shut()
	}
}

func mustOpen(t *testing.T, conn net.Conn) *Client {
	t.Helper()
	return must.Get(opened(t, conn))(t)
}

// raw returns the HTTP/2 connection of a controller that was admitted and then sends whatever
// the test wants.
func raw(t *testing.T, conn net.Conn) *http.ClientConn {
	t.Helper()
	must.Get(exchange(conn, &Hello{Protocol: Protocol, Host: model.Far}))(t)
	cc := must.Get(dialHTTP(t.Context(), conn, short().orDefaults()))(t)
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// rawClient returns a Client that checks nothing itself.
func rawClient(t *testing.T, conn net.Conn) *Client {
	t.Helper()
	return &Client{conn: raw(t, conn), codec: newCodec(model.Far), host: model.Far, timeouts: short().orDefaults()}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	for _, kind := range []error{ErrInvalid, ErrState, ErrExpired, ErrBusy, ErrRefused, errors.ErrUnsupported, fs.ErrPermission, syscall.ENOSPC} {
		conn, _ := serving(t, stub{facts: func(context.Context) error { return errors.Join(errors.New("so and\x1b[2J so"), kind) }}, short())
		_, err := mustOpen(t, conn).Facts(t.Context(), "")
		must.True(t, errors.Is(err, kind) && strings.Contains(err.Error(), "read facts on nas: so and [2J so"), "%v came as %v", kind, err)
	}
}

func TestPanicCostsOneCall(t *testing.T) {
	conn, _ := serving(t, stub{facts: func(context.Context) error { panic("oh") }}, short())
	c := mustOpen(t, conn)
	must.Say(t, must.Err(c.Facts(t.Context(), "")), "a bug in the agent: oh", "error")
	must.OK(t, c.Verify(t.Context()), "the next call")
}

func TestSilentController(t *testing.T) {
	_, served := serving(t, stub{}, Timeouts{Hello: 100 * time.Millisecond})
	must.Wait(t, "the agent to give up", served)
}

func TestSilentAgent(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	must.Is(t, must.Err(opened(t, near)), ErrLost, "error") // the other end does not read
	near, far = net.Pipe()
	go func() { _, _ = far.Read(make([]byte, 1<<16)); _, _ = far.Read(make([]byte, 1<<16)) }()
	must.Is(t, must.Err(opened(t, near)), ErrLost, "error") // the other end does not answer
	_ = far.Close()
}

func TestCallerGivesUp(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Is(t, must.Err(Open(ctx, wire.Peer{Control: near, Name: "nas"}, Options{Host: model.Far})), context.Canceled, "error")
}

func TestSessionOutlivesItsFirstTimeouts(t *testing.T) {
	conn, _ := serving(t, stub{}, Timeouts{Hello: time.Second, Ping: 50 * time.Millisecond, Pong: 30 * time.Second})
	c := mustOpen(t, conn)
	idle, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	defer cancel()
	<-idle.Done()
	must.OK(t, must.Err(c.Facts(t.Context(), "")), "after a pause")
}

func TestIdleSessionEnds(t *testing.T) {
	conn, served := serving(t, stub{}, Timeouts{Idle: time.Second})
	mustOpen(t, conn)
	must.Wait(t, "the idle session to end", served)
}

// TestNothingOutlivesItsConnection: even if calls were running when it ended, and long before
// the session's idle timeout.
func TestNothingOutlivesItsConnection(t *testing.T) {
	freed := make(chan struct{}, 1)
	func() {
		mark, begun := new([1 << 20]byte), make(chan struct{})
		runtime.AddCleanup(mark, func(c chan struct{}) { c <- struct{}{} }, freed)
		conn, served := serving(t, stub{facts: func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			return fmt.Errorf("%d", mark[0])
		}}, Timeouts{Idle: time.Hour})
		c := mustOpen(t, conn)
		go func() { _, _ = c.Facts(t.Context(), "") }()
		must.Wait(t, "the call", begun)
		must.Do(t, conn.Close())
		must.Wait(t, "the agent to end", served)
	}()
	must.Until(t, "what the session had to be collected", func() bool {
		runtime.GC()
		return len(freed) > 0
	})
}

// A controller that does everything else, but does not read its stream.
func TestControllerThatStopsReading(t *testing.T) {
	sent := make(chan error, 1)
	conn, _ := serving(t, stub{run: func(_ context.Context, send func(Event) error) error {
		err := send(Event{Kind: Ready})
		batch := make([]model.Sample, MaxSamples)
		for i := range batch {
			batch[i] = model.Sample{Metric: "m", Value: 1}
		}
		for err == nil {
			err = send(Event{Kind: Samples, Samples: batch})
		}
		sent <- err
		return err
	}}, Timeouts{Send: 200 * time.Millisecond})
	c := rawClient(t, conn)
	stream := must.Get(calling[Event, runNumber](c, "Run").CallServerStream(t.Context(), connect.NewRequest(&runNumber{1})))(t)
	defer func() { _ = stream.Close() }()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	must.Wait(t, "the agent to give up", sent)
	must.OK(t, must.Err(c.Facts(t.Context(), "")), "the session did not survive")
}

func TestAgentThatLies(t *testing.T) {
	for name, run := range map[string]func(context.Context, func(Event) error) error{
		"nothing":      func(context.Context, func(Event) error) error { return nil },
		"only ready":   func(_ context.Context, send func(Event) error) error { return send(Event{Kind: Ready}) },
		"early result": func(_ context.Context, send func(Event) error) error { return send(Event{Kind: Result}) },
		"ready twice": func(_ context.Context, send func(Event) error) error {
			return errors.Join(send(Event{Kind: Ready}), send(Event{Kind: Ready}))
		},
		"strange metric": func(_ context.Context, send func(Event) error) error {
			return errors.Join(send(Event{Kind: Ready}), send(Event{Kind: Samples, Samples: []model.Sample{{Metric: "\x1b[2J"}}}))
		},
	} {
		conn, _ := serving(t, stub{run: run}, short())
		must.Is(t, mustOpen(t, conn).Run(t.Context(), 1, func(Event) {}), ErrInvalid, "%s", name)
	}
}

// FuzzControlStream sends any bytes after the preface (RFC 9113 section 3.4). The agent must end
// with the connection, whatever was sent.
func FuzzControlStream(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))                                     // SETTINGS
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x01\x25\x00\x00\x00\x01")) // then a huge HEADERS
	f.Add([]byte("\x00\x00\x08\x06\x00\x00\x00\x00\x00linerate\x00\x00\x08\x07\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41"))
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = Serve(t.Context(), far, "v", stub{}, short())
		}()
		_ = near.SetDeadline(time.Now().Add(time.Second))
		_, _ = exchange(near, &Hello{Protocol: Protocol, Host: model.Far})
		go func() { _ = drain(near) }()
		_, _ = near.Write(append([]byte(http2Preface), b...))
		_ = near.Close()
		must.Wait(t, "the agent to end", served)
	})
}

func drain(c net.Conn) error {
	b := make([]byte, 4<<10)
	for {
		if _, err := c.Read(b); err != nil {
			return err
		}
	}
}
