package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
	"linerate/internal/report"
)

// TestEnginesTakeTurns compares two kinds of traffic in blocks of one session: datagrams with
// TCP. Each run is what its level says, and only metrics of both are guards. TestTruthOfEngines
// requires the verdict.
func TestEnginesTakeTurns(t *testing.T) {
	labBeside(t)
	enginesTakeTurns(t, "2")
}

// enginesTakeTurns compares datagrams of 5 Mbit/s with TCP, which fills the lab's 20 Mbit/s, and
// returns the verdicts.
func enginesTakeTurns(t testing.TB, blocks string) []model.Verdict {
	t.Helper()
	args := []string{"run", "lab:rate=20mbit,rtt=1ms", "--udp", "--bitrate", "5M", "--factor", "engine=tcpbulk,udpflow",
		"--blocks", blocks, "-t", "250ms", "--omit", "150ms", "--settle", "0s", "--no-twin", "--db", filepath.Join(t.TempDir(), "results.db"), "--json", "-q"}
	dry := decode[report.DryRun](t, succeed(t, append(args, "--dry-run")...).out)
	// 0.4 s a run: TCP at the ceiling of the path, which is that of datagrams, the others at their rate.
	got, want := float64(dry.Bytes.Or(0)), float64(dry.Runs)/2*0.4/8*(19.14e6+5e6)
	must.True(t, !(got < 0.7*want) && !(got > 1.3*want), "%.0f bytes are foreseen, want about %.0f", got, want)
	r := succeed(t, args...)
	must.OK(t, validate("linerate/session/v1", r.out))
	s := decode[document](t, r.out).Session
	for _, one := range s.Runs {
		want := "udpflow"
		if one.Setting == "tcpbulk" {
			want = "tcpbulk"
		}
		must.True(t, one.Flow.Engine == want && (want != "tcpbulk" || one.Flow.Params == ""), "run %d of %s was made with %s (%s)", one.Number, one.Setting, one.Flow.Engine, one.Flow.Params)
	}
	for _, g := range s.Plan.Guards {
		must.True(t, g.Metric != model.LossRatio, "loss is a guard, which TCP does not measure")
	}
	return s.Verdicts
}

// TestEnginesRefused: values that a level cannot have, or that one engine does not measure.
func TestEnginesRefused(t *testing.T) {
	t.Parallel()
	const lab = "lab:rate=20mbit"
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"run", lab, "--factor", "engine=tcpbulc"}, `did you mean tcpbulk? "tcpbulc" is not one of tcpbulk, udpflow, reqresp, loaded`},
		{[]string{"run", lab, "--factor", "engine=tcpbulk,udpflow"}, "engine udpflow: it has options of its own, which a level cannot give: begin from it"},
		{[]string{"run", lab, "--factor", "engine=reqresp"}, "engine reqresp, a level, measures no goodput"},
		{[]string{"run", lab, "--udp", "--bitrate", "5M", "--factor", "engine=tcpbulk", "--guard", "loss<1%"}, "engine tcpbulk, a level, measures no loss, which is a guard"},
		{[]string{"run", lab, "--udp", "--bitrate", "5M", "--factor", "engine=tcpbulk", "--factor", "rate=1M,5M"}, "knob rate: belongs to UDP, not to engine tcpbulk"},
		{[]string{"run", lab, "--factor", "near.engine=tcpbulk"}, "engine belongs to the flow, not to the near host"},
		{[]string{"set", "near.engine=tcpbulk"}, "engine"},
	} {
		r := run(t, command(t, c.args...))
		must.True(t, r.code == 2 && strings.Contains(strings.Join(strings.Fields(r.err), " "), c.says) && strings.Count(r.err, "linerate:") == 1, "%q: exit code %d\n%s, want %q", c.args, r.code, r.err, c.says)
	}
}

