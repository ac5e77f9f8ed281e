package netpipe

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// soon is the timeout of a test against a real peer.
const soon = 2 * time.Minute

// flags returns the settings that both ends must support, each with a short test.
func flags() map[string]Settings {
	short := Settings{Start: 1, Upper: 64, Perturbation: 3}
	with := func(change func(*Settings)) Settings {
		s := short
		change(&s)
		return s
	}
	return map[string]Settings{
		"plain":           short,
		"large":           {Start: 200_000, Upper: 300_000, Perturbation: 0},
		"no perturbation": with(func(s *Settings) { s.Perturbation = 0 }),
		"reset":           with(func(s *Settings) { s.Reset = true; s.Upper = 24 }),
		"stream":          with(func(s *Settings) { s.Streaming = true; s.Upper = 24 }),
		"both ways":       with(func(s *Settings) { s.Bidirectional = true }),
		"both and reset":  with(func(s *Settings) { s.Bidirectional, s.Reset = true, true; s.Upper = 12 }),
		"integrity":       Settings{Upper: 64}.WithIntegrity(),
		"integrity reset": func() Settings { s := Settings{Upper: 20}.WithIntegrity(); s.Reset = true; return s }(),
	}
}

// bounded returns s with the upper bound of -2 on this machine.
func bounded(t testing.TB, s Settings) Settings {
	t.Helper()
	if !s.Bidirectional {
		return s
	}
	send, receive, err := buffers(t.Context(), 0)
	must.Do(t, err)
	s = must.Get(s.Bounded(send, receive))(t)
	return s
}

// constant is -n of the tests that do not test the calibration.
const constant = 20

// nptcp returns a command that runs the real program in a folder of its own.
func nptcp(ctx context.Context, t testing.TB, port string, s Settings, more ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("NPtcp")
	must.SkipIf(t, err != nil, "NPtcp is not installed: %v", err)
	cmd := exec.CommandContext(ctx, path, slices.Concat([]string{"-P", port}, s.Arguments(), more)...)
	cmd.Dir = t.TempDir()
	return cmd
}

// checkPoints fails the test unless points cover the whole schedule of s.
func checkPoints(t testing.TB, s Settings, points []model.Point) {
	t.Helper()
	want := must.Get(Sizes(s))(t)
	var got []int
	for _, p := range points {
		got = append(got, int(p.Size))
		trials := s.Trials()
		switch {
		case s.Integrity:
			trials = 0
		case s.Streaming:
			trials = 1 // the receiver reports its fastest
		}
		must.True(t, len(p.Trials) == trials && p.Rounds >= 3, "point %+v", p)
		for _, d := range p.Trials {
			must.True(t, d > 0, "%d bytes: a message took %v", p.Size, d)
		}
	}
	must.True(t, slices.Equal(got, want), "sizes %v, want %v", got, want)
}

// TestTransmitToNPtcp replaces NPtcp -h.
func TestTransmitToNPtcp(t *testing.T) {
	for name, s := range flags() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			port := freePort(t)
			foreign := nptcp(ctx, t, port, s)
			var said strings.Builder
			foreign.Stdout, foreign.Stderr = &said, &said
			must.Do(t, foreign.Start())
			var shown []model.Point
			points, err := New().Transmit(ctx, patient(port), Options{Settings: s, Repeats: constant}, func(p model.Point) { shown = append(shown, p) })
			must.Need(t, err == nil, "%v; NPtcp says %s", err, said.String())
			err = foreign.Wait()
			must.True(t, err == nil, "NPtcp: %v: %s", err, said.String())
			checkPoints(t, bounded(t, s), points)
			must.True(t, len(shown) == len(points), "%d points shown, %d returned", len(shown), len(points))
		})
	}
}

// serve runs a receiver and returns its port and a function that returns its log.
func serve(t testing.TB, p *Peer, s Settings, l Limits) (port string, log func() []string) {
	t.Helper()
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0"))(t)
	return serveOn(t, p, listener, s, l)
}

