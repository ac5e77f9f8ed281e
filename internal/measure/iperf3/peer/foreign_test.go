package peer

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/must"
)

// realProgram returns the path of the real iperf3.
func realProgram(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("iperf3")
	must.SkipIf(t, err != nil, "the real iperf3 is not installed")
	return path
}

// atLeast reports whether the real iperf3 is 3.minor or later.
func atLeast(t testing.TB, minor int) bool {
	t.Helper()
	out := must.Get(exec.CommandContext(t.Context(), realProgram(t), "--version").Output())(t)
	var is, sub int
	n, err := fmt.Sscanf(string(out), "iperf %d.%d", &is, &sub) // "iperf 3.12 (cJSON 1.7.15)"
	must.Need(t, n == 2, "%q is no version: %v", out, err)
	return is > 3 || is == 3 && sub >= minor
}

// freePort returns a port that is free on TCP and UDP.
func freePort(t testing.TB) int {
	t.Helper()
	var lc net.ListenConfig
	for range 50 {
		l := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		port := l.Addr().(*net.TCPAddr).Port
		u, err := lc.ListenPacket(t.Context(), "udp", fmt.Sprintf("127.0.0.1:%d", port))
		_ = l.Close()
		if err == nil {
			_ = u.Close()
			return port
		}
	}
	t.Fatal("no port is free for TCP and UDP")
	return 0
}

// output collects what a program writes.
type output struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	want string
	seen chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := strings.Contains(o.buf.String(), o.want)
	n, err := o.buf.Write(p)
	if !before && strings.Contains(o.buf.String(), o.want) {
		close(o.seen)
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// foreignServer starts the real server and returns its address.
func foreignServer(t testing.TB, args ...string) string {
	t.Helper()
	path := realProgram(t)
	// Another program may take the port first.
	for range 5 {
		port := freePort(t)
		if startServer(t, path, port, args) {
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	t.Fatal("the real server does not start")
	return ""
}

// startServer returns false if the server exited at once.
func startServer(t testing.TB, path string, port int, args []string) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, append([]string{"-s", "-B", "127.0.0.1", "-p", fmt.Sprint(port), "--forceflush"}, args...)...)
	out := &output{want: "Server listening", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	must.Do(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // killed at the end of the test
	}()
	t.Cleanup(func() {
		cancel()
		<-exited
		if t.Failed() {
			t.Logf("the server said:\n%s", out)
		}
	})
	select {
	case <-out.seen:
		return true
	case <-exited:
		return false
	case <-time.After(time.Minute):
		t.Fatal("the real server does not start")
		return false
	}
}

// together runs the cases of a test in parallel, at most most at once: they mostly wait, and
// t.Parallel would allow fewer on few cores.
func together[C any](t *testing.T, most int, cases map[string]C, run func(t testing.TB, c C)) {
	t.Helper()
	var all sync.WaitGroup
	turn := make(chan struct{}, most)
	for name, c := range cases {
		turn <- struct{}{}
		all.Go(func() {
			t.Run(name, func(t *testing.T) { run(t, c) })
			<-turn
		})
	}
	all.Wait()
}

// serveHere runs our server and returns its address.
func serveHere(t testing.TB, c ServerConfig) string {
	t.Helper()
	// A port that is free on UDP too, unless another program takes it meanwhile.
	for range 5 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
		if err == nil {
			return serveOn(t, l, c)
		}
	}
	t.Fatal("no port can be listened on")
	return ""
}

// serveOn runs our server on l.
func serveOn(t testing.TB, l net.Listener, c ServerConfig) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, c) }()
	t.Cleanup(func() {
		cancel()
		must.OK(t, <-done)
	})
	return l.Addr().String()
}
