package tls_test

import (
	"context"
	ctls "crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/tls"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

func TestSessionLimit(t *testing.T) {
	agenttest.NoLeaks(t)
	l := serve(t, tls.Config{Budget: sessions(2)})
	for range 2 {
		wiretest.Open(t, dial(t, l), model.Far)
	}
	_, err := open(t, l)
	must.True(t, errors.Is(err, session.ErrBusy) && strings.Contains(err.Error(), "2 sessions"), "third of two sessions: %v", err)
}

func TestSessionEndsMakeRoom(t *testing.T) {
	l := serve(t, tls.Config{Budget: sessions(1)})
	for range 3 {
		var c *session.Client
		must.Until(t, "the server has room again", func() bool {
			var err error
			c, err = open(t, l)
			return err == nil
		})
		must.Get(c.Close(t.Context()))(t)
	}
}

func TestOpenLimits(t *testing.T) {
	agenttest.NoLeaks(t)
	l := serve(t, tls.Config{Open: true, Budget: budget.New(budget.Config{
		Server: budget.Limits{Sessions: 72}, AllAnonymous: budget.Limits{Sessions: 8},
		Anonymous: budget.Part{Source: budget.Limits{Sessions: 4}},
	})})
	must.Equal(t, l.Secret, "", "an open server has a secret in its link")
	c := wiretest.Open(t, dial(t, l), model.Far)
	long, wide, thick := wiretest.Flow(model.To), wiretest.Flow(model.To), wiretest.Flow(model.To)
	long.Duration = time.Minute
	wide.Streams = 17
	thick.Block = 2 << 20
	for _, f := range []model.Flow{long, wide, thick} {
		must.Is(t, must.Err(c.Prepare(t.Context(), session.Preparation{Run: 1, Flow: f})), session.ErrRefused, "%+v", f)
	}
	for range 3 {
		wiretest.Open(t, dial(t, l), model.Far)
	}
	_, err := open(t, l)
	must.True(t, errors.Is(err, session.ErrBusy) && strings.Contains(err.Error(), "from your address"), "fifth session of one source: %v", err)
}

func TestAnonymous(t *testing.T) {
	agenttest.NoLeaks(t)
	l := serve(t, tls.Config{Handshake: 300 * time.Millisecond})
	for name, say := range map[string]string{
		"web":       "GET / HTTP/1.1\r\n\r\n",
		"silent":    "",
		"half TLS":  "\x16\x03\x01\x02\x00\x01",
		"half data": "lr-data1",
		"bad token": "lr-data1" + strings.Repeat("x", 36),
		"bad magic": "lr-data2" + strings.Repeat("x", 36),
	} {
		conn := dialTCP(t, l.Addr)
		must.OK(t, must.Err(io.WriteString(conn, say)), "%s", name)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		got, err := io.ReadAll(conn) // a reset is as good as an end
		must.True(t, len(got) == 0 && !errors.Is(err, os.ErrDeadlineExceeded), "%s: answered %q, %v", name, got, err)
		_ = conn.Close()
	}
	noALPN := ctls.Client(dialTCP(t, l.Addr), &ctls.Config{InsecureSkipVerify: true})
	if err := noALPN.HandshakeContext(t.Context()); err == nil {
		n, err := noALPN.Read(make([]byte, 1))
		must.True(t, err != nil, "an anonymous client in TLS is told %d bytes", n)
	}
	_ = noALPN.Close()
	old := ctls.Client(dialTCP(t, l.Addr), &ctls.Config{InsecureSkipVerify: true, MaxVersion: ctls.VersionTLS12})
	must.Fail(t, old.HandshakeContext(t.Context()), "TLS 1.2 is accepted")
	_ = old.Close()
	wiretest.Open(t, dial(t, l), model.Far) // and the server still works
}

// TestDropped: the log records every connection that ended before its hello, once and with its
// reason.
func TestDropped(t *testing.T) {
	secure := &ctls.Config{InsecureSkipVerify: true, MinVersion: ctls.VersionTLS13, NextProtos: []string{"linerate"}}
	overTLS := func(say string, leave bool) func(*testing.T, net.Conn) {
		return func(t *testing.T, c net.Conn) {
			s := ctls.Client(c, secure)
			must.Do(t, s.HandshakeContext(t.Context()))
			must.Get(io.WriteString(s, say))(t)
			if leave {
				must.Do(t, s.Close())
			}
		}
	}
	for name, c := range map[string]struct {
		act  func(*testing.T, net.Conn)
		says string
	}{
		"silent":                 {func(*testing.T, net.Conn) {}, "said nothing"},
		"leaves":                 {func(_ *testing.T, c net.Conn) { _ = c.Close() }, "before it said anything"},
		"web":                    {func(t *testing.T, c net.Conn) { must.Get(io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"))(t) }, "another protocol"},
		"silent in TLS":          {overTLS("", false), "no valid hello"},
		"leaves in TLS":          {overTLS("", true), "no valid hello"},
		"half a hello in TLS":    {overTLS("lr-hello\x00", false), "no valid hello"},
		"HTTP/2 in TLS":          {overTLS("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false), "no valid hello"},
		"hello of version 0":     {overTLS("lr-hello\x00\x00", false), "no valid hello"},
		"hello of 64 KiB in TLS": {overTLS("lr-hello\xff\xff", false), "no valid hello"},
		"another protocol":       {overTLS("lr-hello\x00\x1d"+`{"protocol":2,"version":"v9"}`, false), "speaks session protocol 1, the controller is linerate v9 and speaks 2"},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan error, 9)
			a := agenttest.Config(nil)
			a.Timeouts.Hello = 50 * time.Millisecond
			config := tls.Config{Open: true, Dropped: func(_ netip.Addr, why error) { told <- why }, Refused: func(_ netip.Addr, why error) { told <- why }}
			if name == "silent" {
				config.Handshake = 50 * time.Millisecond
			}
			conn := dialTCP(t, serveAgent(t, config, a).Addr)
			defer conn.Close()
			c.act(t, conn)
			must.Contain(t, (<-told).Error(), c.says)
			_, _ = io.Copy(io.Discard, conn) // until the server has closed it
			must.Equal(t, len(told), 0, "told again")
		})
	}
}

func dialTCP(t testing.TB, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	return must.Get(d.DialContext(t.Context(), "tcp", addr))(t)
}

func TestTwoHundredHalfOpen(t *testing.T) {
	agenttest.NoLeaks(t)
	l := serve(t, tls.Config{Handshake: 500 * time.Millisecond})
	conns := make([]net.Conn, 250)
	for i := range conns {
		conns[i] = dialTCP(t, l.Addr)
		if i%2 == 0 {
			_, _ = conns[i].Write([]byte{0x16})
		}
	}
	wiretest.Open(t, dial(t, l), model.Far) // while they hang
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		must.True(t, !errors.Is(must.Err(io.ReadAll(c)), os.ErrDeadlineExceeded), "a silent connection is kept")
		_ = c.Close()
	}
}

func TestTwoHundredSessionsAtOnce(t *testing.T) {
	agenttest.NoLeaks(t)
	// Neither end gives up on a slow peer: then the number is exact.
	long := agenttest.Timeouts()
	long.Hello, long.Call, long.Pong, long.Send = time.Minute, time.Minute, time.Minute, time.Minute
	patient := agenttest.Config(nil)
	patient.Timeouts = long
	l := serveAgent(t, tls.Config{Budget: sessions(20), Handshake: time.Minute}, patient)
	var mu sync.Mutex
	ends := map[string]int{}
	var all, counted sync.WaitGroup
	hold := make(chan struct{})
	counted.Add(200)
	for range 200 {
		all.Go(func() {
			p, err := tls.Dial(t.Context(), l, model.Egress{})
			for errors.Is(err, context.DeadlineExceeded) { // a busy machine takes longer than one dial waits
				p, err = tls.Dial(t.Context(), l, model.Egress{})
			}
			var c *session.Client
			if err == nil {
				c, err = session.Open(t.Context(), p, session.Options{Host: model.Far, Version: "v1", Timeouts: long})
			}
			end := "open"
			if errors.Is(err, session.ErrBusy) {
				end = "busy"
			} else if err != nil {
				end = err.Error()
			}
			mu.Lock()
			ends[end]++
			mu.Unlock()
			counted.Done()
			<-hold
			if c != nil {
				_, _ = c.Close(t.Context())
			}
		})
	}
	counted.Wait()
	close(hold)
	all.Wait()
	const most = 15 - 15/4 // of 20 a quarter is reserved for other keys, and a quarter of the rest for other sources
	must.True(t, ends["open"] == most && ends["open"]+ends["busy"] == 200, "sessions: %v", ends)
}

// TestBusyServerCostsARun: if another session has the resources of a run, the run may be
// retried; a run that needs more than any session may have is refused for good.
func TestBusyServerCostsARun(t *testing.T) {
	l := serve(t, tls.Config{Budget: budget.New(budget.Config{Server: budget.Limits{Sessions: 4, Descriptors: 30}})})
	other := wiretest.Open(t, dial(t, l), model.Far)
	must.Get(other.Prepare(t.Context(), session.Preparation{Run: 1, Flow: wiretest.Flow(model.To), Token: data.Token{1}}))(t)
	c := wiretest.Open(t, dial(t, l), model.Far)
	near := wiretest.Near(t, agenttest.Config(nil))
	r, _, err := runner.New(near, c, time.Now, nil).Run(t.Context(), runner.Spec{Number: 1, Flow: wiretest.Flow(model.To)}, nil)
	must.True(t, errors.Is(err, runner.ErrInvalid) && errors.Is(err, session.ErrBusy) && r.State == model.RunInvalid, "%+v, %v", r.State, err)
	wide := wiretest.Flow(model.To)
	wide.Streams = 20
	_, _, err = runner.New(near, c, time.Now, nil).Run(t.Context(), runner.Spec{Number: 2, Flow: wide}, nil)
	must.True(t, errors.Is(err, session.ErrRefused) && !errors.Is(err, runner.ErrInvalid), "more than there is: %v", err)
}

// TestRevokedKeyIsTold: the holder of a key that is revoked during a run gets the reason and
// nothing more, and does not continue without a key on an open server.
func TestRevokedKeyIsTold(t *testing.T) {
	over, ended, revoked := make(chan struct{}), make(chan error, 1), new(atomic.Bool)
	c := tls.Config{
		Open: true,
		Find: func(secret []byte) (tls.Key, bool) {
			return tls.Key{Name: "ci", Over: over}, string(secret) == "secret of ci" && !revoked.Load()
		},
		Ended: func(_ tls.Visitor, _ time.Duration, err error) { ended <- err },
	}
	l := serve(t, c)
	l.Secret = "c2VjcmV0IG9mIGNp" // "secret of ci", base64url
	s := wiretest.Open(t, dial(t, l), model.Far)
	must.Get(s.Prepare(t.Context(), session.Preparation{Run: 1, Flow: wiretest.Flow(model.To), Token: data.Token{1}}))(t)
	for i := range wiretest.Flow(model.To).Streams {
		conn, _, err := data.Dial(t.Context(), l.Addr, data.Token{1}, i, engine.SocketOptions{})
		must.Do(t, err)
		defer func() { _ = conn.Close() }()
	}
	result := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		result <- s.Run(t.Context(), 1, func(e session.Event) {
			if e.Kind == session.Ready {
				close(ready)
			}
		})
	}()
	must.Wait(t, "a run that is ready", ready)
	revoked.Store(true)
	close(over)
	told := func(what string, err error) {
		t.Helper()
		must.Say(t, err, "the key was revoked or has expired", "%s", what)
	}
	told("the run", <-result)
	_, err := s.Prepare(t.Context(), session.Preparation{Run: 2, Flow: wiretest.Flow(model.To), Token: data.Token{2}})
	told("another run", err)
	_, err = s.Facts(t.Context(), "")
	told("facts", err)
	must.Is(t, <-ended, tls.ErrKeyOver, "the session ended with")
	_, err = open(t, l)
	must.True(t, errors.Is(err, session.ErrRefused) && strings.Contains(err.Error(), "its key was revoked"), "the same secret again, on an open server: %v", err)
	l.Secret = ""
	wiretest.Open(t, dial(t, l), model.Far) // without a key every client may
}

// TestKeyWithLimits: a key with a rate takes no faster TCP, and one that is not valid says why.
func TestKeyWithLimits(t *testing.T) {
	k := tls.Key{Name: "k", Rate: 1e6, Refusal: "too late"}
	l := serve(t, tls.Config{Find: func(secret []byte) (tls.Key, bool) { return k, len(secret) == 1 }})
	l.Secret = "AA"
	s := must.Get(open(t, l))(t)
	must.Say(t, must.Err(s.Prepare(t.Context(), session.Preparation{Run: 1, Flow: wiretest.Flow(model.To)})), "TCP at more than 1 Mbit/s")
	l.Secret = "AAA"
	must.Say(t, must.Err(open(t, l)), "refused: too late")
}
