package peer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
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

// anyEnd runs the program as a client until it exits, and returns its output. It returns an
// error if the program does not exit within a minute.
func anyEnd(t testing.TB, addr string, args ...string) (string, error) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, _ := exec.CommandContext(ctx, realProgram(t), append([]string{"-c", host, "-f", "b", "-p", port}, args...)...).CombinedOutput()
	return string(out), ctx.Err()
}

// TestUDPLimitOfWhatComes: the server refuses a client that announces more, and ends one that
// sends more.
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
		// Twice the burst that the server accepts at once. Few enough datagrams are in flight
		// for the socket buffer.
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
		// Other clients are not affected.
		s.alive(t)
	})
	t.Run("keeps to it", func(t *testing.T) {
		must.Contain(t, foreignClient(t, startServer(t, ServerConfig{UDPRate: udpLimit}).addr, "-u", "-b", "3900k", "-t", "1"), "Server Report", "no report")
	})
}

// TestLimitsWithForeignClient limits the time and the connections of the program.
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

// TestGrants: the grants over UDP of one address stay below the limit in total.
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

// TestLevel: traffic at the limit may last forever, twice the limit for a second.
func TestLevel(t *testing.T) {
	for _, c := range []struct {
		times float64 // of the limit
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

// TestClientRecognisesIperf3: the client recognises an iperf3 server in every mode, and soon.
func TestClientRecognisesIperf3(t *testing.T) {
	path, err := exec.LookPath("iperf3")
	must.SkipIf(t, err != nil, "iperf3 is not installed")
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

// serverOf3 starts an iperf3 server and returns its address.
func serverOf3(t testing.TB, path string) string {
	t.Helper()
	port := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, path, "-s", "-B", "127.0.0.1", "-p", strconv.Itoa(port), "--forceflush")
	out := new(output)
	cmd.Stdout, cmd.Stderr = out, out
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	// Not only any listener: another program may have taken the port.
	out.await(t, "listening iperf3", func(s string) bool { return strings.Contains(s, "Server listening") })
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// TestUDPReportIsWhole: a client over UDP reports its CPU time, and a jitter that the server
// does not report is unknown.
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

// TestMain runs more tests at once than there are CPUs: most of them wait for timeouts.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

// TestOwnEnds runs the client against the server in every mode and form.
func TestOwnEnds(t *testing.T) {
	for _, m := range clientModes {
		for _, f := range []model.Flow{
			{Duration: short, Interval: short / 3, Streams: 2},
			{Bytes: 3_000_000, Streams: 1},
			{Duration: short, Streams: 2, Block: 600, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})},
			{Bytes: 60_000, Streams: 1, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})},
		} {
			if f.Engine == udp.Name && f.Bytes > 0 && m.d == model.From && !must.Slow {
				continue
			}
			f.Direction = m.d
			if m.client.mode(f) == iperf2.TradeOff && !m.client.Legacy {
				f.Streams = 1
			}
			t.Run(fmt.Sprintf("%s/udp %t, %d streams, %d bytes", m.name, f.Engine == udp.Name, f.Streams, f.Bytes), func(t *testing.T) {
				if f.Engine == udp.Name {
					t.Parallel() // the others take all the processors
				}
				checkOwnEnds(t, m.client, f)
			})
		}
	}
}

// unhurried removes the warnings that result from other work keeping the sender from sending
// all the time, or one of its streams from beginning. TestRate checks that nothing else causes them.
func unhurried(warnings []string) []string {
	return slices.DeleteFunc(slices.Clone(warnings), func(w string) bool {
		return strings.Contains(w, "the peer sent for") || strings.Contains(w, "no byte moved")
	})
}

// dropped returns how many packets this kernel has dropped because a processor was behind, in all
// namespaces together; "" where it does not say so.
func dropped() (columns string) {
	text, _ := os.ReadFile("/proc/net/softnet_stat") // Linux net/core/net-procfs.c softnet_seq_show
	for line := range strings.Lines(string(text)) {
		columns += strings.Fields(line)[1] + " "
	}
	return columns
}

