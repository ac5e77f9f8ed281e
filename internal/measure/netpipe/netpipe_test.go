package netpipe

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/measure/accept/accepttest"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
)

func TestValidateNamesEveryFault(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Settings
		want []string // nil is valid
	}{
		{"default", Default(), nil},
		{"one size", Settings{Start: 100, Upper: 100, Perturbation: 3}, nil},
		{"reset", Settings{Start: 1, Upper: 64, Streaming: true, Reset: true}, nil},
		{"integrity both ways", Settings{Start: 5, Upper: 64, Integrity: true, Bidirectional: true}, nil},
		{"largest", Settings{Start: 1, Upper: MaxBytes - 3, Perturbation: 3}, nil},
		{"largest both ways", Settings{Start: 1, Upper: MaxBytes / 2, Bidirectional: true}, nil},
		{"zero value", Settings{}, []string{"-l 0"}},
		{"bounds crossed", Settings{Start: 9, Upper: 8}, []string{"-u 8: the upper bound is below the first size, 9"}},
		{"stream both ways", Settings{Start: 1, Upper: 8, Streaming: true, Bidirectional: true}, []string{"-s and -2"}},
		{"too large", Settings{Start: 1, Upper: MaxBytes - 2, Perturbation: 3}, []string{"overflow"}},
		{"too large both ways", Settings{Start: 1, Upper: MaxBytes/2 + 1, Bidirectional: true}, []string{"overflow"}},
		{"sum overflows", Settings{Start: 1, Upper: 1<<63 - 1, Perturbation: 1<<63 - 1}, []string{"overflow"}},
		{"several", Settings{Start: 0, Upper: -1, Perturbation: -2}, []string{"-l 0", "-u -1", "-p -2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.s.Validate()
			must.Need(t, (err == nil) == (c.want == nil), "error %v", err)
			for _, w := range c.want {
				must.Contain(t, err.Error(), w)
			}
			_, serr := NewSchedule(c.s)
			must.True(t, (serr == nil) == (err == nil), "schedule says %v", serr)
		})
	}
}

func TestIntegrityOverwritesSizes(t *testing.T) {
	s := Default().WithIntegrity()
	must.Equal(t, s, Settings{Start: 5, Upper: DefaultUpper, Integrity: true}, "settings")
	must.True(t, s.Trials() == 1 && Default().Trials() == 3 && (Settings{Final: true}).Trials() == 7, "trials are not 1, 3 and 7")
}

func TestStreamingResets(t *testing.T) {
	for _, c := range []struct{ streaming, reset, want bool }{
		{false, false, false}, {true, false, true}, {false, true, true}, {true, true, true},
	} {
		must.Equal(t, (Settings{Streaming: c.streaming, Reset: c.reset}).Resets(), c.want, "-s %t, -r %t: resets", c.streaming, c.reset)
	}
}

func TestBuffersBoundBothWays(t *testing.T) {
	both := Settings{Start: 1, Upper: 10_000, Bidirectional: true}
	for _, c := range []struct {
		name          string
		s             Settings
		send, receive int
		upper         int // 0 is an error
	}{
		{"one way", Default(), 4608, 4608, DefaultUpper},
		{"one way, buffers unknown", Default(), 0, 0, DefaultUpper},
		{"both ways", both, 4608, 4608, 9216}, // NPtcp -2 -b 2304 on Linux
		{"bound is less", both, 16384, 131072, 10_000},
		{"exactly", both, 5000, 5000, 10_000},
		{"sum overflows", both, 1<<63 - 1, 1<<63 - 1, 10_000},
		{"unknown", both, 0, 4608, 0},
		{"start above", Settings{Start: 10_000, Upper: 20_000, Bidirectional: true}, 4608, 4608, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.s.Bounded(c.send, c.receive)
			must.True(t, got.Upper == c.upper && (err == nil) == (c.upper > 0), "upper bound %d, error %v", got.Upper, err)
		})
	}
}

func TestArgumentsPutIntegrityFirst(t *testing.T) {
	s := Settings{Start: 8, Upper: 64, Perturbation: 1, Integrity: true, Bidirectional: true, Reset: true}
	must.Equal(t, strings.Join(s.Arguments(), " "), "-i -r -2 -l 8 -u 64 -p 1", "arguments")
	must.Same(t, Default().Arguments(), []string{"-l", "1", "-u", "10000000", "-p", "3"}, "arguments")
	got := (Settings{Streaming: true}).Arguments()
	must.True(t, got[0] == "-s" && !slices.Contains(got, "-r"), "arguments %q", got)
}

