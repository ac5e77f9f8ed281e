package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
)

// The addresses of the two ends of every pair.
const (
	nearAddr = "10.77.0.1"
	farAddr  = "10.77.0.2"
)

// netns is two hosts for one test: named network namespaces, joined by veth.
type netns struct {
	dir       string // of this pair only: on the command lines of its processes
	near, far string // names of the namespaces
	before    both   // what both hosts held when they were new
}

// netnsBeside is newNetns for a test that runs beside others.
func netnsBeside(t *testing.T) *netns {
	t.Helper()
	t.Parallel()
	return newNetns(t)
}

// newNetns makes a pair of hosts, with 200 Mbit/s to send for each: at full speed the packets
// would keep all CPUs busy.
func newNetns(t testing.TB) *netns {
	t.Helper()
	n := fastNetns(t)
	n.limit(t, "v0")
	return n
}

// fastNetns makes a pair of hosts that end with the test, with everything in them.
func fastNetns(t testing.TB) *netns {
	t.Helper()
	needRoot(t)
	word := strings.ToLower(rand.Text()[:6])
	n := &netns{dir: t.TempDir(), near: fmt.Sprintf("lr%d-%s-near", os.Getpid(), word), far: fmt.Sprintf("lr%d-%s-far", os.Getpid(), word)}
	for _, name := range []string{n.near, n.far} {
		ip(t, "netns", "add", name)
		t.Cleanup(func() { removeNetns(t, name) })
	}
	ip(t, "link", "add", "v0", "netns", n.near, "type", "veth", "peer", "name", "v0", "netns", n.far)
	for name, addr := range map[string]string{n.near: nearAddr, n.far: farAddr} {
		ip(t, "-n", name, "addr", "add", addr+"/24", "dev", "v0")
		ip(t, "-n", name, "link", "set", "lo", "up")
		ip(t, "-n", name, "link", "set", "v0", "up")
	}
	n.before = n.bothKnobs(t)
	return n
}

// limit gives links of both hosts 200 Mbit/s.
func (n *netns) limit(t testing.TB, links ...string) {
	t.Helper()
	for _, link := range links {
		for _, host := range []string{n.near, n.far} {
			out, err := exec.CommandContext(t.Context(), "tc", "-n", host, "qdisc", "add", "dev", link, "root", "tbf", "rate", "200mbit", "burst", "128kb", "limit", "512kb").CombinedOutput()
			must.OK(t, err, string(out))
		}
	}
}

func ip(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
	must.Need(t, err == nil, "ip %s: %v\n%s", strings.Join(args, " "), err, out)
	return string(out)
}

// removeNetns ends the processes in a namespace, then removes it.
func removeNetns(t testing.TB, name string) {
	for _, pid := range netnsPIDs(name) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	ctx := context.WithoutCancel(t.Context()) // it has ended
	out, err := exec.CommandContext(ctx, "ip", "netns", "del", name).CombinedOutput()
	must.True(t, err == nil, "ip netns del %s: %v: %s", name, err, out)
}

// netnsPIDs returns the processes in network namespaces.
func netnsPIDs(names ...string) []int {
	var spaces []uint64
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat("/run/netns/"+name, &st) == nil {
			spaces = append(spaces, st.Ino)
		}
	}
	var pids []int
	for _, pid := range allPIDs() {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st) == nil && slices.Contains(spaces, st.Ino) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// state returns the journal directory of a host.
func (n *netns) state(host string) string { return filepath.Join(n.dir, host) }

// db returns the path of the pair's results.
func (n *netns) db() string { return filepath.Join(n.dir, "results.db") }

// name returns the namespace of host near or far.
func (n *netns) name(host string) string {
	return map[string]string{"near": n.near, "far": n.far}[host]
}

// agent returns the target of an agent in a host, with extra variables. With any of them, it is
// the test binary, which handles them.
func (n *netns) agent(host string, variables ...string) string {
	addr, program := nearAddr, binary
	if host == "far" {
		addr = farAddr
	}
	if len(variables) > 0 {
		program = os.Args[0]
		variables = append(variables, "LINERATE_TEST_MAIN=1")
	}
	return fmt.Sprintf("exec:%s ip netns exec %s env %s %s agent --state %s", addr, n.name(host),
		strings.Join(variables, " "), program, n.state(host))
}

// command prepares linerate outside both hosts.
func (n *netns) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return n.prepare(exec.CommandContext(t.Context(), binary, args...))
}

