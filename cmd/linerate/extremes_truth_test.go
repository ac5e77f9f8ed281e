//go:build truth && linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
	"linerate/internal/store/postgres/postgrestest"
	"linerate/internal/truth"
)

// TestServeAmongManyIPv6Networks: 1000 clients, each in its own IPv6 network (one host can have
// as many), send nothing or wrong secrets, and a client with the right secret is always served
// within 2 s.
func TestServeAmongManyIPv6Networks(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) { serveAmongManyIPv6Networks(try) })
}

func serveAmongManyIPv6Networks(t *truth.Try) {
	const near, far, sources = "fd77::1", "fd77::2", "fd78::/48"
	n := fastNetns(t)
	for name, addr := range map[string]string{n.near: near, n.far: far} {
		ip(t, "-n", name, "-6", "addr", "add", addr+"/64", "dev", "v0", "nodad")
	}
	ip(t, "-n", n.far, "-6", "route", "add", sources, "via", near)
	ip(t, "-n", n.near, "-6", "route", "add", "local", sources, "dev", "lo")
	// In the namespace: then a client can bind without an address on an interface.
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.near, "sysctl", "-w", "net.ipv6.ip_nonlocal_bind=1").CombinedOutput(); err != nil {
		t.Skipf("no addresses to come from: %v: %s", err, out)
	}
	// Until its link-local addresses are known to be unique (RFC 4862 section 5.4), which takes
	// seconds, a new link answers no neighbour.
	must.Within(t, 15*time.Second, "addresses of the link", func() bool {
		return ip(t, "-n", n.near, "-6", "addr", "show", "tentative")+ip(t, "-n", n.far, "-6", "addr", "show", "tentative") == ""
	})
	p := start(t, n.inside(t, "far", "serve", "--listen", "["+far+"]:5299", "--state", n.state("far")))
	pattern := regexp.MustCompile(`linerate://[^\s']+`)
	must.Within(t, 20*time.Second, "a join link", func() bool { return pattern.MatchString(p.said()) })
	link := pattern.FindString(p.said())
	for _, attack := range []string{"silence", "wrong secrets"} {
		const d = 4 * time.Second
		text := must.Get(json.Marshal(order{
			Attack: attack, Clients: 1000, Time: d, Rate: 500, Server: far, Ports: map[string]string{"own": "5299"},
			Sources: netip.MustParsePrefix(sources), Link: link,
		}))(t)
		bad, good := n.role(t, "near", "crowd"), n.role(t, "near", "friend")
		bad.Env, good.Env = append(bad.Env, crowdVar+"="+string(text)), append(good.Env, crowdVar+"="+link)
		crowd, friend := start(t, bad), start(t, good)
		must.Within(t, d, attack+" from many networks", func() bool {
			out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.far, "ss", "-Htan").Output()
			return err == nil && strings.Count(string(out), "[fd78:") > 20
		})
		did := decode[tally](t, crowd.wait(t, d+30*time.Second).succeeds(t).out)
		friend.signal(t, os.Interrupt)
		r := friend.wait(t, 30*time.Second)
		must.Need(t, r.code == 0, "%s: a friend of the server: %s%s", attack, r.out, r.err)
		took := decode[[]time.Duration](t, r.out)
		slices.Sort(took)
		must.Need(t, did.Tries >= 500 && len(took) >= 2, "%s: %d tries, a friend served %d times", attack, did.Tries, len(took))
		t.Claim("a friend waits at most, "+attack, took[len(took)-1].Seconds(), 0, 2, "s")
	}
	p.signal(t, os.Interrupt)
	p.wait(t, 20*time.Second).ends(t, 0)
}

// silentCrowd holds n silent connections to addr, each from its own address, and replaces each
// one that the server closes, until ctx ends. It returns when each has connected once.
func silentCrowd(ctx context.Context, t testing.TB, addr string, n int) (wait func()) {
	t.Helper()
	var all, there sync.WaitGroup
	for i := range n {
		there.Add(1)
		all.Go(func() {
			arrived := sync.OnceFunc(there.Done)
			defer arrived()
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i>>8), byte(i))}, Timeout: 5 * time.Second}
			for ctx.Err() == nil {
				c, err := d.DialContext(ctx, "tcp", addr)
				arrived()
				if err == nil {
					stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
					_ = untilHungUp(c)
					stop()
				}
			}
		})
	}
	there.Wait()
	return all.Wait
}

