package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/control/wire"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// says checks that err contains all words.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		must.True(t, err != nil && strings.Contains(err.Error(), w), "%v does not say %q", err, w)
	}
}

// spoken is how an error names the current protocol.
const spoken = "protocol 1"

func TestVersionsMustFitBothWays(t *testing.T) {
	conn, served := serving(t, stub{}, short())
	_, err := exchange(conn, &Hello{Protocol: 7, Version: "v-future", Host: model.Far})
	r, ok := errors.AsType[*refused](err)
	must.True(t, ok && errors.Is(r, ErrVersion), "error %v", err)
	says(t, err, "v-agent", "v-future", spoken, "7", "install the same linerate")
	_ = conn.Close()
	must.Wait(t, "the agent to hang up", served)

	near, far := net.Pipe()
	go func() {
		if _, err := readHello(far); err == nil {
			b, _ := json.Marshal(&Welcome{Protocol: 7, Version: "v-future"})
			_ = writeReply(far, 0, b)
		}
	}()
	_, err = opened(t, near)
	must.Is(t, err, ErrVersion, "error")
	says(t, err, "nas", "v-controller", "v-future", spoken, "7", "install the same linerate")
}

func TestSomethingElseAnswers(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		_, _ = far.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(far, "SSH-2.0-\x1b[2J")
		_ = far.Close()
	}()
	_, err := opened(t, near)
	must.Is(t, err, ErrLost, "error")
	says(t, err, "not a linerate agent", "SSH-2.0-")
}

// http2Preface is what a client of HTTP/2 sends first (RFC 9113 section 3.4).
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// taken is a connection that counts what was read from it.
type taken struct {
	net.Conn
	n int
}

func (c *taken) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n += n
	return n, err
}

// TestAnonymousCostsOneMessage: anonymous clients send without end. Before the hello is accepted
// the agent reads no more than one message, of at most 4 KiB, whatever it is.
func TestAnonymousCostsOneMessage(t *testing.T) {
	long := append([]byte(helloMagic), 0xff, 0xff)
	large := binary.BigEndian.AppendUint16([]byte(helloMagic), maxGreeting)
	for name, c := range map[string]struct {
		begin, again string
	}{
		"silent":            {"", ""},
		"half a hello":      {string(large), ""},
		"HTTP/2 pings":      {http2Preface, "\x00\x00\x08\x06\x00\x00\x00\x00\x00" + "12345678"},
		"a frame of 16 MiB": {http2Preface + "\xff\xff\xff\x00\x00\x00\x00\x00\x01", strings.Repeat("x", 1<<10)},
		"a long hello":      {string(long), strings.Repeat("x", 1<<10)},
		"a full hello":      {string(large), strings.Repeat("x", 1<<10)},
		"anything":          {"GET / HTTP/1.1\r\n", strings.Repeat("x", 1<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			read, served := &taken{Conn: far}, make(chan struct{})
			go func() {
				defer close(served)
				_ = Serve(context.WithoutCancel(t.Context()), read, "v", stub{hello: func(Hello) error { t.Error("an anonymous client was heard"); return nil }},
					Timeouts{Hello: 300 * time.Millisecond})
			}()
			go func() { _ = drain(near) }()
			defer func() { _ = near.Close() }()
			_, err := io.WriteString(near, c.begin)
			for err == nil && c.again != "" {
				_, err = io.WriteString(near, c.again)
			}
			must.Wait(t, "the agent to hang up", served)
			most := helloHead + maxGreeting + 1
			must.True(t, read.n <= most, "%d bytes were read, at most %d may be", read.n, most)
		})
	}
}

// A panic while a controller is admitted affects only that controller.
func TestPanicInHello(t *testing.T) {
	conn, served := serving(t, stub{hello: func(Hello) error { panic("oh") }}, short())
	says(t, must.Err(opened(t, conn)), "a bug in the agent: oh")
	must.Wait(t, "the agent to hang up", served)
}

