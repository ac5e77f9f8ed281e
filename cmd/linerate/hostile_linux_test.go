//go:build slow || truth

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
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

	"linerate/internal/must"
)

// What must hold for any client (docs/public-server.md, SECURITY.md).
const (
	hostileClients = 1000
	hostileMemory  = 300_000_000     // bytes, resident
	friendWithin   = 2 * time.Second // from a friend's first packet to the answer to its first question
	amplification  = 3               // bytes sent for each byte from an unproven address (RFC 9000 section 8)
)

// The networks of the hostile suite: each bad client has its own address, and so has the victim.
const (
	crowdNet   = "10.77.128.0/17"
	victimAddr = "10.78.0.2"
)

// siege is a server with every listener in the far host, a crowd in the near host, and a victim
// behind the server.
type siege struct {
	*netns
	server *process
	pid    int
	link   string // for the crowd
	friend string // link with a key of its own
	ports  map[string]string
	victim string // its namespace
	group  *memoryGroup
}

// newSiege starts a server with args, in a memory cgroup of this many bytes, and lets the crowd
// come from any address of crowdNet, and forge the victim's.
func newSiege(t testing.TB, memory int64, args ...string) *siege {
	t.Helper()
	s := &siege{group: newMemoryGroup(t, memory), netns: newNetns(t), ports: map[string]string{"own": "5299", "iperf3": "5201", "iperf2": "5001", "netpipe": "5002", "udpstp": "24601"}}
	s.victim = strings.TrimSuffix(s.far, "-far") + "-v"
	ip(t, "netns", "add", s.victim)
	t.Cleanup(func() { removeNetns(t, s.victim) })
	ip(t, "link", "add", "v1", "netns", s.far, "type", "veth", "peer", "name", "v1", "netns", s.victim)
	for name, addr := range map[string]string{s.far: "10.78.0.1/24", s.victim: victimAddr + "/24"} {
		ip(t, "-n", name, "addr", "add", addr, "dev", "v1")
		ip(t, "-n", name, "link", "set", "v1", "up")
	}
	ip(t, "-n", s.far, "route", "add", crowdNet, "via", nearAddr)
	ip(t, "-n", s.near, "route", "add", "local", crowdNet, "dev", "lo")
	ip(t, "-n", s.near, "route", "add", "local", victimAddr+"/32", "dev", "lo")
	for _, key := range []string{"net.ipv4.conf.all.rp_filter", "net.ipv4.conf.v0.rp_filter"} {
		out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", s.far, "sysctl", "-w", key+"=0").CombinedOutput()
		must.Need(t, err == nil, "sysctl: %v: %s", err, out)
	}
	all := []string{"serve", "--listen", serverAddr, "--state", s.state("far"), "--iperf3=" + farAddr + ":5201", "--iperf2=" + farAddr + ":5001", "--netpipe=" + farAddr + ":5002", "--udpstp=" + farAddr + ":24601"}
	cmd := s.inside(t, "far", append(all, args...)...)
	cmd.Args = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(s.group.dir, "cgroup.procs")}, cmd.Args...)
	cmd.Path = must.Get(exec.LookPath("sh"))(t)
	s.server = start(t, cmd)
	link := regexp.MustCompile(`linerate://[^\s']+`)
	must.Within(t, 20*time.Second, "a join link", func() bool { return link.MatchString(s.server.said()) })
	s.link = link.FindString(s.server.said())
	s.friend, _ = s.addKey(t, "friend")
	must.Within(t, 20*time.Second, "its listeners", func() bool { return s.listens(t) })
	return s
}

// listens reports whether the server's ports are open, and finds the process.
func (s *siege) listens(t testing.TB) bool {
	t.Helper()
	for _, pid := range netnsPIDs(s.far) {
		exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if err == nil && exe == binary {
			s.pid = max(s.pid, pid) // of parent and child, the listener came last
		}
	}
	out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", s.far, "ss", "-Hltn").Output()
	return err == nil && s.pid != 0 && strings.Count(string(out), farAddr+":") == len(s.ports)-1 // udpstp has no TCP
}

// crowd starts bad clients, and returns a function that waits for their tally.
func (s *siege) crowd(t testing.TB, attack string, d time.Duration) func() tally {
	t.Helper()
	o := order{
		Attack: attack, Clients: hostileClients, Time: d, Rate: 2000, Server: farAddr, Ports: s.ports,
		Sources: netip.MustParsePrefix(crowdNet), Victim: netip.MustParseAddr(victimAddr), Link: s.link,
	}
	text := must.Get(json.Marshal(o))(t)
	cmd := s.role(t, "near", "crowd")
	cmd.Env = append(cmd.Env, crowdVar+"="+string(text))
	p := start(t, cmd)
	return func() tally {
		return decode[tally](t, p.wait(t, d+30*time.Second).succeeds(t).out)
	}
}

// resident returns the server's memory in bytes.
func (s *siege) resident(t testing.TB) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.pid), "status"))
	must.Need(t, err == nil, "the server is gone: %v\n%s", err, s.server.said())
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	must.Need(t, m != nil, "the server has ended\n%s", s.server.said())
	return must.Get(strconv.Atoi(string(m[1])))(t) << 10
}

