package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

func mustAddr(t testing.TB, s string) netip.Addr {
	t.Helper()
	return must.Get(netip.ParseAddr(s))(t)
}

func dialUDP(t testing.TB, addr string) net.Conn {
	t.Helper()
	c := must.Get((&net.Dialer{}).DialContext(t.Context(), "udp", addr))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// datagramOf returns a datagram of a test in mode m.
func datagramOf(m iperf2.Mode, number int64) []byte {
	h := iperf2.NewHeader(m, true)
	h.Amount = -20
	s := stamper{layout: iperf2.Layout16, header: h.Append(nil, iperf2.DatagramLead), wall: time.Now()}
	b := digits(200)
	s.stamp(b, number, 0)
	return b
}

// atOnce is how long a test waits for an answer that should not come.
const atOnce = 200 * time.Millisecond

// answered returns what arrives within a time.
func answered(t testing.TB, c net.Conn, within time.Duration) []byte {
	t.Helper()
	must.Do(t, c.SetReadDeadline(time.Now().Add(within)))
	b := make([]byte, maxDatagram)
	n, err := c.Read(b)
	if err != nil {
		return nil
	}
	return b[:n]
}

// testUDP returns what is wrong with a test with the server, "" for nothing.
func (s *ownServer) testUDP(t testing.TB) string {
	t.Helper()
	f := model.Flow{Direction: model.To, Bytes: 20_000, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})}
	near, far, err := Client{}.Run(t.Context(), s.addr, f, nil)
	if err == nil && len(near.Warnings) == 0 && len(far.Flows) == 1 && far.Flows[0].UDP.Lost == 0 {
		return ""
	}
	return fmt.Sprintf("%v, %q, %+v", err, near.Warnings, far)
}

func (s *ownServer) aliveUDP(t testing.TB) {
	t.Helper()
	must.Equal(t, s.testUDP(t), "", "the server serves no more")
}

func TestHostileDatagrams(t *testing.T) {
	s := startServer(t, ServerConfig{Idle: time.Second, Sessions: 8, PerClient: 8})
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := make([]byte, random.IntN(200))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		must.Get(dialUDP(t, s.addr).Write(b))(t)
	}
	s.await(t, "refusal", func(_ []Result, log []string) bool { return len(log) > 0 })
	// The random flows time out, and their places are released, in more than one sweep.
	must.Until(t, "a place", func() bool { return s.testUDP(t) == "" })
}

// TestNoMirror: a server that answered a first datagram could be used to reflect traffic at
// other hosts.
func TestNoMirror(t *testing.T) {
	far := func(netip.Addr) bool { return false }
	s := startServer(t, ServerConfig{Idle: time.Second, UDPTo: far})
	for name, b := range map[string][]byte{
		"final first": datagramOf(iperf2.Forward, -5),
		"forward":     datagramOf(iperf2.Forward, 1),
		"reverse":     datagramOf(iperf2.Reverse, 1),
		"full duplex": datagramOf(iperf2.FullDuplex, 1),
		"dual":        datagramOf(iperf2.Dual, 1),
		"short":       datagramOf(iperf2.Reverse, 1)[:30],
	} {
		c := dialUDP(t, s.addr)
		must.Get(c.Write(b))(t)
		got := answered(t, c, atOnce)
		must.True(t, got == nil, "%s: %d bytes came back", name, len(got))
	}
	s.aliveUDP(t)
}

func TestReportsAreBounded(t *testing.T) {
	c := dialUDP(t, startServer(t, ServerConfig{}).addr)
	must.Get(c.Write(datagramOf(iperf2.Forward, 1)))(t)
	for i := range int64(3 * mostAcks) {
		must.Get(c.Write(datagramOf(iperf2.Forward, -2-i)))(t)
	}
	for n := range mostAcks {
		b := answered(t, c, time.Minute)
		must.Need(t, b != nil, "%d reports, want %d", n, mostAcks)
		r, l, err := iperf2.ParseReport(b)
		must.Need(t, err == nil && l == iperf2.Layout16 && r.Datagrams == 2 && r.Lost == 0 && r.Bytes == 400, "report %+v, %v, %v", r, l, err)
	}
	must.True(t, answered(t, c, atOnce) == nil, "more than %d reports", mostAcks)
}