// TestTruthOfAFullServer: if silent anonymous clients take all descriptors, a running session
// gets its data connections within 2 s, a client with the secret gets in within 2 s, and the
// server survives.
func TestTruthOfAFullServer(t *testing.T) {
	v := serveJSON(t, fewFiles(t, command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--state", t.TempDir())))
	first := intrude(t, v.Link)
	const files = 96
	door := budget.Divide(files, 0)
	held := func() int { return descriptors(t, v.p) }
	before := held()
	ctx, cancel := context.WithCancel(t.Context())
	wait := silentCrowd(ctx, t, first.addr, 300)
	defer wait()
	defer cancel()
	must.Until(t, "anonymous clients at the door", func() bool { return held() >= before+door.Unknown-1 })
	n := held()
	must.True(t, n <= files-door.Sessions, "anonymous clients left %d descriptors of %d, and sessions should have %d", files-n, files, door.Sessions)
	f := model.Flow{Engine: "tcpbulk", Direction: model.To, Streams: 4, Duration: 300 * time.Millisecond, Interval: 100 * time.Millisecond}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		began := time.Now()
		conns := must.Get(first.prepare(t, f, f.Streams))(try)
		select {
		case <-first.ready:
		case err := <-first.ended:
			try.Fatalf("the run ended: %v", err)
		}
		try.Claim("four data connections", time.Since(began).Seconds(), 0, 2, "s")
		for _, c := range conns {
			_ = c.Close()
		}
		must.OK(try, first.Stop(t.Context(), first.runs))
		began = time.Now()
		must.OK(try, must.Err(tryIntrude(t, v.Link)))
		try.Claim("a new session", time.Since(began).Seconds(), 0, 2, "s")
	})
	cancel()
	wait()
	measured(t, briefly(v.Link), bothWays)
	must.True(t, !strings.Contains(v.p.said(), "panic"), "%v", v.p.said())
}

// TestTruthOfAMillionSamples imports, lists, shows and reports a million samples, with both
// stores, in a file that grows with them: below 10 s of CPU time in all, which does not count
// other processes on the machine, and each step below 300 MiB.
func TestTruthOfAMillionSamples(t *testing.T) {
	const million = 1_000_000
	dir := t.TempDir()
	from := filepath.Join(dir, "million.linerate")
	quarter, whole := sampled(t, filepath.Join(dir, "quarter.linerate"), million/4), sampled(t, from, million)
	ratio := float64(whole) / float64(quarter)
	must.True(t, ratio >= 3.6 && ratio <= 4.4, "four times the samples are %.2f times the file: %d bytes and %d", ratio, quarter, whole)
	stores := map[string]func() string{"SQLite": func() string { return filepath.Join(t.TempDir(), "results.db") }}
	switch server, err := postgrestest.Start(t.Context()); {
	case err == nil:
		t.Cleanup(func() { must.OK(t, server.Stop()) })
		stores["PostgreSQL"] = func() string { return must.Get(server.Database(t.Context()))(t) }
	case errors.Is(err, postgrestest.ErrMissing):
		t.Log(err)
	default:
		t.Fatal(err)
	}
	for name, db := range stores {
		t.Run(name, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) { handleSamples(try, from, db(), million) })
		})
	}
}

func handleSamples(try *truth.Try, from, db string, samples int) {
	page := filepath.Join(try.TempDir(), "page.html")
	var total time.Duration
	var most int64
	for _, args := range [][]string{
		{"import", from}, {"list"}, {"show", "last"}, {"report", "last", "--format", "markdown"}, {"report", "last", "-o", page},
	} {
		cmd := exec.CommandContext(try.Context(), binary, append(args, "--db", db)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		must.Do(try, cmd.Start())
		peak := residentPeak(cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			try.Fatalf("%q: %v\n%s", args, err, out.Bytes())
		}
		total += cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()
		most = max(most, <-peak>>10)
	}
	try.Claim("processor time", total.Seconds(), 0, 10, "s")
	try.Claim("memory", float64(most), 0, 300, "MiB")
	attachedAgain(try, page, samples)
}

// TestTruthOfHostileAgents: the controller gives up on a hostile agent in time.
func TestTruthOfHostileAgents(t *testing.T) {
	for _, h := range badAgents() {
		t.Run(string(h.manner), func(t *testing.T) {
			t.Parallel()
			truth.Hold(t, 1, func(try *truth.Try) { try.Claim("ends", meetHostile(try, h).Seconds(), 0, h.within.Seconds(), "s") })
		})
	}
}

// TestTruthOfBadInputs: each mistake is reported within 15 s.
func TestTruthOfBadInputs(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) { try.Claim("the slowest mistake", makeMistakes(try).Seconds(), 0, 15, "s") })
}