// inside prepares linerate in a host.
func (n *netns) inside(t testing.TB, host string, args ...string) *exec.Cmd {
	t.Helper()
	argv := append([]string{"netns", "exec", n.name(host), binary}, args...)
	return n.prepare(exec.CommandContext(t.Context(), "ip", argv...))
}

func (n *netns) prepare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(os.Environ(), "LINERATE_DB="+n.db(), "LINERATE_STATE="+n.dir, "LINERATE_CONFIG="+filepath.Join(n.dir, "config"), "NO_COLOR=1")
	cmd.WaitDelay = patience
	return cmd
}

// The files of the knobs that the tests change.
const (
	rmem = "/proc/sys/net/ipv4/tcp_rmem"
	sack = "/proc/sys/net/ipv4/tcp_sack"
)

// read returns a file below /proc as a host shows it, without the end of its last line.
func (n *netns) read(t testing.TB, host, name string) (text string) {
	t.Helper()
	must.Do(t, inNetns(n.name(host), func() error {
		b, err := os.ReadFile(name)
		text = strings.TrimRight(string(b), "\n")
		return err
	}))
	return text
}

// holds are the knobs of a host as texts.
type holds struct{ rmem, sack string }

// knobs returns the knobs of a host.
func (n *netns) knobs(t testing.TB, host string) holds {
	t.Helper()
	return holds{n.read(t, host, rmem), n.read(t, host, sack)}
}

// both are the knobs of the two hosts.
type both struct{ near, far holds }

func (n *netns) bothKnobs(t testing.TB) both {
	t.Helper()
	return both{n.knobs(t, "near"), n.knobs(t, "far")}
}

// restored requires that the hosts have the values they began with, and no process.
func (n *netns) restored(t testing.TB) {
	t.Helper()
	n.atRest(t, n.before)
}

// atRest requires that the hosts have these values, and no process.
func (n *netns) atRest(t testing.TB, want both) {
	t.Helper()
	must.Until(t, "an agent or a watchdog is still there", func() bool { return len(netnsPIDs(n.near, n.far)) == 0 })
	must.Equal(t, n.bothKnobs(t), want, "the knobs hold")
}

// session reads a session from the store.
func (n *netns) session(t testing.TB) model.Session {
	t.Helper()
	return must.Get(n.trySession(t))(t)
}

func (n *netns) trySession(t testing.TB) (model.Session, error) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), n.db())
	if err != nil {
		return model.Session{}, err
	}
	s, err := st.Session(t.Context(), "last")
	return s, errors.Join(err, st.Close())
}

// process is a running linerate.
type process struct {
	cmd  *exec.Cmd
	done chan result
}

// start starts cmd without waiting.
func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, done: make(chan result, 1)}
	var out, stderr lines
	cmd.Stdout, cmd.Stderr = &out, &stderr
	must.Do(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the exit code shows it
		p.done <- result{out.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	}()
	return p
}

func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	must.Do(t, p.cmd.Process.Signal(s))
}

// wait waits for the end of the process.
func (p *process) wait(t testing.TB, within time.Duration) result {
	t.Helper()
	select {
	case r := <-p.done:
		p.done <- r // for a later wait
		return r
	case <-time.After(within):
		_ = p.cmd.Process.Kill()
		r := <-p.done
		t.Fatalf("%s: still running after %v\n%s%s", strings.Join(p.cmd.Args, " "), within, r.out, r.err)
		return r
	}
}

// said returns what the process has written to stdout so far.
func (p *process) said() string { return p.cmd.Stdout.(*lines).String() }

// complaints returns what the process has written to stderr so far.
func (p *process) complaints() string { return p.cmd.Stderr.(*lines).String() }

// lines is a buffer that can be read while a process writes it.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// beside runs named cases in parallel, as many as -parallel allows: they mostly wait. Each has
// its own hosts.
func beside(t *testing.T, cases map[string]func(*testing.T)) {
	t.Helper()
	for name, one := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one(t)
		})
	}
}

// atOnce runs named cases, most at a time: they mostly wait. Each has its own hosts.
func atOnce(t *testing.T, most int, cases map[string]func(*testing.T)) {
	t.Helper()
	names := make([]string, 0, len(cases))
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	slots := make(chan struct{}, most)
	var all sync.WaitGroup
	for _, name := range names {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(name, cases[name])
		})
	}
	all.Wait()
}