// TestVanishedFlow: a flow without a final datagram is reported, and one with an unreachable
// number does no harm.
func TestVanishedFlow(t *testing.T) {
	s := startServer(t, ServerConfig{Idle: time.Second})
	c := dialUDP(t, s.addr)
	for _, n := range []int64{1, 2, 5, 1<<63 - 1, 4} {
		must.Get(c.Write(datagramOf(iperf2.Forward, n)))(t)
	}
	results, _ := s.await(t, "result", func(r []Result, _ []string) bool { return len(r) == 1 })
	r := results[0].Report
	u := r.Flows[0].UDP
	must.True(t, len(r.Warnings) == 1 && strings.Contains(r.Warnings[0], "vanished") && u.Received == 4 && u.Lost == 1 && u.Reordered == 1, "%q, %+v", r.Warnings, u)
}

// TestOldClient replays the datagrams of 2.0.5 (section 5).
func TestOldClient(t *testing.T) {
	c := dialUDP(t, startServer(t, ServerConfig{}).addr)
	old := func(id int32) []byte {
		b := digits(1470)
		copy(b, words(uint32(id), 1_700_000_000, 5, 0, 1, 5001, 0, 1_000_000, 0xffffff9c))
		return b
	}
	for _, id := range []int32{0, 1, 2, 4, -5} {
		must.Get(c.Write(old(id)))(t)
	}
	b := answered(t, c, time.Minute)
	r, l, err := iperf2.ParseReport(b)
	must.Need(t, err == nil && l == iperf2.Layout12 && len(b) == 1470 && int32(binary.BigEndian.Uint32(b)) == -5, "answer of %d bytes, %v, %v", len(b), l, err)
	must.True(t, r.Datagrams == 6 && r.Lost == 1 && r.Bytes == 5*1470, "report %+v", r)
}

// TestLyingServer answers the client's final datagram with garbage first.
func TestLyingServer(t *testing.T) {
	pc := must.Get((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
	defer pc.Close()
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			if int32(binary.BigEndian.Uint32(b[:n])) >= 0 {
				continue
			}
			// Garbage, then the layout of 2.0.5 read as that of 2.1: far too large.
			_, _ = pc.WriteTo([]byte("no report"), from)
			_, _ = pc.WriteTo(append(words(0, 0, 0, 0, 0x88000000, 1<<31, 0, 1<<31), make([]byte, 96)...), from)
		}
	}()
	f := model.Flow{Direction: model.To, Bytes: 10_000, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})}
	near, far, err := Client{}.Run(t.Context(), pc.LocalAddr().String(), f, nil)
	must.True(t, err == nil && len(far.Flows) == 0 && len(near.Warnings) == 1 && strings.Contains(near.Warnings[0], "makes no sense"),
		"%v %q %+v", err, near.Warnings, far)
}

// TestUDPNobody: there is no server.
func TestUDPNobody(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		t.Run(string(d), func(t *testing.T) {
			must.SkipIf(t, d == model.From && !must.Slow, "takes some seconds: with the build tag slow")
			t.Parallel()
			pc := must.Get((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
			addr := pc.LocalAddr().String()
			pc.Close()
			f := model.Flow{Direction: d, Duration: short, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})}
			near, far, err := Client{}.Run(t.Context(), addr, f, nil)
			must.True(t, (d != model.From || err != nil) && (d != model.To || len(near.Warnings) != 0 && len(far.Flows) == 0), "%v %+v %+v", err, near, far)
		})
	}
}

func FuzzArrivals(f *testing.F) {
	f.Add(datagramOf(iperf2.Forward, 1), datagramOf(iperf2.Forward, -2), false)
	f.Add([]byte{}, make([]byte, 12), true)
	f.Add(words(1<<31, 0, 0, 1<<31), words(0xffffffff, 0, 0, 0x7fffffff), false)
	f.Fuzz(func(t *testing.T, first, second []byte, old bool) {
		l := iperf2.Layout16
		if old {
			l = iperf2.Layout12
		}
		a := newArrivals(l, 0)
		for i, b := range [][]byte{first, second, first} {
			a.take(b, time.Duration(i), false)
		}
		r := a.report()
		got := int64(r.Datagrams) - r.Lost
		must.True(t, r.Lost >= 0 && got >= 0 && got <= 3 && r.Bytes <= uint64(2*len(first)+len(second)), "%+v", r)
		if out, err := reportFor(a, second); err == nil {
			_, _, err := iperf2.ParseReport(out)
			must.True(t, err == nil, "own report: %v", err)
		}
	})
}

