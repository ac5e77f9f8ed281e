package peer

import (
	"bytes"
	"context"
	"fmt"
	"math"
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
	for range 20 {
		l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		u, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", l.Addr().String())
		if err == nil {
			u.Close()
		}
		l.Close()
		if err == nil {
			return l.Addr().(*net.TCPAddr).Port
		}
	}
	t.Fatal("no free port")
	return 0
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
func agree(a, b units.Bytes) bool {
	return a > 0 && math.Abs(float64(a)/float64(b)-1) < 0.001
}

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
