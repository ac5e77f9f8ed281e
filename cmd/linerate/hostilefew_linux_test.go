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

// document of linerate serve.
type serveDocument struct {
	Link    string            `json:"link"`
	Address string            `json:"address"`
	Foreign map[string]string `json:"foreign"`
}

// TestHostileFew has one client attack a server in each way there is, with a key and
// without one: each attack comes as far as it is meant to, by the server's own answer, and
// what it costs is bounded. make abuse and make truth do it with a thousand clients.
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
			turn := make(chan struct{}, 6) // an open server lets eight in
			inSession := namesInSession()
			for i, attack := range attackNames() {
				all.Go(func() {
					if slices.Contains(inSession, attack) {
						turn <- struct{}{}
						defer func() { <-turn }()
					}
					h := &hostile{order: o, from: netip.AddrFrom4([4]byte{127, 78, byte(i), 1}), done: &done, mu: &mu, attack: attack}
					if attack == "silence" { // other protocols give half a minute
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
			intrude(t, d.Link) // it still serves
			for _, want := range []string{"event=session-begin protocol=linerate", "event=dropped protocol=linerate outcome=denied", "event=refused protocol=linerate outcome=denied"} {
				lineOf(t, log, want)
			}
			if t.Logf("%v; %d MiB", done.Reached, peakMemory(t, server)); len(done.Reached) != len(attackNames()) {
				t.Errorf("%d attacks of %d came as far as they were meant to", len(done.Reached), len(attackNames()))
			}
		})
	}
}

// namesInSession are the attacks that need a session.
func namesInSession() []string {
	return slices.Concat(slices.Collect(maps.Keys(framesOfSessions())), slices.Collect(maps.Keys(callsOfSessions())), []string{"greedy", "wrong secrets"})
}

// attackUntilMet tries until the server has met the attack.
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
			case <-time.After(20 * time.Millisecond): // a look, no more
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

// everyDatagramRead demands that the process has read what came to its UDP port, by the
// kernel's queue of the socket. Lines of proc_pid_net(5):
//
//	sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
//	79: 0100007F:14B3 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 20881 2 0000000000000000 0
func everyDatagramRead(t *testing.T, pid int, port string) {
	t.Helper()
	n := must.Get(strconv.Atoi(port))(t)
	socket := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 07 [0-9A-F]{8}:([0-9A-F]{8}) `, n))
	eventually(t, time.Minute, "datagrams to be read at UDP port "+port, func() bool {
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
