package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// foreignLimit is how long a foreign program may take for a test of a second.
const foreignLimit = 20 * time.Second

// needProgram skips a test where a foreign program is not installed.
func needProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs %s: scripts/foreign installs it", name)
	}
}

// served is a linerate serve on free ports of loopback, with every listener.
type served struct {
	link    string
	foreign map[string]string // addresses by protocol
}

// startServer starts one, which ends with the test.
func startServer(t testing.TB) served {
	t.Helper()
	p := start(t, command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--iperf3=127.0.0.1:0", "--iperf2=127.0.0.1:0",
		"--netpipe=127.0.0.1:0", "--state", t.TempDir()))
	t.Cleanup(func() { _ = p.cmd.Process.Signal(os.Interrupt); p.wait(t, 10*time.Second) })
	eventually(t, 10*time.Second, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
	if err := validate("linerate/serve/v1", p.said()); err != nil {
		t.Error(err)
	}
	d := decode[struct {
		Link    string            `json:"link"`
		Foreign map[string]string `json:"foreign"`
	}](t, p.said())
	if len(d.Foreign) != 3 || !strings.HasPrefix(d.Link, "linerate://") || !strings.Contains(d.Link, "127.0.0.1:") {
		t.Fatalf("the server said %s", p.said())
	}
	return served{d.Link, d.Foreign}
}

func portOf(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// freePort returns a port of loopback that nobody listens on now, over TCP or UDP.
func freePort(t testing.TB) string {
	t.Helper()
	for range 20 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p, perr := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", l.Addr().String())
		_ = l.Close()
		if perr == nil {
			_ = p.Close()
			return portOf(l.Addr().String())
		}
	}
	t.Fatal("no port is free over TCP and UDP")
	return ""
}

// listens reports whether the kernel has a socket at port: a listening one of
// TCP, or any of UDP. Asking it leaves the server alone, which a trial
// connection would not.
func listens(t testing.TB, network, port string) bool {
	t.Helper()
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed, or is done
		if t.Failed() {
			t.Logf("%s said:\n%s", argv[0], said.String())
		}
	})
	eventually(t, 10*time.Second, argv[0]+" listens", func() bool { return listens(t, network, port) })
}

// peerTries is how often a run with a foreign program is tried, which its own
// known faults and other work on the machine may spoil.
const peerTries = 3

// repeated calls one until it says that nothing is wrong, and logs what was.
func repeated(t testing.TB, one func() (wrong string)) {
	t.Helper()
	for n := 1; ; n++ {
		wrong := one()
		if wrong == "" {
			return
		}
		if n == peerTries {
			t.Fatalf("all %d tries failed, the last one: %s", n, wrong)
		}
		t.Logf("try %d of %d failed, the next one follows: %s", n, peerTries, wrong)
	}
}

