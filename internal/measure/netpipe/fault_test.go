package netpipe

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// quick returns a peer with short timeouts.
func quick() *Peer {
	p := New()
	p.bounds = bounds{
		quiet: 3 * time.Second, first: 3 * time.Second, trial: 5 * time.Second, whole: time.Minute, connect: 5 * time.Second,
		retry: time.Millisecond, ending: 100 * time.Millisecond,
	}
	return p
}

// tiny is a test of two sizes.
func tiny() Settings { return Settings{Start: 1, Upper: 2} }

// dial connects and returns the bare connection.
func dial(t testing.TB, port string) net.Conn {
	t.Helper()
	c := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp4", "127.0.0.1:"+port))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// transmit runs a whole test as the transmitter.
func transmit(t testing.TB, port string, s Settings) {
	t.Helper()
	points := must.Get(quick().Transmit(t.Context(), dialer(port), Options{Settings: s, Repeats: 5}, func(model.Point) {}))(t)
	checkPoints(t, s, points)
}

// awaitLog waits until the log has n lines and returns it.
func awaitLog(t testing.TB, n int, log func() []string) []string {
	t.Helper()
	must.Until(t, fmt.Sprintf("%d lines in the log", n), func() bool { return len(log()) >= n })
	return log()
}

// TestBadTransmittersCostTheirTurnOnly: whatever a transmitter does, the next is served.
func TestBadTransmittersCostTheirTurnOnly(t *testing.T) {
	for name, c := range map[string]struct {
		say  string
		stay bool // keep the connection open
		log  string
	}{
		"silent":              {"", true, "stalled"},
		"gone":                {"", false, "EOF"},
		"half a sync":         {"Syn", true, "stalled"},
		"payload":             {"aaaaaaaa", true, "payload"},
		"web":                 {"GET / HTTP/1.1\r\n\r\n", true, "NPtcp 3.x"},
		"quits at once":       {"QUIT\x00", true, "quit"},
		"gone after opening":  {"SyncMe" + strings.Repeat("a", 100) + "SyncMe", false, "0 sizes, then"},
		"no repeats":          {"SyncMe" + strings.Repeat("a", 100) + "SyncMeSyncMe\x00\x00\x00\x00", true, "repeat count 0"},
		"endless repeats":     {"SyncMe" + strings.Repeat("a", 100) + "SyncMeSyncMe\xff\xff\xff\xff", true, "repeat count 4294967295"},
		"quits before a size": {"SyncMe" + strings.Repeat("a", 100) + "SyncMeQUIT\x00", true, "--netpipe-options"},
		"quits in a size":     {"SyncMe" + strings.Repeat("a", 100) + "SyncMeSyncMe\x00\x00\x00\x01SyncMeaQUIT\x00", true, "in the middle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, log := serve(t, quick(), tiny(), Limits{})
			bad := dial(t, port)
			must.Get(bad.Write([]byte(c.say)))(t)
			if !c.stay {
				must.Do(t, bad.Close())
			}
			if lines := awaitLog(t, 1, log); !strings.Contains(lines[0], c.log) || !strings.Contains(lines[0], "127.0.0.1") {
				t.Errorf("log %q, want %q", lines, c.log)
			}
			transmit(t, port, tiny())
			lines := awaitLog(t, 2, log)
			must.True(t, strings.Contains(lines[1], "2 sizes, complete"), "log %q", lines)
		})
	}
}

// TestSilentTransmitterIsGivenUp: with the default bounds, a transmitter that sends nothing
// gets no turn, and its connection is closed.
func TestSilentTransmitterIsGivenUp(t *testing.T) {
	t.Parallel()
	port, log := serve(t, New(), tiny(), Limits{})
	dial(t, port)
	// The next one, which is waiting.
	must.Get(New().Transmit(t.Context(), dialer(port), Options{Settings: tiny(), Repeats: 5}, func(model.Point) {}))(t)
	lines := awaitLog(t, 2, log)
	must.True(t, strings.Contains(lines[1], "stalled"), "log %q", lines)
}

