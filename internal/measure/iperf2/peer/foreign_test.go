package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

// realProgram returns the path of the foreign program.
func realProgram(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("iperf")
	must.SkipIf(t, err != nil, "iperf 2 is not installed")
	out, _ := exec.CommandContext(t.Context(), path, "--version").CombinedOutput() // it exits with 1
	must.SkipIf(t, !bytes.Contains(out, []byte("iperf version 2.1")), "this is no iperf 2.1: %s", out)
	return path
}

// output collects what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until ok accepts the text.
func (o *output) await(t testing.TB, what string, ok func(string) bool) {
	t.Helper()
	must.Until(t, what, func() bool { return ok(o.String()) })
}

// foreignServer starts the program as a server and returns its address and output.
func foreignServer(t testing.TB, args ...string) (string, *output) {
	t.Helper()
	path := realProgram(t)
	port := freePort(t)
	out := new(output)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, path, append([]string{"-s", "-B", "127.0.0.1", "-f", "b", "-p", strconv.Itoa(port)}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	out.await(t, "listening server", func(s string) bool { return strings.Contains(s, "Server listening") })
	awaitSocket(t, map[bool]string{false: "tcp", true: "udp"}[slices.Contains(args, "-u")], port)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), out
}

// awaitSocket waits until port of 127.0.0.1 is in use for network, tcp or udp: the program prints that it listens a little before it
// does. /proc shows it without a connection, which the program would count.
func awaitSocket(t testing.TB, network string, port int) {
	t.Helper()
	// Linux, Documentation/networking/proc_net_tcp.rst: local address, remote
	// address, state; 0A is listening, 07 an unconnected UDP socket.
	state := map[string]string{"tcp": "0A", "udp": "07"}[network]
	mark := fmt.Appendf(nil, "0100007F:%04X 00000000:0000 %s", port, state)
	must.Until(t, "a listener", func() bool {
		b, err := os.ReadFile("/proc/net/" + network)
		return err != nil || bytes.Contains(b, mark)
	})
}

// freePort returns a port that is free on TCP and UDP.
func freePort(t testing.TB) int {
	t.Helper()
	l, u := listenBoth(t, "127.0.0.1")
	must.Do(t, errors.Join(l.Close(), u.Close()))
	return l.Addr().(*net.TCPAddr).Port
}

// foreignClient runs the program as a client until it exits.
func foreignClient(t testing.TB, addr string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, realProgram(t), append([]string{"-c", host, "-f", "b", "-p", port}, args...)...)
	out, err := cmd.CombinedOutput()
	must.Need(t, err == nil, "%v: %v\n%s", cmd.Args, err, out)
	return string(out)
}

// A line of a report: "[ *2] 0.0000-1.0023 sec  125829120 Bytes  1004 bits/sec".
var reportLine = regexp.MustCompile(`(?m)^\[ *(\*?)(\d+|SUM)\](\[[^\]]*\])? +(\d+\.\d+)- *(\d+\.\d+) sec +([0-9.]+) Bytes`)

// transfer is a line of the program's report.
type transfer struct {
	id      string // "SUM" too
	back    bool   // marked as the return direction
	length  float64
	bytes   float64
	started float64
}

func transfers(t testing.TB, text string) []transfer {
	t.Helper()
	var out []transfer
	for _, m := range reportLine.FindAllStringSubmatch(text, -1) {
		from, err1 := strconv.ParseFloat(m[4], 64)
		to, err2 := strconv.ParseFloat(m[5], 64)
		n, err3 := strconv.ParseFloat(m[6], 64)
		must.Need(t, err1 == nil && err2 == nil && err3 == nil, "line %q", m[0])
		out = append(out, transfer{id: m[2], back: m[1] != "", started: from, length: to - from, bytes: n})
	}
	return out
}

// total sums the last line of each connection that pick chooses.
func total(list []transfer, pick func(transfer) bool) units.Bytes {
	last := map[string]float64{}
	for _, x := range list {
		if x.id != "SUM" && pick(x) {
			last[fmt.Sprint(x.back, x.id)] = x.bytes
		}
	}
	sum := 0.0
	for _, n := range last {
		sum += n
	}
	return units.Bytes(sum)
}

// connections counts the connections that have a line.
func connections(list []transfer) int {
	ids := map[string]bool{}
	for _, x := range list {
		if x.id != "SUM" {
			ids[x.id] = true
		}
	}
	return len(ids)
}

