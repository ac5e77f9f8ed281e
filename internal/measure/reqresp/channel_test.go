package reqresp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/plane"
	"linerate/internal/must"
)

func FuzzHello(f *testing.F) {
	f.Add(hello{}.encode())
	f.Add(hello{port: 5299, cookie: [cookieSize]byte{1, 2, 3}}.encode())
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n12345"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		must.True(t, err != nil || bytes.Equal(h.encode(), b), "%x is read as %+v, which is %x", b, h, h.encode())
	})
}

func FuzzMark(f *testing.F) {
	f.Add(mark{kind: markReady}.encode())
	f.Add(mark{kind: markOpen}.encode())
	f.Add(mark{kind: markClose, window: time.Second}.encode())
	f.Add(mark{kind: markClose, window: time.Hour}.encode())
	f.Add([]byte("?12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMark(b, time.Minute)
		switch {
		case err != nil:
		case m.window < 0 || m.window > time.Minute:
			t.Errorf("window of %v, at most a minute is possible", m.window)
		case !bytes.Equal(m.encode(), b):
			t.Errorf("%x is read as %+v, which is %x", b, m, m.encode())
		}
	})
}

// arrivals counts exactly the requests that arrival makes due before.
func TestArrivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.OneOf(rapid.Float64Range(0.001, maxRate), rapid.Just(3.0), rapid.Just(1000.0)).Draw(t, "rate")
		at := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "time"))
		n := arrivals(at, rate)
		must.Need(t, n <= 0 || arrival(n-1, rate) < at, "request %d is due at %v, not before %v", n-1, arrival(n-1, rate), at)
		must.Need(t, arrival(n, rate) >= at, "request %d is due at %v, before %v", n, arrival(n, rate), at)
	})
}

// The sampler turns the epoch while workers record: every value is counted once.
func TestTurn(t *testing.T) {
	const each = 100_000
	var epoch atomic.Uint32
	meters := []*meter{{epoch: &epoch}, {epoch: &epoch}}
	left := make(chan struct{})
	for _, m := range meters {
		go func() {
			for i := range each {
				m.answer(time.Duration(1 + i%100))
			}
			left <- struct{}{}
		}()
	}
	var sum hist.Histogram
	turns := 0
	for running := len(meters); running > 0; turns++ {
		select {
		case <-left:
			running--
		default:
		}
		must.Do(t, sum.Merge(turn(&epoch, meters)))
	}
	must.Do(t, sum.Merge(turn(&epoch, meters)))
	got := sum.Count()
	must.True(t, got == 2*each && turns >= 2, "%d of %d in %d turns", got, 2*each, turns)
}

func TestQuantileCountsTheLost(t *testing.T) {
	var h hist.Recorder
	for i := range 90 {
		h.Record(time.Duration(i+1) * time.Millisecond)
	}
	for _, c := range []struct {
		q    float64
		sent int64
		want time.Duration // 0 is unknown
	}{
		{0.5, 90, 45 * time.Millisecond}, {0.5, 100, 50 * time.Millisecond}, {0.9, 100, 90 * time.Millisecond},
		{0.99, 100, 0}, {0.99, 90, 90 * time.Millisecond},
	} {
		got := quantile(h.Histogram(), c.q, c.sent).Or(0)
		must.True(t, got >= c.want*99/100 && got <= c.want*101/100, "quantile %v of 90 answered of %d is %v, want %v", c.q, c.sent, got, c.want)
	}
	v := quantile(new(hist.Histogram), 0.5, 3)
	must.True(t, !v.IsKnown(), "quantile of nothing is %v", v)
}

// relay forwards between the near and the far end. In each direction it delays every piece by
// delay, and once, before the n-th piece in total, everything by stall.
type relay struct {
	delay  time.Duration
	stall  time.Duration
	n      int64
	pieces atomic.Int64
	gate   sync.RWMutex
}