// TestToyProgram: a folder and a line in the list make a foreign program whose scheme works in
// test, run, plan files, JSON, the store and the report, and whose clients serve answers, logs
// and stores.
func TestToyProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, log := filepath.Join(dir, "results.db"), filepath.Join(dir, "audit.log")
	try := func(args ...string) result {
		cmd := command(t, args...)
		cmd.Path = os.Args[0]
		cmd.Env = append(cmd.Env, "LINERATE_TEST_MAIN=1", toyVar+"=1")
		return run(t, cmd)
	}
	do := func(code int, args ...string) result {
		t.Helper()
		return try(args...).exits(t, code)
	}
	serve, served := keeping(t, "--toy=127.0.0.1:0", "--audit", log, "--unconfined") // in case the test was built with cgo
	serve.Path = os.Args[0]
	serve.Env = append(serve.Env, "LINERATE_TEST_MAIN=1", toyVar+"=1")
	v := serveJSON(t, serve)
	far := "toy://" + v.Foreign["toy"]
	if _, _, err := net.SplitHostPort(strings.TrimPrefix(far, "toy://")); err != nil {
		t.Fatalf("%s is no address: %s", far, v.p.said())
	}
	// Its scheme, its flag, its lines of the report.
	has(t, "toy", do(0, "test", far, "--toy-rounds", "5", "--to", "--db", db).out, "5 toy bytes came back")
	// The store, the report made from it, and JSON.
	has(t, "toy", do(0, "show", "last", "--db", db).out, "5 toy bytes came back")
	has(t, "toy", strings.Join(strings.Fields(do(0, "show", "last", "--json=full", "--db", db).out), ""),
		`"engine":"toybytes"`, `"metric":"goodput","value":5`, `"own":["5toybytescameback"]`)
	// What it refuses, and the errors.
	has(t, "toy", do(2, "test", far, "--bytes", "1M", "--db", db).err, far+" counts no bytes", "leave out --bytes")
	has(t, "toy", do(2, "test", far, "--toy-rounds", "many", "--db", db).err, `--toy-rounds: "many" is not a number`)
	has(t, "toy", do(2, "test", "iperf3://127.0.0.1:1", "--toy-rounds", "5", "--db", db).err, "--toy-rounds: belongs to toy:// hosts")
	has(t, "toy", do(2, "test", "toy://", "--db", db).err, "not the address of a toy server", "toy://nas:5999")
	has(t, "toy", do(3, "test", "toy://127.0.0.1:1", "--db", db).err, "start it with: linerate serve --toy")
	has(t, "toy", do(0, "test", "--help").out, "--toy-rounds")
	has(t, "toy", strings.Join(strings.Fields(do(0, "serve", "--help").out), " "), "--toy answer", "--toy-mute", "at most 1000 bytes")
	// Plan files.
	plan := filepath.Join(dir, "plan.yaml")
	text := "far: " + far + "\nblocks: 6\nsettle: 0s\ntwin: false\nflow: {duration: 10ms}\nfactors: [{knob: window, levels: [64KiB]}]\n"
	must.Do(t, os.WriteFile(plan, []byte(text), 0o600))
	has(t, "toy", do(0, "run", plan, "--db", db).out, "3 toy bytes came back")
	// What the server stored and logged.
	must.Until(t, "a served result", func() bool {
		r := try("list", "--kind", "served", "--json", "--db", served)
		return strings.Count(r.out, `"toy client"`) > 1
	})
	has(t, "toy", do(0, "show", "last", "--db", served).out, "toy bytes came back")
	lineOf(t, log, "event=run-begin protocol=toy address=127.0.0.1 engine=toybytes")
	lineOf(t, log, "event=run-end protocol=toy address=127.0.0.1 engine=toybytes outcome=ok")
	// Without the line the program does not know it.
	fails(t, 2, []string{"test", far}, "no way to reach toy:// hosts")
	fails(t, 2, []string{"serve", "--toy"}, "unknown flag: --toy")
}

// TestForeignLimits: the real programs ask linerate serve for more than the limits of --open,
// which apply to them without --open too.
func TestForeignLimits(t *testing.T) {
	t.Parallel()
	v := serveJSON(t, serveEverything(t))
	needProgram(t, "iperf3")
	for asked, says := range map[string]string{
		"-u -b 101M -t 1":      "total required bandwidth is larger than server limit",
		"-u -b 101M -t 1 -R":   "total required bandwidth is larger than server limit",
		"-u -b 60M -P 2 -t 1":  "total required bandwidth is larger than server limit",
		"-n 1M -P 17":          "number of parallel streams",
		"-t 61":                "test duration",
		"-u -b 0 -t 1 --bidir": "total required bandwidth is larger than server limit",
	} {
		r := run(t, exec.CommandContext(t.Context(), "iperf3", append([]string{"-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf3"])}, strings.Fields(asked)...)...))
		must.True(t, r.code != 0 && strings.Contains(r.out+r.err, says), "iperf3 %s: exit code %d, no %q in\n%s%s", asked, r.code, says, r.out, r.err)
	}
}

