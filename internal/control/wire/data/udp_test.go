package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// rendezvous returns both ends of a data connection of run k.
func rendezvous(t *testing.T, k Token) (connector, acceptor *net.TCPConn) {
	t.Helper()
	p, addr := listen(t, k, engine.SocketOptions{})
	near, _, err := Dial(t.Context(), addr, k, 0, engine.SocketOptions{})
	must.Do(t, err)
	far, _, err := p.Take(t.Context(), 0, 1, engine.SocketOptions{})
	must.Do(t, err)
	t.Cleanup(func() { _, _ = near.Close(), far[0].Close() })
	return near, far[0]
}

func router(t *testing.T) *UDPRouter {
	t.Helper()
	r := must.Get(ListenUDP(t.Context(), "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// open opens n sockets at both ends.
func open(t *testing.T, s *Sockets, k Token, n int) (near, far []*net.UDPConn) {
	t.Helper()
	connector, acceptor := rendezvous(t, k)
	errs := make(chan error, 1)
	go func() {
		var err error
		near, err = DialUDP(t.Context(), connector, k, 3, n, model.Egress{})
		errs <- err
	}()
	far, err := s.Take(t.Context(), acceptor)
	must.Do(t, errors.Join(err, <-errs))
	t.Cleanup(func() { closeUDP(near); closeUDP(far) })
	return near, far
}

// exchange sends a word each way and ignores what the opening left.
func exchange(t *testing.T, from, to *net.UDPConn, word string) {
	t.Helper()
	must.Get(from.Write([]byte(word)))(t)
	must.Do(t, to.SetReadDeadline(time.Now().Add(time.Minute)))
	for b := make([]byte, 100); ; {
		n, err := to.Read(b)
		must.Dof(t, err, "%q did not arrive", word)
		if got := string(b[:n]); got == word {
			return
		} else if !strings.HasPrefix(got, "lr-udp-") {
			t.Fatalf("got %q, want %q", got, word)
		}
	}
}

func TestSocketsComeInOrder(t *testing.T) {
	const n = 20
	k, r := token(t), router(t)
	s := must.Get(r.Expect(k, 3, n))(t)
	near, far := open(t, s, k, n)
	for i := range n {
		exchange(t, near[i], far[i], fmt.Sprintf("to %d", i))
		exchange(t, far[i], near[i], fmt.Sprintf("from %d", i))
	}
}

// Two runs share the router's port and do not mix.
func TestRunsShareAPort(t *testing.T) {
	k1, k2, r := token(t), token(t), router(t)
	s1 := must.Get(r.Expect(k1, 3, 2))(t)
	near1, far1 := open(t, s1, k1, 2)
	s2 := must.Get(r.Expect(k2, 3, 2))(t)
	near2, far2 := open(t, s2, k2, 2)
	for i := range 2 {
		exchange(t, near1[i], far1[i], "first")
		exchange(t, near2[i], far2[i], "second")
		exchange(t, far2[i], near2[i], "second back")
		exchange(t, far1[i], near1[i], "first back")
	}
}

func TestEphemeralSockets(t *testing.T) {
	k := token(t)
	s := must.Get(Ephemeral{Host: "127.0.0.1"}.OpenUDP(t.Context(), k, 3, 1))(t)
	near, far := open(t, s, k, 1)
	exchange(t, near[0], far[0], "hello")
}

// Greetings of anonymous clients open nothing, and are not answered.
func TestAnonymousAreNotAnswered(t *testing.T) {
	k, r := token(t), router(t)
	s := must.Get(r.Expect(k, 3, 1))(t)
	other := k
	other[0] ^= 1
	c := must.Get(new(net.Dialer).DialContext(t.Context(), "udp", fmt.Sprintf("127.0.0.1:%d", r.Port())))(t)
	defer func() { _ = c.Close() }()
	good := greet(k, 3, newNonce())
	for _, b := range [][]byte{nil, good[:20], append(slices.Clip(good), 0), greet(other, 3, newNonce()), greet(k, 2, newNonce()), greet(k, 4, newNonce()), greet(k, 65535, newNonce())} {
		must.Get(c.Write(b))(t)
	}
	// The run's own greeting comes after them all and is answered first.
	near, far := open(t, s, k, 1)
	exchange(t, near[0], far[0], "mine")
	must.Do(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	n, err := c.Read(make([]byte, 100))
	must.True(t, err != nil, "an anonymous client got %d bytes", n)
}

// A path that lets no UDP through ends in a sentence, at both ends.
func TestNoUDPThrough(t *testing.T) {
	k := token(t)
	connector, acceptor := rendezvous(t, k)
	silent := must.Get(new(net.ListenConfig).ListenPacket(t.Context(), "udp4", "127.0.0.1:0"))(t)
	defer func() { _ = silent.Close() }()
	port := silent.LocalAddr().(*net.UDPAddr).Port
	must.Get(acceptor.Write([]byte{byte(port >> 8), byte(port)}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	must.Say(t, must.Err(DialUDP(ctx, connector, k, 3, 3, model.Egress{})), "firewall", "got")
	s := must.Get(router(t).Expect(k, 3, 1))(t)
	_ = connector.Close()
	_, err := s.Take(t.Context(), acceptor)
	must.True(t, err != nil && !errors.Is(err, io.ErrNoProgress), "got %v", err)
}
