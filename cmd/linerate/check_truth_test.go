//go:build truth && linux

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

	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestTruthOfCheckForCron: a check with demands close to what a path carries ends as its numbers
// say, and one without demands names its findings.
func TestTruthOfCheckForCron(t *testing.T) {
	needLab(t)
	const path = "lab:rate=50mbit,rtt=20ms"
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		checkForCron(try, 0, "30M,loss<20%,p99<2s")
		checkForCron(try, 9, "900M,loss<20%,p99<2s", "linerate: not met: 900M (", "Mbit/s, from ")
		r := run(try, command(try, "check", "--quick", "--quiet", path+",far.tcp.recv_buffer_max=16KiB"))
		must.True(try, r.code == 8 && strings.Count(r.err, "\n") == 1, "exit code %d; stderr %q\n%s", r.code, r.err, r.out)
		has(try, "stderr", r.err, "linerate: found: ", "speed to ")
	})
}

// slowDisk makes a control group whose processes read and write at most bytesPerSecond on dir's
// disk, and returns its folder.
func slowDisk(t testing.TB, dir string, bytesPerSecond int) string {
	t.Helper()
	var s unix.Stat_t
	must.Do(t, unix.Stat(dir, &s))
	group, err := os.MkdirTemp("/sys/fs/cgroup/blkio", "linerate-test-") //nolint:usetesting // a control group, not a folder
	must.SkipIf(t, err != nil, "needs the blkio controller of control groups: %v", err)
	t.Cleanup(func() {
		must.Until(t, "the end of who is in the control group", func() bool { return os.Remove(group) == nil })
	})
	for _, what := range []string{"read", "write"} {
		limit := fmt.Sprintf("%d:%d %d", unix.Major(s.Dev), unix.Minor(s.Dev), bytesPerSecond)
		err := os.WriteFile(filepath.Join(group, "blkio.throttle."+what+"_bps_device"), []byte(limit), 0o644)
		must.SkipIf(t, err != nil, "this kernel or this disk cannot be slowed down: %v", err)
	}
	return group
}

// TestTruthOfADisk: a far host whose disk moves 20 MB/s limits file copies in both directions,
// and the network does not.
func TestTruthOfADisk(t *testing.T) {
	needRoot(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		n := fastNetns(t)
		group := slowDisk(t, n.dir, 20e6)
		script := filepath.Join(n.dir, "slow.sh")
		text := fmt.Sprintf("#!/bin/sh\nmkdir -p %s/.cache\nexport HOME=%[1]s\necho $$ > %s/cgroup.procs && exec \"$@\"\n", filepath.Join(n.dir, "home"), group)
		must.Do(try, os.WriteFile(script, []byte(text), 0o755))
		far := fmt.Sprintf("exec:%s %s ip netns exec %s %s agent --state %s", farAddr, script, n.far, binary, n.state("far"))
		r := run(try, n.command(try, "check", far, "--from", n.agent("near"), "--quick", "--disk", "--why", "--quiet"))
		must.True(try, r.code == 8, "exit code %d\n%s%s", r.code, r.out, r.err)
		for _, d := range []model.Direction{model.To, model.From} {
			what := map[model.Direction]string{model.To: "writes", model.From: "reads"}[d]
			line := regexp.MustCompile(`POOR disk ` + string(d) + ` \S+( \(far\))? ([\d.]+) Mbit/s is what \S+( \(far\))? ` + what + `, and the network carries [^:]+: files are held back by the disk`)
			found := line.FindStringSubmatch(words(r.out))
			if found == nil {
				try.Errorf("%s: the disk is not named:\n%s%s", d, r.out, r.err)
				continue
			}
			rate, err := strconv.ParseFloat(found[2], 64)
			must.OK(try, err)
			try.Claim("disk "+what, rate, 110, 200, "Mbit/s of a disk that moves 160")
		}
	})
}