// hit returns how many bytes arrived at the victim.
func (s *siege) hit(t testing.TB) int64 {
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

// visits makes a friend open a session again and again until ctx ends and returns how long each
// took to get the host's facts.
func (s *siege) visits(ctx context.Context, t testing.TB) []time.Duration {
	t.Helper()
	cmd := s.role(t, "near", "friend")
	cmd.Env = append(cmd.Env, crowdVar+"="+s.friend)
	p := start(t, cmd)
	<-ctx.Done()
	_ = p.cmd.Process.Signal(os.Interrupt) // it has ended if it was turned away
	r := p.wait(t, 30*time.Second)
	must.Need(t, r.code == 0, "a friend of the server: %s%s\n%s", r.out, r.err, s.server.said())
	return decode[[]time.Duration](t, r.out)
}

// under attacks the server for a time, checks all limits and that the server has handled the
// attack, and returns the friend's longest wait and the server's highest memory in bytes.
func (s *siege) under(t testing.TB, attack string, d time.Duration) (slowest time.Duration, most int) {
	t.Helper()
	before := s.hit(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	wait := s.crowd(t, attack, d)
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
	slowest = slices.Max(append(took, 0))
	t.Logf("%-18s %6d tries, met %v, %5.1f MiB resident, friend %d times served, slowest %v, victim got %d B for %d B", attack, did.Tries, did.Reached,
		float64(most)/(1<<20), len(took), slowest.Round(time.Millisecond), sent, did.Forged)
	switch {
	case attack == "everything" && len(did.Reached) < len(attackNames())/2, attack != "everything" && did.Reached[attack] == 0:
		t.Errorf("%s: the server met only %v", attack, did.Reached)
	}
	must.True(t, most <= hostileMemory, "%s: %d MB resident, at most %d are allowed", attack, most/1e6, hostileMemory/int(1e6))
	must.True(t, len(took) != 0, "%s: a friend was not served", attack)
	must.True(t, sent <= amplification*did.Forged+quietLink, "%s: the victim got %d bytes for %d in its name", attack, sent, did.Forged)
	must.Equal(t, s.group.killed(t), 0, "%s: the kernel ended processes of the server", attack)
	return slowest, most
}

// quietLink is the traffic of an unused link: ARP, IPv6 router solicitations.
const quietLink = 4 << 10

// hostileServers returns the flags of the attacked servers, by name.
func hostileServers() map[string][]string {
	return map[string][]string{
		// Clients with the secret may use more, unless the operator limits them.
		"with a secret": {"--limit", "memory=96MiB"},
		"open":          {"--open"},
	}
}

// smallMachine is the memory of the cgroup that attacked servers run in.
const smallMachine = 512 << 20

// stillServes requires a whole measurement after everything, and that the server ends cleanly.
func (s *siege) stillServes(t testing.TB) {
	t.Helper()
	must.Within(t, 30*time.Second, "a test", func() bool {
		r := run(t, s.inside(t, "near", "test", s.friend, "-t", "0.4s", "-i", "0.2s", "--omit", "0s", "--idle", "0s", "-q", "--json"))
		return r.code == 0 && bothWays(decode[document](t, r.out)) == ""
	})
	s.server.signal(t, os.Interrupt)
	s.server.wait(t, 20*time.Second).ends(t, 0)
}

// memoryGroup is a cgroup that limits its processes' memory.
type memoryGroup struct{ dir, events string }

// newMemoryGroup makes a memory cgroup of version 1 or 2, which ends with the test.
func newMemoryGroup(t testing.TB, bytes int64) *memoryGroup {
	t.Helper()
	g := &memoryGroup{events: "memory.oom_control"}
	limit, parent := "memory.limit_in_bytes", "/sys/fs/cgroup/memory"
	if _, err := os.Stat(parent); err != nil {
		limit, parent, g.events = "memory.max", "/sys/fs/cgroup", "memory.events"
	}
	dir, err := os.MkdirTemp(parent, "linerate-test-") //nolint:usetesting // a cgroup has its own file system
	must.SkipIf(t, err != nil, "no memory cgroup here: %v", err)
	g.dir = dir
	t.Cleanup(func() {
		must.Within(t, 30*time.Second, "the cgroup to be empty", func() bool {
			err := os.Remove(dir)
			return err == nil || errors.Is(err, fs.ErrNotExist)
		})
	})
	if err := os.WriteFile(filepath.Join(dir, limit), []byte(strconv.FormatInt(bytes, 10)), 0o600); err != nil {
		t.Skipf("no memory cgroup here: %v", err)
	}
	return g
}

// killed returns how many processes of the group the kernel has killed for lack of memory.
func (g *memoryGroup) killed(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, g.events))
	m := regexp.MustCompile(`(?m)^oom_kill (\d+)$`).FindSubmatch(text)
	must.Need(t, err == nil && m != nil, "%s: %v\n%s", g.events, err, text)
	return must.Get(strconv.Atoi(string(m[1])))(t)
}