// FuzzGreeting sends any bytes first. The agent must end soon, and answer with no more than a
// sentence.
func FuzzGreeting(f *testing.F) {
	hello, _ := json.Marshal(&Hello{Protocol, "v", model.Far, []byte("s")})
	whole := append(binary.BigEndian.AppendUint16([]byte(helloMagic), uint16(len(hello))), hello...)
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte(http2Preface))
	f.Fuzz(func(t *testing.T, b []byte) {
		var said bytes.Buffer
		a := &adapter{service: stub{hello: func(Hello) error { return ErrRefused }}, version: "v", timeouts: short()}
		_, h, err := a.greeted(t.Context(), &script{Reader: bytes.NewReader(b), out: &said})
		must.True(t, err != nil, "%q is welcome as %s", b, h)
		must.True(t, said.Len() <= 2*MaxText, "answered %d bytes", said.Len())
	})
}

// script is a recorded connection.
type script struct {
	net.Conn
	io.Reader
	out io.Writer
}

func (s *script) Read(b []byte) (int, error)  { return s.Reader.Read(b) }
func (s *script) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s *script) Close() error                { return nil }

// FuzzReply: the agent answers with any bytes.
func FuzzReply(f *testing.F) {
	b, _ := json.Marshal(&Welcome{Protocol: Protocol, Version: "v"})
	var whole bytes.Buffer
	_ = writeReply(&whole, 0, b)
	f.Add(whole.Bytes())
	f.Add([]byte("\x00\x00\x12\x04\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := exchange(&script{Reader: bytes.NewReader(b), out: io.Discard}, &Hello{Host: model.Far})
		must.True(t, err != nil || p != nil, "neither an answer nor an error")
	})
}

// frozen is a connection that can stop moving bytes without ending, as when its host hangs.
type frozen struct {
	net.Conn
	ice chan struct{}
	end chan struct{}
	one sync.Once
}

func (f *frozen) stuck() bool {
	select {
	case <-f.ice:
		<-f.end
		return true
	default:
		return false
	}
}

func (f *frozen) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.stuck() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (f *frozen) Write(b []byte) (int, error) {
	if f.stuck() {
		return 0, net.ErrClosed
	}
	return f.Conn.Write(b)
}

func (f *frozen) Close() error {
	f.one.Do(func() { close(f.end) })
	return f.Conn.Close()
}

// freezing opens a session with these timeouts at each end, over a connection that hangs when
// the returned function is called.
func freezing(t *testing.T, s Service, agent, controller Timeouts) (c *Client, freeze func(), served <-chan struct{}) {
	t.Helper()
	conn, served := serving(t, s, agent)
	f := &frozen{Conn: conn, ice: make(chan struct{}), end: make(chan struct{})}
	c = must.Get(Open(t.Context(), wire.Peer{Control: f, Name: "nas"}, Options{Host: model.Far, Version: "v", Timeouts: controller}))(t)
	t.Cleanup(func() { _ = c.shut() })
	return c, func() { close(f.ice) }, served
}

// patient returns timeouts longer than a test may last.
func patient() Timeouts {
	return Timeouts{Hello: time.Hour, Call: time.Hour, Ping: time.Hour, Pong: time.Hour, Send: time.Hour}
}

func TestControllerNoticesThatTheAgentHangs(t *testing.T) {
	asking := make(chan struct{})
	hasty := short()
	hasty.Call, hasty.Pong = time.Hour, 400*time.Millisecond
	c, freeze, _ := freezing(t, stub{facts: func(ctx context.Context) error {
		close(asking)
		<-ctx.Done()
		return ctx.Err()
	}}, patient(), hasty)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Facts(t.Context(), "")
		failed <- err
	}()
	<-asking
	freeze()
	must.Is(t, must.Wait(t, "the controller to give up", failed), ErrLost, "error")
}

func TestAgentNoticesThatTheControllerHangs(t *testing.T) {
	asking, left := make(chan struct{}), make(chan struct{})
	c, freeze, served := freezing(t, stub{facts: func(ctx context.Context) error {
		close(asking)
		<-ctx.Done()
		close(left)
		return ctx.Err()
	}}, Timeouts{Ping: 100 * time.Millisecond, Pong: 400 * time.Millisecond}, patient())
	go func() { _, _ = c.Facts(t.Context(), "") }() // ends with the test
	<-asking
	freeze()
	must.Wait(t, "the call's context to end", left)
	must.Wait(t, "the agent to end", served)
}
