package tls_test

import (
	"context"
	ctls "crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/tls"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// hostile is a client that keeps a server busy until ctx ends: each call opens a connection,
// from the address from if it is not nil, and misuses it.
type hostile func(ctx context.Context, from net.IP, server string)

// hostiles returns the kinds of anonymous clients before they are known.
func hostiles() map[string]hostile {
	tlsTo := func(ctx context.Context, from net.IP, server string) *ctls.Conn {
		c := connectFrom(ctx, from, server)
		if c == nil {
			return nil
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		s := ctls.Client(c, &ctls.Config{InsecureSkipVerify: true, NextProtos: []string{"linerate"}})
		if s.HandshakeContext(ctx) != nil {
			_ = c.Close()
			return nil
		}
		return s
	}
	say := func(text string) hostile {
		return func(ctx context.Context, from net.IP, server string) {
			if c := connectFrom(ctx, from, server); c != nil {
				_, _ = io.WriteString(c, text)
				untilClosed(ctx, c)
			}
		}
	}
	inside := func(text string) hostile {
		return func(ctx context.Context, from net.IP, server string) {
			if c := tlsTo(ctx, from, server); c != nil {
				_, _ = io.WriteString(c, text)
				untilClosed(ctx, c)
			}
		}
	}
	return map[string]hostile{
		"silent":               say(""),
		"half TLS":             say("\x16\x03\x01\x02\x00\x01"),
		"half data":            say("lr-data1"),
		"silent in TLS":        inside(""),
		"half a hello in TLS":  inside("lr-hello\x10\x00half"),
		"HTTP/2 without hello": inside("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
		"wrong secrets":        inside("lr-hello\x00\x0c\x08\x02\x18\x02\x22\x06wrong!"),
	}
}

// connectFrom connects from a loopback address.
func connectFrom(ctx context.Context, from net.IP, server string) net.Conn {
	d := net.Dialer{Timeout: 5 * time.Second}
	if from != nil {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	c, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		return nil
	}
	return c
}

// untilClosed holds c until the server closes it or ctx ends.
func untilClosed(ctx context.Context, c net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

// crowd keeps n clients connecting again and again until ctx ends.
func crowd(ctx context.Context, n int, from func(i int) net.IP, server string, h hostile) (wait func()) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				h(ctx, from(i), server)
			}
		})
	}
	return all.Wait
}

// anonymousCrowd starts a server with this many anonymous clients of one kind at its door, from
// one address, which is also the friend's, or from many.
func anonymousCrowd(t testing.TB, n int, h hostile, many bool) tls.Link {
	t.Helper()
	l := serve(t, tls.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	from := func(int) net.IP { return nil }
	if many {
		from = func(i int) net.IP { return net.IPv4(127, byte(1+i/250), byte(i), 9) }
	}
	wait := crowd(ctx, n, from, l.Addr, h)
	t.Cleanup(func() { cancel(); wait() })
	return l
}

// TestRightSecretAmongAnonymous: with anonymous clients of every kind at the door, a client with
// the right secret is served. TestSoonAmongAnonymous checks how soon.
func TestRightSecretAmongAnonymous(t *testing.T) {
	must.SkipIf(t, testing.Short(), "has hundreds of clients: not with the race detector")
	for manner, h := range hostiles() {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, from many addresses %t", manner, many), func(t *testing.T) {
				l := anonymousCrowd(t, 200, h, many)
				for began := time.Now(); ; {
					took, err := entered(t, l)
					if err == nil {
						return
					}
					t.Logf("after %v: %v", took, err)
					must.Need(t, time.Since(began) <= time.Minute, "never served")
				}
			})
		}
	}
}

// entered opens a session as a friend does.
func entered(t testing.TB, l tls.Link) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	p, err := tls.Dial(ctx, l, model.Egress{})
	if err != nil {
		return time.Since(start), err
	}
	slow := agenttest.Timeouts()
	slow.Hello, slow.Pong = time.Minute, time.Minute
	c, err := session.Open(ctx, p, session.Options{Host: model.Far, Version: "v1", Timeouts: slow})
	if err != nil {
		return time.Since(start), fmt.Errorf("open: %w", err)
	}
	took := time.Since(start)
	_, err = c.Close(ctx)
	return took, err
}

// rude starts a listener that hangs up on the first connections, with an end or a reset, and
// forwards the others to a server.
func rude(t testing.TB, to string, first int, reset bool) (addr string) {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if n < first {
				if reset {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				_ = c.Close()
				continue
			}
			s := connectFrom(t.Context(), nil, to)
			for _, p := range [][2]net.Conn{{c, s}, {s, c}} {
				all.Go(func() {
					_, _ = io.Copy(p[0], p[1])
					_ = p[0].Close()
				})
			}
		}
	})
	return l.Addr().String()
}

// TestDialTriesAgain: a client dropped at the door gets in a few moments later, for control and
// for data.
func TestDialTriesAgain(t *testing.T) {
	for name, reset := range map[string]bool{"end": false, "reset": true} {
		t.Run(name, func(t *testing.T) {
			l := serve(t, tls.Config{})
			direct := l.Addr
			l.Addr = rude(t, direct, 3, reset)
			c := wiretest.Open(t, dial(t, l), model.Far)
			token := data.Token{7}
			must.Get(c.Prepare(t.Context(), session.Preparation{Run: 1, Flow: wiretest.Flow(model.To), Token: token}))(t)
			conn, _, err := data.Dial(t.Context(), rude(t, direct, 3, reset), token, 0, engine.SocketOptions{})
			must.Do(t, err)
			_ = conn.Close()
			_, err = tls.Dial(t.Context(), tls.Link{Addr: rude(t, direct, 1000, reset), Pin: l.Pin}, model.Egress{})
			must.True(t, err != nil, "a server that always hangs up was reached")
		})
	}
}
