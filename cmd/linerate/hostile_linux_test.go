//go:build slow

package main

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// hostileVar is how long the hostile suite takes, if not ten minutes.
const hostileVar = "LINERATE_HOSTILE"

// What has to hold, whoever comes (docs/public-server.md, SECURITY.md).
const (
	hostileClients = 1000
	hostileMemory  = 300_000_000     // bytes, resident
	friendWithin   = 2 * time.Second // from the first packet of a friend to the answer to its first question
	amplification  = 3               // bytes sent for each byte of an address that proved nothing (RFC 9000 section 8)
)

// The networks of the hostile suite: each bad client has an address in one of
// its own, and so has the victim.
const (
	crowdNet   = "10.77.128.0/17"
	victimAddr = "10.78.0.2"
)

// siege is a server with every listener in host b, a crowd in host a, and a
// victim beyond the server.
type siege struct {
	*netns
	server *process
	pid    int
	link   string // of the crowd
	friend string // link with a key of its own
	ports  map[string]string
	victim string // its namespace
}

// newSiege starts a server with more flags and lets the crowd come from any
// address of crowdNet, and in the victim's name.
func newSiege(t *testing.T, args ...string) *siege {
	t.Helper()
	s := &siege{netns: newNetns(t), ports: map[string]string{"own": "5299", "iperf3": "5201", "iperf2": "5001", "netpipe": "5002"}}
	s.victim = strings.TrimSuffix(s.b, "-b") + "-v"
	ip(t, "netns", "add", s.victim)
	t.Cleanup(func() { removeNetns(t, s.victim) })
	ip(t, "link", "add", "v1", "netns", s.b, "type", "veth", "peer", "name", "v1", "netns", s.victim)
	for name, addr := range map[string]string{s.b: "10.78.0.1/24", s.victim: victimAddr + "/24"} {
		ip(t, "-n", name, "addr", "add", addr, "dev", "v1")
		ip(t, "-n", name, "link", "set", "v1", "up")
	}
	ip(t, "-n", s.b, "route", "add", crowdNet, "via", nearAddr)
	ip(t, "-n", s.a, "route", "add", "local", crowdNet, "dev", "lo")
	ip(t, "-n", s.a, "route", "add", "local", victimAddr+"/32", "dev", "lo")
	for _, key := range []string{"net.ipv4.conf.all.rp_filter", "net.ipv4.conf.v0.rp_filter"} {
		if out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", s.b, "sysctl", "-w", key+"=0").CombinedOutput(); err != nil {
			t.Fatalf("sysctl: %v: %s", err, out)
		}
	}
	all := []string{"serve", "--listen", serverAddr, "--state", s.state("b"), "--iperf3=" + farAddr + ":5201", "--iperf2=" + farAddr + ":5001", "--netpipe=" + farAddr + ":5002"}
	s.server = start(t, s.inside(t, "b", append(all, args...)...))
	link := regexp.MustCompile(`linerate://[^\s']+`)
	eventually(t, 20*time.Second, "a join link", func() bool { return link.MatchString(s.server.said()) })
	s.link = link.FindString(s.server.said())
	s.friend, _ = s.addKey(t, "friend")
	eventually(t, 20*time.Second, "its listeners", func() bool { return s.listens(t) })
	return s
}

// listens reports whether the server's ports are open, and finds the process.
func (s *siege) listens(t *testing.T) bool {
	t.Helper()
	for _, pid := range netnsPIDs(t.Context(), s.b) {
		exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if err == nil && exe == binary {
			s.pid = max(s.pid, pid) // of a parent and a child, the one that listens came last
		}
	}
	out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", s.b, "ss", "-Hltn").Output()
	return err == nil && s.pid != 0 && strings.Count(string(out), farAddr+":") == len(s.ports)
}

// crowd starts bad clients, and returns how to wait for what they did.
func (s *siege) crowd(t *testing.T, attack string, d time.Duration) func() tally {
	t.Helper()
	o := order{
		Attack: attack, Clients: hostileClients, Time: d, Rate: 2000, Server: farAddr, Ports: s.ports,
		Sources: netip.MustParsePrefix(crowdNet), Victim: netip.MustParseAddr(victimAddr), Link: s.link,
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.role(t, "a", "crowd")
	cmd.Env = append(cmd.Env, crowdVar+"="+string(text))
	p := start(t, cmd)
	return func() tally {
		r := p.wait(t, d+30*time.Second)
		if r.code != 0 {
			t.Fatalf("the crowd: %s%s", r.out, r.err)
		}
		return decode[tally](t, r.out)
	}
}

// resident is the server's memory in bytes.
func (s *siege) resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.pid), "status"))
	if err != nil {
		t.Fatalf("the server is gone: %v\n%s", err, s.server.said())
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("the server has ended\n%s", s.server.said())
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// hit is how many bytes arrived at the victim.
func (s *siege) hit(t *testing.T) int64 {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", s.victim, "cat", "/sys/class/net/v1/statistics/rx_bytes").Output()
	if err == nil {
		var n int64
		if n, err = strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64); err == nil {
			return n
		}
	}
	t.Fatal(err)
	return 0
}

