package peer

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// TestClientUDP runs our client against the real server over UDP.
func TestClientUDP(t *testing.T) {
	const time300 = 300 * time.Millisecond
	const afterOmit = 2 * time.Second // this end receives by its own clock, and may be delayed
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

// checkUDP compares two reports of one direction. A loopback loses nothing at this rate.
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
	case near.Role == model.Receiver && share > 1: // a server sends until it sees the end
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

// flood has the arguments of a test that may lose datagrams.
const flood = "-u -n 100M -b 0"

// named returns cases with these names.
func named(names ...string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		out[n] = n
	}
	return out
}

// faulty is a socket whose reads fail, then return a greeting, then wait for the close.
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

// TestGreeterRests: an unreadable socket is logged once, and read less and less often, until it
// works, which is logged too.
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

// TestGreeterEndsWithItsSocket: closing the socket ends the greeter.
func TestGreeterEndsWithItsSocket(t *testing.T) {
	conn := must.Get((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
	_ = conn.Close()
	(&greeter{conn: conn}).listen(t.Context(), func(line string) { t.Error(line) })
}

const udpLimit units.BitRate = 5e6

// TestServerUDPLimit: UDP above the limit is refused with a message that the real client shows,
// and below it is served. TestUDPRate checks the rate.
func TestServerUDPLimit(t *testing.T) {
	t.Parallel()
	type limited struct {
		args  string
		fault string // the client's message; "" if none
	}
	const above = "total required bandwidth is larger than server limit"
	cases := map[string]limited{}
	for args, fault := range map[string]string{
		"-u -t 1 -b 4M -l 1000":              "",
		"-u -t 1 -b 4M -l 1000 -R":           "",
		"-u -t 1 -b 2M -l 1000 -P 2 -R":      "",
		"-u -t 1 -b 4M -l 1000 --bidir":      "", // the limit applies to each direction
		"-n 10M":                             "", // no limit for TCP
		"-u -n 100K -b 4M -l 1000":           "",
		"-u -n 100K -b 4M -l 1000 -R":        "",
		"-u -t 1 -b 6M -l 1000":              above,
		"-u -t 1 -b 6M -l 1000 -R":           above,
		"-u -t 1 -b 3M -l 1000 -P 2":         above,
		"-u -t 1 -b 0 -l 1000":               above,
		"-u -t 1 -b 0 -l 1000 -R":            above,
		"-u -t 1 -b 3M -l 1000 -P 2 --bidir": above,
	} {
		cases[args] = limited{args, fault}
	}
	together(t, 4, cases, func(t testing.TB, c limited) {
		if c.fault == "" {
			skipTimed(t, c.args)
		}
		e := newEvents()
		s := foreignClient(t, serveHere(t, ServerConfig{Event: e.add, UDPRate: udpLimit}), c.args)
		must.True(t, (s.Error == "") == (c.fault == "") && strings.Contains(s.Error, c.fault), "the client says %q, want %q", s.Error, c.fault)
		end := e.ended(t)
		if c.fault != "" {
			must.True(t, end.Err != nil && (strings.Contains(end.Err.Error(), "over UDP, at most 5 Mbit/s") || strings.Contains(end.Err.Error(), "as fast as it goes, at most 5 Mbit/s")), "the server says %v", end.Err)
			return
		}
	})
}

// TestServerEndsUDP: a client that sends more than it announced is ended, with a reason, and
// the next one is served.
func TestServerEndsUDP(t *testing.T) {
	t.Parallel()
	e := newEvents()
	r := newRaw(t, serveHere(t, ServerConfig{Event: e.add, UDPRate: udpLimit}))
	r.send(r.ctl, r.cookie...)
	r.expect(iperf3.ParamExchange)
	r.json(`{"udp":true,"time":30,"parallel":1,"len":1000,"bandwidth":1000000}`)
	r.expect(iperf3.CreateStreams)
	u := r.greet("9876")
	r.expect(iperf3.TestStart, iperf3.TestRunning)
	must.Do(t, r.ctl.SetDeadline(time.Now().Add(3*rawPatience)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if s, err := iperf3.ReadState(r.ctl); err != nil || s != iperf3.ServerFailed {
			t.Errorf("got %v, %v", s, err)
			return
		}
		said := must.Get(iperf3.ReadServerError(r.ctl))(t)
		must.True(t, said.Code == iperf3.CodeTotalRate, "got %v", said)
	}()
	b := make([]byte, 1000)
	for n := uint64(1); !closed(ended); n++ {
		iperf3.DatagramHeader{Sequence: n}.Put(b, false)
		_, _ = u.Write(b) // refused once the test has ended
	}
	must.Say(t, e.ended(t).Err, "more than 5 Mbit/s came over UDP", "the server says")
}

// TestServerTimeIsBounded: the server ends a test that its client does not end, at the latest
// soon after the longest duration.
func TestServerTimeIsBounded(t *testing.T) {
	s := &session{server: &server{ServerConfig: ServerConfig{Duration: time.Minute}}}
	for seconds, want := range map[int64]time.Duration{0: time.Minute, 5: 5*time.Second + grace, 60: time.Minute + overrun} {
		s.params.Seconds = seconds
		must.Equal(t, s.guard(), want, "%d s asked", seconds)
	}
}

// TestTestsStayWithinTheBudget: a test that exceeds a limit is refused or ended with iperf3's
// message, with the numbers in the log, and gives back what it held.
func TestTestsStayWithinTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		args   string
		limits budget.Limits
		client string // the real program's message; "" is anything
		log    string
	}{
		"descriptors": {"-n 1M -P 4", budget.Limits{Descriptors: 4}, "number of parallel streams", "8 descriptors"},
		"memory":      {"-n 1M -l 128K -P 2", budget.Limits{Memory: 128 << 10}, "block size", "128 KiB"},
		"UDP":         {"-u -b 2M -P 2 -R -t 1", budget.Limits{UDP: 3e6}, "total required bandwidth", "3 Mbit/s"},
		"UDP at all":  {"-u -b 0 -R -t 1", budget.Limits{UDP: 3e6}, "total required bandwidth", "3 Mbit/s"},
		"egress":      {"-R -t 10 -b 40M", budget.Limits{Egress: 2 << 20}, "", "2 MiB"},
		"time":        {"-t 10 -b 1M", budget.Limits{Time: time.Second}, "", "1 s"},
		"sessions":    {"-n 1M", budget.Limits{Sessions: -1}, "server is busy", "no sessions for anonymous clients"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part := budget.Part{Session: c.limits}
			if c.limits.Sessions != 0 {
				part = budget.Part{Source: c.limits}
			}
			b := budget.New(budget.Config{Anonymous: part})
			e := newEvents()
			s := foreignClient(t, serveHere(t, ServerConfig{Event: e.add, Budget: b}), c.args)
			must.True(t, s.Error != "" && strings.Contains(s.Error, c.client), "the client says %q, want %q", s.Error, c.client)
			must.Say(t, e.ended(t).Err, c.log, "the server says")
			for _, k := range b.Usage().Kinds {
				must.True(t, k.Kind >= budget.Egress || k.Used() == 0, "%d of %v did not come back", k.Used(), k.Kind)
			}
		})
	}
}

// TestLoginsHaveABudgetOfTheirOwn: a client with a login finds room when anonymous clients have
// none, and also has limits.
func TestLoginsHaveABudgetOfTheirOwn(t *testing.T) {
	key := testKey(t)
	e := newEvents()
	addr := serveHere(t, ServerConfig{
		Event:  e.add,
		Access: &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}},
		Budget: budget.New(budget.Config{
			Anonymous: budget.Part{Source: budget.Limits{Sessions: -1}}, Keyed: budget.Part{Session: budget.Limits{Descriptors: 4}},
		}),
	})
	c := Client{Login: &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}}
	_, _, err := c.Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, func([]model.Sample) {})
	must.True(t, err == nil, "%v", err)
	end := e.ended(t)
	must.True(t, end.User == "mario" && end.Took > 0 && end.Ran, "event %+v", end)
	_, _, err = c.Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20, Streams: 8}, func([]model.Sample) {})
	must.True(t, err != nil, "8 streams of a login that may have 3")
}
