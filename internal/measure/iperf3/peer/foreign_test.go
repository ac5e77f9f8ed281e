package peer

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// realProgram returns the path of the real iperf3.
func realProgram(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("iperf3")
	must.SkipIf(t, err != nil, "the real iperf3 is not installed")
	return path
}

// atLeast reports whether the real iperf3 is 3.minor or later.
func atLeast(t testing.TB, minor int) bool {
	t.Helper()
	out := must.Get(exec.CommandContext(t.Context(), realProgram(t), "--version").Output())(t)
	var is, sub int
	n, err := fmt.Sscanf(string(out), "iperf %d.%d", &is, &sub) // "iperf 3.12 (cJSON 1.7.15)"
	must.Need(t, n == 2, "%q is no version: %v", out, err)
	return is > 3 || is == 3 && sub >= minor
}

// freePort returns a port that is free on TCP and UDP.
func freePort(t testing.TB) int {
	t.Helper()
	var lc net.ListenConfig
	for range 50 {
		l := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		port := l.Addr().(*net.TCPAddr).Port
		u, err := lc.ListenPacket(t.Context(), "udp", fmt.Sprintf("127.0.0.1:%d", port))
		_ = l.Close()
		if err == nil {
			_ = u.Close()
			return port
		}
	}
	t.Fatal("no port is free for TCP and UDP")
	return 0
}

// output collects what a program writes.
type output struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	want string
	seen chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := strings.Contains(o.buf.String(), o.want)
	n, err := o.buf.Write(p)
	if !before && strings.Contains(o.buf.String(), o.want) {
		close(o.seen)
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// foreignServer starts the real server and returns its address.
func foreignServer(t testing.TB, args ...string) string {
	t.Helper()
	path := realProgram(t)
	// Another program may take the port first.
	for range 5 {
		port := freePort(t)
		if startServer(t, path, port, args) {
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	t.Fatal("the real server does not start")
	return ""
}

// startServer returns false if the server exited at once.
func startServer(t testing.TB, path string, port int, args []string) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, append([]string{"-s", "-B", "127.0.0.1", "-p", fmt.Sprint(port), "--forceflush"}, args...)...)
	out := &output{want: "Server listening", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	must.Do(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // killed at the end of the test
	}()
	t.Cleanup(func() {
		cancel()
		<-exited
		if t.Failed() {
			t.Logf("the server said:\n%s", out)
		}
	})
	select {
	case <-out.seen:
		return true
	case <-exited:
		return false
	case <-time.After(time.Minute):
		t.Fatal("the real server does not start")
		return false
	}
}

// together runs the cases of a test in parallel, at most most at once: they mostly wait, and
// t.Parallel would allow fewer on few cores.
func together[C any](t *testing.T, most int, cases map[string]C, run func(t testing.TB, c C)) {
	t.Helper()
	var all sync.WaitGroup
	turn := make(chan struct{}, most)
	for name, c := range cases {
		turn <- struct{}{}
		all.Go(func() {
			t.Run(name, func(t *testing.T) { run(t, c) })
			<-turn
		})
	}
	all.Wait()
}

// serveHere runs our server and returns its address.
func serveHere(t testing.TB, c ServerConfig) string {
	t.Helper()
	// A port that is free on UDP too, unless another program takes it meanwhile.
	for range 5 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
		if err == nil {
			return serveOn(t, l, c)
		}
	}
	t.Fatal("no port can be listened on")
	return ""
}

// serveOn runs our server on l.
func serveOn(t testing.TB, l net.Listener, c ServerConfig) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, c) }()
	t.Cleanup(func() {
		cancel()
		must.OK(t, <-done)
	})
	return l.Addr().String()
}

// besieger is a client that goes as far as one stage and then sends nothing, keeps its
// connection, and reconnects when the server closes it.
type besieger struct {
	addr  string
	local net.IP // its source address
	stage string
	n     int
	rest  time.Duration // before it reconnects
	came  *atomic.Int64 // counts connections
}

// besiegeStages are the stages that besiegers stop at.
var besiegeStages = []string{"connects", "drips a cookie", "cookie", "drips parameters", "parameters", "one stream of two", "UDP without a greeting", "all but payload"}

func (b besieger) run(ctx context.Context) {
	for ctx.Err() == nil {
		b.once(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(b.rest):
		}
	}
}

