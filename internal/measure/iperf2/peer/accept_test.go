package peer

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

// TestServerOutlivesAcceptErrors: accepting that fails costs time, not the server,
// and is told once.
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

// TestServerOutlivesAPanic: a fault in the handling of one client ends that one.
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
	must.True(t, slices.ContainsFunc(s.log, func(l string) bool { return strings.Contains(l, "127.0.0.1") && strings.Contains(l, ".go:") }),
		"log %q", s.log)
	s.alive(t)
}

// TestUDPServerOutlivesAPanic: a datagram that makes taking it panic costs its
// own client.
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
	h.Extension.BitsPerSecond = uint64(2 * udpLimit) // is refused
	b := digits(200)
	stamper := stamper{layout: iperf2.Layout16, header: h.Append(nil, iperf2.DatagramLead), wall: time.Now()}
	stamper.stamp(b, 1, 0)
	must.Get(dialUDP(t, s.addr).Write(b))(t)
	s.logged(t, "a fault")
	s.aliveUDP(t)
}

// TestServeEndsWhenItsListenerIsClosed by somebody else, and says so.
func TestServeEndsWhenItsListenerIsClosed(t *testing.T) {
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	_ = l.Close()
	must.Is(t, Serve(context.Background(), l, nil, ServerConfig{}), net.ErrClosed)
}