// TestTruthOfMTU keeps MTUs of 9000 on a link of 1 Gbit/s: goodput rises to the new ceiling. It
// skips if this machine is no faster without the link's limit: then the CPUs are the limit.
func TestTruthOfMTU(t *testing.T) {
	needRoot(t)
	needProgram(t, "tc")
	n := bridged(t, "9000")
	shaped := func(do string) {
		for _, port := range []string{"va", "vb"} { // 24 bytes of a frame are not in the packet, see package wire
			args := []string{"netns", "exec", n.m, "tc", "qdisc", do, "dev", port, "root"}
			if do == "add" {
				args = append(args, "tbf", "rate", "1gbit", "burst", "1mb", "limit", "4mb", "overhead", "24")
			}
			ip(t, args...)
		}
	}
	goodput := func(t testing.TB) float64 {
		r := run(t, n.inside(t, "near", "test", n.agent("far"), "--to", "-t", "3s", "--json"))
		v := decode[document](t, r.out).goodput("to")
		must.Need(t, len(v) != 0, "exit code %d\n%s%s", r.code, r.out, r.err)
		return v[0] / 1e6
	}
	ceiling := func(mtu int) float64 {
		c := must.Get(limits.Wire{Rate: 1e9, MTU: mtu, Timestamps: true}.Goodput())(t)
		return float64(c) / 1e6
	}
	shaped("add")
	before := goodput(t)
	tt := onTerminal(t, n.inside(t, "near", "set", "link.mtu=9000", "--both", "--for", "2m", n.agent("far")))
	tt.asked(t, "y\n")
	tt.wait(t, patience).succeeds(t)
	shaped("del")
	free := goodput(t)
	must.SkipIf(t, free < 2*ceiling(9000), "the processors limit: %.0f Mbit/s without the wire's limit", free)
	shaped("add")
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		// The bucket is full at the start: 1 MB of some 370.
		after := goodput(try)
		try.Claim("goodput at MTU 9000", after, 0.985*ceiling(9000), 1.01*ceiling(9000), "Mbit/s")
		try.Claim("gain", after/before, 1, 2, "times the goodput at 1500")
	})
}

// TestRecheckRenews: a setting of a far host, reached by an agent of its own, is proven and kept
// there. Then its MTU changes, which the fingerprint detects. A recheck measures that the setting
// is still better, and the host stores that as its proof: later rechecks, and knobs on that host
// itself, compare with the new fingerprint. An agent that runs under the name of the near host is
// distinguished by its side, and the fingerprint includes the name.
func TestRecheckRenews(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) { recheckRenews(try) })
}

const recheckScript = `
say() { code=0; "$@" --db $DIR/r.db >$DIR/out 2>&1 || code=$?; gone; }
told() { sed "s/^/$1: /" $DIR/out; echo "$1 exits $code"; }
say $LR run --from "$near" "$far" --factor far.tcp.recv_buffer_max=32KiB,1MiB --baseline 32KiB --direction to -t 300ms --omit 300ms --settle 0s --blocks 10 -q
[ $code = 0 ] || told run
say $LR keep last "$far" --role receiver --yes; [ $code = 0 ] || told keep
say $LR recheck --from "$near" "$far" --look; told first
$there ip link set eth0 mtu 1400
say $LR recheck --from "$near" "$far" --look; told changed
say $LR recheck --from "$near" "$far" -q; told measured
say $LR recheck --from "$near" "$far" --look; told after
say $LR recheck --from "$near" "exec:10.99.0.2 ${there% --uts=*} $agent --state $DIR/b" --look; told namesake
LINERATE_STATE=$DIR/b $there $LR knobs --match tcp.recv_buffer_max | sed 's/^/knobs: /'
show end
`

func recheckRenews(t testing.TB) {
	r := run(t, pairInLab(t, "rate=50mbit,rtt=10ms", recheckScript))
	var text strings.Builder // with continuation lines joined
	for line := range strings.Lines(r.out) {
		if phase, rest, _ := strings.Cut(line, ": "); strings.HasPrefix(rest, "    ") && phase != "knobs" {
			line = rest
		}
		text.WriteString(line)
	}
	out := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"first: tcp.recv_buffer_max=1 MiB on 10.99.0.2: proven on ", "first exits 0", "unproven since MTU 1500 -> 1400 at 10.99.0.2", "changed exits 8",
		"measured: tcp.recv_buffer_max=1 MiB on 10.99.0.2: still better", "measured: its fingerprint is renewed", "measured exits 0",
		"after: tcp.recv_buffer_max=1 MiB on 10.99.0.2: proven on ", "after exits 0",
		"namesake: tcp.recv_buffer_max=1 MiB on 10.99.0.2: unproven since ", "namesake exits 8",
	} {
		must.Contain(t, out, want, "not said")
	}
	knobs := ""
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(line, "knobs: ") {
			knobs += line
		}
	}
	must.True(t, strings.Contains(knobs, "proven on ") && !strings.Contains(knobs, "unproven"), "knobs on that host: %q", knobs)
	must.Contain(t, r.out, "end: near 4194304 far 33554432", "a host is changed")
	if t.Failed() {
		t.Log(r.out + r.err)
	}
}

