//go:build slow || truth

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

	"linerate/internal/confined"
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
	return func() tally { return decode[tally](t, p.wait(t, d+30*time.Second).succeeds(t).out) }
}

// resident returns the server's memory in bytes.
func (s *siege) resident(t testing.TB) int {
	t.Helper()
	now, _, err := confined.Memory(s.pid)
	must.Need(t, err == nil, "the server is gone: %v\n%s", err, s.server.said())
	return int(now)
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

// serveDocument is the document of linerate serve.
type serveDocument struct {
	Link    string            `json:"link"`
	Address string            `json:"address"`
	Foreign map[string]string `json:"foreign"`
}

// TestHostileFew attacks a server with one client in each way, with a key and without one: each
// attack comes as far as intended, by the server's own answer, and its cost is limited. make
// abuse and make truth do it with a thousand clients.
func TestHostileFew(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"with a secret": {"--limit", "memory=96MiB"},
		"open":          {"--open", "--limit-source", "time=none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "audit.log")
			server, _ := publicServer(t, append(args, "--iperf3=127.0.0.1:0", "--iperf2=127.0.0.1:0", "--netpipe=127.0.0.1:0", "--udpstp=127.0.0.1:0", "--audit", log)...)
			d := decode[serveDocument](t, server.said())
			o := order{Server: "127.0.0.1", Ports: map[string]string{"own": portOf(d.Address)}, Victim: netip.MustParseAddr("127.77.0.1"), Link: d.Link}
			for protocol, addr := range d.Foreign {
				o.Ports[protocol] = portOf(addr)
			}
			done := tally{Reached: map[string]int64{}}
			var mu sync.Mutex
			var all sync.WaitGroup
			turn := make(chan struct{}, 6) // an open server admits eight
			inSession := namesInSession()
			for i, attack := range attackNames() {
				all.Go(func() {
					if slices.Contains(inSession, attack) {
						turn <- struct{}{}
						defer func() { <-turn }()
					}
					h := &hostile{order: o, from: netip.AddrFrom4([4]byte{127, 78, byte(i), 1}), done: &done, mu: &mu, attack: attack}
					if attack == "silence" { // other protocols allow half a minute
						h.Ports = map[string]string{"own": o.Ports["own"]}
					}
					attackUntilMet(t, h)
				})
			}
			all.Wait()
			for _, protocol := range []string{"own", "iperf2", "udpstp"} {
				everyDatagramRead(t, server.cmd.Process.Pid, o.Ports[protocol])
			}
			got := peakMemory(t, server)
			must.True(t, got <= 150, "the server had %d MiB resident for one client of each kind", got)
			intrude(t, d.Link) // the server still works
			for _, want := range []string{"event=session-begin protocol=linerate", "event=dropped protocol=linerate outcome=denied", "event=refused protocol=linerate outcome=denied"} {
				lineOf(t, log, want)
			}
			if t.Logf("%v; %d MiB", done.Reached, peakMemory(t, server)); len(done.Reached) != len(attackNames()) {
				t.Errorf("%d attacks of %d came as far as they were meant to", len(done.Reached), len(attackNames()))
			}
		})
	}
}

// namesInSession returns the attacks that need a session.
func namesInSession() []string {
	return slices.Concat(slices.Collect(maps.Keys(framesOfSessions())), slices.Collect(maps.Keys(callsOfSessions())), []string{"greedy", "wrong secrets"})
}

// attackUntilMet retries until the server has handled the attack.
func attackUntilMet(t *testing.T, h *hostile) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	met := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.done.Reached[h.attack] > 0
	}
	for !met() {
		one, end := context.WithCancel(ctx)
		tried := make(chan struct{})
		go func() {
			defer close(tried)
			attacks()[h.attack](h, one)
		}()
		for wait := true; wait; {
			select {
			case <-tried:
				wait = false
			case <-time.After(20 * time.Millisecond): // a check, no more
				wait = !met()
			}
		}
		end()
		<-tried
		if ctx.Err() != nil {
			t.Errorf("%s: the server was never met", h.attack)
			return
		}
	}
}