// agree reports whether two totals agree within 0.1 %.
func agree(a, b units.Bytes) bool { return a > 0 && math.Abs(float64(a)/float64(b)-1) < 0.001 }

func find(t testing.TB, r model.EndReport, d model.Direction, role model.Role) model.FlowReport {
	t.Helper()
	for _, f := range r.Flows {
		if f.Direction == d && f.Role == role {
			return f
		}
	}
	t.Fatalf("no %s %s in %+v", d, role, r)
	return model.FlowReport{}
}

// ownServer is a server of this package on loopback.
type ownServer struct {
	addr  string
	ended chan error

	mu      sync.Mutex
	results []Result
	log     []string
}

func startServer(t testing.TB, cfg ServerConfig) *ownServer {
	t.Helper()
	return startServerOn(t, nil, cfg)
}

// startServerOn starts a server on l, or if nil on its own TCP and UDP port. change may modify
// its configuration.
func startServerOn(t testing.TB, l net.Listener, cfg ServerConfig, change ...func(*ServerConfig)) *ownServer {
	t.Helper()
	var pc net.PacketConn
	if l == nil {
		l, pc = listenBoth(t, "127.0.0.1")
	}
	return serveOn(t, l, pc, cfg, change...)
}

// listenBoth returns a TCP and a UDP listener on one port of host.
func listenBoth(t testing.TB, host string) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 50 {
		l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0")))(t)
		if u, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", l.Addr().String()); err == nil {
			return l, u
		}
		defer l.Close() // not earlier, or the system could choose it again
	}
	t.Fatal("no port is free on TCP and UDP")
	return nil, nil
}

func serveOn(t testing.TB, l net.Listener, pc net.PacketConn, cfg ServerConfig, change ...func(*ServerConfig)) *ownServer {
	t.Helper()
	s := &ownServer{addr: l.Addr().String(), ended: make(chan error, 1)}
	cfg.Done = func(r Result) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Err != nil {
			s.log = append(s.log, fmt.Sprintf("client %v: %v", r.Peer, r.Err))
		}
		if !r.Refused {
			s.results = append(s.results, r)
		}
	}
	cfg.Log = func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log = append(s.log, line)
	}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { s.ended <- Serve(ctx, l, pc, cfg) }()
	t.Cleanup(func() {
		cancel()
		must.OK(t, must.Wait(t, "the end of the server", s.ended), "serve")
	})
	return s
}

// await waits until ok accepts the reports so far, and returns them.
func (s *ownServer) await(t testing.TB, what string, ok func(results []Result, log []string) bool) (results []Result, log []string) {
	t.Helper()
	must.Until(t, what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		results, log = slices.Clone(s.results), slices.Clone(s.log)
		return ok(results, log)
	})
	return results, log
}

// sum adds up one direction of results.
func sum(results []Result, d model.Direction) units.Bytes {
	var n units.Bytes
	for _, r := range results {
		for _, f := range r.Report.Flows {
			if f.Direction == d {
				n += f.Bytes
			}
		}
	}
	return n
}

// foreignMode is a mode with its options of the program.
type foreignMode struct {
	mode iperf2.Mode
	args []string
}

// foreignModes returns every mode, and more.
func foreignModes(more ...foreignMode) []foreignMode {
	return append(more, foreignMode{iperf2.Forward, nil}, foreignMode{iperf2.Reverse, []string{"-R"}}, foreignMode{iperf2.FullDuplex, []string{"--full-duplex"}},
		foreignMode{iperf2.Dual, []string{"-d"}}, foreignMode{iperf2.TradeOff, []string{"-r"}})
}

func TestServerWithForeignClient(t *testing.T) {
	realProgram(t)
	for _, m := range foreignModes(foreignMode{iperf2.Forward, []string{"-X"}}, foreignMode{iperf2.Forward, []string{"-C"}}, foreignMode{iperf2.Forward, []string{"-e", "--trip-times"}}) {
		for _, amount := range [][]string{{"-t", "0.2"}, {"-n", "20000000"}, {"-t", "0.2", "-P", "3"}} {
			if (amount[0] != "-n" || m.mode.ConnectsBack()) && !must.Slow {
				continue // on a busy machine the program may wait forever for a return test
			}
			args := append(append([]string(nil), m.args...), amount...)
			t.Run(fmt.Sprint(m.mode, " ", strings.Join(args, " ")), func(t *testing.T) { checkWithForeignClient(t, m.mode, args) })
		}
	}
}

