package peer

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// summary is the part of the real client's JSON report with the counts of both ends.
type summary struct {
	Error string `json:"error"`
	End   struct {
		Sent            total `json:"sum_sent"`
		Received        total `json:"sum_received"`
		SentReverse     total `json:"sum_sent_bidir_reverse"`
		ReceivedReverse total `json:"sum_received_bidir_reverse"`
		Sum             total `json:"sum"`
	} `json:"end"`
	Output string `json:"server_output_text"`
}

type total struct {
	Bytes       int64   `json:"bytes"`
	Rate        float64 `json:"bits_per_second"`
	Retransmits *int64  `json:"retransmits"`
	Packets     int64   `json:"packets"`
	LostPackets int64   `json:"lost_packets"`
	Jitter      float64 `json:"jitter_ms"`
}

// foreignClient runs the real client against addr and returns its report.
func foreignClient(t testing.TB, addr, args string, env ...string) summary {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	cmd := exec.CommandContext(t.Context(), realProgram(t), append([]string{"-J", "-c", host, "-p", port}, strings.Fields(args)...)...)
	cmd.Env = append(cmd.Environ(), env...)
	// It exits with an error if its report has one.
	out, runErr := cmd.Output()
	var s summary
	err = json.Unmarshal(out, &s)
	must.Need(t, err == nil, "iperf3 %s: %v, %v\n%s", args, runErr, err, out)
	return s
}

// events collects a server's events.
type events struct {
	mu   sync.Mutex
	all  []Event
	more chan struct{}
}

func newEvents() *events { return &events{more: make(chan struct{}, 1000)} }

func (e *events) add(one Event) {
	e.mu.Lock()
	e.all = append(e.all, one)
	e.mu.Unlock()
	e.more <- struct{}{}
}

// ended waits for the end of the first test, and returns it.
func (e *events) ended(t testing.TB) Event {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		e.mu.Lock()
		i := slices.IndexFunc(e.all, func(one Event) bool { return !one.Begun })
		if i >= 0 {
			defer e.mu.Unlock()
			return e.all[i]
		}
		e.mu.Unlock()
		select {
		case <-e.more:
		case <-timeout:
			t.Fatal("the server did not tell the end of a test")
		}
	}
}

// TestServer runs the real client against our server. If the client sends, both must count the
// same, because the server reads on after the end. If the server sends for a time, 3.12 stops
// counting when its time is over, and the difference is what was in flight.
func TestServer(t *testing.T) {
	cases := map[string]serverCase{}
	for args, inFlight := range map[string]bool{
		"-t 1":                       false,
		"-t 1 -P 3":                  false,
		"-n 20M":                     false,
		"-n 20M -P 3":                false,
		"-n 1K":                      false,
		"-k 100":                     false,
		"-n 20M -w 128K -M 1000 -N":  false,
		"-n 20M -C reno":             false,
		"-n 20M -l 1000":             false,
		"-n 20M -Z":                  false,
		"-n 20M -R -Z":               false,
		"-n 20M -S 0x10 --title x":   false,
		"-t 1 -b 50M":                false,
		"-n 20M -R":                  false,
		"-n 20M -R -P 3":             false,
		"-k 100 -R -l 10000":         true, // 3.12 counts a short read as a block
		"-n 20M -R -w 128K -M 1000":  false,
		"-n 20M -R -C reno -N":       false,
		"-t 1 -R":                    true,
		"-t 1 -R -P 3":               true,
		"-t 1 -R -b 50M -l 1000":     true,
		"-t 1 --bidir":               true,
		"-t 1 --bidir -P 2 -b 50M":   true,
		"-t 1 -O 1":                  true,
		"-t 1 -O 1 -R":               true,
		"-n 20M --repeating-payload": false,
	} {
		cases[args] = serverCase{args, inFlight}
	}
	together(t, 6, cases, func(t testing.TB, c serverCase) {
		skipTimed(t, c.args)
		e := newEvents()
		s := foreignClient(t, serveHere(t, ServerConfig{Event: e.add}), c.args)
		must.Need(t, s.Error == "", "%v", s.Error)
		end := e.ended(t)
		must.Dof(t, end.Err, "the server")
		checkSums(t, c, s)
		checkEvent(t, end, s)
	})
}

// skipTimed leaves cases with a duration, rather than bytes, to the tag slow.
func skipTimed(t testing.TB, args string) {
	must.SkipIf(t, strings.Contains(args, "-t ") && !must.Slow, "lasts for a time: with the tag slow")
}

// serverCase has arguments of the real client, and whether only the server counts what is in
// flight at the end.
type serverCase struct {
	args     string
	inFlight bool
}

// checkSums compares both ends' sums in the client's report.
func checkSums(t testing.TB, c serverCase, s summary) {
	t.Helper()
	tolerance := 0.001
	if c.inFlight {
		tolerance = 0.5 // the kernel's buffers are large for a test of a second
	}
	pairs := [][2]total{{s.End.Sent, s.End.Received}}
	if strings.Contains(c.args, "--bidir") {
		pairs = append(pairs, [2]total{s.End.SentReverse, s.End.ReceivedReverse})
	}
	for _, p := range pairs {
		sent, got := p[0].Bytes, p[1].Bytes
		must.True(t, got != 0 && math.Abs(float64(sent-got)) <= tolerance*float64(sent), "sent %d, received %d", sent, got)
		must.True(t, p[0].Retransmits != nil, "retransmissions are not known")
		// A busy machine sends less, but never more.
		must.True(t, !strings.Contains(c.args, "-b 50M") || p[0].Rate > 0 && p[0].Rate <= 150e6, "%.0f bit/s where 50M a stream were asked", p[0].Rate)
	}
}

