package peer

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// faulty is a socket whose reads fail, then give a greeting, then wait to be
// closed.
type faulty struct {
	net.PacketConn
	fails   int
	reads   int
	greeted bool
	from    netip.AddrPort
	closed  <-chan struct{}
}

func (f *faulty) ReadFrom(b []byte) (int, net.Addr, error) {
	f.reads++
	switch {
	case f.reads <= f.fails:
		return 0, nil, &net.OpError{Op: "read", Net: "udp", Err: syscall.ENOBUFS}
	case !f.greeted:
		f.greeted = true
		return copy(b, iperf3.Hello()), net.UDPAddrFromAddrPort(f.from), nil
	}
	<-f.closed
	return 0, nil, net.ErrClosed
}

// TestGreeterRests: a socket that cannot be read is told of once, and read less
// and less often, until it works, which is told too.
func TestGreeterRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		from := netip.MustParseAddrPort("192.0.2.1:7")
		conn := &faulty{fails: 20, from: from, closed: ctx.Done()}
		g := &greeter{conn: conn, halls: map[netip.Addr]*hall{}}
		h := g.enter(from.Addr())
		var log []string
		began, ended := time.Now(), make(chan struct{})
		go func() {
			defer close(ended)
			g.listen(ctx, func(line string) { log = append(log, line) })
		}()
		must.Equal(t, <-h.found, from, "a greeting of")
		// 5 ms to 640 ms, and then a second each: 13.275 s.
		took := time.Since(began)
		must.True(t, took >= 13*time.Second && took <= 14*time.Second, "20 failures took %v", took)
		cancel()
		<-ended
		want := []string{
			"read UDP: read udp: no buffer space available: trying again until it works",
			"read UDP: works again, after 20 failures in 12.275s",
		}
		must.True(t, slices.Equal(log, want), "log %q", log)
	})
}

// TestGreeterEndsWithItsSocket, by whomever that is closed.
func TestGreeterEndsWithItsSocket(t *testing.T) {
	conn := must.Get((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
	_ = conn.Close()
	(&greeter{conn: conn}).listen(t.Context(), func(line string) { t.Error(line) })
}