// TestForeignMistakes uses targets of another kind than their scheme.
func TestForeignMistakes(t *testing.T) {
	t.Parallel()
	shut := freePort(t)
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"test", "iperf3://127.0.0.1:" + shut}, 3, []string{"connection refused", "start it with: iperf3 -s -p " + shut}},
		{[]string{"test", "iperf2://127.0.0.1:" + shut}, 3, []string{"connection refused", "start it with: iperf -s -p " + shut}},
		{[]string{"sweep", "netpipe://127.0.0.1:" + shut}, 3, []string{"connection refused", "start it with: NPtcp -P " + shut}},
		{[]string{"test", "iperf3://nowhere.invalid"}, 3, []string{"nowhere.invalid", "is the name right?"}},
	} {
		fails(t, c.code, append(c.args, "-q"), c.says...)
	}
	r := fails(t, 3, []string{"test", "iperf3://127.0.0.1:" + shut, "--wait", "1h"}, "connection refused")
	must.True(t, !strings.Contains(r.err, "cannot be asked how busy"), "it waits for a calm machine before a server that is not there:\n%s", r.err)
	v := serveJSON(t, serveEverything(t))
	fails(t, 3, []string{"test", "iperf3://" + v.Foreign["netpipe"], "-t", "0.2s", "-q"}, "closed before its first word", "if it is an iperf3 server")
	// Each error names the other program, and comes soon.
	for wrong, right := range map[string]string{"iperf2": "iperf3", "iperf3": "iperf2"} {
		for _, more := range [][]string{nil, {"--bidir"}} {
			fails(t, 3, append([]string{"test", wrong + "://" + v.Foreign[right], "-t", "10s", "-q"}, more...),
				"this looks like an iperf", "use "+right+"://"+v.Foreign[right])
		}
	}
}

// TestServerOutOfDescriptors takes all descriptors that anonymous clients can have of a server,
// by connections to each of its listeners: those of sessions remain, and afterwards every
// program is served.
func TestServerOutOfDescriptors(t *testing.T) {
	t.Parallel()
	// The limit is set before the server becomes another user: not every root may change that
	// user's limit.
	v := serveJSON(t, fewFiles(t, serveEverything(t)))
	for name, addr := range map[string]string{"iperf3": v.Foreign["iperf3"], "iperf2": v.Foreign["iperf2"], "netpipe": v.Foreign["netpipe"], "linerate": v.Address} {
		var all []net.Conn
		for range 300 {
			// The kernel completes the handshake of connections that the server cannot accept.
			if c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", addr); err == nil {
				all = append(all, c)
			}
		}
		must.True(t, len(all) >= 150, "%s: only %d connections", name, len(all))
		held := func() int { return descriptors(t, v.p) }
		n := held()
		must.True(t, n <= 96-budget.Divide(96, 3).Sessions, "%s: anonymous clients hold %d of 96 descriptors", name, n)
		measured(t, briefly(v.Link), bothWays)
		for _, c := range all {
			_ = c.Close()
		}
		must.Until(t, name+" gives its descriptors back", func() bool { return held() < 40 })
	}
	foreignClient(t, iperf3Fault, "iperf3", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf3"]), "-n", "2M", "-J")
	foreignClient(t, iperf2Fault, "iperf", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf2"]), "-n", "2M", "-y", "C")
	foreignClient(t, unchecked, "NPtcp", "-h", "127.0.0.1", "-P", portOf(v.Foreign["netpipe"]), "-n", "20", "-u", "16", "-o", os.DevNull)
	measured(t, briefly(v.Link), bothWays)
}

// fewFiles gives cmd 96 descriptors. The limit is set before the server becomes another user: not
// every root may change that user's limit.
func fewFiles(t testing.TB, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	limited := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -n 96 && exec "$@"`, "sh"}, cmd.Args...)...)
	limited.Env = cmd.Env
	return limited
}

// descriptors returns how many descriptors a process has.
func descriptors(t testing.TB, p *process) int {
	t.Helper()
	list, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd"))
	must.Dof(t, err, "the server is gone")
	return len(list)
}