// everyDatagramRead requires that the process has read all datagrams at its UDP port, by the
// kernel's queue of the socket. Lines of proc_pid_net(5):
//
//	sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
//	79: 0100007F:14B3 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 20881 2 0000000000000000 0
func everyDatagramRead(t *testing.T, pid int, port string) {
	t.Helper()
	n := must.Get(strconv.Atoi(port))(t)
	socket := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 07 [0-9A-F]{8}:([0-9A-F]{8}) `, n))
	must.Within(t, time.Minute, "datagrams to be read at UDP port "+port, func() bool {
		text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/net/udp", pid)))(t)
		m := socket.FindAllStringSubmatch(string(text), -1)
		for _, s := range m {
			if strings.Trim(s[1], "0") != "" {
				return false
			}
		}
		return len(m) > 0
	})
}

// TestHostileAgent: whatever an agent sends, the controller ends soon, with a plain error, and
// fills neither memory nor disk.
func TestHostileAgent(t *testing.T) {
	t.Parallel()
	for _, h := range badAgents() {
		t.Run(string(h.manner), func(t *testing.T) {
			t.Parallel()
			meetHostile(t, h)
		})
	}
}

// badAgent is one hostile manner, the controller's error, and how long it takes on an idle
// machine, which make truth checks.
type badAgent struct {
	manner hostileManner
	says   string
	within time.Duration
}

func badAgents() []badAgent {
	return []badAgent{
		{floodsSamples, "the agent sent more than this run can have", 25 * time.Second},
		{floodsMeasured, "the agent sent more than this run can have", 25 * time.Second},
		{floodsParts, "nics has more than 64 entries", 25 * time.Second},
		{floodsBody, "no answer in time", 60 * time.Second},
		{floodsStdout, "", 25 * time.Second},
		{floodsStderr, "", 30 * time.Second},
		{neverEnds, "did not end the run when it was told to", 50 * time.Second}, // once, whatever the plan repeats
		{drips, "no answer in time", 60 * time.Second},
	}
}

// meetHostile runs a test with a hostile agent, requires an error and an end, and returns how
// long that took.
func meetHostile(t testing.TB, h badAgent) time.Duration {
	t.Helper()
	dir := t.TempDir()
	cmd := command(t, "test", hostileTarget(h.manner), "--to", "-t", "1s", "--omit", "0")
	cmd.Env = append(cmd.Env, "LINERATE_DB="+filepath.Join(dir, "results.db"))
	began := time.Now()
	p := start(t, cmd)
	peak := residentPeak(cmd.Process.Pid)
	r := p.wait(t, h.within+time.Minute)
	took, used := time.Since(began), <-peak
	t.Logf("exit code %d after %v, %d MB\n%s", r.code, took.Round(time.Millisecond), used>>10, r.err[:min(len(r.err), 2000)])
	must.True(t, (h.manner == floodsStderr || r.code != 0) && r.code >= 0 && strings.Contains(r.err, h.says), "exit code %d, want words %q", r.code, h.says)
	must.True(t, used <= 150<<10, "used %d MB", used>>10)
	must.True(t, len(r.out)+len(r.err) <= 64<<10, "%d bytes on stdout, %d on stderr", len(r.out), len(r.err))
	var disk int64
	_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil {
			disk += info.Size()
		}
		return nil
	})
	must.True(t, disk <= 8<<20, "wrote %d MB", disk>>20)
	return took
}

// residentPeak sends the most memory that a process ever had resident, in kB, after it has ended.
// getrusage(2) would include this process's memory from before the
// exec.
func residentPeak(pid int) <-chan int64 {
	out := make(chan int64, 1)
	go func() {
		var most int64
		for {
			_, peak, err := confined.Memory(pid)
			if err != nil { // gone, or not yet waited for
				out <- most >> 10
				return
			}
			most = peak
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return out
}