// settings draws valid settings, with small and large sizes.
func settings() *rapid.Generator[Settings] {
	return rapid.Custom(func(t *rapid.T) Settings {
		s := Settings{
			Start:        rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 1<<20)).Draw(t, "start"),
			Perturbation: rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 1<<20)).Draw(t, "perturbation"),
			Final:        rapid.Bool().Draw(t, "final"),
		}
		s.Upper = rapid.IntRange(s.Start, MaxBytes-s.Perturbation).Draw(t, "upper")
		return s
	})
}

func TestDrawnSettingsAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { must.Do(t, settings().Draw(t, "settings").Validate()) })
}

// slowest returns how long a test with s takes over a path of that rate, bit/s, and latency,
// one way, by its own schedule.
func slowest(t *testing.T, s Settings, rate, latency float64) time.Duration {
	t.Helper()
	c := must.Get(NewSchedule(s))(t)
	whole, last := 0.0, latency
	for {
		p, more := c.Next(last)
		if !more {
			return time.Duration(whole * float64(time.Second))
		}
		repeats := s.Repeats(p, last)
		last = latency + float64(p.Bytes)*8/rate
		whole += float64(s.Trials()*repeats) * 2 * last
	}
}

// TestWholeIsEnough: no honest path needs more than the limit of a test, and none with a round
// trip of up to 0.6 s half of it.
func TestWholeIsEnough(t *testing.T) {
	for _, s := range []Settings{{Start: 1, Upper: 8 << 20, Perturbation: 3}, {Start: 1, Upper: 8 << 20, Perturbation: 3, Final: true}, {Start: 1, Upper: 1 << 20, Perturbation: 100, Integrity: true}} {
		for _, rate := range []float64{1e3, 1e4, 1e5, 1e6, 1e7, 1e8} {
			for _, latency := range []float64{1e-5, 1e-3, 0.1, 0.3, 0.9} {
				took, most := slowest(t, s, rate, latency), New().bounds.wholeOf(s)
				must.True(t, took <= most && (latency > 0.3 || 2*took <= most), "%+v at %g bit/s and %g s: %v of %v", s, rate, latency, took, most)
			}
		}
	}
}

// TestReceiverThatDrips: a receiver that answers each message just before the timeout holds the
// transmitter at most for the limit of a test.
func TestReceiverThatDrips(t *testing.T) {
	p := quick()
	p.bounds.trial, p.bounds.whole = time.Minute, 500*time.Millisecond
	port := badReceiver(t, func(c net.Conn) {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, err := c.Write([]byte("SyncMe"))
		for err == nil {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				return
			}
			_, err = c.Write([]byte("a"))
		}
	})
	began := time.Now()
	_, err := p.Transmit(context.Background(), dialer(port), Options{Settings: tiny()}, func(model.Point) {})
	must.True(t, time.Since(began) <= time.Minute && errors.Is(err, errWhole), "%v after %v", err, time.Since(began))
}

// TestTransmittersWaitForTheirTurn starts several at once, with resets, so that each connects
// many times. Each has an address of its own: two that connect from one address at the same
// moment cannot be distinguished.
func TestTransmittersWaitForTheirTurn(t *testing.T) {
	s := tiny()
	s.Reset = true
	port, log := serve(t, New(), s, Limits{})
	var all sync.WaitGroup
	for i := range 5 {
		local := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+i))}}
		first, err := local.DialContext(t.Context(), "tcp4", "127.0.0.1:"+port)
		must.SkipIf(t, err != nil, "this system has one loopback address: %v", err)
		from := func(ctx context.Context) (*net.TCPConn, error) {
			c := first
			if first = nil; c != nil {
				return c.(*net.TCPConn), nil
			}
			c, err := local.DialContext(ctx, "tcp4", "127.0.0.1:"+port)
			if err != nil {
				return nil, err
			}
			return c.(*net.TCPConn), nil
		}
		all.Go(func() {
			// It may have to wait for its turn.
			points, err := New().Transmit(t.Context(), from, Options{Settings: s, Repeats: 3}, func(model.Point) {})
			must.True(t, err == nil && len(points) == 2, "%d points, %v", len(points), err)
		})
	}
	all.Wait()
	for _, line := range awaitLog(t, 5, log) {
		must.Contain(t, line, "2 sizes, complete", "log")
	}
}

