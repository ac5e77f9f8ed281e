//go:build truth

package pingpong

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// roleEnv makes a process of this test one end of a sweep: "lead", or the address of the
// leader; and whether it polls.
const roleEnv = "LINERATE_TEST_ROLE"

func TestMain(m *testing.M) {
	if v := os.Getenv(roleEnv); v != "" {
		if err := alone(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// alone is one end in a process of its own. The leader prints its address, and then the time of
// its fastest trial in nanoseconds.
func alone(v string) error {
	address, spin, _ := strings.Cut(v, " ")
	env := engine.Env{Host: model.Near, Open: func(ctx context.Context, _ int, o engine.SocketOptions) (engine.Opened, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return opened(c, o, err)
	}}
	if address == "lead" {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return err
		}
		env = engine.Env{Host: model.Far, Open: func(_ context.Context, _ int, o engine.SocketOptions) (engine.Opened, error) {
			c, err := l.Accept()
			return opened(c, o, err)
		}}
		fmt.Println(l.Addr())
	}
	e := New(nil)
	e.share = time.Second
	test, err := e.Prepare(context.Background(), env, sweepOf(model.From, sizes.Params{Spin: spin == "true"}, 1))
	if err != nil {
		return err
	}
	defer test.Close()
	r, err := test.Run(context.Background(), func([]model.Sample) {})
	if err == nil && address == "lead" {
		fmt.Println(slices.Min(r.Points[0].Trials).Nanoseconds())
	}
	return err
}

// opened applies the options to a new connection, unless err is set.
func opened(c net.Conn, o engine.SocketOptions, err error) (engine.Opened, error) {
	if err != nil {
		return engine.Opened{}, err
	}
	warnings, err := sockio.Apply(c.(*net.TCPConn), o)
	return engine.Opened{Conns: []*net.TCPConn{c.(*net.TCPConn)}, Warnings: warnings}, err
}

// pinned returns a command that runs on one core.
func pinned(t testing.TB, core, name string, arguments ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "taskset", append([]string{"-c", core, name}, arguments...)...)
}

// ours returns the half round trip of one byte between two processes.
func ours(t testing.TB, cores [2]string, spin bool) time.Duration {
	t.Helper()
	leader := pinned(t, cores[0], os.Args[0])
	leader.Env = append(os.Environ(), fmt.Sprintf("%s=lead %t", roleEnv, spin))
	leader.Stderr = os.Stderr
	pipe := must.Get(leader.StdoutPipe())(t)
	if err := leader.Start(); err != nil {
		t.Skipf("taskset: %v", err)
	}
	said := bufio.NewScanner(pipe)
	said.Scan()
	follower := pinned(t, cores[1], os.Args[0])
	follower.Env = append(os.Environ(), fmt.Sprintf("%s=%s %t", roleEnv, said.Text(), spin))
	out, err := follower.CombinedOutput()
	must.Need(t, err == nil, "%v: %s", err, out)
	said.Scan()
	ns, err := strconv.Atoi(said.Text())
	must.Do(t, errors.Join(err, leader.Wait()))
	return time.Duration(ns)
}

// nptcp returns the half round trip of one byte that NPtcp reports: the best of three trials.
func nptcp(t testing.TB, cores [2]string) time.Duration {
	t.Helper()
	dir := t.TempDir()
	receiver := pinned(t, cores[1], "NPtcp", "-l", "1", "-u", "1", "-p", "0")
	receiver.Dir = dir
	if err := receiver.Start(); err != nil {
		t.Skipf("NPtcp: %v", err)
	}
	defer receiver.Wait()
	defer receiver.Process.Kill()
	var out []byte
	var err error
	for range 50 { // a receiver that is not up yet ends a transmitter at once
		transmitter := pinned(t, cores[0], "NPtcp", "-h", "127.0.0.1", "-l", "1", "-u", "1", "-p", "0", "-o", "np.out")
		transmitter.Dir = dir
		if out, err = transmitter.CombinedOutput(); err == nil {
			break
		}
	}
	line, readErr := os.ReadFile(filepath.Join(dir, "np.out"))
	f := strings.Fields(string(line))
	must.Need(t, readErr == nil && len(f) == 3, "np.out %q, %v; %s", line, err, out)
	return time.Duration(must.Get(strconv.ParseFloat(f[2], 64))(t) * 1e9)
}

// sockperf returns the mean half round trip of its ping-pong over TCP, whose smallest message
// is 14 bytes.
func sockperf(t testing.TB, cores [2]string, spin bool) time.Duration {
	t.Helper()
	arguments := []string{"--tcp", "-i", "127.0.0.1", "-p", freePort(t)}
	if spin {
		arguments = append(arguments, "--nonblocked")
	}
	server := pinned(t, cores[1], "sockperf", append([]string{"server"}, arguments...)...)
	err := server.Start()
	must.SkipIf(t, err != nil, "sockperf: %v", err)
	defer server.Wait()
	defer server.Process.Kill()
	summary := regexp.MustCompile(`Summary: Latency is ([0-9.]+) usec`)
	var out []byte
	for range 20 { // until the server is up
		out, _ = pinned(t, cores[0], "sockperf", append([]string{"ping-pong", "-m", "14", "-t", "1"}, arguments...)...).CombinedOutput()
		if found := summary.FindSubmatch(out); found != nil {
			return time.Duration(must.Get(strconv.ParseFloat(string(found[1]), 64))(t) * 1e3)
		}
	}
	t.Fatalf("sockperf: %s", out)
	return 0
}

func freePort(t testing.TB) string {
	t.Helper()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.Do(t, err)
	return port
}

// TestAgainstPeers compares the half round trip of one byte with that of NPtcp, and of sockperf
// if it is installed, on loopback, with the two ends on separate cores and on one core.
func TestAgainstPeers(t *testing.T) {
	for name, cores := range map[string][2]string{"two cores": {"0", "1"}, "one core": {"0", "0"}} {
		t.Run(name, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				// The best of each: disturbances by other processes only add.
				_, missing := exec.LookPath("sockperf")
				best := map[string]float64{}
				keep := func(what string, d time.Duration) {
					if old, known := best[what]; !known || d.Seconds() < old {
						best[what] = d.Seconds()
					}
				}
				for range 3 {
					keep("blocking", ours(try, cores, false))
					keep("peer", nptcp(try, cores))
					if missing == nil {
						keep("peer", sockperf(try, cores, false))
					}
					if missing == nil && cores[0] != cores[1] { // two polling threads on one core wait for their time slices
						keep("polling", ours(try, cores, true))
						keep("polling peer", sockperf(try, cores, true))
					}
				}
				try.Claim("blocking, over the better peer", best["blocking"]/best["peer"], 0, 1.15, "")
				if best["polling"] > 0 {
					try.Claim("polling, over sockperf", best["polling"]/best["polling peer"], 0, 1.15, "")
				}
			})
		})
	}
}