func TestLimitsOfATransmitter(t *testing.T) {
	s := Settings{Start: 1, Upper: 1 << 20}
	for name, l := range map[string]Limits{"message": {Largest: 100}, "time": {Time: time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			port, log := serve(t, quick(), s.withUpper(64), l)
			must.Fail(t, must.Err(quick().Transmit(t.Context(), dialer(port), Options{Settings: s, Repeats: 3}, func(model.Point) {})), "no limit")
			lines := awaitLog(t, 1, log)
			must.True(t, strings.Contains(lines[0], "largest message") || strings.Contains(lines[0], "longer than 1ms"), "log %q", lines)
		})
	}
}

func (s Settings) withUpper(n int) Settings { s.Upper = n; return s }

// TestReceiverNeedNotKnowTheBound: only the transmitter needs -u.
func TestReceiverNeedNotKnowTheBound(t *testing.T) {
	port, _ := serve(t, quick(), tiny(), Limits{})
	transmit(t, port, Settings{Start: 1, Upper: 100, Perturbation: 0})
}

// badReceiver accepts one connection and calls f.
func badReceiver(t testing.TB, f func(c net.Conn)) string {
	t.Helper()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		f(c)
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.Do(t, err)
	return port
}

func TestReceiversThatAreNone(t *testing.T) {
	hang := func(c net.Conn) {
		for b := make([]byte, 100); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		do   func(c net.Conn)
		want string
	}{
		"silent":   {hang, "stalled"},
		"closing":  {func(net.Conn) {}, "ended the test first"},
		"greeting": {func(c net.Conn) { _, _ = c.Write([]byte("220 ready\r\n")); hang(c) }, "NPtcp 3.x"},
		"quitting": {func(c net.Conn) { _, _ = c.Write([]byte("QUIT\x00")); hang(c) }, "ended the test first"},
		"only syncs": {func(c net.Conn) {
			_, _ = c.Write([]byte("SyncMe"))
			hang(c)
		}, "first messages: stalled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points, err := quick().Transmit(t.Context(), dialer(badReceiver(t, c.do)), Options{Settings: tiny()}, func(model.Point) {})
			must.True(t, err != nil && strings.Contains(err.Error(), c.want) && len(points) == 0, "%d points, %v; want %q", len(points), err, c.want)
		})
	}
}

// TestListenerThatGoesAwayDuringAReset: the transmitter gives up.
func TestListenerThatGoesAwayDuringAReset(t *testing.T) {
	s := tiny()
	s.Reset = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener := must.Get(new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0"))(t)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must.Do(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = quick().Serve(ctx, listener, s, Limits{}, func(Event) {})
	}()
	points, err := quick().Transmit(t.Context(), dialer(port), Options{Settings: s, Repeats: 3}, func(model.Point) {
		cancel() // after the first size
		<-done
	})
	must.True(t, err != nil && len(points) == 1, "%d points, %v", len(points), err)
}

func TestCancelEndsTransmit(t *testing.T) {
	cause := errors.New("user pressed ^C")
	ctx, cancel := context.WithCancelCause(t.Context())
	port, _ := serve(t, New(), tiny().withUpper(1<<20), Limits{})
	points, err := New().Transmit(ctx, dialer(port), Options{Settings: tiny().withUpper(1 << 20), Repeats: 3}, func(model.Point) { cancel(cause) })
	must.True(t, errors.Is(err, cause) && len(points) == 1, "%d points, %v", len(points), err)
}

func TestServeEndsWithItsContext(t *testing.T) {
	s := tiny()
	s.Reset = true
	port, log := serve(t, New(), s, Limits{}) // its clean-up cancels and waits
	must.Get(dial(t, port).Write([]byte("SyncMe")))(t)
	must.Len(t, log(), 0, "log")
}

func TestOptionsNameEveryFault(t *testing.T) {
	err := Options{Settings: Settings{Start: 0, Upper: 1}, Window: -1, Repeats: -1}.Validate()
	must.Need(t, err != nil, "bad options are valid")
	for _, want := range []string{"-l", "-b", "-n"} {
		must.Contain(t, err.Error(), want)
	}
	points, err := New().Transmit(t.Context(), dialer("1"), Options{}, func(model.Point) {})
	must.True(t, err != nil && points == nil, "transmit with bad options")
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0"))(t)
	for _, s := range []Settings{{}, {Start: 1000, Upper: 1000}} {
		must.Fail(t, New().Serve(t.Context(), l, s, Limits{Largest: 10}, func(Event) {}), "serve %+v", s)
	}
	must.Is(t, must.Err(l.Accept()), net.ErrClosed, "the listener is left open")
}

