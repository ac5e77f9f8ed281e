package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// needProgram skips a test if a foreign program is not installed.
func needProgram(t testing.TB, name string) {
	t.Helper()
	must.SkipIf(t, must.Err(exec.LookPath(name)) != nil, "%s is not installed", name)
}

// serving is a running linerate serve --json.
type serving struct {
	p       *process
	Link    string            `json:"link"`
	Address string            `json:"address"`
	Foreign map[string]string `json:"foreign"` // addresses by protocol
}

// serveJSON starts cmd, a linerate serve --json, and waits until it listens. It ends with
// the test.
func serveJSON(t testing.TB, cmd *exec.Cmd) serving {
	t.Helper()
	p := start(t, cmd)
	t.Cleanup(func() { _ = p.cmd.Process.Signal(os.Interrupt); p.wait(t, patience) })
	must.Until(t, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
	must.OK(t, validate("linerate/serve/v1", p.said()))
	s := decode[serving](t, p.said())
	s.p = p
	return s
}

// serveEverything prepares a server on free ports of loopback, with every listener.
func serveEverything(t testing.TB, more ...string) *exec.Cmd {
	t.Helper()
	return command(t, append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--iperf3=127.0.0.1:0", "--iperf2=127.0.0.1:0",
		"--netpipe=127.0.0.1:0", "--udpstp=127.0.0.1:0", "--state", t.TempDir()}, more...)...)
}

func portOf(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// givenPorts are the ports that freePort has returned.
var givenPorts sync.Map

// freePort returns a port below the kernel's range (ip-sysctl, ip_local_port_range) that is
// unused on loopback, over TCP and UDP. No two calls return the same.
func freePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10000 + rand.IntN(20000))
		if _, taken := givenPorts.LoadOrStore(port, true); taken {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		p, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", l.Addr().String())
		_ = l.Close()
		if err == nil {
			_ = p.Close()
			return port
		}
	}
	t.Fatal("no port is free over TCP and UDP")
	return ""
}

// listens reports whether the kernel has a socket at port: a listening one for TCP, or any for
// UDP. Unlike a trial connection, that does not disturb the server.
func listens(t testing.TB, network, port string) bool {
	t.Helper()
	n := must.Get(strconv.Atoi(port))(t)
	for _, table := range []string{network, network + "6"} {
		file, err := os.Open(filepath.Join("/proc/net", table))
		if err != nil {
			continue // no IPv6
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			//   0: 0100007F:1451 00000000:0000 0A ...
			f := strings.Fields(lines.Text())
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) && (network == "udp" || f[3] == "0A") {
				_ = file.Close()
				return true
			}
		}
		_ = file.Close()
	}
	return false
}

// foreignServer starts a foreign program that listens, and ends it with the test.
func foreignServer(t testing.TB, network, port string, argv ...string) {
	t.Helper()
	needProgram(t, argv[0])
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = t.TempDir()
	var said lines
	cmd.Stdout, cmd.Stderr = &said, &said
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed, or has ended
		if t.Failed() {
			t.Logf("%s said:\n%s", argv[0], said.String())
		}
	})
	must.Until(t, argv[0]+" listens", func() bool { return listens(t, network, port) })
}

// foreignClient runs a foreign program, and requires that it succeeds and that check finds no
// fault in its output.
func foreignClient(t testing.TB, check func(out string) (wrong string), argv ...string) {
	t.Helper()
	needProgram(t, argv[0])
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = t.TempDir()
	r := run(t, cmd)
	wrong := ""
	if r.code == 0 {
		wrong = check(r.out)
	}
	must.Need(t, r.code == 0 && wrong == "", "%s: exit code %d, %s\n%s%s", strings.Join(argv, " "), r.code, wrong, r.out, r.err)
}

// unchecked accepts any output of a foreign client.
func unchecked(string) string { return "" }

// measured runs linerate, and requires that it succeeds and that check finds no fault in its
// document.
func measured(t testing.TB, args []string, check func(d document) (wrong string)) {
	t.Helper()
	must.Equal(t, check(decode[document](t, succeed(t, args...).out)), "", "linerate %s", strings.Join(args, " "))
}

// briefly returns a test that is as short as possible.
func briefly(target string, more ...string) []string {
	return append([]string{"test", target, "-t", "2s", "-i", "1s", "--omit", "0s", "--idle", "0s", "--json", "-q", "--db", ":memory:"}, more...)
}

