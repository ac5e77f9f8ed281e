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

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// TestClientUDP runs our client against the real server over UDP.
func TestClientUDP(t *testing.T) {
	const time300 = 300 * time.Millisecond
	const afterOmit = 2 * time.Second // what this end receives counts by its own clock, and it may be held up
	slow := traffic.Write(udp.Params{Rate: 4e6})
	together(t, 6, map[string]model.Flow{
		"forward":            {Direction: model.To, Duration: time300, Params: slow},
		"forward, 3 streams": {Direction: model.To, Duration: time300, Params: slow, Streams: 3},
		"forward, bytes":     {Direction: model.To, Bytes: 2e5, Params: slow, Streams: 2},
		"forward, small":     {Direction: model.To, Duration: time300, Block: 16, Params: traffic.Write(udp.Params{Rate: 1e5})},
		"forward, large":     {Direction: model.To, Duration: time300, Block: 20000, Params: slow},
		"forward, warm-up":   {Direction: model.To, Duration: afterOmit, Params: slow, Omit: time.Second},
		"reverse":            {Direction: model.From, Duration: time300, Params: slow},
		"reverse, 3 streams": {Direction: model.From, Duration: time300, Params: slow, Streams: 3},
		"reverse, bytes":     {Direction: model.From, Bytes: 2e5, Params: slow},
		"reverse, warm-up":   {Direction: model.From, Duration: afterOmit, Params: slow, Omit: time.Second},
		"both":               {Direction: model.Both, Duration: time300, Params: slow, Streams: 2},
	}, func(t testing.TB, f model.Flow) {
		f.Engine, f.Interval = udp.Name, 100*time.Millisecond
		samples := map[model.Metric]int{}
		near, far, err := Client{}.Run(t.Context(), foreignServer(t), f, func(s []model.Sample) {
			for _, s := range s {
				samples[s.Metric]++
			}
		})
		must.Do(t, err)
		for i, d := range f.Direction.Parts() {
			checkUDP(t, f, near.Flows[i], far.Flows[i])
			want := model.Sent
			if d == model.From {
				want = model.Goodput
			}
			must.True(t, samples[want] != 0, "no samples of %s: %v", want, samples)
		}
	})
}

// checkUDP holds two reports of one direction against each other. Nothing is
// lost on a loopback at such a rate.
func checkUDP(t testing.TB, f model.Flow, near, far model.FlowReport) {
	t.Helper()
	must.Need(t, near.UDP != nil && far.UDP != nil, "no account of the datagrams")
	sent, got := near, far
	if near.Role == model.Receiver {
		sent, got = far, near
	}
	must.True(t, sent.UDP.Sent != 0 && got.UDP.Received != 0 && got.UDP.Lost == 0 && got.UDP.Duplicates == 0 && got.UDP.Reordered == 0,
		"sent %+v, received %+v", sent.UDP, got.UDP)
	share := float64(got.Bytes) / float64(sent.Bytes)
	switch {
	case f.Omit > 0 && (share < 0.2 || share > 5): // each end by its own clock
		t.Errorf("sent %d bytes after the warm-up, received %d", sent.Bytes, got.Bytes)
	case f.Omit > 0:
	case near.Role == model.Receiver && share > 1: // a server sends until it hears the end
		t.Errorf("the server sent %d bytes, this end received %d", sent.Bytes, got.Bytes)
	case near.Role == model.Sender && (sent.Bytes != got.Bytes || sent.UDP.Sent != got.UDP.Received):
		t.Errorf("sent %d bytes in %d datagrams, received %d in %d", sent.Bytes, sent.UDP.Sent, got.Bytes, got.UDP.Received)
	}
	must.True(t, f.Bytes <= 0 || got.Bytes >= f.Bytes, "%d bytes of %d", got.Bytes, f.Bytes)
	j, known := got.UDP.Jitter.Get()
	must.True(t, known && j >= 0, "jitter %v", got.UDP.Jitter)
}

// TestServerUDP runs the real client against our server over UDP.
func TestServerUDP(t *testing.T) {
	together(t, 6, named("-u -t 1", "-u -n 200K -b 4M -l 1000", "-u -n 200K -b 4M -l 1000 -P 3", "-u -k 100 -b 100K -l 16",
		"-u -n 200K -b 4M -l 1000 --udp-counters-64bit", "-u -n 200K -b 4M -l 1000 -R", "-u -n 200K -b 2M -l 1000 -R -P 3",
		"-u -t 1 -b 2M -l 1000 --bidir -P 2", "-u -t 1 -O 1 -b 4M -l 1000", "-u -t 1 -O 1 -b 4M -l 1000 -R",
		"-u -n 200K -b 4M -w 256K -l 20000", flood), func(t testing.TB, args string) {
		skipTimed(t, args)
		e := newEvents()
		s := foreignClient(t, serveHere(t, ServerConfig{Event: e.add}), args)
		must.Need(t, s.Error == "", "%v", s.Error)
		end := e.ended(t)
		must.Dof(t, end.Err, "the server")
		must.True(t, s.End.Sum.Packets != 0 && s.End.Sum.Bytes != 0, "client: %+v", s.End)
		for i, own := range end.Own.Flows {
			theirs := end.Theirs.Flows[i]
			got := own
			if own.Role == model.Sender {
				got = theirs
			}
			must.True(t, got.UDP.Received != 0 && (args == flood || got.UDP.Lost == 0), "own %+v, theirs %+v", own.UDP, theirs.UDP)
		}
		must.True(t, args == flood || s.End.Sum.LostPackets == 0, "the client tells of %d lost of %d", s.End.Sum.LostPackets, s.End.Sum.Packets)
	})
}

// flood are the arguments of a test that may lose datagrams.
const flood = "-u -n 100M -b 0"

// named makes cases of their own names.
func named(names ...string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		out[n] = n
	}
	return out
}

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