// serveOn is serve on the caller's listener.
func serveOn(t testing.TB, p *Peer, listener net.Listener, s Settings, l Limits) (port string, log func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var lines []string
	done := make(chan error, 1)
	go func() {
		done <- p.Serve(ctx, listener, s, l, func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, e.String())
		})
	}()
	t.Cleanup(func() {
		cancel()
		must.OK(t, must.Wait(t, "the end of the server", done), "serve")
	})
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must.Do(t, err)
	return port, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(lines)
	}
}

// TestServeNPtcp replaces NPtcp without -h.
func TestServeNPtcp(t *testing.T) {
	for name, s := range flags() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			port, log := serve(t, New(), s, Limits{})
			foreign := nptcp(ctx, t, port, s, "-h", "127.0.0.1", "-o", "np.out", "-n", strconv.Itoa(constant))
			out, err := foreign.CombinedOutput()
			must.Need(t, err == nil, "NPtcp: %v: %s; log %q", err, out, log())
			checkFile(t, bounded(t, s), filepath.Join(foreign.Dir, "np.out"))
		})
	}
}

// readFile returns the lines of an np.out.
func readFile(t testing.TB, path string) []Line {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	return must.Get(Parse(f))(t)
}

// checkFile fails the test unless the np.out of NPtcp has the whole schedule of s.
func checkFile(t testing.TB, s Settings, path string) {
	t.Helper()
	want := must.Get(Sizes(s))(t)
	factor := 1
	if s.Bidirectional {
		factor = 2
	}
	var got []int
	for _, l := range readFile(t, path) {
		got = append(got, l.Bytes/factor)
		must.True(t, s.Integrity || l.Seconds > 0, "line %q", l)
	}
	must.True(t, slices.Equal(got, want), "sizes %v, want %v", got, want)
}

// TestLikeNPtcp compares our np.out with that of NPtcp on the same path: the same sizes.
// TestTimesLikeNPtcp compares their times.
func TestLikeNPtcp(t *testing.T) { alike(t) }

// alike returns our time over NPtcp's for each size, ascending.
func alike(t testing.TB) []float64 {
	t.Helper()
	real, ours := bothWays(t, Settings{Start: 2000, Upper: 10_000, Perturbation: 0})
	must.Need(t, len(real) == len(ours), "%d lines, NPtcp has %d", len(ours), len(real))
	var ratios []float64
	for i := range real {
		must.Need(t, real[i].Bytes == ours[i].Bytes, "line %d: %v, NPtcp has %v", i, ours[i], real[i])
		ratios = append(ratios, ours[i].Seconds/real[i].Seconds)
	}
	slices.Sort(ratios)
	return ratios
}

// bothWays returns the lines of NPtcp with NPtcp, and of our transmitter with our receiver.
func bothWays(t testing.TB, s Settings) (real, ours []Line) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	port := freePort(t)
	receiver := nptcp(ctx, t, port, s)
	must.Do(t, receiver.Start())
	var transmitter *exec.Cmd
	for { // until the receiver is up
		transmitter = nptcp(ctx, t, port, s, "-h", "127.0.0.1", "-o", "np.out")
		if out, err := transmitter.CombinedOutput(); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	must.Do(t, receiver.Wait())
	real = readFile(t, filepath.Join(transmitter.Dir, "np.out"))
	port, _ = serve(t, New(), s, Limits{})
	points := must.Get(New().Transmit(ctx, dialer(port), Options{Settings: s}, func(model.Point) {}))(t)
	for _, p := range points {
		ours = append(ours, NewLine(s, Point{Bytes: int(p.Size)}, slices.Min(p.Trials).Seconds(), int(p.Rounds)))
	}
	return real, ours
}

// patient is dialer for a receiver that may not be up yet.
func patient(port string) func(context.Context) (*net.TCPConn, error) {
	return func(ctx context.Context) (*net.TCPConn, error) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			c, err := dialer(port)(ctx)
			if err == nil || ctx.Err() != nil {
				return c, err
			}
			<-tick.C
		}
	}
}

func dialer(port string) func(context.Context) (*net.TCPConn, error) {
	return func(ctx context.Context) (*net.TCPConn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp4", "127.0.0.1:"+port)
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	}
}

// freePort returns a port without a listener, below the kernel's range for outgoing connections
// (from 32768 on by default).
func freePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10000 + rand.IntN(20000))
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		_ = l.Close()
		return port
	}
	t.Fatal("no port is free")
	return ""
}
