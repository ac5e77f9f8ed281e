package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
)

// narrowRouter makes the middle a router that passes to bytes of IP to the far host and
// from bytes back. With silent it says nothing of packets that are too big.
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

// mending is the command of a report that sets an MTU, as one would paste it.
var mending = regexp.MustCompile(`linerate set link\.mtu=\d+(?:[^\n\\]|\\\n)*`)

// advised is any command of linerate that a report says to do.
var advised = regexp.MustCompile(`linerate (set|run|show|check|test|tune) `)

// TestCheckPacketSizes: a router with a small MTU that says so, one that does not, one
// that does not in one direction, and two ends that differ are told apart; what the
// report says to do next makes the finding go away.
func TestCheckPacketSizes(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const copes, hole = "says so, and TCP copes", "(a black hole)"
	atOnce(t, 2, map[string]func(*testing.T){
		"small, and said so": func(t *testing.T) {
			n := narrowRouter(t, "1400", "1400", false)
			mended(t, n, []string{"POOR mtu to ", "POOR mtu from ", "router " + routerNear + " (MTU 1400) " + copes, "router " + routerFar + " (MTU 1400) " + copes}, "BAD ", hole)
		},
		"black hole both ways": func(t *testing.T) {
			n := narrowRouter(t, "1400", "1300", true)
			mended(t, n, []string{"BAD mtu to ", "BAD mtu from ", hole, "larger ones vanish", "link.mtu=1300"}, copes, "this way only")
		},
		"black hole one way": func(t *testing.T) {
			n := narrowRouter(t, "1400", "1500", true)
			mended(t, n, []string{"BAD mtu to ", "ok mtu from ", hole, "this way only, the other one passes 1500"}, copes)
		},
		"two ends differ": func(t *testing.T) {
			n := bridged(t, "9000")
			ip(t, "-n", n.a, "link", "set", "v0", "mtu", "9000")
			mended(t, n, []string{"POOR mtu to ", "an MTU mismatch: ", " has 9000 and ", " has 1500", "ok mtu from "}, hole, copes)
		},
	})
}

// words is text with one space between any two words, whatever lines it has.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// mended checks the path, demands what is said and what is not, does what the report
// says to do next, and demands that nothing is amiss with the sizes of packets then.
func mended(t testing.TB, n *middle, says []string, not ...string) {
	t.Helper()
	look := func() result { return run(t, n.inside(t, "a", "check", n.agent("b"), "--quick", "--quiet")) }
	r := look()
	for _, text := range says {
		if !strings.Contains(words(r.out), words(text)) {
			t.Errorf("it does not say %q", text)
		}
	}
	for _, text := range not {
		if strings.Contains(words(r.out), text) {
			t.Errorf("it says %q", text)
		}
	}
	next := mending.FindString(r.out)
	if r.code != 8 || next == "" || len(advised.FindAllString(r.out, -1)) != 1 {
		t.Errorf("exit code %d, next %q", r.code, next)
	}
	if t.Failed() {
		t.Fatalf("%s%s", r.out, r.err)
	}
	cmd := n.prepare(exec.CommandContext(t.Context(), "ip", "netns", "exec", n.a, "sh", "-c", next+" --for 50s"))
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	held := start(t, cmd)
	_, want, _ := strings.Cut(strings.Fields(next)[2], "=")
	eventually(t, 40*time.Second, "the MTU that was advised, on both hosts", func() bool { return n.mtu(t, "a") == want && n.mtu(t, "b") == want })
	after := look()
	_ = held.cmd.Process.Kill()
	<-held.done
	got := words(after.out)
	if !strings.Contains(got, "ok mtu to ") || !strings.Contains(got, "ok mtu from ") || strings.Contains(got, "BAD") {
		t.Errorf("after %s:\n%s%s", next, after.out, after.err)
	}
}

// TestCheckOptionsOnTheWay: a router that rewrites the MSS, takes SACK out, or clears
// the marks of ECN is seen, in the direction that it does it in.
func TestCheckOptionsOnTheWay(t *testing.T) {
	t.Parallel()
	needRoot(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft")
	}
	cases := map[string]func(*testing.T){}
	for rule, says := range map[string]string{
		"tcp flags syn tcp option maxseg size set 1000":               "segments to ",
		"tcp flags syn reset tcp option sack-perm":                    "lost on the way: sack",
		"ip daddr " + farAddr + " ip protocol udp ip ecn set not-ect": "marks of ECN do not arrive at ",
	} {
		cases[rule] = func(t *testing.T) {
			n := narrowRouter(t, "1500", "1500", false)
			out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.m, "nft",
				"add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f "+rule).CombinedOutput()
			if err != nil {
				t.Skipf("this kernel does not do that: %v: %s", err, out)
			}
			r := run(t, n.inside(t, "a", "check", n.agent("b"), "--quick", "--quiet"))
			if !strings.Contains(words(r.out), says) {
				t.Errorf("%q is not said:\n%s%s", says, r.out, r.err)
			}
		}
	}
	atOnce(t, 2, cases)
}

