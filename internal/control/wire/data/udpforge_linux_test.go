package data

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// Linux answers on all of 127.0.0.0/8, so a test can have a third party's address.
const third = "127.0.0.2"

// bystander receives what another host requested in its name.
type bystander struct {
	*net.UDPConn
}

func newBystander(t *testing.T, ip string) *bystander {
	t.Helper()
	c := must.Get(net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(ip)}))(t)
	return &bystander{c}
}

// count counts bytes until there is silence for a while.
func (b *bystander) count(t *testing.T) (n int) {
	t.Helper()
	defer b.Close()
	for buf := make([]byte, 1<<16); ; {
		must.Do(t, b.SetReadDeadline(time.Now().Add(3*greetEvery)))
		k, err := b.Read(buf)
		if err != nil {
			return n
		}
		n += k
	}
}

// forger plays one end of a rendezvous against the real other end.
type forger struct {
	*testing.T
	token Token
	tcp   *net.TCPConn
	port  *net.UDPAddr // where the acceptor receives greetings
	sent  int          // bytes sent in the bystander's name
	near  *bystander   // at the forger's own IP address
	far   *bystander   // at another one
}

// say writes to the rendezvous. The other end shows whether it succeeds.
func (f *forger) say(b ...byte) { _, _ = f.tcp.Write(b) }

// send sends from b to the port, in b's name.
func (f *forger) send(b *bystander, to *net.UDPAddr, d []byte) {
	f.Helper()
	f.sent += len(d)
	must.Get(b.WriteToUDP(d, to))(f)
}

// own sends a greeting from one of the forger's own sockets, and returns the nonce of the
// answer.
func (f *forger) own(index int) nonce {
	f.Helper()
	c := must.Get(net.DialUDP("udp4", nil, f.port))(f)
	f.Cleanup(func() { _ = c.Close() })
	mine := newNonce()
	must.Get(c.Write(greet(f.token, index, mine)))(f)
	b := make([]byte, answerSize+1)
	must.Do(f, c.SetReadDeadline(time.Now().Add(time.Minute)))
	n := must.Get(c.Read(b))(f)
	got, ok := readAnswer(b[:n], f.token, index, mine)
	if !ok {
		f.Fatalf("answer %q", b[:n])
	}
	return got
}

// agree sends 0x06 with these nonces.
func (f *forger) agree(all ...nonce) { f.say(agreed(all)...) }

// Whatever a connector forges, it gets no sockets, and no host receives more than was sent in
// its name.
func TestForgedGreetings(t *testing.T) {
	flip := func(n nonce) nonce { n[15] ^= 1; return n }
	for name, c := range map[string]struct {
		forge func(f *forger)
		want  string
	}{
		"another address": {func(f *forger) { f.send(f.far, f.port, greet(f.token, 3, newNonce())) }, "UDP comes from 127.0.0.2"},
		"another address, then the own": {func(f *forger) {
			f.send(f.far, f.port, greet(f.token, 3, newNonce()))
			f.agree(newNonce(), newNonce())
		}, ""},
		"another port": {func(f *forger) {
			f.send(f.near, f.port, greet(f.token, 3, newNonce()))
			f.send(f.near, f.port, greet(f.token, 3, newNonce()))
			f.agree(newNonce(), f.own(4))
		}, "it is not there that it receives"},
		"the nonce of another socket": {func(f *forger) {
			f.send(f.near, f.port, greet(f.token, 4, newNonce()))
			n := f.own(3) // answered after it
			f.agree(n, n)
		}, "it is not there that it receives"},
		"the connector's own nonce": {func(f *forger) {
			n := newNonce()
			f.send(f.near, f.port, greet(f.token, 3, n))
			f.agree(n, f.own(4))
		}, "it is not there that it receives"},
		"a wrong nonce":        {func(f *forger) { f.agree(f.own(3), flip(f.own(4))) }, "it is not there that it receives"},
		"no nonces":            {func(f *forger) { f.own(3); f.own(4); f.say(accepted); _ = f.tcp.Close() }, "gave them up"},
		"too few nonces":       {func(f *forger) { f.own(4); f.agree(f.own(3)); _ = f.tcp.Close() }, "gave them up"},
		"0x06 before anything": {func(f *forger) { f.agree(newNonce(), newNonce()) }, "too few sockets"},
		"another word":         {func(f *forger) { f.own(3); f.own(4); f.say(0) }, "0x00"},
		"another index": {func(f *forger) {
			for _, i := range []int{0, 2, 5, 65535} {
				f.send(f.near, f.port, greet(f.token, i, newNonce()))
			}
			f.agree(newNonce(), f.own(3))
		}, "too few sockets"},
		"another run": {func(f *forger) {
			f.send(f.near, f.port, greet(Token{1}, 3, newNonce()))
			f.agree(newNonce(), f.own(4))
		}, "too few sockets"},
		"many greetings": {func(f *forger) {
			for range 50 {
				f.send(f.near, f.port, greet(f.token, 3, newNonce()))
			}
			f.own(4)
			_ = f.tcp.Close()
		}, "gave them up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := token(t)
			near, far := rendezvous(t, k)
			s := must.Get(router(t).Expect(k, 3, 2))(t)
			done := make(chan error, 1)
			go func() {
				conns, err := s.Take(t.Context(), far)
				closeUDP(conns)
				done <- err
			}()
			f := &forger{T: t, token: k, tcp: near, near: newBystander(t, "127.0.0.1"), far: newBystander(t, third)}
			port := make([]byte, 2)
			must.Get(io.ReadFull(near, port))(t)
			f.port = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(binary.BigEndian.Uint16(port))}
			c.forge(f)
			must.Say(t, <-done, c.want, "got")
			must.Equal(t, f.far.count(t), 0, "another address got bytes")
			n := f.near.count(t)
			must.True(t, n <= f.sent, "another port got %d bytes for %d", n, f.sent)
		})
	}
}