// foreignClient runs a foreign program until it succeeds and check finds nothing
// wrong in what it printed.
func foreignClient(t testing.TB, check func(out string) (wrong string), argv ...string) {
	t.Helper()
	needProgram(t, argv[0])
	repeated(t, func() string {
		ctx, cancel := context.WithTimeout(t.Context(), foreignLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = t.TempDir()
		r := run(t, cmd)
		if r.code != 0 {
			return fmt.Sprintf("%s: exit code %d\n%s%s", strings.Join(argv, " "), r.code, r.out, r.err)
		}
		return check(r.out)
	})
}

// measured runs linerate until it succeeds and check, where there is one, finds
// nothing wrong. Each try gets its arguments from args, which may start a server
// that no other try has spoiled.
func measured(t testing.TB, args func() []string, check func(d document) (wrong string)) (last result) {
	t.Helper()
	repeated(t, func() string {
		a := args()
		last = run(t, command(t, a...))
		switch {
		case last.code != 0:
			return fmt.Sprintf("linerate %s: exit code %d\n%s%s", strings.Join(a, " "), last.code, last.out, last.err)
		case check == nil:
			return ""
		}
		return check(decode[document](t, last.out))
	})
	return last
}

// briefly is a quick look that leaves out what it can.
func briefly(target string, more ...string) []string {
	return append([]string{"test", target, "-t", "0.5s", "-i", "0.5s", "--omit", "0s", "--idle", "0s", "--json", "-q", "--db", ":memory:"}, more...)
}

// about demands that the payload rate in a direction is what was asked for: no
// more than a fifth above, and on a machine with other work not less than half.
func about(direction string, asked float64) func(d document) string {
	return func(d document) string {
		if got := d.goodput(direction); len(got) != 1 || got[0] < asked/2 || got[0] > 1.2*asked {
			return fmt.Sprintf("%s: %v, asked for %.0f", direction, got, asked)
		}
		return ""
	}
}

// each demands two things.
func each(one, other func(d document) string) func(d document) string {
	return func(d document) string { return one(d) + other(d) }
}

// TestForeignServers measures with the real programs at the far end.
func TestForeignServers(t *testing.T) {
	t.Run("iperf3", func(t *testing.T) {
		p := freePort(t)
		foreignServer(t, "tcp", p, "iperf3", "-s", "-B", "127.0.0.1", "-p", p)
		to := func(more ...string) func() []string {
			return func() []string { return briefly("iperf3://127.0.0.1:"+p, more...) }
		}
		measured(t, to("-P", "2"), bothWays)
		measured(t, to("--to", "-b", "50M"), about("to", 50e6))
		measured(t, to("-u", "-b", "20M"), each(about("to", 20e6), about("from", 20e6)))
	})
	t.Run("iperf2", func(t *testing.T) {
		measured(t, func() []string {
			p := freePort(t)
			foreignServer(t, "tcp", p, "iperf", "-s", "-B", "127.0.0.1", "-p", p)
			return briefly("iperf2://127.0.0.1:" + p)
		}, bothWays)
	})
	t.Run("iperf2 UDP", func(t *testing.T) {
		measured(t, func() []string {
			p := freePort(t)
			foreignServer(t, "udp", p, "iperf", "-s", "-u", "-B", "127.0.0.1", "-p", p)
			return briefly("iperf2://127.0.0.1:"+p, "--to", "-u", "-b", "20M")
		}, about("to", 20e6))
	})
	t.Run("NPtcp", func(t *testing.T) {
		var out string
		r := measured(t, func() []string {
			p := freePort(t)
			foreignServer(t, "tcp", p, "NPtcp", "-P", p, "-u", "4", "-o", os.DevNull)
			out = filepath.Join(t.TempDir(), "np.out")
			return []string{"sweep", "netpipe://127.0.0.1:" + p, "--max", "4", "--output", out, "--json", "-q"}
		}, nil)
		if err := validate("linerate/session/v3", r.out); err != nil {
			t.Error(err)
		}
		netpipeFile(t, out, 4)
	})
}

// netpipeFile demands a file as NPtcp writes it: size, Mbit/s and seconds of each
// message, ascending up to largest at least, the three of a line in agreement.
func netpipeFile(t testing.TB, path string, largest int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rows := 0, 0
	for line := range strings.Lines(string(b)) {
		var size int
		var rate, seconds float64
		if n, err := fmt.Sscan(line, &size, &rate, &seconds); n != 3 || err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		// NPtcp's Mbit are 2^20 bits; seconds are written with 8 decimals.
		least := float64(size) * 8 / (1 << 20) / (seconds + 1e-8)
		most := float64(size) * 8 / (1 << 20) / max(seconds-1e-8, 1e-9)
		if size <= before || rate < 0.99*least || rate > 1.01*most {
			t.Errorf("%s: %q after %d bytes: %.3f to %.3f Mbit/s fit the time", path, line, before, least, most)
		}
		before = size
		rows++
	}
	if rows < 4 || before < largest {
		t.Errorf("%s: %d rows up to %d bytes, want %d", path, rows, before, largest)
	}
}

// iperf3Fault says what is wrong in the document of an iperf3 client.
func iperf3Fault(out string) string {
	var d struct {
		Error string `json:"error"`
		End   struct {
			Sum      struct{ Bytes float64 } `json:"sum"`          // UDP
			Received struct{ Bytes float64 } `json:"sum_received"` // TCP
		} `json:"end"`
	}
	err := json.Unmarshal([]byte(out), &d)
	if bytes := max(d.End.Sum.Bytes, d.End.Received.Bytes); err != nil || d.Error != "" || bytes < 1e6 {
		return fmt.Sprintf("%v, error %q, %.0f bytes\n%s", err, d.Error, bytes, out)
	}
	return ""
}

// iperf2Fault says what is wrong in the comma separated line of an iperf 2 client.
func iperf2Fault(out string) string {
	first, _, whole := strings.Cut(out, "\n")
	fields := strings.Split(first, ",") // ..., interval, bytes, bit/s
	if len(fields) < 9 || !whole {
		return fmt.Sprintf("%q", out)
	}
	if bytes, err := strconv.ParseFloat(fields[7], 64); err != nil || bytes < 1e6 {
		return fmt.Sprintf("%v bytes, %v: %q", bytes, err, out)
	}
	return ""
}

// TestForeignClients lets the real programs measure to linerate serve.
func TestForeignClients(t *testing.T) {
	v := startServer(t)
	t.Run("iperf3", func(t *testing.T) {
		for name, more := range map[string][]string{"TCP": {"-P", "2"}, "TCP back": {"-R"}, "UDP": {"-u", "-b", "20M"}, "UDP back": {"-u", "-b", "20M", "-R"}} {
			check := func(out string) string {
				if wrong := iperf3Fault(out); wrong != "" {
					return name + ": " + wrong
				}
				return ""
			}
			foreignClient(t, check, append([]string{"iperf3", "-c", "127.0.0.1", "-p", portOf(v.foreign["iperf3"]), "-t", "1", "-J"}, more...)...)
		}
	})
	t.Run("iperf2", func(t *testing.T) {
		for _, more := range [][]string{nil, {"-u", "-b", "20M"}} {
			foreignClient(t, iperf2Fault, append([]string{"iperf", "-c", "127.0.0.1", "-p", portOf(v.foreign["iperf2"]), "-t", "1", "-y", "C"}, more...)...)
		}
	})
	t.Run("NPtcp", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "np.out")
		foreignClient(t, func(string) string { return "" }, "NPtcp", "-h", "127.0.0.1", "-P", portOf(v.foreign["netpipe"]), "-n", "50", "-u", "64", "-o", out)
		netpipeFile(t, out, 64)
	})
	t.Run("its own", func(t *testing.T) { // both roles are linerate's, over each protocol
		for _, protocol := range []string{"iperf3", "iperf2"} {
			measured(t, func() []string { return briefly(protocol + "://" + v.foreign[protocol]) }, bothWays)
		}
		succeed(t, "sweep", "netpipe://"+v.foreign["netpipe"], "--max", "4", "--json", "-q")
	})
}