// moves returns a test of an amount: in a time, a server that begins to send late on a busy machine
// may send too little of it.
func moves(target string) []string {
	return []string{"test", target, "-n", "4M", "--idle", "0s", "--json", "-q", "--db", ":memory:"}
}

// oneWay returns the check that a direction was measured once.
func oneWay(way model.Direction) func(d document) string {
	return func(d document) string {
		if g := d.goodput(way); len(g) != 1 || g[0] <= 0 {
			return fmt.Sprintf("goodput %v", g)
		}
		return ""
	}
}

// TestForeignServers measures with the real programs at the far end. TestTruthOfForeign checks
// their rates.
func TestForeignServers(t *testing.T) {
	t.Parallel()
	t.Run("iperf3", func(t *testing.T) {
		t.Parallel()
		p := freePort(t)
		foreignServer(t, "tcp", p, "iperf3", "-s", "-B", "127.0.0.1", "-p", p)
		measured(t, briefly("iperf3://127.0.0.1:"+p, "-P", "2"), bothWays)
		measured(t, briefly("iperf3://127.0.0.1:"+p, "-u", "-b", "20M"), bothWays)
	})
	t.Run("iperf2", func(t *testing.T) {
		t.Parallel()
		for flag, way := range map[string]model.Direction{"--to": model.To, "--reverse": model.From} { // a server each: its second test may crash 2.1.8 (docs/wire/iperf2.md)
			p := freePort(t)
			foreignServer(t, "tcp", p, "iperf", "-s", "-B", "127.0.0.1", "-p", p)
			measured(t, append(moves("iperf2://127.0.0.1:"+p), flag), oneWay(way))
		}
	})
	t.Run("iperf2 UDP", func(t *testing.T) {
		t.Parallel()
		p := freePort(t)
		foreignServer(t, "udp", p, "iperf", "-s", "-u", "-B", "127.0.0.1", "-p", p)
		measured(t, briefly("iperf2://127.0.0.1:"+p, "--to", "-u", "-b", "20M"), oneWay(model.To))
	})
	t.Run("NPtcp", func(t *testing.T) {
		t.Parallel()
		p, out := freePort(t), filepath.Join(t.TempDir(), "np.out")
		foreignServer(t, "tcp", p, "NPtcp", "-P", p, "-u", "4", "-o", os.DevNull)
		must.OK(t, validate("linerate/session/v1", succeed(t, "sweep", "netpipe://127.0.0.1:"+p, "--max", "4", "--output", out, "--json", "-q").out))
		netpipeFile(t, out, 4)
	})
}

// netpipeFile requires a file in NPtcp's format: size, Mbit/s and seconds of each message,
// ascending up to at least largest, with consistent values on each line.
func netpipeFile(t testing.TB, path string, largest int) {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	before, rows := 0, 0
	for line := range strings.Lines(string(b)) {
		var size int
		var rate, seconds float64
		n, err := fmt.Sscan(line, &size, &rate, &seconds)
		must.Need(t, n == 3 && err == nil, "%s: %q: %v", path, line, err)
		// NPtcp's Mbit are 2^20 bits; seconds have 8 decimals.
		least := float64(size) * 8 / (1 << 20) / (seconds + 1e-8)
		most := float64(size) * 8 / (1 << 20) / max(seconds-1e-8, 1e-9)
		must.True(t, size > before && !(rate < 0.99*least) && !(rate > 1.01*most), "%s: %q after %d bytes: %.3f to %.3f Mbit/s fit the time", path, line, before, least, most)
		before = size
		rows++
	}
	must.True(t, rows >= 4 && before >= largest, "%s: %d rows up to %d bytes, want %d", path, rows, before, largest)
}

// iperf3Fault returns the fault in the document of an iperf3 client.
func iperf3Fault(out string) string {
	var d struct {
		Error string `json:"error"`
		End   struct {
			Sum      struct{ Bytes float64 } `json:"sum"`          // UDP
			Received struct{ Bytes float64 } `json:"sum_received"` // TCP
		} `json:"end"`
	}
	err := json.Unmarshal([]byte(out), &d)
	if bytes := max(d.End.Sum.Bytes, d.End.Received.Bytes); err != nil || d.Error != "" || bytes < 1e4 {
		return fmt.Sprintf("%v, error %q, %.0f bytes\n%s", err, d.Error, bytes, out)
	}
	return ""
}

