package peer

import (
	"context"
	"fmt"
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
	"linerate/internal/measure/answering"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

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
	u := &udpServer{server: s, conn: &answering.Socket{}, flows: map[netip.AddrPort]*udpFlow{}, waiting: map[netip.AddrPort]*newcomer{}, spare: make([]byte, maxDatagram+1)}
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