// start inserts the relay before w's near end.
func (r *relay) start(t testing.TB, w *enginetest.Wire) {
	t.Helper()
	w.Relay(t, func(near, far *net.TCPConn) {
		var both sync.WaitGroup
		both.Go(func() { r.pass(near, far) })
		both.Go(func() { r.pass(far, near) })
		both.Wait()
	})
}

type piece struct {
	bytes []byte
	due   time.Time
}

func (r *relay) pass(from, to net.Conn) {
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if r.pieces.Add(1) == r.n {
				r.gate.Lock()
				<-time.After(r.stall)
				r.gate.Unlock()
			}
			pieces <- piece{b[:n], time.Now().Add(r.delay)}
		}
	}()
	defer to.Close()
	for p := range pieces {
		if left := time.Until(p.due); left > 0 {
			<-time.After(left)
		}
		r.gate.RLock()
		_, err := to.Write(p.bytes)
		r.gate.RUnlock()
		if err != nil {
			from.Close()
		}
	}
}

// long returns a flow that does not end by itself.
func long(streams int) model.Flow {
	f := brief(model.To, streams)
	f.Omit, f.Duration, f.Interval = 0, time.Hour, engine.MinInterval
	return f
}

// answered reports whether s shows answered requests.
func answered(s model.Sample) bool {
	return (s.Metric == model.RequestRate || s.Metric == model.ConnectRate) && s.Value > 0
}

// variants returns the flows with failures of their own.
func variants() map[string]model.Flow {
	rate, connect := long(3), long(3)
	rate.Params = traffic.Write(requests.Params{Rate: 1000})
	connect.Params = traffic.Write(requests.Params{Connect: true})
	return map[string]model.Flow{"closed": long(3), "rate": rate, "connect": connect}
}

func TestPeerVanishes(t *testing.T) {
	for name, f := range variants() {
		for _, who := range []string{"asking", "answering"} {
			t.Run(name+"/"+who, func(t *testing.T) {
				near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
				far.Start(t.Context())
				near.Start(t.Context())
				near.AwaitSample(t, answered)
				victim, other := near, far
				if who == "answering" {
					victim, other = far, near
				}
				must.Do(t, victim.Close())
				must.Wait(t, "the end that is left", other.Done)
				must.Wait(t, "measured", other.Measured())
				must.True(t, other.Err == nil && len(other.Report.Warnings) != 0, "error %v, warnings %q; want a warning", other.Err, other.Report.Warnings)
				must.True(t, other.Flow(t, model.To).Bytes != 0, "what had been done is not reported")
			})
		}
	}
}

func TestPeerVanishesBeforeTheRun(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), long(1))
	must.Do(t, far.Close())
	near.Start(t.Context())
	must.Wait(t, "asking end", near.Done)
	must.Say(t, near.Err, "wait for the answering end")
	near, far = enginetest.Prepare(t, New(), enginetest.NewWire(t), long(1))
	must.Do(t, near.Close())
	far.Start(t.Context())
	must.Wait(t, "answering end", far.Done)
	must.Fail(t, far.Err, "an answering end without a question reports success")
}

// TestPeerIsSilent has a peer that holds its connections and sends nothing.
func TestPeerIsSilent(t *testing.T) {
	f := brief(model.To, 1)
	f.Omit, f.Duration = 0, 50*time.Millisecond
	prepared := func() (near, far *enginetest.End) {
		e := New()
		near, far = enginetest.Prepare(t, e, enginetest.NewWire(t), f)
		e.grace, e.patience = 50*time.Millisecond, 10*time.Millisecond
		return near, far
	}
	near, _ := prepared()
	near.Start(t.Context())
	must.Wait(t, "asking end", near.Done)
	must.Say(t, near.Err, "i/o timeout", "asking end: error")
	_, far := prepared()
	far.Start(t.Context())
	must.Wait(t, "answering end", far.Done)
	must.Say(t, far.Err, "no word of the asking end", "answering end: error")
}