// TestTruthOfFilteredHosts: if only ssh is open on the far host, every command that measures
// answers within 6 s: what is filtered, and what helps.
func TestTruthOfFilteredHosts(t *testing.T) {
	n := fastNetns(t)
	s := n.overSSH(t)
	n.firewall(t, "far", "drop")
	for _, line := range []string{
		"test root@far", "test root@far --udp", "test root@far --bidir", "run root@far --factor tcp.sack=on,off --baseline on",
		"run root@far --udp --factor rate=4M,8M --baseline 4M", "sweep root@far", "copy root@far",
	} {
		t.Run(line, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				began := time.Now()
				r := run(try, withSSH(n.inside(try, "near", strings.Fields(line)...), s))
				try.Claim("answer", time.Since(began).Seconds(), 0, 6, "s")
				sayFiltered(try, r)
			})
		})
	}
}

// TestTruthOfTheFirstSentence: if the far host is behind 10 Mbit/s and has only ssh, the first
// sentence about the path comes within 10 s: the copy is small.
func TestTruthOfTheFirstSentence(t *testing.T) {
	needRoot(t)
	n := routed(t)
	for _, end := range []string{"va", "vb"} {
		ip(t, "netns", "exec", n.m, "tc", "qdisc", "add", "dev", end, "root", "tbf", "rate", "10mbit", "burst", "16kb", "latency", "50ms")
	}
	s := sshtest.Start(t, sshtest.Options{Namespace: n.far, HostName: farAddr, Listener: listenIn(t, n.far), Env: map[string]string{"LINERATE_STATE": n.state("far")}})
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		cmd := withSSH(n.inside(try, "near", "test", "root@far", "--to", "-t", "1s", "--idle", "0s"), s)
		first := make(chan time.Duration, 1)
		began := time.Now()
		told := once(func() { first <- time.Since(began) })
		cmd.Stdout = &told
		must.Do(try, cmd.Run())
		try.Claim("first sentence", (<-first).Seconds(), 0, 10, "s")
	})
}

// once calls itself at the first write.
type once func()

// Write implements io.Writer.
func (f *once) Write(b []byte) (int, error) {
	if *f != nil {
		(*f)()
		*f = nil
	}
	return len(b), nil
}

// TestTruthOfForeign measures at given rates with the real programs at the far end: at most a
// fifth above the requested rate, and at least half of it.
func TestTruthOfForeign(t *testing.T) {
	iperf3, iperf2 := freePort(t), freePort(t)
	foreignServer(t, "tcp", iperf3, "iperf3", "-s", "-B", "127.0.0.1", "-p", iperf3)
	foreignServer(t, "udp", iperf2, "iperf", "-s", "-u", "-B", "127.0.0.1", "-p", iperf2)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		for _, c := range []struct {
			far, flags string
			asked      float64
			ways       []model.Direction
		}{
			{"iperf3://127.0.0.1:" + iperf3, "--to -b 50M", 50, []model.Direction{model.To}},
			{"iperf3://127.0.0.1:" + iperf3, "-u -b 20M", 20, []model.Direction{model.To, model.From}},
			{"iperf2://127.0.0.1:" + iperf2, "--to -u -b 20M", 20, []model.Direction{model.To}},
		} {
			d := decode[document](try, succeed(try, briefly(c.far, strings.Fields(c.flags)...)...).out)
			for _, way := range c.ways {
				got := d.goodput(way)
				must.Need(try, len(got) == 1, "%s %s: goodput %s %v", c.far, c.flags, way, got)
				scheme, _, _ := strings.Cut(c.far, ":")
				try.Claim(scheme+" "+c.flags+" "+string(way), got[0]/1e6, c.asked/2, 1.2*c.asked, "Mbit/s")
			}
		}
	})
}

