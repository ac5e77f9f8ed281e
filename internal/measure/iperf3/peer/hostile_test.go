package peer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// quick has timeouts with which a client leaves a silent server soon.
var quick = limits{patience: time.Second, greeting: 100 * time.Millisecond, between: time.Nanosecond}

const oneSecond = `{"tcp":true,"time":1,"parallel":2,"len":1000}`

// TestServerHostile lets clients misbehave at every step. Each harms only itself: the server,
// which has room for one test, then serves the next client.
func TestServerHostile(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, iperf3.CookieLen)
	together(t, 100, map[string]func(r *raw){
		"silence":                 func(*raw) {},
		"vanishes":                func(r *raw) { _ = r.ctl.Close() },
		"empty cookie":            func(r *raw) { r.send(r.ctl, zeros...) },
		"cookie without end":      func(r *raw) { r.send(r.ctl, []byte(strings.Repeat("x", 37))...) },
		"half a cookie":           func(r *raw) { r.send(r.ctl, r.cookie[:20]...) },
		"half a cookie, vanishes": func(r *raw) { r.send(r.ctl, r.cookie[:20]...); _ = r.ctl.Close() },
		"no parameters":           func(r *raw) { r.send(r.ctl, r.cookie...); r.expect(iperf3.ParamExchange) },
		"vanishes before parameters": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			_ = r.ctl.Close()
		},
		"huge parameters": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			r.message(0xffffffff, "{}")
			r.expect(iperf3.ServerFailed)
		},
		"parameters that never end": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			r.message(8000, `{"tcp":true`)
		},
		"no JSON": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			r.json("GET / HTTP/1.1\r\n\r\n")
			r.expect(iperf3.ServerFailed)
		},
		"out of range": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			r.json(`{"tcp":true,"parallel":1000000000}`)
			r.expect(iperf3.ServerFailed)
		},
		"no streams": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			r.json(oneSecond)
			r.expect(iperf3.CreateStreams)
		},
		"one stream of two": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			r.json(oneSecond)
			r.expect(iperf3.CreateStreams)
			r.connect(1)
		},
		"vanishes with one stream of two": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			r.json(oneSecond)
			r.expect(iperf3.CreateStreams)
			r.connect(1)
			_ = r.ctl.Close()
		},
		"no greeting": func(r *raw) {
			r.send(r.ctl, r.cookie...)
			r.expect(iperf3.ParamExchange)
			r.json(`{"udp":true,"time":1,"parallel":1,"len":1000}`)
			r.expect(iperf3.CreateStreams)
		},
		"says nothing more":         func(r *raw) { r.begin(oneSecond, 2) },
		"vanishes while data flows": func(r *raw) { r.begin(oneSecond, 2); _ = r.ctl.Close() },
		"unknown state":             func(r *raw) { r.begin(oneSecond, 2); r.send(r.ctl, 99) },
		"is stopped":                func(r *raw) { r.begin(oneSecond, 2); r.send(r.ctl, iperf3.ClientTerminate.Byte()) },
		"reads nothing":             func(r *raw) { r.begin(`{"tcp":true,"time":1,"reverse":true,"len":1000}`, 1) },
		"closes its streams":        func(r *raw) { r.begin(oneSecond, 2); _ = r.streams[0].Close(); _ = r.streams[1].Close() },
		"no results": func(r *raw) {
			r.begin(oneSecond, 2)
			r.send(r.ctl, iperf3.TestEnd.Byte())
			r.expect(iperf3.ExchangeResults)
		},
		"vanishes instead of results":  func(r *raw) { r.begin(oneSecond, 2); r.send(r.ctl, iperf3.TestEnd.Byte()); _ = r.ctl.Close() },
		"huge results":                 func(r *raw) { r.begin(oneSecond, 2); r.send(r.ctl, iperf3.TestEnd.Byte()); r.message(0xfffffff0, "{}") },
		"results of anonymous clients": func(r *raw) { r.claim(stream(1, "0"), stream(2, "0")) },
		"results beyond all numbers":   func(r *raw) { r.claim(stream(1, "9e99"), stream(3, "0")) },
		"results without a last word":  func(r *raw) { r.claim(stream(1, "0"), stream(3, "0")) },
		"claims bytes that never came": func(r *raw) { r.claim(stream(1, "1000000"), stream(3, "0")) },
	}, func(t testing.TB, do func(r *raw)) {
		e := newEvents()
		addr := serveHere(t, ServerConfig{Event: e.add, limits: limits{spare: 10 * time.Second, idle: 10 * time.Second}}) // long for a busy machine
		r := newRaw(t, addr)
		do(r)
		r.over()
		e.ended(t)
		// The next client may connect while the server still ends the last test.
		c := Client{limits: limits{patience: rawPatience}}
		f := model.Flow{Direction: model.To, Bytes: 1 << 16}
		_, _, err := c.Run(t.Context(), addr, f, func([]model.Sample) {})
		must.True(t, err == nil, "the next client: %v", err)
	})
}