// once is one visit, until the server ends it. Errors are ignored: it reconnects anyway.
func (b besieger) once(ctx context.Context) {
	var all []net.Conn
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	dial := func() net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: b.local}}).DialContext(ctx, "tcp", b.addr)
		if err != nil {
			return nil
		}
		b.came.Add(1)
		all = append(all, c)
		context.AfterFunc(ctx, func() { _ = c.Close() })
		return c
	}
	hold := func(c net.Conn) { // until the server closes it
		buf := make([]byte, 100)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}
	drip := func(c net.Conn, text []byte) {
		for _, one := range text {
			if _, err := c.Write([]byte{one}); err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
	c := dial()
	if c == nil {
		return
	}
	cookie := fmt.Appendf(nil, "%036d\x00", b.n)
	params := `{"tcp":true,"time":1,"parallel":2,"len":1000}`
	if strings.HasPrefix(b.stage, "UDP") {
		params = `{"udp":true,"time":1,"parallel":2,"len":1000,"bandwidth":1000000}`
	}
	switch b.stage {
	case "connects":
	case "drips a cookie":
		drip(c, cookie)
	default:
		_, _ = c.Write(cookie)
		if s, err := iperf3.ReadState(c); err != nil || s != iperf3.ParamExchange || b.stage == "cookie" {
			break
		}
		if b.stage == "drips parameters" {
			drip(c, frame(params))
			break
		}
		_, _ = c.Write(frame(params))
		if s, err := iperf3.ReadState(c); err != nil || s != iperf3.CreateStreams {
			return
		}
		streams := map[string]int{"one stream of two": 1, "all but payload": 2}[b.stage]
		for range streams {
			if one := dial(); one != nil {
				_, _ = one.Write(cookie)
			}
		}
	}
	hold(c)
}

// besiege starts n besiegers at a stage, all from one address or each from its own. It returns
// when they have connected.
func besiege(t testing.TB, addr, stage string, n int, spread bool) {
	t.Helper()
	var came atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range n {
		b := besieger{addr: addr, local: net.IPv4(127, 0, 7, 7), stage: stage, n: i, rest: 50 * time.Millisecond, came: &came}
		if spread {
			b.local = net.IPv4(127, 0, 8+byte(i/250), 1+byte(i%250))
		}
		all.Go(func() { b.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	must.Until(t, "the clients", func() bool { return came.Load() >= int64(n) })
}

// TestSilentClientsKeepNobodyOut: while 256 clients stop at any stage, drip, or reconnect, a
// real one has its test. TestServedSoon checks how soon.
func TestSilentClientsKeepNobodyOut(t *testing.T) {
	realProgram(t)
	_, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.7.7:0")
	must.SkipIf(t, err != nil, "this system has one loopback address: %v", err)
	for _, stage := range besiegeStages {
		for _, spread := range []bool{false, true} {
			if spread && stage == "all but payload" {
				continue // each is a test: see TestSilentTestGivesWay
			}
			t.Run(fmt.Sprintf("%s, many sources %v", stage, spread), func(t *testing.T) {
				addr := serveHere(t, ServerConfig{})
				besiege(t, addr, stage, 256, spread)
				began, args := time.Now(), clientArgs(stage)
				for {
					s := foreignClient(t, addr, args)
					if s.Error == "" {
						break
					}
					t.Logf("after %v: %s", time.Since(began), s.Error)
					must.Need(t, time.Since(began) <= time.Minute, "after %v: %s", time.Since(began), s.Error)
				}
			})
		}
	}
}

// clientArgs returns the arguments of the real client beside a siege.
func clientArgs(stage string) string {
	if strings.HasPrefix(stage, "UDP") {
		return "-u -b 10M -n 100K"
	}
	return "-n 1M"
}

// TestSilentTestGivesWay: the slot of a test without progress goes to the next client, and its
// own source comes last.
func TestSilentTestGivesWay(t *testing.T) {
	t.Parallel()
	e := newEvents()
	addr := serveHere(t, ServerConfig{Event: e.add})
	r := newRaw(t, addr)
	r.begin(oneSecond, 2)
	// It waits, and is not refused.
	c := Client{limits: limits{between: time.Nanosecond}}
	_, _, err := c.Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, func([]model.Sample) {})
	must.OK(t, err)
	said := r.over()
	must.True(t, len(said) >= 5 && said[0] == iperf3.ServerFailed.Byte(), "the silent one was told % x", said)
	must.Until(t, "word of another client", func() bool { return e.told("another client waits") })
	must.True(t, e.told("another client waits"), "the log does not say why the silent one ended")
}

// TestNextClientWaitsForTheLastOne: a client that connects when the previous one has its
// results but has not closed yet waits for the slot and is not refused.
func TestNextClientWaitsForTheLastOne(t *testing.T) {
	t.Parallel()
	addr := serveHere(t, ServerConfig{})
	r := newRaw(t, addr)
	r.begin(oneSecond, 2)
	for range 24 { // long enough to count as moving
		for _, c := range r.streams {
			r.send(c, make([]byte, 32<<10)...)
		}
		<-time.After(50 * time.Millisecond)
	}
	r.send(r.ctl, iperf3.TestEnd.Byte())
	r.expect(iperf3.ExchangeResults)
	r.json(resultsOf(stream(1, "786432"), stream(3, "786432")))
	must.Get(iperf3.ReadFrame(r.ctl, 1<<20))(t)
	r.expect(iperf3.DisplayResults)
	c := Client{limits: limits{between: time.Nanosecond}}
	_, _, err := c.Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, func([]model.Sample) {})
	must.True(t, err == nil, "%v", err)
}

// TestRunningTestKeepsItsSlot: while a test makes progress, others are refused at once.
func TestRunningTestKeepsItsSlot(t *testing.T) {
	t.Parallel()
	addr := serveHere(t, ServerConfig{Event: newEvents().add})
	moving, done := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		var once sync.Once
		samples := 0
		_, _, _ = Client{}.Run(ctx, addr, model.Flow{Direction: model.To, Duration: 10 * time.Minute, Interval: 100 * time.Millisecond},
			func([]model.Sample) {
				if samples++; samples > 12 {
					once.Do(func() { close(moving) })
				}
			})
	}()
	<-moving
	for range 3 {
		must.Contain(t, foreignClient(t, addr, "-n 1M").Error, "server is busy")
	}
	cancel()
	<-done
}

// told reports whether an event had such an error.
func (e *events) told(what string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.all, func(one Event) bool { return one.Err != nil && strings.Contains(one.Err.Error(), what) })
}