// engineReport is what these tests read of reports beyond goodput.
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
	} `json:"report"`
}

// TestRequestsOfACommand asks 200 times a second for half a second.
func TestRequestsOfACommand(t *testing.T) {
	v := startServer(t)
	attempt(t, func() string {
		r := succeed(t, "test", v.link, "--to", "--requests", "200", "-l", "64", "--reply", "4KiB", "-t", "0.5s", "-i", "0.5s", "--omit", "0s", "--json", "-q")
		if err := validate("linerate/session/v3", r.out); err != nil {
			t.Error(err)
		}
		all := decode[engineReport](t, r.out).Report.Latencies
		if len(all) != 2 || all[0].Name != "request" || all[1].Name != "request (service)" || !strings.HasPrefix(all[0].Label, "to ") {
			t.Fatalf("latencies %+v", all)
		}
		if l := all[0]; l.Sent != 100 || l.Lost != 0 || l.Rate.Value < 180 || l.Rate.Value > 205 {
			return fmt.Sprintf("asked for 100 requests at 200/s: %+v", l)
		}
		return ""
	})
}

// TestSearchOfACommand asks for the highest rate up to one that loopback carries.
func TestSearchOfACommand(t *testing.T) {
	v := startServer(t)
	attempt(t, func() string {
		r := succeed(t, "test", v.link, "--to", "--search", "--loss", "2%", "-b", "20M", "-t", "0.1s", "--omit", "0s", "--repeat", "1", "--json", "-q")
		if err := validate("linerate/session/v3", r.out); err != nil {
			t.Error(err)
		}
		s := decode[flows](t, r.out).Report.Search
		if s == nil || !s.Found || s.Rate < 5.8e6 || s.Rate > 20e6 {
			return fmt.Sprintf("from 5.9 to 20 Mbit/s: %+v", s)
		}
		return ""
	})
}