// checkEvent compares the server's event with the client's report.
func checkEvent(t testing.TB, e Event, s summary) {
	t.Helper()
	var own, theirs int64
	for i := range e.Own.Flows {
		own += int64(e.Own.Flows[i].Bytes)
		theirs += int64(e.Theirs.Flows[i].Bytes)
		must.True(t, e.Own.Flows[i].Window > 0, "window of %+v", e.Own.Flows[i])
	}
	both := s.End.Sent.Bytes + s.End.Received.Bytes + s.End.SentReverse.Bytes + s.End.ReceivedReverse.Bytes
	must.Equal(t, own+theirs, both, "the server tells of %d and %d bytes, the client of %d", own, theirs, both)
	must.Len(t, e.Own.Warnings, 0, "warnings")
	must.True(t, e.Own.Host == model.Far && e.Theirs.Host == model.Near && e.Own.CPUWindow > 0, "own %+v, theirs %+v", e.Own, e.Theirs)
}

func TestServerOutput(t *testing.T) {
	s := foreignClient(t, serveHere(t, ServerConfig{}), "-n 1M --get-server-output")
	must.True(t, strings.Contains(s.Output, "receiver: "), "output %q, error %q", s.Output, s.Error)
}

// TestServerRefuses: a client learns why it is refused.
func TestServerRefuses(t *testing.T) {
	help, _ := exec.CommandContext(t.Context(), realProgram(t), "--help").CombinedOutput() // some versions end with 1
	for _, c := range []struct {
		args, want string
		config     ServerConfig
	}{
		{"-t 5", "test duration", ServerConfig{Duration: 2 * time.Second}},
		{"-n 1M -P 3", "number of parallel streams", ServerConfig{Streams: 2}},
		{"-n 1M -l 64K", "block size", ServerConfig{Block: 1000}},
		{"-t 1 -b 10M", "total required bandwidth", ServerConfig{Rate: 5e6}},
		{"-n 1M --sctp", "", ServerConfig{}},
		{"-n 1M", "authorization", ServerConfig{Access: &Access{Key: testKey(t), Users: map[string]string{}}}},
	} {
		if strings.Contains(c.args, "--sctp") && !strings.Contains(string(help), "--sctp ") {
			continue // built without it
		}
		t.Run(c.args, func(t *testing.T) {
			e := newEvents()
			c.config.Event = e.add
			s := foreignClient(t, serveHere(t, c.config), c.args)
			if s.Error == "" || e.ended(t).Err == nil {
				t.Errorf("client %q, server %v", s.Error, e.ended(t).Err)
			}
			must.Contain(t, s.Error, c.want)
		})
	}
}

// TestServerEndsRate: a test without a rate is ended if it exceeds the server's limit.
func TestServerEndsRate(t *testing.T) {
	t.Parallel()
	e := newEvents()
	must.True(t, foreignClient(t, serveHere(t, ServerConfig{Event: e.add, Rate: 5e6}), "-t 10").Error != "", "the client ran to its end")
	must.Say(t, e.ended(t).Err, "at most", "the server says")
}

// TestServerParallel: several tests run at once if permitted, and one more is refused at once.
func TestServerParallel(t *testing.T) {
	t.Parallel()
	e := newEvents()
	addr := serveHere(t, ServerConfig{Event: e.add, Tests: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 2 {
		f := model.Flow{Direction: model.Both, Duration: 10 * time.Minute, Streams: i + 1}
		all.Go(func() {
			near, _, err := Client{Rate: 10e6}.Run(ctx, addr, f, func([]model.Sample) {})
			must.True(t, errors.Is(err, context.Canceled) || err == nil && near.Flows[0].Bytes != 0, "%+v, %v", near.Flows, err)
		})
	}
	<-e.more
	<-e.more
	must.Contain(t, foreignClient(t, addr, "-n 1M").Error, "server is busy", "a third client")
	cancel()
	all.Wait()
}

// TestServerAddresses: a server on all addresses answers UDP from the address that the client
// knows, in both families.
func TestServerAddresses(t *testing.T) {
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0"))(t)
	addr := serveOn(t, l, ServerConfig{})
	_, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "::1"} {
		addr := net.JoinHostPort(host, port)
		probe, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			continue // the system has no such address
		}
		_ = probe.Close()
		for _, f := range []model.Flow{
			{Direction: model.Both, Bytes: 1 << 20, Streams: 2},
			{Engine: udp.Name, Direction: model.Both, Duration: 100 * time.Millisecond, Streams: 2, Params: traffic.Write(udp.Params{Rate: 1e6})},
		} {
			near, far, err := Client{}.Run(t.Context(), addr, f, func([]model.Sample) {})
			must.True(t, err == nil && near.Flows[1].Bytes != 0 && far.Flows[0].Bytes != 0, "%s: %+v, %+v, %v", host, near.Flows, far.Flows, err)
		}
	}
}

// TestServerOutlivesAcceptErrors: a failing Accept costs time, not the server, and is logged
// once.
func TestServerOutlivesAcceptErrors(t *testing.T) {
	e := newEvents()
	addr := serveOn(t, enginetest.Failing(listenHere(t), 5, syscall.EMFILE), ServerConfig{Event: e.add})
	for range 2 {
		_, _, err := (Client{}).Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, func([]model.Sample) {})
		must.True(t, err == nil, "%v", err)
	}
	told := 0
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if strings.Contains(one.Note, "too many open files") {
			told++
		}
	}
	must.Equal(t, told, 1, "events %+v", e.all)
}

// TestServeEndsWhenItsListenerIsClosed: Serve returns an error if its caller closes the
// listener.
func TestServeEndsWhenItsListenerIsClosed(t *testing.T) {
	l := listenHere(t)
	_ = l.Close()
	must.Is(t, Serve(context.Background(), l, ServerConfig{}), net.ErrClosed)
}