// A nonce of an earlier run proves nothing in the next one.
func TestReplayedNonces(t *testing.T) {
	r := router(t)
	var old []nonce
	for run := range 2 {
		k := Token{7} // the same again, which a session never does
		near, far := rendezvous(t, k)
		s := must.Get(r.Expect(k, 3, 1))(t)
		done := make(chan error, 1)
		go func() {
			conns, err := s.Take(t.Context(), far)
			closeUDP(conns)
			done <- err
		}()
		must.Get(io.ReadFull(near, make([]byte, 2)))(t)
		f := &forger{T: t, token: k, tcp: near, port: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: r.Port()}}
		n := f.own(3)
		if run == 0 {
			old = []nonce{n}
		}
		f.agree(old...)
		err := <-done
		must.True(t, (run != 0 || err == nil) && (run != 1 || errors.Is(err, errUnproven)), "run %d: got %v", run, err)
	}
}

// Whatever an acceptor forges, the connector gets no sockets, and sends each host no more than a
// few greetings, or as much as was sent in its name.
func TestForgedAnswers(t *testing.T) {
	// greeted waits for a greeting at f.port.
	greeted := func(f *forger, c *net.UDPConn) (from *net.UDPAddr, index int, theirs nonce) {
		b := make([]byte, greetingSize+1)
		n, from, err := c.ReadFromUDP(b)
		must.Do(f, err)
		_, index, theirs, ok := readGreeting(b[:n])
		if !ok {
			f.Fatalf("greeting %q", b[:n])
		}
		return from, index, theirs
	}
	// answerAll answers every socket correctly.
	answerAll := func(f *forger, c *net.UDPConn, n int) (theirs []nonce) {
		theirs = make([]nonce, n)
		for seen := map[int]bool{}; len(seen) < n; {
			from, index, their := greeted(f, c)
			seen[index], theirs[index-3] = true, their
			must.Get(c.WriteToUDP(answer(f.token, index, their, newNonce()), from))(f)
		}
		must.Get(io.ReadFull(f.tcp, make([]byte, 1+n*nonceBytes)))(f)
		return theirs
	}
	for name, c := range map[string]struct {
		forge func(f *forger, c *net.UDPConn)
		want  string
	}{
		"another address answers": {func(f *forger, c *net.UDPConn) {
			from, index, their := greeted(f, c)
			f.send(f.far, from, answer(f.token, index, their, newNonce()))
		}, "firewall"},
		"another port answers": {func(f *forger, c *net.UDPConn) {
			from, index, their := greeted(f, c)
			f.send(f.near, from, answer(f.token, index, their, newNonce()))
		}, "firewall"},
		"another port answers, then 0x06": {func(f *forger, c *net.UDPConn) {
			from, index, their := greeted(f, c)
			f.send(f.near, from, answer(f.token, index, their, newNonce()))
			f.agree(their, their)
		}, "firewall"},
		"a wrong tag": {func(f *forger, c *net.UDPConn) {
			from, index, their := greeted(f, c)
			b := answer(f.token, index, their, newNonce())
			b[len(b)-1] ^= 1
			_, _ = c.WriteToUDP(b, from)
			_, _ = c.WriteToUDP(answer(Token{}, index, their, newNonce()), from)
		}, "firewall"},
		"an answer to another greeting": {func(f *forger, c *net.UDPConn) {
			from, index, their := greeted(f, c)
			_, _ = c.WriteToUDP(answer(f.token, index+1, their, newNonce()), from)
			_, _ = c.WriteToUDP(answer(f.token, index, newNonce(), newNonce()), from)
		}, "firewall"},
		"silence":        {func(*forger, *net.UDPConn) {}, "firewall"},
		"no nonces":      {func(f *forger, c *net.UDPConn) { answerAll(f, c, 2); f.say(accepted); _ = f.tcp.Close() }, "gave them up"},
		"wrong nonces":   {func(f *forger, c *net.UDPConn) { answerAll(f, c, 2); f.agree(newNonce(), newNonce()) }, "not there that it receives"},
		"nonces swapped": {func(f *forger, c *net.UDPConn) { n := answerAll(f, c, 2); slices.Reverse(n); f.agree(n...) }, "not there that it receives"},
		"refusal":        {func(f *forger, _ *net.UDPConn) { f.say(append([]byte{refusing, 9}, third...)...) }, "UDP comes from 127.0.0.2"},
		"bad refusal":    {func(f *forger, _ *net.UDPConn) { f.say(refusing, 2, 27, '[') }, "refuses the address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := token(t)
			near, far := rendezvous(t, k)
			mine := newBystander(t, "127.0.0.1")
			defer mine.Close()
			f := &forger{T: t, token: k, tcp: far, near: newBystander(t, "127.0.0.1"), far: newBystander(t, third)}
			ctx, cancel := context.WithTimeout(t.Context(), 10*greetEvery)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				conns, err := DialUDP(ctx, near, k, 3, 2, model.Egress{})
				closeUDP(conns)
				done <- err
			}()
			f.say(binary.BigEndian.AppendUint16(nil, uint16(mine.LocalAddr().(*net.UDPAddr).Port))...)
			c.forge(f, mine.UDPConn)
			must.Say(t, <-done, c.want, "got")
			must.Equal(t, f.far.count(t), 0, "another address got bytes")
			n := f.near.count(t)
			must.True(t, n <= 3*f.sent, "another port got %d bytes for %d", n, f.sent)
			// One socket sends greetings until it is answered, at the same rate.
			n = mine.count(t)
			must.True(t, name != "silence" || n <= 11*greetingSize, "a port that is silent got %d bytes", n)
		})
	}
}

