package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/must"
)

// narrowRouter makes the middle a router that passes to bytes of IP towards the far host and from
// bytes back. With silent it does not report packets that are too big.
func narrowRouter(t testing.TB, to, from string, silent bool) *middle {
	t.Helper()
	n := routed(t)
	ip(t, "-n", n.m, "route", "change", farAddr+"/32", "dev", "vb", "mtu", to)
	ip(t, "-n", n.m, "route", "change", nearAddr+"/32", "dev", "va", "mtu", from)
	if silent {
		ip(t, "-n", n.m, "rule", "add", "pref", "10", "iif", "lo", "ipproto", "icmp", "blackhole")
	}
	return n
}

// mending matches the command in a report that sets an MTU, as a user would paste it.
var mending = regexp.MustCompile(`linerate set link\.mtu=\d+(?:[^\n\\]|\\\n)*`)

// advised matches any linerate command that a report suggests.
var advised = regexp.MustCompile(`linerate (set|run|show|check|test|tune) `)

// TestCheckPacketSizes: a router with a small MTU that does not report it in one direction, and
// two ends with different MTUs, get different findings; the next step in the report removes the
// finding. TestSlowCheckPacketSizes has more cases.
func TestCheckPacketSizes(t *testing.T) {
	t.Parallel()
	checkPacketSizes(t, false, "black hole one way", "two ends differ")
}

// checkPacketSizes checks paths with these kinds of packet sizes. With alone there are no other
// findings and suggestions.
func checkPacketSizes(t *testing.T, alone bool, kinds ...string) {
	t.Helper()
	needRoot(t)
	const copes, hole = "says so, and TCP copes", "(a black hole)"
	all := map[string]func(*testing.T){
		"small, and said so": func(t *testing.T) {
			n := narrowRouter(t, "1400", "1400", false)
			mended(t, n, alone, []string{"POOR mtu to ", "POOR mtu from ", "router " + routerNear + " (MTU 1400) " + copes, "router " + routerFar + " (MTU 1400) " + copes}, "BAD mtu", hole)
		},
		"black hole both ways": func(t *testing.T) {
			n := narrowRouter(t, "1400", "1300", true)
			mended(t, n, alone, []string{"BAD mtu to ", "BAD mtu from ", hole, "larger ones vanish", "link.mtu=1300"}, copes, "this way only")
		},
		"black hole one way": func(t *testing.T) {
			n := narrowRouter(t, "1400", "1500", true)
			mended(t, n, alone, []string{"BAD mtu to ", "ok mtu from ", hole, "this way only, the other one passes 1500"}, copes)
		},
		"two ends differ": func(t *testing.T) {
			n := bridged(t, "9000")
			ip(t, "-n", n.near, "link", "set", "v0", "mtu", "9000")
			mended(t, n, alone, []string{"POOR mtu to ", "an MTU mismatch: ", " has 9000 and ", " has 1500", "ok mtu from "}, hole, copes)
		},
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			all[kind](t)
		})
	}
}

// words returns text with single spaces between words, without line breaks.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// mended checks the path, requires says and excludes not, runs the report's next step, and
// requires that there are no more findings about packet sizes.
func mended(t testing.TB, n *middle, alone bool, says []string, not ...string) {
	t.Helper()
	if !alone { // otherwise the limit would be a finding
		n.limit(t, "v0")
	}
	look := func() result { return run(t, n.inside(t, "near", "check", n.agent("far"), "--quick", "--quiet")) }
	r := look()
	for _, text := range says {
		must.Contain(t, words(r.out), words(text), "it does not say %q", text)
	}
	for _, text := range not {
		must.True(t, !strings.Contains(words(r.out), text), "it says %q", text)
	}
	next := mending.FindString(r.out)
	must.True(t, r.code == 8 && next != "" && (!alone || len(advised.FindAllString(r.out, -1)) == 1), "exit code %d, next %q", r.code, next)
	must.Need(t, !t.Failed(), "%s%s", r.out, r.err)
	cmd := n.prepare(exec.CommandContext(t.Context(), "ip", "netns", "exec", n.near, "sh", "-c", "exec "+next+" --for 10m"))
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	held := start(t, cmd)
	_, want, _ := strings.Cut(strings.Fields(next)[2], "=")
	must.Until(t, "the MTU that was advised, on both hosts", func() bool { return n.mtu(t, "near") == want && n.mtu(t, "far") == want })
	after := look()
	held.signal(t, os.Interrupt)
	held.wait(t, patience)
	got := words(after.out)
	must.True(t, strings.Contains(got, "ok mtu to ") && strings.Contains(got, "ok mtu from ") && (!alone || !strings.Contains(got, "BAD")), "after %s:\n%s%s", next, after.out, after.err)
}

// TestCheckOptionsOnTheWay: a router that rewrites the MSS, removes SACK, or clears the ECN marks
// is detected, in the right direction.
func TestCheckOptionsOnTheWay(t *testing.T) {
	rootBeside(t)
	needProgram(t, "nft")
	cases := map[string]func(*testing.T){}
	for rule, says := range map[string]string{
		"tcp flags syn tcp option maxseg size set 1000":               "segments to ",
		"tcp flags syn reset tcp option sack-perm":                    "lost on the way: sack",
		"ip daddr " + farAddr + " ip protocol udp ip ecn set not-ect": "marks of ECN do not arrive at ",
	} {
		cases[rule] = func(t *testing.T) {
			n := narrowRouter(t, "1500", "1500", false)
			n.limit(t, "v0")
			out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.m, "nft",
				"add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f "+rule).CombinedOutput()
			must.SkipIf(t, err != nil, "this kernel does not do that: %v: %s", err, out)
			r := run(t, n.inside(t, "near", "check", n.agent("far"), "--quick", "--quiet"))
			must.True(t, strings.Contains(words(r.out), says), "%q is not said:\n%s%s", says, r.out, r.err)
		}
	}
	beside(t, cases)
}