// TestOvertaken: what the final datagram overtakes is not lost where the receiver waits for it.
func TestOvertaken(t *testing.T) {
	for late, want := range map[bool]int64{true: 4, false: 2} {
		a := newArrivals(iperf2.Layout16, 0)
		a.late = late
		for i, n := range []int64{1, -4, 2, 5, -4, 3, 3} {
			a.take(datagramOf(iperf2.Reverse, n), time.Duration(i), false)
		}
		must.True(t, a.final.Load() && a.got.Load() == want && a.bytes.Load() == 200*want && a.lost.Load() == 4-want && a.whole() == late && a.last == 1, "late %t: %+v", late, a)
	}
	a := newArrivals(iperf2.Layout16, 0)
	a.take(datagramOf(iperf2.Reverse, 2), 2, false)
	a.take(datagramOf(iperf2.Reverse, 1), 1, false) // by the kernel's time stamp
	must.True(t, a.bytes.Load() == 400 && a.got.Load() == 2 && a.lost.Load() == 0, "the first was overtaken: %+v", a)
}

// heldNothing waits until everything held of b is given back.
func heldNothing(t testing.TB, b *budget.Budget) {
	t.Helper()
	must.Until(t, "all to be given back", func() bool {
		return !slices.ContainsFunc(b.Usage().Kinds, func(k budget.KindUsage) bool { return k.Kind < budget.Egress && k.Used() != 0 })
	})
}

func used(b *budget.Budget, k budget.Kind) int64 { return b.Usage().Kinds[k].Used() }

// forge sends the datagrams of a test from an address of this host.
func forge(ctx context.Context, from, to string, list ...[]byte) error {
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(ctx, "udp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, b := range list {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// canForge skips the test if the system has only one loopback address.
func canForge(t testing.TB) {
	t.Helper()
	must.SkipIf(t, runtime.GOOS != "linux" && runtime.GOOS != "windows", "this system has no further addresses of loopback")
}

// TestUDPTakesFromTheBudget: the program's flows are a session of their address, are charged
// for what they are sent, and give everything back.
func TestUDPTakesFromTheBudget(t *testing.T) {
	b := budget.New(budget.Config{Anonymous: budget.Part{Source: budget.Limits{Sessions: 1, UDP: udpLimit}}})
	s := startServer(t, ServerConfig{Budget: b})
	text := foreignClient(t, s.addr, "-u", "-R", "-b", "50m", "-P", "2", "-t", "1")
	got := total(transfers(t, text), func(transfer) bool { return true })
	must.True(t, got != 0, "nothing came:\n%s", text)
	must.Contain(t, foreignClient(t, s.addr, "-u", "-b", "4m", "-t", "0.3"), "Server Report", "no report")
	heldNothing(t, b)
	n := used(b, budget.Egress)
	must.True(t, units.Bytes(n) >= got && n <= 2*int64(got)+10_000, "%d bytes are counted, %d came", n, got)
	d := time.Duration(used(b, budget.Time))
	must.True(t, d >= time.Second, "%v are counted", d)
}

// TestUDPEndsWithTheBudget: sending stops when the bytes are spent, receiving when the time is;
// a further flow is refused.
func TestUDPEndsWithTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		limits budget.Limits
		args   []string
		want   string
	}{
		"bytes":     {budget.Limits{Egress: 100_000}, []string{"-R", "-b", "4m"}, "100 kB"},
		"time":      {budget.Limits{Time: time.Second}, []string{"-b", "1m"}, "1 s"},
		"time back": {budget.Limits{Time: time.Second}, []string{"-R", "-b", "1m"}, "1 s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			realProgram(t)
			b := budget.New(budget.Config{Anonymous: budget.Part{Source: c.limits}})
			s := startServer(t, ServerConfig{Budget: b})
			_, _ = anyEnd(t, s.addr, append([]string{"-u", "-t", "4"}, c.args...)...) // the program does not stop by itself
			results, _ := s.await(t, "result", func(r []Result, _ []string) bool { return len(r) == 1 })
			must.Contain(t, strings.Join(results[0].Report.Warnings, "; "), c.want, "warnings")
			must.Get(dialUDP(t, s.addr).Write(datagramOf(iperf2.Forward, 1)))(t)
			s.logged(t, "try again in")
			heldNothing(t, b)
		})
	}
}