// TestServerObeysRate: a client that requests a rate gets that rate for the requested time, and
// the server records what it sent. On a busy machine it may be less, never more.
func TestServerObeysRate(t *testing.T) {
	realProgram(t)
	for _, c := range []struct {
		args, warn string
	}{{"-R -b 20m", ""}, {"--full-duplex -b 20m", ""}, {"-R --fq-rate 20m -S 0xb8", ""}, {"-R --isochronous=20:20m,0", "--isochronous of the client is not obeyed"}} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, ServerConfig{})
			text := foreignClient(t, s.addr, append(strings.Fields(c.args), "-t", "0.5")...)
			results, _ := s.await(t, "result", func(r []Result, _ []string) bool { return len(r) == 1 })
			report := results[0].Report
			from := sum(results, model.From)
			must.True(t, from != 0 && (c.warn != "" || from <= 20e6/8/2*1.1+2*leastAhead), "%d bytes were sent of 1250000:\n%s", from, text)
			must.Contain(t, strings.Join(report.Warnings, "\n"), c.warn, "warnings")
		})
	}
}

func checkWithForeignClient(t testing.TB, mode iperf2.Mode, args []string) {
	n, s := 1, startServer(t, ServerConfig{Opening: time.Minute})
	if strings.Contains(strings.Join(args, " "), "-P 3") {
		n = 3
	}
	if mode.ConnectsBack() {
		args = append(args, "-L", fmt.Sprint(portAbove(t, s.addr)))
	}
	text := foreignClient(t, s.addr, args...)
	list := transfers(t, text)
	results, log := s.await(t, "results", func(r []Result, _ []string) bool { return len(r) == n })
	must.Len(t, log, 0, "log")
	for _, r := range results {
		must.True(t, r.Mode == mode && len(r.Report.Warnings) == 0, "result %+v", r)
	}
	to, from := sum(results, model.To), sum(results, model.From)
	switch mode {
	case iperf2.Reverse:
		got := total(list, func(transfer) bool { return true })
		must.True(t, agree(from, got), "server sent %d, client got %d:\n%s", from, got, text)
	case iperf2.FullDuplex:
		for back, ours := range map[bool]units.Bytes{false: to, true: from} {
			got := total(list, func(x transfer) bool { return x.back == back })
			must.True(t, agree(ours, got), "server has %d, client %d:\n%s", ours, got, text)
		}
	default:
		got := total(list, func(transfer) bool { return true })
		must.True(t, agree(to+from, got), "server has %d and %d, client %d:\n%s", to, from, got, text)
	}
	want := 2 * n
	must.True(t, mode == iperf2.Forward || mode == iperf2.Reverse || connections(list) >= want/2, "%d connections in:\n%s", connections(list), text)
}

// portAbove returns a free port above that of addr: the program takes a lower one for the first
// of a range, and listens on the whole range.
func portAbove(t testing.TB, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	for range 100 {
		p := 61000 + rand.IntN(4000) // Linux gives none of these by itself
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("", strconv.Itoa(p)))
		if err == nil && l.Close() == nil && fmt.Sprintf("%05d", p) > fmt.Sprintf("%05s", port) {
			return p
		}
	}
	t.Skip("no free port above that of the server")
	return 0
}

// bounceTimes matches the mean and the minimum of ten bounces, ms, in a line like "...
// 10=6.034/3.165/13.995/3.219 ms".
var bounceTimes = regexp.MustCompile(` 10=([0-9.]+)/([0-9.]+)/`)

func TestServerBounces(t *testing.T) {
	s := startServer(t, ServerConfig{})
	text := foreignClient(t, s.addr, "--bounceback", "-t", "1", "-l", "200", "--bounceback-hold", "3")
	results, _ := s.await(t, "result", func(r []Result, _ []string) bool { return len(r) == 1 })
	// Ten messages of 200 bytes a second, each held for 3 ms.
	r := results[0]
	must.True(t, r.Bounce && sum(results, model.To) >= 10*200 && sum(results, model.To)%200 == 0, "result %+v", r)
	// Other work may delay bounces, but never shorten them.
	m := bounceTimes.FindStringSubmatch(text)
	must.Need(t, m != nil, "the client does not show ten bounces:\n%s", text)
	least, err := strconv.ParseFloat(m[2], 64)
	must.True(t, err == nil && least >= 3, "the shortest of ten bounces took less than 3 ms:\n%s", text)
}