// TestServeOutlivesAcceptErrors: a failing Accept costs time, not the server, and is logged
// once.
func TestServeOutlivesAcceptErrors(t *testing.T) {
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0"))(t)
	port, log := serveOn(t, quick(), enginetest.Failing(listener, 5, syscall.EMFILE), tiny(), Limits{})
	for range 3 {
		transmit(t, port, tiny())
	}
	must.Equal(t, lists.Count(awaitLog(t, 4, log), func(line string) bool { return strings.Contains(line, "too many open files") }), 1, "log %q", log())
}

// TestServeOutlivesAPanic: a bug in one transmitter's turn ends only that turn.
func TestServeOutlivesAPanic(t *testing.T) {
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0"))(t)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must.Do(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	lines, done := make(chan string, 10), make(chan error, 1)
	first := true
	go func() {
		done <- quick().Serve(ctx, listener, tiny(), Limits{}, func(e Event) {
			if first {
				first = false
				panic("a fault") // while the turn holds its thread
			}
			lines <- e.String()
		})
	}()
	transmit(t, port, tiny())
	line := <-lines
	must.True(t, strings.Contains(line, "a fault") && strings.Contains(line, "127.0.0.1"), "log %q", line)
	transmit(t, port, tiny())
	must.Contain(t, <-lines, "complete", "log")
	cancel()
	must.OK(t, <-done)
}

func TestControlBytes(t *testing.T) {
	for _, c := range []struct {
		control    Control
		want, name string
	}{{Sync, "53796e634d65", "sync"}, {Quit, "5155495400", "quit"}} {
		b := c.control.Append(nil)
		if got := hex.EncodeToString(b); got != c.want || c.control.String() != c.name {
			t.Errorf("%v is %s on the wire", c.control, got)
		}
		for n := range b {
			_, _, err := DecodeControl(b[:n])
			must.True(t, errors.Is(err, ErrShort) && errors.Is(err, io.ErrUnexpectedEOF), "%v cut at %d: %v", c.control, n, err)
		}
		got, used, err := DecodeControl(append(b, "aaaa"...))
		must.True(t, got == c.control && used == len(b) && err == nil, "%v decodes to %v, %d bytes, %v", c.control, got, used, err)
	}
}

func TestSyncAndQuitShareASegment(t *testing.T) {
	b := []byte("SyncMeQUIT\x00")
	var got []Control
	for len(b) > 0 {
		c, n, err := DecodeControl(b)
		must.Do(t, err)
		got, b = append(got, c), b[n:]
	}
	must.True(t, slices.Equal(got, []Control{Sync, Quit}), "messages %v", got)
}

func TestOutOfStep(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"aaaaaaaaaa", "payload"},
		{"aab", "payload"},
		{"SSH-2.0-OpenSSH", "NPtcp 3.x"},
		{"QUIT\n", "NPtcp 3.x"},
		{"SyncYou", "NPtcp 3.x"},
		{"\x00\x00\x27\x10", "NPtcp 3.x"},
	} {
		_, n, err := DecodeControl([]byte(c.in))
		var e *OutOfStepError
		must.True(t, errors.As(err, &e) && n == 0 && len(e.Got) <= SyncBytes && strings.Contains(err.Error(), c.want), "%q: %d bytes, %v", c.in, n, err)
	}
}

func TestNumberBytes(t *testing.T) {
	b, err := AppendRepeats([]byte{9}, 10152)
	must.True(t, err == nil && bytes.Equal(b, []byte{9, 0, 0, 0x27, 0xa8}), "repeat count % x, %v", b, err)
	b, err = AppendTime([]byte{9}, 0.0000065899)
	must.True(t, err == nil && bytes.Equal(b, []byte{9, 0, 0, 2, 0x92}), "time % x, %v", b, err)
	must.Equal(t, must.Get(DecodeTime(b[1:]))(t), 0.00000658, "time")
	for n := range NumberBytes {
		must.Is(t, must.Err(DecodeRepeats(b[1:1+n])), ErrShort, "repeat count of %d bytes", n)
		must.Is(t, must.Err(DecodeTime(b[1:1+n])), ErrShort, "time of %d bytes", n)
	}
}