// TestForgedDatagramsTakeNothing: one datagram each from hundreds of forged addresses takes
// neither a place nor a session.
func TestForgedDatagramsTakeNothing(t *testing.T) {
	canForge(t)
	b := budget.New(budget.Config{AllAnonymous: budget.Limits{Sessions: 2}, Server: budget.Limits{Sessions: 4}})
	s := startServer(t, ServerConfig{Budget: b, Sessions: 4, UDPTo: func(netip.Addr) bool { return false }})
	for i := range 300 {
		must.Do(t, forge(t.Context(), fmt.Sprintf("127.0.%d.%d", 1+i/200, 1+i%200), s.addr, datagramOf(iperf2.Forward, 1)))
	}
	// A verified client comes last, so that the others have been read.
	s.alive(t)
	s.aliveUDP(t)
	heldNothing(t, b)
	results, _ := s.await(t, "both results", func(r []Result, _ []string) bool { return len(r) >= 2 })
	must.Equal(t, len(results), 2, "sessions")
}

// TestForgedFlowsKeepNobodyOut: forged addresses that send two datagrams each in order, as
// often as they like, are one session together. A client that really sends, or is verified,
// gets a place, over TCP and UDP.
func TestForgedFlowsKeepNobodyOut(t *testing.T) {
	canForge(t)
	b := budget.New(budget.Config{AllAnonymous: budget.Limits{Sessions: 2}, Server: budget.Limits{Sessions: 4}})
	s := startServer(t, ServerConfig{Budget: b, Sessions: 4, UDPTo: func(netip.Addr) bool { return false }})
	stop, stopped := make(chan struct{}), make(chan struct{})
	most := int64(0)
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			err := forge(context.Background(), fmt.Sprintf("127.0.%d.%d", 1+i/200%200, 1+i%200), s.addr, datagramOf(iperf2.Forward, 1), datagramOf(iperf2.Forward, 2))
			if err != nil {
				t.Error(err)
				return
			}
			most = max(most, used(b, budget.Sessions))
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	s.await(t, "forged flow that made room", func(r []Result, _ []string) bool { return len(r) > 8 })
	s.alive(t)
	// The program is not verified, but sends.
	must.Contain(t, foreignClient(t, s.addr, "-u", "-b", "2m", "-t", "0.5"), "Server Report", "no report")
	f := model.Flow{Direction: model.Both, Duration: 200 * time.Millisecond, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})}
	near, _, err := (Client{}).Run(t.Context(), s.addr, f, nil)
	must.True(t, err == nil && len(near.Flows) == 2, "who shows where it is: %v, %+v", err, near)
	close(stop)
	<-stopped
	must.True(t, most <= 2, "%d sessions at a time", most)
}

// TestNewcomersAreBounded: forged first datagrams go to a bounded table, and the next newcomer
// finds room in it.
func TestNewcomersAreBounded(t *testing.T) {
	s := &server{ServerConfig: ServerConfig{}.withDefaults()}
	s.udp = newPlaces(s.ServerConfig)
	u := &udpServer{server: s, conn: &accept.Socket{}, flows: map[netip.AddrPort]*udpFlow{}, waiting: map[netip.AddrPort]*newcomer{}, spare: make([]byte, maxDatagram+1)}
	a := netip.MustParseAddr("2001:db8::")
	for range 2 * mostWaiting {
		a = a.Next()
		from := netip.AddrPortFrom(a, 7)
		f := u.begin(t.Context(), datagramOf(iperf2.Forward, 1), from, time.Second)
		must.Need(t, f == nil && u.waiting[from] != nil, "%v: %+v", from, f)
	}
	must.True(t, len(u.waiting) <= mostWaiting && len(u.flows) == 0, "%d wait, %d flows", len(u.waiting), len(u.flows))
	from := netip.AddrPortFrom(a, 7)
	for _, n := range []int64{1, 1 << 40} { // out of order
		must.True(t, u.begin(t.Context(), datagramOf(iperf2.Forward, n), from, time.Second) == nil, "datagram %d made a flow", n)
		u.begin(t.Context(), datagramOf(iperf2.Forward, 1), from, time.Second)
	}
	f := u.begin(t.Context(), datagramOf(iperf2.Forward, 4), from, 2*time.Second)
	must.Need(t, f != nil && f.in.got.Load() == 1 && f.got == 200 && f.in.first == time.Second, "flow %+v", f)
	u.forget(time.Hour)
	must.Equal(t, len(u.waiting), 0, "wait for ever")
}
