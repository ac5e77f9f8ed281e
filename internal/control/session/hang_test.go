package session

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/control/wire"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// frozen is a connection that can stop moving bytes without ending, as when the
// host behind it hangs.
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

// freezing opens a session with these timeouts at either end over a connection
// that hangs when the returned function is called.
func freezing(t *testing.T, s Service, agent, controller Timeouts) (c *Client, freeze func(), served <-chan struct{}) {
	t.Helper()
	conn, served := serving(t, s, agent)
	f := &frozen{Conn: conn, ice: make(chan struct{}), end: make(chan struct{})}
	c = must.Get(Open(t.Context(), wire.Peer{Control: f, Name: "nas"}, Options{Host: model.Far, Version: "v", Timeouts: controller}))(t)
	t.Cleanup(func() { _ = c.shut() })
	return c, func() { close(f.ice) }, served
}

// patient waits for longer than a test may last.
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
	select {
	case err := <-failed:
		must.Is(t, err, ErrLost, "error")
	case <-time.After(time.Minute):
		t.Error("the controller waits for ever")
	}
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
	soon(t, "the call's context to end", left)
	soon(t, "the agent to end", served)
}