// star makes hosts around a switch, each with a link of this rate, and returns them as hosts of a
// mesh. Host slow, from 1, has half the rate.
func star(t testing.TB, hosts, slow, mbit int) (mesh []string) {
	t.Helper()
	needRoot(t)
	name := func(i int) string { return fmt.Sprintf("lr%d-%s-%d", os.Getpid(), strings.ToLower(t.Name()), i) }
	dir := t.TempDir()
	for i := range hosts + 1 {
		ip(t, "netns", "add", name(i))
		t.Cleanup(func() { removeNetns(t, name(i)) })
	}
	ip(t, "-n", name(0), "link", "add", "br0", "up", "type", "bridge")
	for i := 1; i <= hosts; i++ {
		port, rate := fmt.Sprintf("p%d", i), mbit
		if i == slow {
			rate /= 2
		}
		ip(t, "link", "add", "v0", "netns", name(i), "type", "veth", "peer", "name", port, "netns", name(0))
		ip(t, "-n", name(i), "addr", "add", fmt.Sprintf("10.78.0.%d/24", i), "dev", "v0")
		for _, up := range [][2]string{{name(i), "lo"}, {name(i), "v0"}, {name(0), port}} {
			ip(t, "-n", up[0], "link", "set", up[1], "up")
		}
		ip(t, "-n", name(0), "link", "set", port, "master", "br0")
		for _, end := range [][2]string{{name(i), "v0"}, {name(0), port}} {
			ip(t, "netns", "exec", end[0], "tc", "qdisc", "add", "dev", end[1], "root", "tbf", "rate", fmt.Sprintf("%dmbit", rate), "burst", "32kb", "latency", "20ms")
		}
		mesh = append(mesh, fmt.Sprintf("h%d=exec:10.78.0.%d ip netns exec %s %s agent --state %s", i, i, name(i), binary, filepath.Join(dir, fmt.Sprint(i))))
	}
	return mesh
}

// TestTruthOfMesh: one of five hosts is slowed to half its rate. The mesh names only that one
// within five minutes, and exits with the code for a health check (fleet.md section 12).
func TestTruthOfMesh(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		began := time.Now()
		args := append([]string{"mesh", "--without-here", "--fail-on", "odd", "--db", filepath.Join(try.TempDir(), "r.db")}, star(try, 5, 3, 40)...)
		r := run(try, command(try, args...))
		try.Claim("mesh of five hosts", time.Since(began).Seconds(), 0, 300, "s")
		r.ends(try, 8, "linerate: odd: h3\n")
		r.prints(try, "h3 sends", " % of what the others do")
	})
}

// TestTruthOfWatch: a steady path is not reported; a path whose rate falls by a quarter is
// reported within four looks, with exit code 8, and so is its recovery.
func TestTruthOfWatch(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		hosts := star(try, 2, 0, 40)
		words := func(i int) (name, host string) {
			_, host, _ = strings.Cut(hosts[i], "=")
			return strings.Fields(host)[4], host
		}
		near, _ := words(0)
		far, host := words(1)
		db := filepath.Join(try.TempDir(), "r.db")
		look := func() result {
			cmd := command(try, "watch", host, "--once", "-t", "1s", "--wait", "0s", "--db", db)
			cmd.Args = append([]string{"ip", "netns", "exec", near}, cmd.Args...)
			cmd.Path = "/sbin/ip"
			return run(try, cmd)
		}
		within := func(code int, says string) {
			told := false
			for range 4 {
				r := look()
				if told = strings.Contains(r.out, says); told {
					r.ends(try, code)
					break
				}
			}
			try.Claim(fmt.Sprintf("%q within four looks", says), map[bool]float64{true: 1}[told], 1, 1, "")
		}
		for range 10 {
			look().succeeds(try)
		}
		ip(try, "netns", "exec", far, "tc", "qdisc", "change", "dev", "v0", "root", "tbf", "rate", "30mbit", "burst", "32kb", "latency", "20ms")
		within(8, "goodput from 10.78.0.2 is worse since")
		ip(try, "netns", "exec", far, "tc", "qdisc", "change", "dev", "v0", "root", "tbf", "rate", "40mbit", "burst", "32kb", "latency", "20ms")
		within(0, "goodput from 10.78.0.2 is better since")
	})
}
