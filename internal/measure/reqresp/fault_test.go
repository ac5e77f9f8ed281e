package reqresp

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
)

// long is a flow that ends only when something makes it.
func long(streams int) model.Flow {
	f := brief(model.To, streams)
	f.Omit, f.Duration, f.Interval = 0, time.Hour, minInterval
	return f
}

// awaitAnswers returns when e has reported answered requests.
func awaitAnswers(t *testing.T, e *end) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	limit := time.After(soon)
	for {
		for _, s := range e.taken() {
			if (s.Metric == model.RequestRate || s.Metric == model.ConnectRate) && s.Value > 0 {
				return
			}
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("no request was answered within %v", soon)
		}
	}
}

// variants are the flows that fail in ways of their own.
func variants() map[string]model.Flow {
	rate, connect := long(3), long(3)
	rate.Requests = &model.Requests{Rate: 1000}
	connect.Requests = &model.Requests{Connect: true}
	return map[string]model.Flow{"closed": long(3), "rate": rate, "connect": connect}
}

func TestPeerVanishes(t *testing.T) {
	for name, f := range variants() {
		for _, who := range []string{"asking", "answering"} {
			t.Run(name+"/"+who, func(t *testing.T) {
				near, far := prepare(t, New(), newWire(t), f)
				far.run(t.Context())
				near.run(t.Context())
				awaitAnswers(t, near)
				victim, other := near, far
				if who == "answering" {
					victim, other = far, near
				}
				if err := victim.Close(); err != nil {
					t.Fatal(err)
				}
				await(t, other.done, "the end that is left")
				await(t, other.Measured(), "measured")
				if other.err != nil || len(other.report.Warnings) == 0 {
					t.Errorf("error %v, warnings %q; want a warning", other.err, other.report.Warnings)
				}
				if other.flow(t, model.To).Bytes == 0 {
					t.Error("what had been done is not reported")
				}
			})
		}
	}
}

func TestPeerVanishesBeforeTheRun(t *testing.T) {
	near, far := prepare(t, New(), newWire(t), long(1))
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	near.run(t.Context())
	await(t, near.done, "asking end")
	if near.err == nil || !strings.Contains(near.err.Error(), "wait for the answering end") {
		t.Errorf("error %v", near.err)
	}
	near, far = prepare(t, New(), newWire(t), long(1))
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	far.run(t.Context())
	await(t, far.done, "answering end")
	if far.err == nil {
		t.Error("an answering end without a question reports success")
	}
}

// TestPeerIsSilent is about a peer that holds its connections and says nothing.
func TestPeerIsSilent(t *testing.T) {
	e := New()
	e.grace, e.patience = 50*time.Millisecond, 10*time.Millisecond
	f := brief(model.To, 1)
	f.Omit, f.Duration = 0, 50*time.Millisecond
	near, _ := prepare(t, e, newWire(t), f)
	near.run(t.Context())
	await(t, near.done, "asking end")
	if near.err == nil || !strings.Contains(near.err.Error(), "i/o timeout") {
		t.Errorf("asking end: error %v", near.err)
	}
	_, far := prepare(t, e, newWire(t), f)
	far.run(t.Context())
	await(t, far.done, "answering end")
	if far.err == nil || !strings.Contains(far.err.Error(), "no word of the asking end") {
		t.Errorf("answering end: error %v", far.err)
	}
}