// iperf2Fault returns the fault in the comma-separated line of an iperf 2 client.
func iperf2Fault(out string) string {
	first, _, whole := strings.Cut(out, "\n")
	fields := strings.Split(first, ",") // ..., interval, bytes, bit/s
	if len(fields) < 9 || !whole {
		return fmt.Sprintf("%q", out)
	}
	if bytes, err := strconv.ParseFloat(fields[7], 64); err != nil || bytes < 1e4 {
		return fmt.Sprintf("%v bytes, %v: %q", bytes, err, out)
	}
	return ""
}

// TestForeignClients runs the real programs as clients of linerate serve.
func TestForeignClients(t *testing.T) {
	t.Parallel()
	v := serveJSON(t, serveEverything(t))
	t.Run("iperf3", func(t *testing.T) {
		for _, more := range []string{"-n 2M -P 2", "-n 2M -R", "-n 2M -u -b 20M", "-n 2M -u -b 20M -R"} {
			foreignClient(t, iperf3Fault, append([]string{"iperf3", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf3"]), "-J"}, strings.Fields(more)...)...)
		}
	})
	t.Run("iperf2", func(t *testing.T) {
		for _, more := range []string{"-n 2M", "-n 2M -u -b 20M"} {
			foreignClient(t, iperf2Fault, append([]string{"iperf", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf2"]), "-y", "C"}, strings.Fields(more)...)...)
		}
	})
	t.Run("NPtcp", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "np.out")
		foreignClient(t, unchecked, "NPtcp", "-h", "127.0.0.1", "-P", portOf(v.Foreign["netpipe"]), "-n", "50", "-u", "64", "-o", out)
		netpipeFile(t, out, 64)
	})
	t.Run("its own", func(t *testing.T) { // linerate has both roles, over each protocol
		measured(t, briefly("udpstp://"+v.Foreign["udpstp"]), bothWays)
		for _, protocol := range []string{"iperf3", "iperf2"} {
			measured(t, moves(protocol+"://"+v.Foreign[protocol]), bothWays)
		}
		succeed(t, "sweep", "netpipe://"+v.Foreign["netpipe"], "--max", "4", "--json", "-q")
	})
}

// engineReport is the part of reports that these tests read besides goodput.
type engineReport struct {
	Report struct {
		Latencies []struct {
			Name  string `json:"name"`
			Label string `json:"label"`
			Sent  int64  `json:"sent"`
			Lost  int64  `json:"lost"`
			Rate  struct {
				Value float64 `json:"value"`
			} `json:"rate"`
		} `json:"latencies"`
		Copy *struct {
			Directions []json.RawMessage `json:"directions"`
		} `json:"copy"`
		Search *struct {
			Found bool    `json:"found"`
			Rate  float64 `json:"rate"`
		} `json:"search"`
	} `json:"report"`
}

// TestOtherEnginesOfACommand measures requests, and searches for the highest rate.
func TestOtherEnginesOfACommand(t *testing.T) {
	t.Parallel()
	v := serveJSON(t, serveEverything(t))
	r := succeed(t, "test", v.Link, "--to", "--requests", "200", "-l", "64", "--reply", "4KiB", "-t", "0.2s", "-i", "0.2s", "--omit", "0s", "--json", "-q")
	must.OK(t, validate("linerate/session/v1", r.out))
	all := decode[engineReport](t, r.out).Report.Latencies
	must.True(t, len(all) == 2 && all[0].Name == "request" && all[0].Sent != 0 && all[1].Name == "request (service)" && strings.HasPrefix(all[0].Label, "to "), "latencies %+v", all)
	r = succeed(t, "test", v.Link, "--to", "--search", "--loss", "2%", "-b", "20M", "-t", "0.5s", "--omit", "0s", "--repeat", "1", "--json", "-q")
	err := validate("linerate/session/v1", r.out)
	must.True(t, err == nil && decode[engineReport](t, r.out).Report.Search != nil, "%v\n%s", err, r.out)
}

// TestSweepWritesItsFile sweeps a few sizes into a file, and replaces no existing one.
func TestSweepWritesItsFile(t *testing.T) {
	t.Parallel()
	v := serveJSON(t, serveEverything(t))
	out := filepath.Join(t.TempDir(), "np.out")
	args := []string{"sweep", v.Link, "--max", "4", "-t", "1s", "-q", "--output", out} // a busy machine reaches no more sizes in a pass
	succeed(t, args...)
	netpipeFile(t, out, 4)
	before := must.Get(os.ReadFile(out))(t)
	fails(t, 2, args, "file exists", "name a file that is not there yet")
	must.Equal(t, string(must.Get(os.ReadFile(out))(t)), string(before), "the file that was there is not what it")
}

// TestCopyOfACommand copies small files to a server, then measures a folder; nothing of either is
// left.
func TestCopyOfACommand(t *testing.T) {
	t.Parallel()
	v := serveJSON(t, serveEverything(t))
	t.Run("to a host", func(t *testing.T) {
		r := succeed(t, "copy", v.Link, "--size", "1MiB", "--blocks", "1", "--json", "-q")
		must.OK(t, validate("linerate/session/v1", r.out))
		d := decode[document](t, r.out)
		for _, run := range d.Session.Runs {
			must.True(t, run.State == "valid", "%s: %s: %s", run.Setting, run.State, run.Reason)
		}
		// From memory and disk to memory and disk, and four parts on their own.
		must.Equal(t, len(d.Session.Runs), 8, "runs")
		c := decode[engineReport](t, r.out).Report.Copy
		must.True(t, c != nil && len(c.Directions) == 1, "report of the copy: %+v", c)
	})
	t.Run("--path", func(t *testing.T) {
		dir := t.TempDir()
		r := succeed(t, "copy", "--path", dir, "--size", "1MiB", "--blocks", "2", "--state", t.TempDir(), "--json", "-q")
		must.OK(t, validate("linerate/path/v1", r.out))
		d := decode[struct {
			Complete bool              `json:"complete"`
			Trials   []json.RawMessage `json:"trials"`
		}](t, r.out)
		must.True(t, d.Complete && len(d.Trials) == 4, "complete %v, %d trials", d.Complete, len(d.Trials)) // written and read, twice
		must.Len(t, must.Get(os.ReadDir(dir))(t), 0, "left in the folder")
	})
}

// TestPlansOfOtherEngines runs plans with UDP, with probes under load, and with requests.
func TestPlansOfOtherEngines(t *testing.T) {
	t.Parallel()
	v := serveJSON(t, serveEverything(t))
	quick := []string{"--blocks", "1", "--settle", "0s", "--no-twin", "--json", "-q"}
	t.Run("rate as a factor", func(t *testing.T) {
		r := succeed(t, append([]string{"run", v.Link, "-u", "--factor", "rate=4M,8M", "--baseline", "4M", "-t", "1s", "--omit", "0s"}, quick...)...)
		d := decode[document](t, r.out)
		must.True(t, len(d.goodput("to")) >= 2, "%+v", d.Session.Runs) // of each setting; a busy machine may repeat a block
	})
	for name, flow := range map[string]string{
		"loaded":  "engine: loaded, load: udpflow, rate: 4M, idle: 100ms",
		"reqresp": "engine: reqresp, requests: 100, reply: 4KiB",
	} {
		t.Run(name, func(t *testing.T) {
			plan := write(t, "plan.yaml", "flow: {"+flow+", duration: 300ms, omit: 0s, interval: 100ms}\nfactors: [{knob: window, levels: [64KiB, 256KiB]}]\n")
			r := succeed(t, append([]string{"run", plan, "--far", v.Link}, quick...)...)
			d := decode[document](t, r.out)
			valid := map[string]bool{} // a busy machine may cut a run short, and repeat its block
			for _, run := range d.Session.Runs {
				valid[run.Setting] = valid[run.Setting] || run.State == "valid"
			}
			if len(valid) != 3 || slices.Contains(slices.Collect(maps.Values(valid)), false) || len(decode[engineReport](t, r.out).Report.Latencies) == 0 {
				t.Errorf("%+v, latencies %+v", d.Session.Runs, decode[engineReport](t, r.out).Report.Latencies)
			}
		})
	}
}

// TestForeignOptionsNotObeyed: if the server ignores an option of a client, the client's terminal
// says so after the test.
func TestForeignOptionsNotObeyed(t *testing.T) {
	t.Parallel()
	s := serveJSON(t, serveEverything(t))
	for _, c := range []struct{ args, says string }{
		{"iperf -R --isochronous=10:1m,0 -t 0.3", "--isochronous of the client is not obeyed"},
	} {
		argv := append(strings.Fields(c.args), "-c", "127.0.0.1", "-p", portOf(s.Foreign["iperf2"]))
		foreignClient(t, unchecked, argv...)
		must.Until(t, c.says, func() bool { return strings.Contains(s.p.complaints(), c.says) })
	}
}