// A port that the acceptor cannot share is greeted itself, and then counts.
func TestAnswerFromAnotherPort(t *testing.T) {
	k := token(t)
	near, far := rendezvous(t, k)
	greeted, answering := newBystander(t, "127.0.0.1"), newBystander(t, "127.0.0.1")
	defer greeted.Close()
	defer answering.Close()
	dialed := make(chan error, 1)
	go func() {
		conns, err := DialUDP(t.Context(), near, k, 3, 1, model.Egress{})
		closeUDP(conns)
		dialed <- err
	}()
	must.Get(far.Write(binary.BigEndian.AppendUint16(nil, uint16(greeted.LocalAddr().(*net.UDPAddr).Port))))(t)
	b := make([]byte, greetingSize+1)
	var theirs nonce
	mine := newNonce()
	for _, c := range []*net.UDPConn{greeted.UDPConn, answering.UDPConn} {
		n, from, err := c.ReadFromUDP(b)
		must.Do(t, err)
		_, _, theirs, _ = readGreeting(b[:n])
		must.Get(answering.WriteToUDP(answer(k, 3, theirs, mine), from))(t)
	}
	got := make([]byte, 1+nonceBytes)
	_, err := io.ReadFull(far, got)
	must.Need(t, err == nil && slices.Equal(got, agreed([]nonce{mine})), "%v, %q", err, got)
	must.Get(far.Write(agreed([]nonce{theirs})))(t)
	must.OK(t, <-dialed)
}

// Zones are ignored if only one address has one.
func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"::ffff:192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::1", true},
		{"2001:db8::1", "2001:db8::2", false},
		{"fe80::1%eth0", "fe80::1%eth0", true},
		{"fe80::1%eth0", "fe80::1%eth1", false},
		{"fe80::1%eth0", "fe80::1", true},
	} {
		must.Equal(t, sameHost(netip.MustParseAddr(c.a), netip.MustParseAddr(c.b)), c.same, "%s and %s", c.a, c.b)
	}
}