// visits has a friend open a session again and again until ctx ends and returns how long
// each took until the host's facts were there.
func (s *siege) visits(ctx context.Context, t *testing.T) []time.Duration {
	t.Helper()
	cmd := s.role(t, "a", "friend")
	cmd.Env = append(cmd.Env, crowdVar+"="+s.friend)
	p := start(t, cmd)
	<-ctx.Done()
	_ = p.cmd.Process.Signal(os.Interrupt) // it has ended where it was turned away
	r := p.wait(t, 30*time.Second)
	if r.code != 0 {
		t.Fatalf("a friend of the server: %s%s\n%s", r.out, r.err, s.server.said())
	}
	return decode[[]time.Duration](t, r.out)
}

// under has the server attacked for a time and demands that everything holds. A
// friend who waited too long is given a second chance: the crowd, the friend and
// the server share the cores of one machine.
func (s *siege) under(t *testing.T, attack string, d time.Duration) {
	t.Helper()
	slowest := s.attacked(t, attack, d)
	if slowest > friendWithin {
		t.Logf("%s: a friend waited %v, once more", attack, slowest)
		slowest = s.attacked(t, attack, d)
	}
	if slowest > friendWithin {
		t.Errorf("%s: a friend waited %v, at most %v is allowed", attack, slowest, friendWithin)
	}
}

// attacked is under, but for how long a friend waited at most, which it returns.
func (s *siege) attacked(t *testing.T, attack string, d time.Duration) time.Duration {
	t.Helper()
	before := s.hit(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	wait := s.crowd(t, attack, d)
	var most int
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, s.resident(t))
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	took := s.visits(ctx, t)
	watching.Wait()
	did := wait()
	sent := s.hit(t) - before
	slowest := slices.Max(append(took, 0))
	t.Logf("%-18s %6d tries, %5.1f MiB resident, friend %d times served, slowest %v, victim got %d B for %d B", attack, did.Tries,
		float64(most)/(1<<20), len(took), slowest.Round(time.Millisecond), sent, did.Forged)
	if did.Tries < 100 {
		t.Errorf("%s: only %d tries", attack, did.Tries)
	}
	if most > hostileMemory {
		t.Errorf("%s: %d MB resident, at most %d are allowed", attack, most/1e6, hostileMemory/int(1e6))
	}
	if len(took) == 0 {
		t.Errorf("%s: a friend was not served", attack)
	}
	if sent > amplification*did.Forged+quietLink {
		t.Errorf("%s: the victim got %d bytes for %d in its name", attack, sent, did.Forged)
	}
	return slowest
}

// quietLink is what a link carries by itself while nobody uses it: ARP, IPv6
// router solicitations.
const quietLink = 4 << 10

// hostileTime is the time of the suite.
func hostileTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(hostileVar)
	if text == "" {
		return 10 * time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAbuseHostile attacks a server with every way of a crowd, one after the
// other and all at once, with a secret, which the greedy ones have, and open.
func TestAbuseHostile(t *testing.T) {
	needRoot(t)
	servers := []struct {
		name string
		args []string
	}{
		// Those who have the secret may fill more, unless the operator says so.
		{"with a secret", []string{"--limit", "memory=96MiB"}},
		{"open", []string{"--open"}},
	}
	ways := append(attackNames(), "everything")
	each := hostileTime(t) / time.Duration(len(servers)*(len(ways)+4)) // "everything" takes longer
	for _, c := range servers {
		t.Run(c.name, func(t *testing.T) {
			s := newSiege(t, c.args...)
			for _, way := range ways {
				d := each
				if way == "everything" {
					d = 5 * each
				}
				s.under(t, way, d)
			}
			s.stillServes(t)
		})
	}
}

// stillServes demands a whole measurement after everything, and that the server
// ends well.
func (s *siege) stillServes(t *testing.T) {
	t.Helper()
	eventually(t, 30*time.Second, "a test", func() bool {
		r := run(t, s.inside(t, "a", "test", s.friend, "-t", "0.4s", "-i", "0.2s", "--omit", "0s", "--idle", "0s", "-q", "--json"))
		return r.code == 0 && bothWays(decode[document](t, r.out)) == ""
	})
	s.server.signal(t, os.Interrupt)
	if r := s.server.wait(t, 20*time.Second); r.code != 0 {
		t.Errorf("the server ended with %d\n%s", r.code, r.err)
	}
}