func checkOwnEnds(t testing.TB, c Client, f model.Flow) {
	s, before := startServer(t, ServerConfig{}), dropped()
	near, far, err := c.Run(t.Context(), s.addr, f, nil)
	w := unhurried(near.Warnings)
	must.Need(t, err == nil && len(w) == 0, "%v, warnings %q", err, w)
	results, log := s.await(t, "results", func(r []Result, _ []string) bool { return len(r) == f.Streams })
	must.Len(t, unhurried(log), 0, "log")
	for _, r := range results {
		must.True(t, len(unhurried(r.Report.Warnings)) == 0 && r.Mode == c.mode(f), "result %+v", r)
	}
	for _, d := range f.Direction.Parts() {
		role := model.Sender
		if d == model.From {
			role = model.Receiver
		}
		ours := find(t, near, d, role)
		theirs := sum(results, d)
		if f.Engine == udp.Name && dropped() != before { // other tests flood the loopback
			continue
		}
		must.True(t, agree(ours.Bytes, theirs), "%s: client has %d bytes, server %d", d, ours.Bytes, theirs)
		must.True(t, f.Engine != udp.Name || d != model.From || ours.UDP.Lost <= 0, "from: %+v", ours.UDP)
		if d == model.To && (f.Engine != udp.Name || f.Direction == model.To) {
			got := find(t, far, d, model.Receiver)
			must.True(t, got.Bytes == ours.Bytes, "to: sent %d bytes, the server told of %d", ours.Bytes, got.Bytes)
		}
	}
}

// pacedRate is the TCP rate of paced tests.
const pacedRate = 80e6

func TestOmitAndRate(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			omitAndRate(t, d)
		})
	}
}

// omitAndRate runs a flow with a warm-up at pacedRate, and returns its report.
func omitAndRate(t testing.TB, d model.Direction) model.EndReport {
	t.Helper()
	f := model.Flow{Direction: d, Duration: 2 * time.Second, Omit: 2 * short, Interval: short / 3} // a machine may stall for half of it
	s := startServer(t, ServerConfig{Rate: pacedRate})
	var got taken
	near, _, err := Client{Rate: pacedRate}.Run(t.Context(), s.addr, f, got.emit)
	must.Need(t, err == nil && len(unhurried(near.Warnings)) == 0, "%v, %q", err, near.Warnings)
	for _, r := range near.Flows {
		must.True(t, r.Window > 0 && r.Bytes != 0, "%s: %d bytes in a window of %v", r.Direction, r.Bytes, r.Window)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	omitted := slices.ContainsFunc(got.list, func(s model.Sample) bool { return s.Omitted })
	counted := slices.ContainsFunc(got.list, func(s model.Sample) bool { return !s.Omitted })
	must.True(t, omitted && counted, "samples of the warm-up %t, of the window %t", omitted, counted)
	return near
}

func TestClientValidates(t *testing.T) {
	ok := model.Flow{Direction: model.To, Duration: time.Second}
	for name, c := range map[string]struct {
		client Client
		change func(f *model.Flow)
		want   string
	}{
		"legacy reverse":        {Client{Legacy: true}, func(f *model.Flow) { f.Direction = model.From }, "2.0.5"},
		"port":                  {Client{ListenPort: 70000}, func(*model.Flow) {}, "port 70000"},
		"streams back":          {Client{ConnectBack: true}, func(f *model.Flow) { f.Direction, f.Streams = model.From, 2 }, "2 streams"},
		"small datagrams":       {Client{}, func(f *model.Flow) { f.Engine, f.Block = udp.Name, 10 }, "datagrams of 10 bytes"},
		"sweep":                 {Client{}, func(f *model.Flow) { f.Engine = sizes.Name }, "only streams"},
		"amount":                {Client{}, func(f *model.Flow) { f.Direction, f.Duration, f.Bytes = model.From, 0, 1<<33 }, "amount"},
		"neither time nor size": {Client{}, func(f *model.Flow) { f.Duration = 0 }, "neither"},
		"negative rate":         {Client{Rate: -1}, func(*model.Flow) {}, "rate"},
	} {
		f := ok
		c.change(&f)
		// The address is invalid: no dial may happen.
		_, _, err := c.client.Run(t.Context(), "", f, nil)
		must.Say(t, err, c.want, "%s", name)
	}
	must.OK(t, (Client{}).Validate(ok))
	must.Is(t, (Client{Legacy: true}).Validate(model.Flow{Direction: model.From, Duration: 1}), errors.ErrUnsupported, "is not ErrUnsupported")
}

func TestServeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.OK(t, Serve(ctx, nil, nil, ServerConfig{}))
}