// TestServerBesideHostile: many silent and noisy connections do not keep a real client out.
func TestServerBesideHostile(t *testing.T) {
	t.Parallel()
	addr := serveHere(t, ServerConfig{})
	for i := range 50 {
		r := newRaw(t, addr)
		if i%2 == 0 {
			r.send(r.ctl, 1, 2, 3)
		}
	}
	f := model.Flow{Direction: model.Both, Bytes: 1 << 16, Streams: 2}
	_, _, err := (Client{}).Run(t.Context(), addr, f, func([]model.Sample) {})
	must.True(t, err == nil, "%v", err)
}

// TestServerStrangeStream: a connection of another client does not take a stream's place, since
// its cookie names another test.
func TestServerStrangeStream(t *testing.T) {
	addr := serveHere(t, ServerConfig{})
	r := newRaw(t, addr)
	r.send(r.ctl, r.cookie...)
	r.expect(iperf3.ParamExchange)
	r.json(oneSecond)
	r.expect(iperf3.CreateStreams)
	unknown := newRaw(t, addr)
	unknown.cookie[0] = 'b'
	unknown.send(unknown.ctl, unknown.cookie...)
	unknown.expect(iperf3.ParamExchange) // of a test of its own
	r.connect(2)
	r.expect(iperf3.TestStart, iperf3.TestRunning)
	// One stream more than announced.
	late := r.dial()
	r.send(late, r.cookie...)
	must.Equal(t, must.Get(iperf3.ReadState(late))(t), iperf3.AccessDenied, "a third stream got")
}

// TestServerStops: a server that is stopped tells its clients.
func TestServerStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))(t)
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, ServerConfig{}) }()
	r := newRaw(t, l.Addr().String())
	r.begin(oneSecond, 2)
	cancel()
	r.expect(iperf3.ServerTerminate)
	must.OK(t, <-done)
}

// script is a server that follows the steps of a test, and after a number of them does
// something else.
type script struct {
	listener net.Listener
	steps    int
	then     func(c net.Conn)
}

