package udpflow

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
)

// soon is the longest that anything here may take before it counts as hanging.
const soon = 10 * time.Second

// await fails the test when c is not closed soon.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		t.Fatalf("%s: still waiting after %v", what, soon)
	}
}

// awaitTraffic returns when e has emitted samples with payload.
func awaitTraffic(t *testing.T, e *end) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	limit := time.After(soon)
	for {
		if slices.ContainsFunc(e.taken(), func(s model.Sample) bool { return s.Direction != "" && s.Value > 0 }) {
			return
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("no traffic within %v", soon)
		}
	}
}

func warned(e *end, what string) bool {
	return strings.Contains(strings.Join(e.report.Warnings, "\n"), what)
}

// long is a flow that ends only when something makes it.
func long() model.Flow {
	return model.Flow{
		Direction: model.To, Streams: 2, Duration: time.Hour, Interval: minInterval,
		UDP: &model.UDPFlow{Rate: 20e6},
	}
}

func TestReceiverVanishes(t *testing.T) {
	near, far := prepare(t, New(), newWire(t), long())
	near.run(t.Context())
	far.run(t.Context())
	awaitTraffic(t, far)
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, near.done, "sender")
	if near.err != nil || !warned(near, "nobody listens") {
		t.Errorf("error %v, warnings %q", near.err, near.report.Warnings)
	}
	if near.flow(t, model.To).UDP.Sent == 0 {
		t.Error("what had been sent is not reported")
	}
}

func TestSenderEndsEarly(t *testing.T) {
	for name, e := range everyWay() {
		t.Run(name, func(t *testing.T) {
			near, far := prepare(t, e, newWire(t), long())
			near.run(t.Context())
			far.run(t.Context())
			awaitTraffic(t, far)
			if err := near.Close(); err != nil {
				t.Fatal(err)
			}
			await(t, far.done, "receiver")
			await(t, far.Measured(), "measured")
			await(t, near.done, "sender")
			if far.err != nil || !warned(far, "the peer ended it") {
				t.Errorf("error %v, warnings %q", far.err, far.report.Warnings)
			}
			checkBooks(t, near.flow(t, model.To), far.flow(t, model.To))
		})
	}
}

func TestSenderVanishes(t *testing.T) {
	r := &relay{mute: true, fate: func(i int) (int, int) {
		if i < 200 {
			return 1, 0
		}
		return 0, 0
	}}
	w := newWire(t)
	w.relay = r.between(t)
	e := New()
	e.bounds.silence = 200 * time.Millisecond
	near, far := prepare(t, e, w, long())
	near.run(t.Context())
	far.run(t.Context())
	await(t, far.done, "receiver")
	if far.err != nil || !warned(far, "nothing came for 200ms") {
		t.Errorf("error %v, warnings %q", far.err, far.report.Warnings)
	}
	if far.flow(t, model.To).UDP.Received == 0 {
		t.Error("what had been received is not reported")
	}
}

// TestNothingComes has a path that carries nothing at all.
func TestNothingComes(t *testing.T) {
	r := &relay{mute: true, fate: func(int) (int, int) { return 0, 0 }}
	w := newWire(t)
	w.relay = r.between(t)
	e := New()
	e.bounds.linger, e.bounds.grace = 50*time.Millisecond, 500*time.Millisecond
	near, far := prepare(t, e, w, timed(model.To))
	near.run(t.Context())
	far.run(t.Context())
	await(t, far.done, "receiver")
	if far.err == nil || !strings.Contains(far.err.Error(), "no datagram came") {
		t.Errorf("error %v", far.err)
	}
	await(t, near.done, "sender") // nobody stops it
	if near.err != nil || !warned(near, "neither answered nor stopped") {
		t.Errorf("error %v, warnings %q", near.err, near.report.Warnings)
	}
}

func TestBytesCutShort(t *testing.T) {
	f := long()
	f.Duration, f.Bytes = 0, 1<<50
	near, far := prepare(t, New(), newWire(t), f)
	near.run(t.Context())
	far.run(t.Context())
	awaitTraffic(t, far)
	near.Stop()
	await(t, near.done, "sender")
	await(t, far.done, "receiver")
	for _, e := range []*end{near, far} {
		if e.err != nil || !warned(e, "of 1125899906842624 bytes") {
			t.Errorf("error %v, warnings %q", e.err, e.report.Warnings)
		}
	}
	checkBooks(t, near.flow(t, model.To), far.flow(t, model.To))
}

// TestCancel cancels one end while the other is not even there.
func TestCancel(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for name, e := range everyWay() {
		for _, d := range []model.Direction{model.To, model.From} {
			t.Run(name+"/"+string(d), func(t *testing.T) {
				f := long()
				f.Direction = d
				near, _ := prepare(t, e, newWire(t), f)
				ctx, cancel := context.WithCancelCause(t.Context())
				near.run(ctx)
				if d == model.To {
					awaitTraffic(t, near)
				}
				cancel(cause)
				await(t, near.done, "run")
				if d == model.To && !warned(near, cause.Error()) {
					t.Errorf("warnings %q", near.report.Warnings)
				}
				if d == model.From && (near.err == nil || !strings.Contains(near.err.Error(), cause.Error())) {
					t.Errorf("error %v", near.err)
				}
			})
		}
	}
}

// TestAnyMoment stops and closes at random moments of short runs: everything
// ends, and nothing is left over.
func TestAnyMoment(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	threads, percent := runtime.GOMAXPROCS(0), debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	goroutines := runtime.NumGoroutine()
	engines := everyWay()
	for i := range 24 {
		e := engines["native"]
		if i%4 == 0 {
			e = engines["portable"]
		}
		f := timed([]model.Direction{model.To, model.From, model.Both}[i%3])
		f.Duration, f.Omit = 30*time.Millisecond, 10*time.Millisecond
		near, far := prepare(t, e, newWire(t), f)
		acts := []func(){near.Stop, far.Stop, func() { near.Close() }, func() { far.Close() }}
		timers := make([]*time.Timer, 2)
		for k := range timers {
			timers[k] = time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, acts[rng.IntN(len(acts))])
		}
		near.run(t.Context())
		far.run(t.Context())
		for _, e := range []*end{near, far} {
			select {
			case <-e.Measured():
			case <-e.done: // closed before it ran
			case <-time.After(soon):
				t.Fatalf("still waiting after %v", soon)
			}
		}
		near.Stop()
		far.Stop()
		await(t, near.done, "near")
		await(t, far.done, "far")
		for _, timer := range timers {
			timer.Stop()
		}
		if err := errors.Join(near.Close(), far.Close()); err != nil {
			t.Error(err)
		}
	}
	if got := runtime.GOMAXPROCS(0); got != threads {
		t.Errorf("GOMAXPROCS %d, was %d", got, threads)
	}
	if got := debug.SetGCPercent(percent); got != percent {
		t.Errorf("garbage collector at %d, was %d", got, percent)
	}
	for limit := time.Now().Add(soon); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%d goroutines, were %d", runtime.NumGoroutine(), goroutines)
		}
	}
}

func TestCloseBeforeRun(t *testing.T) {
	near, far := prepare(t, New(), newWire(t), long())
	for range 2 {
		if err := errors.Join(near.Close(), far.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := near.Run(t.Context(), near.emit); err == nil {
		t.Error("ran after close")
	}
}