// TestTruthOfServer compares the traffic of a server on loopback with the request: 100 requests
// at 200/s, datagrams at two rates, and at most 100 Mbit/s to a client of iperf 2 that wants
// more.
func TestTruthOfServer(t *testing.T) {
	needProgram(t, "iperf")
	v := serveJSON(t, serveEverything(t))
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		all := decode[engineReport](try, succeed(try, "test", v.Link, "--to", "--requests", "200", "-l", "64", "--reply", "4KiB",
			"-t", "0.5s", "-i", "0.5s", "--omit", "0s", "--json", "-q").out).Report.Latencies
		must.Need(try, len(all) != 0, "no latency of requests")
		try.Claim("requests sent", float64(all[0].Sent), 100, 100, "")
		try.Claim("requests lost", float64(all[0].Lost), 0, 0, "")
		try.Claim("requests", all[0].Rate.Value, 180, 205, "a second")
		r := succeed(try, "run", v.Link, "-u", "--factor", "rate=4M,8M", "--baseline", "4M", "-t", "0.3s", "--omit", "0s", "--blocks", "1", "--settle", "0s", "--no-twin", "--json", "-q")
		got := map[string]float64{}
		for _, run := range decode[document](try, r.out).Session.Runs {
			got[run.Setting], _ = run.Value(model.To, model.Goodput)
		}
		try.Claim("8M against 4M", got["8M"]/got["4M"], 1.7, 2.3, "times")
		try.Claim("8M", got["8M"]/1e6, 0, 9, "Mbit/s")
		foreignClient(try, func(out string) string {
			fields := strings.Split(strings.TrimSpace(out), ",")
			if len(fields) < 9 {
				return fmt.Sprintf("%q", out)
			}
			bytes, err := strconv.ParseFloat(fields[7], 64)
			if err != nil {
				return err.Error()
			}
			try.Claim("given in a second to a client that wants 1 Gbit/s", bytes/1e6, 0.1, 16, "MB")
			return ""
		}, "iperf", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf2"]), "-u", "-R", "-b", "1g", "-t", "1", "-y", "C")
	})
}

// TestTruthOfUDPSTP measures the capacity behind a token bucket of 50 Mbit/s, in both directions,
// with linerate at both ends and, if it is installed, with obudpst (udpst) at either end: within
// 1 % of the formula. The bucket counts frames of 1264 bytes, of which 1250 are IP.
func TestTruthOfUDPSTP(t *testing.T) {
	n := fastNetns(t)
	for _, host := range []string{n.near, n.far} {
		ip(t, "netns", "exec", host, "tc", "qdisc", "add", "dev", "v0", "root", "tbf", "rate", "50mbit", "burst", "15140", "limit", "250000")
	}
	serveJSON(t, n.inside(t, "far", "serve", "--json", "--listen", farAddr+":0", "--udpstp="+farAddr+":24700", "--state", n.state("far")))
	servers := map[string]string{"linerate": farAddr + ":24700"}
	reference := must.Err(exec.LookPath("udpst")) == nil
	if reference {
		servers["udpst"] = farAddr + ":24601"
		p := start(t, exec.CommandContext(t.Context(), "ip", "netns", "exec", n.far, "udpst", farAddr))
		t.Cleanup(func() { p.signal(t, os.Interrupt); p.wait(t, patience) })
	}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		claim := func(who string, mbit float64) {
			try.Claim(who, mbit, 50*1250.0/1264*0.99, 50*1250.0/1264*1.01, "Mbit/s")
		}
		for name, server := range servers {
			r := run(try, n.inside(try, "near", "test", "udpstp://"+server, "-t", "5s", "--wait", "0s", "--json", "-q", "--db", ":memory:"))
			runs := decode[document](try, r.out).Session.Runs
			must.Need(try, len(runs) == 2, "%d runs: %s", len(runs), r.err)
			for _, r := range runs {
				got, _ := r.Value(r.Flow.Direction, model.IPCapacity)
				claim("linerate "+string(r.Flow.Direction)+" "+name, got/1e6)
			}
			for _, way := range []string{"-u", "-d"} {
				if !reference {
					break
				}
				foreignClient(try, func(out string) string {
					found := regexp.MustCompile(`Maximum Mbps\(L3/IP\): ([0-9.]+)`).FindStringSubmatch(out)
					if found == nil {
						return "no maximum"
					}
					claim("udpst "+way+" "+name, must.Get(strconv.ParseFloat(found[1], 64))(try))
					return ""
				}, "ip", "netns", "exec", n.near, "udpst", way, "-t", "6", server)
			}
		}
	})
}