func TestEndsAtAnyTime(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for name, f := range variants() {
		for _, how := range []string{"stop", "close", "cancel", "stop before"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if how == "stop before" {
					near.Stop()
					near.Stop()
				}
				far.Start(ctx)
				near.Start(ctx)
				if how != "stop before" {
					near.AwaitSample(t, answered)
				}
				for _, e := range []*enginetest.End{near, far} {
					switch how {
					case "stop":
						e.Stop()
						must.Wait(t, "stopped end", e.Done)
					case "close":
						must.OK(t, e.Close())
					}
				}
				if how == "cancel" {
					cancel(cause)
				}
				must.Wait(t, "asking end", near.Done)
				must.Wait(t, "answering end", far.Done)
				said := strings.Join(near.Report.Warnings, "\n")
				if near.Err != nil {
					said += near.Err.Error()
				}
				must.True(t, said != "", "nothing says that the run was cut short")
				must.True(t, how != "cancel" || strings.Contains(said, cause.Error()), "%q does not name the cause", said)
				for _, l := range near.Report.Latencies {
					// Otherwise the far end may close first.
					must.True(t, how != "stop" || l.Lost == 0, "%d of %d count as lost, though the run stopped before their time was up", l.Lost, l.Sent)
				}
			})
		}
	}
}

func TestRunOnce(t *testing.T) {
	f := brief(model.To, 1)
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	enginetest.Succeed(t, near, far, f.Direction)
	must.Fail(t, must.Err(near.Run(t.Context(), near.Emit)), "a test ran twice")
}

func TestNothingLeaks(t *testing.T) {
	for _, connect := range []bool{false, true} {
		w := enginetest.NewWire(t)
		check := enginetest.Untouched(t)
		f := brief(model.Both, 4)
		f.Params = traffic.Write(requests.Params{Connect: connect})
		near, far := enginetest.Prepare(t, New(), w, f)
		enginetest.Succeed(t, near, far, f.Direction)
		idle, other := enginetest.Prepare(t, New(), w, f) // never run
		for _, e := range []*enginetest.End{near, far, idle, other} {
			must.OK(t, e.Close())
		}
		check()
	}
}

// TestAnonymousAreNotAnswered connects to the port for fresh connections without the cookie.
func TestAnonymousAreNotAnswered(t *testing.T) {
	f := long(1)
	f.Params = traffic.Write(requests.Params{Connect: true})
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	far.Start(t.Context())
	near.Start(t.Context())
	near.AwaitSample(t, answered)
	target := near.Test.(*test).asking.fresh.target
	for name, says := range map[string][]byte{
		"wrong cookie": append(make([]byte, cookieSize), windowByte),
		"random":       plane.Payload(cookieSize + 1 + rand.IntN(100)),
	} {
		c := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", target))(t)
		must.Get(c.Write(says))(t)
		must.Do(t, c.SetReadDeadline(time.Now().Add(enginetest.Soon)))
		got, err := io.ReadAll(c)
		must.True(t, len(got) == 0 && !errors.Is(err, os.ErrDeadlineExceeded), "%s: answered with %d bytes, %v", name, len(got), err)
		c.Close()
	}
	near.Stop()
	must.Wait(t, "asking end", near.Done)
	must.Wait(t, "answering end", far.Done)
	// A request in flight when the run was stopped may have arrived.
	asked, answered := near.Flow(t, model.To).Bytes, far.Flow(t, model.To).Bytes
	must.True(t, answered >= asked && answered <= asked+1, "%d requests, %d answered", asked, answered)
}

// TestFirewall closes the port for fresh connections before it is tried.
func TestFirewall(t *testing.T) {
	w := enginetest.NewWire(t)
	f := brief(model.To, 1)
	f.Params = traffic.Write(requests.Params{Connect: true})
	go func() {
		c, err := w.Accept(t.Context(), engine.SocketOptions{})
		if err != nil {
			return
		}
		// A port on which no program listens any more.
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
			_, _ = c.Write(hello{port: uint16(l.Addr().(*net.TCPAddr).Port)}.encode())
		}
	}()
	_, err := New().Prepare(t.Context(), w.Env(model.Near), f)
	must.True(t, err != nil && strings.Contains(err.Error(), "firewall") && strings.Contains(err.Error(), "refused"), "error %v", err)
}
