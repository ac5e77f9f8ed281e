package data

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
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
		_, err := io.ReadFull(c, b[:])
		must.True(t, err == nil && int(b[0]) == i, "connection %d is number %d, %v", i, b[0], err)
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
	_, _, err = p.Take(ctx, 0, 2, engine.SocketOptions{})
	must.True(t, errors.Is(err, context.DeadlineExceeded), "two connections of one: %v", err)
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
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts in the kernel, never answers
	must.Do(t, err)
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err = Dial(ctx, l.Addr().String(), Token{}, 0, engine.SocketOptions{})
	must.True(t, errors.Is(err, context.DeadlineExceeded), "error %v", err)
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

// TestNoMoreThanTheRunNeeds: a peer with the token opens endless connections, and another host
// uses the right token. The run takes only what the engine asked for and a few early ones, and
// only from the peer.
func TestNoMoreThanTheRunNeeds(t *testing.T) {
	const ahead = 3
	var r Router
	var lc net.ListenConfig
	l := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				if r.Handle(c.(*net.TCPConn), nil, time.Second) != nil {
					_ = c.Close()
				}
			}()
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
	for i := range ahead + 1 { // refused connections are retried for a second
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

// exchange sends a word each way and ignores datagrams left over from the opening.
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
	near, far := open(t, must.Get(r.Expect(k, 3, n))(t), k, n)
	for i := range n {
		exchange(t, near[i], far[i], fmt.Sprintf("to %d", i))
		exchange(t, far[i], near[i], fmt.Sprintf("from %d", i))
	}
}

// Two runs share the router's port and do not mix.
func TestRunsShareAPort(t *testing.T) {
	k1, k2, r := token(t), token(t), router(t)
	near1, far1 := open(t, must.Get(r.Expect(k1, 3, 2))(t), k1, 2)
	near2, far2 := open(t, must.Get(r.Expect(k2, 3, 2))(t), k2, 2)
	for i := range 2 {
		exchange(t, near1[i], far1[i], "first")
		exchange(t, near2[i], far2[i], "second")
		exchange(t, far2[i], near2[i], "second back")
		exchange(t, far1[i], near1[i], "first back")
	}
}

func TestEphemeralSockets(t *testing.T) {
	k := token(t)
	near, far := open(t, must.Get(Ephemeral{Host: "127.0.0.1"}.OpenUDP(t.Context(), k, 3, 1))(t), k, 1)
	exchange(t, near[0], far[0], "hello")
}

// Greetings of anonymous clients open no sockets, and get no answer.
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
	// The run's own greeting comes after all of them and is answered first.
	near, far := open(t, s, k, 1)
	exchange(t, near[0], far[0], "mine")
	must.Do(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	n, err := c.Read(make([]byte, 100))
	must.True(t, err != nil, "an anonymous client got %d bytes", n)
}

// A path that blocks UDP ends in an error with one sentence, at both ends.
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

// FuzzGreetings: any datagram is read as the greeting that was written, or is no greeting, and
// the answer to it is no longer than itself.
func FuzzGreetings(f *testing.F) {
	var token Token
	good := greet(token, 7, newNonce())
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(bytes.Clone(good), 0))
	f.Add([]byte("lr-udp-1 with a token of 32 bytes and without a nonce, which is too short"))
	f.Add(append([]byte(answering), good[8:]...)) // an answer is no greeting
	f.Add(append(append(bytes.Clone(good[:42]), 1, 0), good[44:]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, index, n, ok := readGreeting(b)
		if !ok {
			return
		}
		copy(token[:], got)
		again := greet(token, index, n)
		must.True(t, bytes.Equal(again, b), "%x reads as %x", b, again)
		a := answer(token, index, n, newNonce())
		must.True(t, len(a) <= len(b), "an answer of %d bytes to %d", len(a), len(b))
	})
}

// FuzzAnswers: an answer can only be made with the token, and an answer to another greeting is
// rejected.
func FuzzAnswers(f *testing.F) {
	token, mine := Token{1, 2, 3}, nonce{4, 5, 6}
	good := answer(token, 3, mine, nonce{7})
	for _, b := range [][]byte{
		good, good[1:], append(bytes.Clone(good), 0), answer(token, 4, mine, nonce{7}), answer(token, 3, nonce{}, nonce{7}),
		answer(Token{}, 3, mine, nonce{7}), greet(token, 3, mine), bytes.Repeat([]byte{0xff}, answerSize),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		theirs, ok := readAnswer(b, token, 3, mine)
		must.True(t, !ok || bytes.Equal(b, answer(token, 3, mine, theirs)), "%x is taken for an answer", b)
	})
}

// FuzzRendezvous: a message over the rendezvous is the nonces of exactly this number of sockets,
// or an error; no further bytes are read.
func FuzzRendezvous(f *testing.F) {
	f.Add(agreed([]nonce{{1}, {2}}), byte(2))
	f.Add(agreed([]nonce{{1}}), byte(2))
	f.Add(agreed(nil), byte(0))
	f.Add([]byte{refusing, 9, '1', '9', '2', '.', '0', '.', '2', '.', '1'}, byte(1))
	f.Add([]byte{refusing, 255, 'x'}, byte(1))
	f.Add([]byte{refusing, 7, 'f', 'e', '8', '0', ':', ':', 0x1b}, byte(1))
	f.Add([]byte{0x00}, byte(1))
	f.Fuzz(func(t *testing.T, b []byte, n byte) {
		r := bytes.NewReader(b)
		said, err := hear(r, int(n))
		must.True(t, err != nil || len(said) == int(n)*nonceBytes && b[0] == accepted && r.Len() == len(b)-1-len(said), "%x for %d sockets: %x", b, n, said)
		if err == nil {
			sent := make([]nonce, n)
			for i := range sent {
				copy(sent[i][:], said[i*nonceBytes:])
			}
			must.True(t, prove(said, sent) == nil && (n <= 0 || prove(said[1:], sent) != nil), "%x proves itself wrongly", said)
		}
	})
}
