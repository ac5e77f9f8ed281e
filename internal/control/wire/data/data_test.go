package data

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

func token(t *testing.T) (k Token) {
	t.Helper()
	must.Get(rand.Read(k[:]))(t)
	return k
}

func listen(t *testing.T, k Token, o engine.SocketOptions) (Port, string) {
	t.Helper()
	p := must.Get(Ephemeral{Host: "127.0.0.1"}.Open(t.Context(), k, 8, o))(t)
	t.Cleanup(func() { _ = p.Close() })
	return p, net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number))
}

func TestConnectionsComeInOrder(t *testing.T) {
	k := token(t)
	o := engine.SocketOptions{NoDelay: true, Window: 64 << 10}
	p, addr := listen(t, k, o)
	for _, i := range []int{2, 0, 1} {
		c, warnings, err := Dial(t.Context(), addr, k, i, o)
		must.Do(t, err)
		must.Len(t, warnings, 0, "connection %d", i)
		defer func() { _ = c.Close() }()
		must.Get(c.Write([]byte{byte(i)}))(t)
	}
	conns, _, err := p.Take(t.Context(), 0, 3, o)
	must.Do(t, err)
	for i, c := range conns {
		var b [1]byte
		if _, err := io.ReadFull(c, b[:]); err != nil || int(b[0]) != i {
			t.Errorf("connection %d is number %d, %v", i, b[0], err)
		}
		_ = c.Close()
	}
}

func TestWrongOnesAreClosedUnheard(t *testing.T) {
	k := token(t)
	p, addr := listen(t, k, engine.SocketOptions{})
	other := k
	other[31] ^= 1
	good, _, err := Dial(t.Context(), addr, k, 0, engine.SocketOptions{})
	must.Do(t, err)
	defer func() { _ = good.Close() }()
	for name, dial := range map[string]struct {
		token Token
		index int
	}{"token": {other, 1}, "index": {k, 8}, "index twice": {k, 0}} {
		if c, _, err := Dial(t.Context(), addr, dial.token, dial.index, engine.SocketOptions{}); err == nil {
			_ = c.Close()
			t.Errorf("wrong %s is accepted", name)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := p.Take(ctx, 0, 2, engine.SocketOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two connections of one: %v", err)
	}
}

func TestCloseEndsTakeAndHandshakes(t *testing.T) {
	p, addr := listen(t, token(t), engine.SocketOptions{})
	var d net.Dialer
	half := must.Get(d.DialContext(t.Context(), "tcp", addr))(t)
	defer func() { _ = half.Close() }()
	must.Get(half.Write([]byte("lr")))(t)
	took := make(chan error, 1)
	go func() {
		_, _, err := p.Take(t.Context(), 0, 1, engine.SocketOptions{})
		took <- err
	}()
	must.OK(t, p.Close())
	must.Is(t, <-took, net.ErrClosed, "take")
	must.Fail(t, must.Err(half.Read(make([]byte, 1))), "a half connection is answered")
	_, _, err := Dial(t.Context(), addr, Token{}, 0, engine.SocketOptions{})
	must.True(t, err != nil, "the port is still open")
}

func TestDialEndsWithItsContext(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts by the kernel, says nothing
	must.Do(t, err)
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := Dial(ctx, l.Addr().String(), Token{}, 0, engine.SocketOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestTokenIsUsedOnce(t *testing.T) {
	var r Router
	k := token(t)
	e := must.Get(r.Expect(k, 1))(t)
	must.Fail(t, must.Err(r.Expect(k, 1)), "two runs have one token")
	must.OK(t, e.Close())
	again, err := r.Expect(k, 1)
	must.OK(t, err)
	_ = again.Close()
	must.Fail(t, must.Err(r.Expect(k, MaxConns+1)), "any number of connections is accepted")
}

// TestNoMoreThanTheRunNeeds has a peer that holds the token open connections
// without end, and somebody else come with the right token: only what the engine
// asked for and a few that come early are taken, and only from the peer.
func TestNoMoreThanTheRunNeeds(t *testing.T) {
	const ahead = 3
	var r Router
	var lc net.ListenConfig
	l := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = r.Handle(c.(*net.TCPConn), nil, time.Second) }()
		}
	}()
	defer func() { _ = l.Close() }()
	dial := func(token Token, index int) error {
		c, _, err := Dial(t.Context(), l.Addr().String(), token, index, engine.SocketOptions{})
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return err
	}
	only := func(addr string) func(netip.Addr) bool {
		return func(from netip.Addr) bool { return from == netip.MustParseAddr(addr) }
	}
	e := must.Get(r.expect(Token{1}, ahead, only("127.0.0.1")))(t)
	defer func() { _ = e.Close() }()
	for i := range ahead + 1 { // what is refused is tried again for a second
		must.Equal(t, (dial(Token{1}, i) == nil), i < ahead, "connection %d of at most %d", i, ahead)
	}
	conns, _, err := e.Take(t.Context(), 0, 2, engine.SocketOptions{})
	must.Do(t, err)
	defer closeAll(conns)
	for i := ahead; i < 3+ahead; i++ {
		must.Equal(t, (dial(Token{1}, i) == nil), i < 2+ahead, "connection %d after two were taken", i)
	}
	other := must.Get(r.expect(Token{2}, ahead, only("127.0.0.2")))(t)
	defer func() { _ = other.Close() }()
	must.Fail(t, dial(Token{2}, 0), "a connection from elsewhere was taken")
}