// TestCheckForCron: without a terminal a check with demands writes one line where one of
// them is not met, and its exit code says so; a check without demands has another one.
func TestCheckForCron(t *testing.T) {
	t.Parallel()
	needLab(t)
	const path = "lab:rate=50mbit,rtt=20ms"
	for name, c := range map[string]struct {
		args []string
		code int
		err  []string // of the one line
	}{
		"met":         {[]string{path, "--expect", "30M,loss<20%,p99<2s"}, 0, nil},
		"not met":     {[]string{path, "--expect", "900M,loss<20%,p99<2s"}, 9, []string{"linerate: not met: 900M (", "Mbit/s, from "}},
		"two are not": {[]string{path, "--expect", "900M,p99<1ms"}, 9, []string{"900M (", "p99<1ms ("}},
		"found":       {[]string{path + ",far.tcp.recv_buffer_max=16KiB"}, 8, []string{"linerate: found: ", "speed to "}},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, command(t, append([]string{"check", "--quick", "--quiet"}, c.args...)...))
			lines := strings.Split(strings.TrimSpace(r.err), "\n")
			if r.code != c.code || len(lines) > 1 || c.err == nil && r.err != "" {
				t.Errorf("exit code %d, want %d; stderr %q\n%s", r.code, c.code, r.err, r.out)
			}
			for _, text := range c.err {
				if !strings.Contains(r.err, text) {
					t.Errorf("it does not say %q: %s", text, r.err)
				}
			}
		})
	}
}

// TestCheckOfIperf3: a real iperf3 server at the far end of a path gives less evidence,
// and each line says which is missing; it works without root too.
func TestCheckOfIperf3(t *testing.T) {
	t.Parallel()
	needRoot(t)
	iperf3, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("needs iperf3")
	}
	n := newNetns(t)
	server := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.b, iperf3, "-s")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	eventually(t, 10*time.Second, "the server", func() bool {
		return strings.Contains(ip(t, "netns", "exec", n.b, "ss", "-ltn"), ":5201")
	})
	nobody := append([]string{"netns", "exec", n.a, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", binary}, "check", "iperf3://"+farAddr, "--quick", "--why", "--quiet", "--db", ":memory:")
	open := t.TempDir()
	_ = os.Chmod(open, 0o777)
	for name, cmd := range map[string]*exec.Cmd{
		"root":   n.inside(t, "a", "check", "iperf3://"+farAddr, "--quick", "--why", "--quiet"),
		"nobody": n.prepare(exec.CommandContext(t.Context(), "ip", nobody...)),
	} {
		if name == "nobody" {
			cmd.Env = append(cmd.Env, "HOME="+open, "LINERATE_STATE="+open, "LINERATE_CONFIG="+open, "LINERATE_DB="+filepath.Join(open, "r.db"))
		}
		r := run(t, cmd)
		if r.code != 0 && r.code != 8 {
			t.Errorf("%s: exit code %d\n%s", name, r.code, r.err)
		}
		got := words(r.out)
		for _, text := range []string{"speed to ", "speed from ", "not visible: iperf3://" + farAddr + " does not probe", "does not do that", "limit: "} {
			if !strings.Contains(got, text) {
				t.Errorf("%s: %q is not said:\n%s%s", name, text, r.out, r.err)
			}
		}
	}
}

// slowDisk makes a control group whose processes read and write at most so many bytes a
// second of the disk that dir is on, and returns its folder.
func slowDisk(t testing.TB, dir string, bytesPerSecond int) string {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		t.Fatal(err)
	}
	group, err := os.MkdirTemp("/sys/fs/cgroup/blkio", "linerate-test-") //nolint:usetesting // a control group, not a folder
	if err != nil {
		t.Skipf("needs the blkio controller of control groups: %v", err)
	}
	t.Cleanup(func() {
		eventually(t, 10*time.Second, "the end of who is in the control group", func() bool { return os.Remove(group) == nil })
	})
	for _, what := range []string{"read", "write"} {
		limit := fmt.Sprintf("%d:%d %d", unix.Major(s.Dev), unix.Minor(s.Dev), bytesPerSecond)
		if err := os.WriteFile(filepath.Join(group, "blkio.throttle."+what+"_bps_device"), []byte(limit), 0o644); err != nil {
			t.Skipf("this kernel or this disk cannot be slowed down: %v", err)
		}
	}
	return group
}

// TestCheckDisk: a far host whose disk moves 20 MB/s holds files back in both
// directions, and the network does not.
func TestCheckDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	group := slowDisk(t, n.dir, 20e6)
	script := filepath.Join(n.dir, "slow.sh")
	text := fmt.Sprintf("#!/bin/sh\nmkdir -p %s/.cache\nexport HOME=%[1]s\necho $$ > %s/cgroup.procs && exec \"$@\"\n", filepath.Join(n.dir, "home"), group)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	far := fmt.Sprintf("exec:%s %s ip netns exec %s %s agent --state %s", farAddr, script, n.b, binary, n.state("b"))
	r := run(t, n.command(t, "check", far, "--from", n.agent("a"), "--quick", "--disk", "--why", "--quiet"))
	if r.code != 8 {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	for _, d := range []model.Direction{model.To, model.From} {
		what := map[model.Direction]string{model.To: "writes", model.From: "reads"}[d]
		line := regexp.MustCompile(`POOR disk ` + string(d) + ` \S+( \(far\))? ([\d.]+) Mbit/s is what \S+( \(far\))? ` + what + `, and the network carries [^:]+: files are held back by the disk`)
		found := line.FindStringSubmatch(words(r.out))
		if found == nil {
			t.Errorf("%s: the disk is not named:\n%s%s", d, r.out, r.err)
			continue
		}
		if rate, err := strconv.ParseFloat(found[2], 64); err != nil || rate < 110 || rate > 200 {
			t.Errorf("%s: %v Mbit/s of a disk that moves 160", d, rate)
		}
	}
}
