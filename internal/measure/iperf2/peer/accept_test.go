package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/program"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/must"
)

// TestServerOutlivesAcceptErrors: a failing Accept costs time, not the server, and is logged
// once.
func TestServerOutlivesAcceptErrors(t *testing.T) {
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	s := startServerOn(t, enginetest.Failing(l, 5, syscall.EMFILE), ServerConfig{})
	for range 3 {
		s.alive(t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	must.True(t, len(s.log) == 1 && strings.Contains(s.log[0], "too many open files"), "log %q", s.log)
}

// TestServerOutlivesAPanic: a bug in handling one client ends only that client.
func TestServerOutlivesAPanic(t *testing.T) {
	var bad atomic.Bool
	bad.Store(true)
	s := startServerOn(t, nil, ServerConfig{}, func(c *ServerConfig) {
		done := c.Done
		c.Done = func(r Result) {
			if bad.Swap(false) {
				panic("a fault")
			}
			done(r)
		}
	})
	s.alive(t)
	s.logged(t, "a fault")
	must.True(t, slices.ContainsFunc(s.log, func(l string) bool { return strings.Contains(l, "127.0.0.1") && strings.Contains(l, ".go:") }), "log %q", s.log)
	s.alive(t)
}

// TestUDPServerOutlivesAPanic: a datagram that causes a panic costs only its own client.
func TestUDPServerOutlivesAPanic(t *testing.T) {
	var bad atomic.Bool
	bad.Store(true)
	s := startServerOn(t, nil, ServerConfig{UDPRate: udpLimit}, func(c *ServerConfig) {
		log := c.Log
		c.Log = func(line string) {
			if strings.HasPrefix(line, "refused datagrams") && bad.Swap(false) {
				panic("a fault")
			}
			log(line)
		}
	})
	h := iperf2.NewHeader(iperf2.Forward, true)
	h.Extension.BitsPerSecond = uint64(2 * udpLimit) // refused
	b := digits(200)
	stamper := stamper{layout: iperf2.Layout16, header: h.Append(nil, iperf2.DatagramLead), wall: time.Now()}
	stamper.stamp(b, 1, 0)
	must.Get(dialUDP(t, s.addr).Write(b))(t)
	s.logged(t, "a fault")
	s.aliveUDP(t)
}

// TestServeEndsWhenItsListenerIsClosed: Serve returns an error if another function closes its
// listener.
func TestServeEndsWhenItsListenerIsClosed(t *testing.T) {
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	_ = l.Close()
	must.Is(t, Serve(context.Background(), l, nil, ServerConfig{}), net.ErrClosed)
}

// TestGathering: connections that begin together are one test with the sum of their streams,
// whatever number the client sent; others are separate tests.
func TestGathering(t *testing.T) {
	at := func(host string, port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr(host), port)
	}
	result := func(from netip.AddrPort, threads int) Result {
		return Result{Peer: from, Threads: threads, Took: time.Second, Report: model.EndReport{Host: model.Far, Flows: []model.FlowReport{
			{Direction: model.To, Role: model.Receiver, Bytes: 100, Window: time.Second},
		}}}
	}
	reversed := func(r Result) Result { r.Mode = iperf2.Reverse; return r }
	failed := func(r Result) Result { r.Err = errors.New("cut"); return r }
	for name, c := range map[string]struct {
		results []Result
		apart   time.Duration // between the beginnings
		serial  bool          // each ends before the next begins
		kept    []int         // streams of each test
		failed  bool
	}{
		"one":            {[]Result{result(at("10.0.0.1", 1), 1)}, 0, false, []int{1}, false},
		"-P 3, told":     {[]Result{result(at("10.0.0.1", 1), 3), result(at("10.0.0.1", 2), 3), result(at("10.0.0.1", 3), 3)}, 0, true, []int{3}, false},
		"-P 3, not told": {[]Result{result(at("10.0.0.1", 1), 0), result(at("10.0.0.1", 2), 0), result(at("10.0.0.1", 3), 0)}, 10 * time.Millisecond, false, []int{3}, false},
		"one after the other": {
			[]Result{result(at("10.0.0.1", 1), 1), result(at("10.0.0.1", 2), 1)}, 0, true, []int{1, 1}, false,
		},
		"two hosts":       {[]Result{result(at("10.0.0.1", 1), 0), result(at("10.0.0.2", 1), 0)}, 0, false, []int{1, 1}, false},
		"two modes":       {[]Result{result(at("10.0.0.1", 1), 0), reversed(result(at("10.0.0.1", 2), 0))}, 0, false, []int{1, 1}, false},
		"a later one":     {[]Result{result(at("10.0.0.1", 1), 0), result(at("10.0.0.1", 2), 0)}, startsWithin + time.Second, false, []int{1, 1}, false},
		"one of two cut":  {[]Result{result(at("10.0.0.1", 1), 2), failed(result(at("10.0.0.1", 2), 2))}, 0, false, []int{2}, true},
		"a sister missed": {[]Result{result(at("10.0.0.1", 1), 4)}, 0, false, []int{1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kept []program.Test
				g := newGathering(func(one program.Test) { kept = append(kept, one) })
				for i, r := range c.results {
					if i > 0 {
						time.Sleep(c.apart)
					}
					g.begun(Result{Peer: r.Peer, Mode: r.Mode, Threads: r.Threads})
					if c.serial {
						g.done(r)
					}
				}
				for _, r := range c.results {
					if !c.serial {
						g.done(r)
					}
				}
				g.done(Result{Peer: at("10.0.0.9", 9), Refused: true, Err: errors.New("no")})
				time.Sleep(2 * sistersCome)
				synctest.Wait()
				g.end()
				must.Need(t, len(kept) == len(c.kept), "%d tests, want %d: %+v", len(kept), len(c.kept), kept)
				for i, one := range kept {
					f := one.Ends[0].Flows[0]
					must.True(t, one.Flow.Streams == c.kept[i] && int(f.Bytes) == 100*c.kept[i] && (one.Err != nil) == c.failed, "%d streams of %d bytes, %v; want %d", one.Flow.Streams, f.Bytes, one.Err, c.kept[i])
				}
				must.True(t, len(g.tests)+len(g.by) == 0, "left: %v, %v", g.tests, g.by)
			})
		})
	}
}