func TestNumbersOutOfRange(t *testing.T) {
	for _, n := range []int{0, -1, MaxRepeats + 1, 1 << 32, 1<<32 + 1} {
		b, err := AppendRepeats(nil, n)
		must.True(t, err != nil && b == nil, "repeat count %d: % x", n, b)
	}
	// A negative -n of the real program, zero, and four payload bytes.
	for _, text := range []string{"ffffffff", "00000000", "61616161", "3b9aca01"} {
		n, err := DecodeRepeats(must.Get(hex.DecodeString(text))(t))
		must.True(t, err != nil, "%s decodes to %d repeats", text, n)
	}
	for _, s := range []float64{-1e-8, 42.94967296, math.Inf(1), math.NaN()} {
		b, err := AppendTime(nil, s)
		must.True(t, err != nil && b == nil, "time %g: % x", s, b)
	}
	b := must.Get(AppendTime(nil, 42.94967295))(t)
	must.True(t, bytes.Equal(b, []byte{255, 255, 255, 255}), "largest time % x", b)
}

func TestNumbersComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, MaxRepeats).Draw(t, "repeats")
		b := must.Get(AppendRepeats(nil, n))(t)
		if got, err := DecodeRepeats(b); got != n || err != nil {
			t.Fatalf("%d, %v", got, err)
		}
		s := rapid.Float64Range(0, 42.9).Draw(t, "seconds")
		b = must.Get(AppendTime(nil, s))(t)
		got, err := DecodeTime(b)
		must.Need(t, err == nil && !(got > s+1e-12) && !(got < s-1.0001e-8), "%g, %v", got, err)
	})
}

func TestIntegrityPayload(t *testing.T) {
	b := bytes.Repeat([]byte{0xee}, 14)
	FillIntegrity(b)
	for i := range 3 {
		must.Equal(t, binary.NativeEndian.Uint32(b[4*i:]), uint32(i), "number %d", i)
	}
	must.True(t, b[12] == 0xee && b[13] == 0xee, "the rest changed")
	must.OK(t, CheckIntegrity(b))
	for i := range 12 {
		bad := slices.Clone(b)
		bad[i] ^= 0x40
		must.Fail(t, CheckIntegrity(bad), "byte %d differs unseen", i)
	}
	slices.Reverse(b[4:8])
	must.Say(t, CheckIntegrity(b), "byte order", "swapped bytes")
	FillPayload(b)
	must.True(t, string(b) == strings.Repeat("a", 14) && CheckIntegrity(b) != nil, "payload %q", b)
}

func FuzzDecodeControl(f *testing.F) {
	for _, s := range []string{"", "SyncMe", "QUIT\x00", "SyncMeQUIT\x00", "QUIT", "aaaaaa", "S"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, n, err := DecodeControl(b)
		if err == nil {
			must.True(t, bytes.Equal(c.Append(nil), b[:n]), "%v is not %q", c, b[:n])
			return
		}
		must.True(t, n == 0 && c == 0, "%v, %d bytes beside %v", c, n, err)
		must.True(t, !errors.Is(err, ErrShort) || len(b) < SyncBytes, "%q is called short", b)
	})
}

func FuzzDecodeNumbers(f *testing.F) {
	for _, b := range [][]byte{nil, {0, 0, 0x27, 0xa8}, {255, 255, 255, 255}, {0, 0, 0}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := DecodeRepeats(b); err == nil {
			back, err := AppendRepeats(nil, n)
			must.True(t, err == nil && bytes.Equal(back, b[:NumberBytes]), "%d repeats become % x, %v", n, back, err)
		}
		s, err := DecodeTime(b)
		must.True(t, err != nil || s >= 0 && s < 43, "time %g", s)
	})
}