// TestCheckForCron: without a terminal a check with demands prints one line if one of them is not
// met, and its exit code shows it. TestTruthOfCheckForCron has demands close to what a path
// carries.
func TestCheckForCron(t *testing.T) {
	labBeside(t)
	t.Run("met", func(t *testing.T) {
		t.Parallel()
		checkForCron(t, 0, "1k,loss<90%,p99<1m")
	})
	t.Run("two are not", func(t *testing.T) {
		t.Parallel()
		checkForCron(t, 9, "900M,loss<90%,p99<1ms", "linerate: not met: 900M (", "Mbit/s, from ", "p99<1ms (")
	})
}

// checkForCron checks a lab of 50 Mbit/s and 20 ms. It requires an exit code, and one line on
// stderr with these words, or none.
func checkForCron(t testing.TB, code int, expect string, says ...string) {
	t.Helper()
	r := run(t, command(t, "check", "--quick", "--quiet", "lab:rate=50mbit,rtt=20ms", "--expect", expect))
	must.True(t, r.code == code && strings.Count(r.err, "\n") == min(len(says), 1), "exit code %d, want %d; stderr %q\n%s", r.code, code, r.err, r.out)
	has(t, "stderr", r.err, says...)
}

// TestCheckOfIperf3: a real iperf3 server at the far end gives less evidence, and each line says
// which is missing; it also works without root.
func TestCheckOfIperf3(t *testing.T) {
	t.Parallel()
	iperf3, err := exec.LookPath("iperf3")
	must.SkipIf(t, err != nil, "needs iperf3")
	n := newNetns(t)
	server := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.far, iperf3, "-s")
	must.Do(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	must.Until(t, "the server", func() bool { return strings.Contains(ip(t, "netns", "exec", n.far, "ss", "-ltn"), ":5201") })
	open := t.TempDir()
	_ = os.Chmod(open, 0o777)
	cmd := n.prepare(exec.CommandContext(t.Context(), "ip", "netns", "exec", n.near, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all",
		binary, "check", "iperf3://"+farAddr, "--quick", "--why", "--quiet", "--db", ":memory:"))
	cmd.Env = append(cmd.Env, "HOME="+open, "LINERATE_STATE="+open, "LINERATE_CONFIG="+open, "LINERATE_DB="+filepath.Join(open, "r.db"))
	r := run(t, cmd)
	must.True(t, r.code == 0 || r.code == 8, "exit code %d\n%s", r.code, r.err)
	has(t, "without root", words(r.out), "speed to ", "speed from ", "not visible: iperf3://"+farAddr+" does not probe", "does not do that", "limit: ")
}

// unwrapped joins lines with their indented continuations.
func unwrapped(text string) string { return regexp.MustCompile("\n {4,}").ReplaceAllString(text, " ") }

// TestRecheckKept: recheck and knobs show the state of what is kept on this machine by its
// fingerprint: proven on another kernel, on this one, or not measured.
func TestRecheckKept(t *testing.T) {
	t.Parallel()
	_, r := keptHere(t, `
proven() {
cat > $W/$1.yaml <<END
profile: 2
hosts: [{role: near, knobs: {tcp.sack: off}}]
evidence:
  session: 20261121T130000-beef
  setting: off
  date: 2026-11-21
  fingerprint: {near.kernel: "$2"}
  verdicts: [{outcome: better, direction: to, metric: goodput, blocks: 6, estimate: 0.1, low: 0.05, high: 0.15, confidence: 0.95}]
END
linerate keep $W/$1.yaml --yes > /dev/null
code=0; linerate recheck --look || code=$?
echo $1 $code
linerate knobs --match tcp.sack
}
linerate recheck --look
proven old 2.6.9
linerate recheck --look --json > $W/json || true
code=0; linerate recheck || code=$?
echo measure $code
linerate undo --kept > /dev/null
proven same $(uname -r)
linerate undo --kept > /dev/null
linerate keep $W/tall.yaml --role receiver --yes > /dev/null
code=0; linerate recheck tcp.sack --look || code=$?
echo unmeasured $code`)
	kernel := must.Get(os.ReadFile("/proc/sys/kernel/osrelease"))(t)
	r.out = unwrapped(r.out)
	has(t, "stdout", r.out, "nothing is kept\n", ": unproven since kernel 2.6.9 -> "+strings.TrimSpace(string(kernel))+" at "+must.Get(os.Hostname())(t)+"\n", "old 8\n",
		"  proven on 2026-11-21 in session 20261121T130000-beef\n", "unproven since kernel 2.6.9 -> ", "measure 2\n", ": proven on 2026-11-21\n", "same 0\n",
		": unproven: not measured\n", "unmeasured 8\n")
	has(t, "stderr", r.err, "no note says to which host", "linerate recheck HOST")
	must.True(t, strings.Count(r.out, "unproven since kernel 2.6.9") == 2 && strings.Count(r.out, "proven on 2026-11-21") >= 3, "knobs does not say it too:\n%s", r.out)
}
