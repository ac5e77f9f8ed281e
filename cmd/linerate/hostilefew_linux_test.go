package main

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
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

// residentPeak sends the most memory that a process ever had resident, in kB, after it has ended
// (VmHWM of proc_pid_status(5)). getrusage(2) would include this process's memory from before the
// exec.
func residentPeak(pid int) <-chan int64 {
	out := make(chan int64, 1)
	go func() {
		var most int64
		for {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, found := strings.Cut(string(text), "VmHWM:")
			if err != nil || !found { // gone, or not yet waited for
				out <- most
				return
			}
			var kB int64
			if _, err := fmt.Sscan(rest, &kB); err == nil {
				most = max(most, kB)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return out
}