func TestEndsAtAnyTime(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for name, f := range variants() {
		for _, how := range []string{"stop", "close", "cancel", "stop before"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				near, far := prepare(t, New(), newWire(t), f)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if how == "stop before" {
					near.Stop()
					near.Stop()
				}
				far.run(ctx)
				near.run(ctx)
				if how != "stop before" {
					awaitAnswers(t, near)
				}
				begun := time.Now()
				for _, e := range []*end{near, far} {
					switch how {
					case "stop":
						e.Stop()
						await(t, e.done, "stopped end")
					case "close":
						if err := e.Close(); err != nil {
							t.Error(err)
						}
					}
				}
				if how == "cancel" {
					cancel(cause)
				}
				await(t, near.done, "asking end")
				await(t, far.done, "answering end")
				if d := time.Since(begun); how != "stop before" && d > 2*time.Second {
					t.Errorf("took %v to end", d)
				}
				said := strings.Join(near.report.Warnings, "\n")
				if near.err != nil {
					said += near.err.Error()
				}
				if said == "" {
					t.Error("nothing says that the run was cut short")
				}
				if how == "cancel" && !strings.Contains(said, cause.Error()) {
					t.Errorf("%q does not name the cause", said)
				}
				for _, l := range near.report.Latencies {
					// Otherwise the far end may be the first to go.
					if how == "stop" && l.Lost != 0 {
						t.Errorf("%d of %d count as lost, but nobody waited for them", l.Lost, l.Sent)
					}
				}
			})
		}
	}
}

func TestRunOnce(t *testing.T) {
	f := brief(model.To, 1)
	near, far := prepare(t, New(), newWire(t), f)
	session(t, near, far, f.Direction)
	if _, err := near.Run(t.Context(), near.emit); err == nil {
		t.Error("a test ran twice")
	}
}

// openFiles returns how many descriptors this process has; 0 where that is not
// to be known.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestNothingLeaks(t *testing.T) {
	percent := debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	procs := runtime.GOMAXPROCS(0)
	for _, connect := range []bool{false, true} {
		w := newWire(t)
		goroutines, files := runtime.NumGoroutine(), openFiles(t)
		f := brief(model.Both, 4)
		f.Requests = &model.Requests{Connect: connect}
		near, far := prepare(t, New(), w, f)
		session(t, near, far, f.Direction)
		for _, e := range []*end{near, far} {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		// Prepared and never run.
		near, far = prepare(t, New(), w, f)
		for _, e := range []*end{near, far} {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		poll := time.NewTicker(time.Millisecond)
		for limit := time.After(soon); runtime.NumGoroutine() > goroutines || openFiles(t) > files; {
			select {
			case <-poll.C:
			case <-limit:
				t.Fatalf("%d goroutines and %d files, %d and %d before", runtime.NumGoroutine(), openFiles(t), goroutines, files)
			}
		}
		poll.Stop()
	}
	if now := runtime.GOMAXPROCS(0); now != procs {
		t.Errorf("GOMAXPROCS is %d, was %d", now, procs)
	}
	if now := debug.SetGCPercent(100); now != 100 {
		t.Errorf("the collector's percentage is %d, was 100", now)
	}
}

// TestStrangersAreNotAnswered knocks at the port for fresh connections.
func TestStrangersAreNotAnswered(t *testing.T) {
	f := long(1)
	f.Requests = &model.Requests{Connect: true}
	near, far := prepare(t, New(), newWire(t), f)
	far.run(t.Context())
	near.run(t.Context())
	awaitAnswers(t, near)
	target := near.Test.(*test).asking.fresh.target
	for name, says := range map[string][]byte{
		"wrong cookie": append(make([]byte, cookieSize), windowByte),
		"random":       payload(cookieSize + 1 + rand.IntN(100)),
	} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(says); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(soon)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: answered with %d bytes, %v", name, len(got), err)
		}
		c.Close()
	}
	near.Stop()
	await(t, near.done, "asking end")
	await(t, far.done, "answering end")
	// What was on its way when the run was stopped may have arrived.
	asked, answered := near.flow(t, model.To).Bytes, far.flow(t, model.To).Bytes
	if answered < asked || answered > asked+1 {
		t.Errorf("%d requests, %d answered", asked, answered)
	}
}

// TestFirewall closes the port for fresh connections before it is tried.
func TestFirewall(t *testing.T) {
	w := newWire(t)
	f := brief(model.To, 1)
	f.Requests = &model.Requests{Connect: true}
	go func() {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		// A port that nobody listens on any more.
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
			_, _ = c.Write(hello{port: uint16(l.Addr().(*net.TCPAddr).Port)}.encode())
		}
	}()
	_, err := New().Prepare(t.Context(), w.env(model.Near), f)
	if err == nil || !strings.Contains(err.Error(), "firewall") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
}