// wary returns a server that trusts no datagram's source address.
func wary(t testing.TB) *ownServer {
	return startServer(t, ServerConfig{Idle: time.Second, UDPTo: func(netip.Addr) bool { return false }})
}

// TestProofByTCP: payload goes only to addresses with a recent TCP connection. linerate's own
// client opens one.
func TestProofByTCP(t *testing.T) {
	s := wary(t)
	c := dialUDP(t, s.addr)
	for _, m := range []iperf2.Mode{iperf2.Reverse, iperf2.FullDuplex, iperf2.Dual} {
		must.Get(c.Write(datagramOf(m, 1)))(t)
		got := answered(t, c, atOnce)
		must.True(t, got == nil, "%s: %d bytes came back", m, len(got))
	}
	for _, d := range []model.Direction{model.From, model.Both} {
		f := model.Flow{Direction: d, Duration: 200 * time.Millisecond, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})}
		near, _, err := Client{}.Run(t.Context(), s.addr, f, nil)
		must.Dof(t, err, "%s", d)
		got := false
		for _, r := range near.Flows {
			got = got || r.Direction == model.From && r.Bytes > 0
		}
		must.True(t, got, "%s: %+v", d, near)
	}
}

// TestSmallFinals: an address that may be forged gets at most three times what it sent, however
// small its final datagrams are.
func TestSmallFinals(t *testing.T) {
	c := dialUDP(t, wary(t).addr)
	sent, got := 0, 0
	send := func(b []byte) { sent += must.Get(c.Write(b))(t) }
	send(datagramOf(iperf2.Forward, 1)[:minDatagram])
	for i := range int64(3 * mostAcks) {
		send(datagramOf(iperf2.Forward, -2-i)[:16])
		if i%10 == 0 {
			for b := answered(t, c, atOnce); b != nil; b = answered(t, c, atOnce) {
				got += len(b)
			}
		}
		must.Need(t, got <= mostAnswer*sent, "%d bytes for %d", got, sent)
	}
	must.True(t, got != 0, "no report at all")
}

// TestProofsAreBounded: anonymous clients can fill the list, but lock out no other address.
func TestProofsAreBounded(t *testing.T) {
	var p proofs
	a := netip.MustParseAddr("2001:db8::")
	for range 2 * mostProven {
		a = a.Next()
		p.note(a)
		must.Need(t, p.has(a), "%v", a)
	}
	must.True(t, len(p.came) <= mostProven && !p.has(netip.MustParseAddr("192.0.2.1")), "%d proven", len(p.came))
	p.came[a] = time.Now().Add(-2 * proofTime)
	must.True(t, !p.has(a), "for ever")
}

// TestWindowLastsUntilDelivery: what a sender has handed to its system is not what arrived, so
// its time ends when the peer has it all.
func TestWindowLastsUntilDelivery(t *testing.T) {
	for name, whole := range map[string]bool{"delivered": true, "given up": false} {
		l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
		}()
		h := half{direction: model.From, role: model.Sender, conns: []*net.TCPConn{dialRaw(t, l.Addr().String())}, flow: model.Flow{Bytes: 100_000, Block: fullBlock}}
		began, sent := time.Now(), time.Duration(0)
		h.delivered = func() bool {
			sent = time.Since(began)
			<-time.After(sent) // the peer takes as long again
			return whole
		}
		report := h.run(t.Context(), tcpbulk.New(), newSink(model.Far, nil))
		must.Need(t, len(report.Flows) == 1 && report.Flows[0].Bytes == 100_000, "%s: %+v", name, report)
		must.Equal(t, report.Flows[0].Window >= sent, whole, "%s: %v, sent in %v", name, report.Flows[0].Window, sent)
		must.Do(t, l.Close())
	}
}