// TestSweepWritesItsFile sweeps a few sizes into a file, and no other one.
func TestSweepWritesItsFile(t *testing.T) {
	v := startServer(t)
	out := filepath.Join(t.TempDir(), "np.out")
	args := []string{"sweep", v.link, "--max", "64", "-t", "0.5s", "-q", "--output", out}
	succeed(t, args...)
	netpipeFile(t, out, 64)
	before, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	fails(t, 2, args, "file exists", "name a file that is not there yet")
	if after, err := os.ReadFile(out); err != nil || string(after) != string(before) {
		t.Errorf("the file that was there is not what it was: %v", err)
	}
}

// TestCopyOfACommand copies small files to a server, then measures a folder, and
// demands that nothing is left of either.
func TestCopyOfACommand(t *testing.T) {
	v := startServer(t)
	t.Run("to a host", func(t *testing.T) {
		r := succeed(t, "copy", v.link, "--size", "1MiB", "--blocks", "1", "--json", "-q")
		if err := validate("linerate/session/v3", r.out); err != nil {
			t.Error(err)
		}
		d := decode[document](t, r.out)
		for _, run := range d.Session.Runs {
			if run.State != "valid" {
				t.Errorf("%s: %s: %s", run.Setting, run.State, run.Reason)
			}
		}
		// From memory and disk to memory and disk, and four parts alone.
		if n := len(d.Session.Runs); n != 8 {
			t.Errorf("%d runs", n)
		}
		if c := decode[engineReport](t, r.out).Report.Copy; c == nil || len(c.Directions) != 1 {
			t.Errorf("report of the copy: %+v", c)
		}
	})
	t.Run("--path", func(t *testing.T) {
		dir := t.TempDir()
		r := succeed(t, "copy", "--path", dir, "--size", "1MiB", "--blocks", "2", "--state", t.TempDir(), "--json", "-q")
		if err := validate("linerate/path/v1", r.out); err != nil {
			t.Error(err)
		}
		d := decode[struct {
			Complete bool              `json:"complete"`
			Trials   []json.RawMessage `json:"trials"`
		}](t, r.out)
		if !d.Complete || len(d.Trials) != 4 { // written and read, twice
			t.Errorf("complete %v, %d trials", d.Complete, len(d.Trials))
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left in the folder: %v, %v", left, err)
		}
	})
}

// TestPlansOfOtherEngines runs plans over UDP, under load with probes, and of
// requests.
func TestPlansOfOtherEngines(t *testing.T) {
	v := startServer(t)
	quick := []string{"--blocks", "1", "--settle", "0s", "--no-twin", "--json", "-q"}
	t.Run("rate as a factor", func(t *testing.T) {
		attempt(t, func() string {
			r := succeed(t, append([]string{"run", v.link, "-u", "--factor", "rate=4M,8M", "--baseline", "4M", "-t", "0.3s", "--omit", "0s"}, quick...)...)
			got := map[string]float64{}
			for _, run := range decode[document](t, r.out).Session.Runs {
				for _, value := range run.Values {
					if value.Metric == "goodput" {
						got[run.Setting] = value.Value
					}
				}
			}
			if ratio := got["8M"] / got["4M"]; !(ratio > 1.7 && ratio < 2.3) || got["8M"] > 9e6 {
				return fmt.Sprintf("goodput %v", got)
			}
			return ""
		})
	})
	for name, flow := range map[string]string{
		"loaded":  "engine: loaded, load: udpflow, rate: 4M, idle: 100ms",
		"reqresp": "engine: reqresp, requests: 100, reply: 4KiB",
	} {
		t.Run(name, func(t *testing.T) {
			plan := write(t, "plan.yaml", "flow: {"+flow+", duration: 300ms, omit: 0s, interval: 100ms}\nfactors: [{knob: window, levels: [64KiB, 256KiB]}]\n")
			r := succeed(t, append([]string{"run", plan, "--far", v.link}, quick...)...)
			d := decode[document](t, r.out)
			for _, run := range d.Session.Runs {
				if run.State != "valid" {
					t.Errorf("%s: %s: %s", run.Setting, run.State, run.Reason)
				}
			}
			if len(d.Session.Runs) != 3 || len(decode[engineReport](t, r.out).Report.Latencies) == 0 {
				t.Errorf("%d runs, latencies %+v", len(d.Session.Runs), decode[engineReport](t, r.out).Report.Latencies)
			}
		})
	}
}