// frame returns text as a message.
func frame(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// serve plays the script to one client.
func (s *script) serve() {
	ctl, err := s.listener.Accept()
	if err != nil {
		return
	}
	defer ctl.Close()
	var data net.Conn
	word := func(b ...byte) func() { return func() { _, _ = ctl.Write(b) } }
	read := func() { _, _ = iperf3.ReadFrame(ctl, iperf3.MaxResults) }
	steps := []func(){
		func() { _, _ = iperf3.ReadCookie(ctl) },
		word(iperf3.ParamExchange.Byte()),
		read,
		word(iperf3.CreateStreams.Byte()),
		func() {
			if data, err = s.listener.Accept(); err == nil {
				_, _ = iperf3.ReadCookie(data)
				go func() { _, _ = io.Copy(io.Discard, data) }()
			}
		},
		word(iperf3.TestStart.Byte()),
		word(iperf3.TestRunning.Byte()),
		func() { _, _ = iperf3.ReadState(ctl) },
		word(iperf3.ExchangeResults.Byte()),
		read,
		word(frame(resultsOf(stream(1, "1000")))...),
		word(iperf3.DisplayResults.Byte()),
	}
	for _, step := range steps[:min(s.steps, len(steps))] {
		step()
	}
	s.then(ctl)
	if data != nil {
		_ = data.Close()
	}
}

// scriptSteps is how many steps a whole test has.
const scriptSteps = 12

// TestClientHostile lets a server misbehave after every step: the client soon ends with an
// error.
func TestClientHostile(t *testing.T) {
	t.Parallel()
	garbage := make([]byte, 5000)
	// Read of crypto/rand never fails.
	_, _ = rand.Read(garbage)
	garbage[0] = 0x55 // a valid state could end the test well
	wait := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	cases := map[string]script{}
	for name, then := range map[string]func(net.Conn){
		"vanishes":  func(net.Conn) {},
		"silence":   wait,
		"garbage":   func(c net.Conn) { _, _ = c.Write(garbage); wait(c) },
		"no length": func(c net.Conn) { _, _ = c.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}); wait(c) },
		"fails":     func(c net.Conn) { _, _ = c.Write((&iperf3.ServerError{Code: iperf3.CodeStreamID}).Append(nil)) },
		"stops":     func(c net.Conn) { _, _ = c.Write([]byte{iperf3.ServerTerminate.Byte()}) },
	} {
		for steps := range scriptSteps {
			cases[fmt.Sprintf("%s after %d", name, steps)] = script{steps: steps, then: then}
		}
	}
	together(t, 100, cases, func(t testing.TB, s script) {
		s.listener = listenHere(t)
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.serve()
		}()
		f := model.Flow{Direction: model.To, Duration: 100 * time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), rawPatience)
		defer cancel()
		_, _, err := Client{limits: quick}.Run(ctx, s.listener.Addr().String(), f, func([]model.Sample) {})
		must.True(t, err != nil && ctx.Err() == nil, "%v", err)
		_ = s.listener.Close()
		<-over
	})
}

// listenHere listens on a port of its own until the test ends.
func listenHere(t testing.TB) net.Listener {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestClientScript: without a fault the script is a correct server, so that the client of the
// tests above fails because of the fault.
func TestClientScript(t *testing.T) {
	l := listenHere(t)
	// Anything after the end is ignored (section 7).
	s := &script{l, scriptSteps, func(c net.Conn) { _, _ = c.Write([]byte{0xfe, 0, 0, 0, 205, 0, 0, 0, 0}) }}
	go s.serve()
	f := model.Flow{Direction: model.To, Duration: 100 * time.Millisecond}
	_, far, err := Client{}.Run(t.Context(), l.Addr().String(), f, func([]model.Sample) {})
	must.True(t, err == nil && far.Flows[0].Bytes == 1000, "%+v, %v", far, err)
}

// TestClientCancelled: a client that is stopped reports that.
func TestClientCancelled(t *testing.T) {
	e := newEvents()
	addr := serveHere(t, ServerConfig{Event: e.add})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := model.Flow{Direction: model.Both, Duration: time.Minute, Interval: 20 * time.Millisecond}
	_, _, err := Client{}.Run(ctx, addr, f, func([]model.Sample) { cancel() })
	must.Is(t, err, context.Canceled)
	end := e.ended(t)
	must.True(t, errors.Is(end.Err, errLeft), "the server says: %v", end.Err)
}

// TestClientUDPSilence: an unanswered greeting is reported after some tests, each with one
// greeting per stream.
func TestClientUDPSilence(t *testing.T) {
	t.Parallel()
	l := listenHere(t)
	u, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", l.Addr().String())
	must.SkipIf(t, err != nil, "%v", err)
	defer u.Close()
	go func() {
		for range greetingTries + 1 {
			s := &script{l, 4, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }}
			s.serve()
		}
	}()
	f := model.Flow{Engine: udp.Name, Direction: model.To, Duration: 100 * time.Millisecond}
	// Only the greeting times out.
	c := Client{limits: limits{patience: rawPatience, greeting: quick.greeting, between: time.Nanosecond}}
	_, _, err = c.Run(t.Context(), l.Addr().String(), f, func([]model.Sample) {})
	must.Is(t, err, errGreetingLost)
	greetings := 0
	b := make([]byte, 100)
	for {
		must.Do(t, u.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		n, _, err := u.ReadFrom(b)
		if err != nil {
			break
		}
		must.True(t, iperf3.IsHello(b[:n]), "% x came", b[:n])
		greetings++
	}
	must.True(t, greetings == greetingTries+1, "%d greetings in %d tests", greetings, greetingTries+1)
}
