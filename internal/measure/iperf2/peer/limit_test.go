package peer

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

const udpLimit units.BitRate = 4e6

// logged waits for a line of the log.
func (s *ownServer) logged(t testing.TB, want string) {
	t.Helper()
	s.await(t, want, func(_ []Result, log []string) bool {
		return slices.ContainsFunc(log, func(l string) bool { return strings.Contains(l, want) })
	})
}

// anyEnd runs the program as a client, however it ends, and returns what it printed. It
// is an error when nothing ends it within a minute.
func anyEnd(t testing.TB, addr string, args ...string) (string, error) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, _ := exec.CommandContext(ctx, realProgram(t), append([]string{"-c", host, "-f", "b", "-p", port}, args...)...).CombinedOutput()
	return string(out), ctx.Err()
}

// TestUDPLimitOfWhatComes: a client that says that it sends more is refused, and
// one that does so without a word is ended.
func TestUDPLimitOfWhatComes(t *testing.T) {
	t.Run("says so", func(t *testing.T) {
		s := startServer(t, ServerConfig{UDPRate: udpLimit})
		text, _ := anyEnd(t, s.addr, "-u", "-b", "3m", "-P", "2", "-t", "0.2")
		s.logged(t, "6 Mbit/s over UDP, at most 4 Mbit/s")
		must.True(t, !strings.Contains(text, "Server Report"), "it was served all the same:\n%s", text)
	})
	t.Run("does so", func(t *testing.T) {
		s := startServer(t, ServerConfig{UDPRate: udpLimit})
		c := dialUDP(t, s.addr)
		b := datagramOf(iperf2.Forward, 1)
		// Twice what may come at once, whatever the machine takes for it. Few
		// enough wait at a time for the socket to hold.
		for sent := 0; ; {
			for range 50 {
				must.Get(c.Write(b))(t)
				sent++
			}
			s.mu.Lock()
			over := len(s.log) > 0
			s.mu.Unlock()
			if over {
				break
			}
			must.Need(t, sent <= 1_000_000, "%d datagrams of %d bytes were taken", sent, len(b))
		}
		s.logged(t, "ended 1 flows: more than 4 Mbit/s over UDP")
		results, _ := s.await(t, "result", func(r []Result, _ []string) bool { return len(r) == 1 })
		w := results[0].Report.Warnings
		must.True(t, len(w) == 1 && strings.Contains(w[0], "more than 4 Mbit/s"), "warnings %q", w)
		// It costs nobody else anything.
		s.alive(t)
	})
	t.Run("keeps to it", func(t *testing.T) {
		s := startServer(t, ServerConfig{UDPRate: udpLimit})
		must.Contain(t, foreignClient(t, s.addr, "-u", "-b", "3900k", "-t", "1"), "Server Report", "no report")
	})
}

// TestLimitsWithForeignClient: the time and the connections of the program.
func TestLimitsWithForeignClient(t *testing.T) {
	realProgram(t)
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, ServerConfig{Time: 600 * time.Millisecond})
		for _, args := range [][]string{{"-t", "600"}, {"-t", "600", "-R"}} {
			text, err := anyEnd(t, s.addr, args...)
			must.True(t, err == nil, "%q: %v:\n%s", args, err, text)
		}
	})
	t.Run("connections", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, ServerConfig{PerClient: 2})
		anyEnd(t, s.addr, "-t", "0.5", "-P", "4")
		s.logged(t, "the client has 2 sessions already")
	})
}

// TestGrants: what an address gets over UDP stays below the limit in all.
func TestGrants(t *testing.T) {
	u := &udpServer{server: &server{ServerConfig: ServerConfig{UDPRate: 100}}, granted: map[netip.Addr]units.BitRate{}}
	a, b := mustAddr(t, "2001:db8::1"), mustAddr(t, "2001:db8::2")
	for _, c := range []struct {
		to          netip.Addr
		asked, want units.BitRate
	}{
		{a, 60, 60}, {b, 60, 40}, {a, 60, 0}, {mustAddr(t, "2001:db8:0:1::1"), 60, 60}, {mustAddr(t, "10.0.0.1"), 60, 60},
	} {
		must.Equal(t, u.grant(c.to, c.asked), c.want, "%v asks for %v", c.to, c.asked)
	}
	u.giveBack(b, 60)
	must.Equal(t, u.grant(a, 70), 60, "after 60 came back")
}

// TestLevel: what comes at the limit may come for ever, twice that for a second.
func TestLevel(t *testing.T) {
	for _, c := range []struct {
		times float64 // the limit
		after time.Duration
	}{{1, 0}, {2, time.Second}, {11, 100 * time.Millisecond}} {
		var l level
		over := time.Duration(0)
		for at := time.Duration(0); at < time.Minute && over == 0; at += time.Millisecond {
			if l.add(int(c.times*1000), 8e6, at) {
				over = at
			}
		}
		must.True(t, over >= c.after*9/10 && over <= c.after*11/10, "%v times the limit is too much after %v, want %v", c.times, over, c.after)
	}
}

// TestClientRecognisesIperf3: a server of iperf3 is told in every mode, and soon.
func TestClientRecognisesIperf3(t *testing.T) {
	path, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("iperf3 is not installed")
	}
	for _, m := range clientModes {
		if m.client.Legacy {
			continue // its header is too short to be answered by iperf3
		}
		for _, engine := range []string{"tcpbulk", udp.Name} {
			name := m.name
			var own model.Params
			if engine == udp.Name {
				name, own = name+" UDP", traffic.Write(udp.Params{Rate: gentle})
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				addr := serverOf3(t, path)
				f := model.Flow{Direction: m.d, Duration: 10 * time.Minute, Engine: engine, Params: own}
				_, _, err := m.client.Run(t.Context(), addr, f, nil)
				must.Is(t, err, ErrIperf3)
			})
		}
	}
}

// serverOf3 starts iperf3 as a server and returns its address.
func serverOf3(t testing.TB, path string) string {
	t.Helper()
	port := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, path, "-s", "-B", "127.0.0.1", "-p", strconv.Itoa(port))
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	awaitSocket(t, port)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// TestUDPReportIsWhole: a client over UDP states its processor time, and a jitter
// that the server does not tell is unknown.
func TestUDPReportIsWhole(t *testing.T) {
	s := startServer(t, ServerConfig{})
	f := model.Flow{Direction: model.To, Bytes: 5 * size4, Streams: 1, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})}
	near, far, err := Client{}.Run(t.Context(), s.addr, f, nil)
	must.Need(t, err == nil && near.CPUWindow > 0 && near.CPUUser+near.CPUSystem > 0 && near.Waiting != "", "%v, %+v", err, near)
	got := find(t, far, model.To, model.Receiver)
	must.True(t, got.UDP.Jitter.Or(1) != 0, "jitter %+v", got.UDP.Jitter)
	u := &udpClient{clientTest: &clientTest{sink: newSink(model.Near, nil)}, size: 100}
	u.streams = []*udpStream{{report: &iperf2.Report{Bytes: 100, Datagrams: 1}, sender: &datagram.Sender{}}}
	u.stateReports()
	j := u.far.Flows[0].UDP.Jitter
	must.True(t, !j.IsKnown() && j.Reason() != "", "a jitter of 0 us is %+v", j)
}