// TestQueueIsBounded: a connection beyond the limit of waiting ones is closed at once.
func TestQueueIsBounded(t *testing.T) {
	port, _ := serve(t, New(), tiny(), Limits{Waiting: 1})
	active := dial(t, port)
	must.Get(active.Write([]byte("SyncMe")))(t)
	answer := make([]byte, SyncBytes)
	must.Do(t, must.Err(active.Read(answer))) // it has its turn
	// One waits, and one may be a reconnection of the current transmitter.
	closed := make(chan bool, 3)
	for range 3 {
		c := dial(t, port)
		must.Get(c.Write([]byte("SyncMe")))(t)
		go func() {
			_, err := c.Read(make([]byte, 1))
			closed <- err != nil
		}()
	}
	must.True(t, must.Wait(t, "one of three to be closed", closed), "one that should wait was answered first")
}

// TestSilentTransmittersKeepNobodyOut: while 256 hold connections, drip, or reconnect, the next
// one has its turn. On a busy machine it may be taken for a silent one before it speaks, and
// has to reconnect. TestTurnsComeSoon checks how soon.
func TestSilentTransmittersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"nothing": "", "half a sync": "Syn"} {
		t.Run(name, func(t *testing.T) {
			port, _ := serve(t, New(), tiny(), Limits{})
			defer accepttest.Besiege(t.Context(), "127.0.0.1:"+port, 256, []byte(says))()
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			for {
				points, err := quick().Transmit(ctx, dialer(port), Options{Settings: tiny(), Repeats: 5}, func(model.Point) {})
				if err == nil {
					checkPoints(t, tiny(), points)
					return
				}
				must.Dof(t, ctx.Err(), "never had its turn: %v", err)
			}
		})
	}
}

// TestSilentTurnIsShortWhileOthersWait: a transmitter that syncs and then sends nothing keeps
// its turn only for a short time while another one waits.
func TestSilentTurnIsShortWhileOthersWait(t *testing.T) {
	t.Parallel()
	port, _ := serve(t, New(), tiny(), Limits{})
	bad := dial(t, port)
	must.Get(bad.Write([]byte("SyncMe")))(t)
	must.Do(t, must.Err(bad.Read(make([]byte, SyncBytes)))) // it has its turn
	must.Get(New().Transmit(t.Context(), dialer(port), Options{Settings: tiny(), Repeats: 5}, func(model.Point) {}))(t)
}

// TestTurnsStayWithinTheBudget: memory and sessions are taken from the ledger, and given back.
func TestTurnsStayWithinTheBudget(t *testing.T) {
	b := budget.New(budget.Config{Anonymous: budget.Part{Session: budget.Limits{Memory: 1000}}})
	port, log := serve(t, quick(), tiny().withUpper(4096), Limits{Budget: b})
	_, err := quick().Transmit(t.Context(), dialer(port), Options{Settings: tiny().withUpper(4096), Repeats: 3}, func(model.Point) {})
	must.True(t, err != nil, "4 KiB of a buffer came from 1000 B")
	lines := awaitLog(t, 1, log)
	must.True(t, strings.Contains(lines[0], "memory") && strings.Contains(lines[0], "1000 B"), "log %q", lines)
	transmit(t, port, tiny())
	awaitLog(t, 2, log)
	for _, k := range b.Usage().Kinds {
		must.True(t, k.Kind != budget.Sessions && k.Kind != budget.Memory && k.Kind != budget.Descriptors || k.Used() == 0, "%d of %v did not come back", k.Used(), k.Kind)
	}
}

// TestTurnEndsWithTheLifetime: a transmitter that continues is ended when the lifetime of an
// anonymous session is over, and its session is given back.
func TestTurnEndsWithTheLifetime(t *testing.T) {
	b := budget.New(budget.Config{Anonymous: budget.Part{Lifetime: 300 * time.Millisecond}})
	s := Settings{Start: 1, Upper: 1 << 20}
	port, log := serve(t, New(), s, Limits{Budget: b})
	_, err := New().Transmit(t.Context(), dialer(port), Options{Settings: s, Repeats: 1_000_000}, func(model.Point) {})
	must.True(t, err != nil, "a turn of many seconds was whole")
	lines := awaitLog(t, 1, log)
	must.True(t, strings.Contains(lines[0], "the lifetime of a session is over"), "log %q", lines)
	must.Equal(t, b.Usage().Kinds[budget.Sessions].Used(), 0, "sessions did not come back")
}
