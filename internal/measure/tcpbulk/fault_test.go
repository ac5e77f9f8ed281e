package tcpbulk

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
)

// soon is the longest that anything here may take before it counts as hanging.
const soon = 5 * time.Second

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
	awaitSample(t, e, func(s model.Sample) bool { return s.Direction != "" && s.Value > 0 })
}

// awaitSample returns when e has emitted a sample that fits.
func awaitSample(t *testing.T, e *end, fits func(model.Sample) bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	limit := time.After(soon)
	for {
		if slices.ContainsFunc(e.taken(), fits) {
			return
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("no such sample within %v", soon)
		}
	}
}

// long is a flow that ends only when something makes it.
func long(streams int) model.Flow {
	return model.Flow{Direction: model.To, Streams: streams, Duration: time.Hour, Interval: minInterval}
}

func TestReceiverVanishes(t *testing.T) {
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			near, far := prepare(t, e, newWire(t), long(3))
			near.run(t.Context())
			far.run(t.Context())
			awaitTraffic(t, far)
			if err := far.Close(); err != nil {
				t.Fatal(err)
			}
			await(t, near.done, "sender")
			if near.err != nil {
				t.Fatal(near.err)
			}
			if all := strings.Join(near.report.Warnings, "\n"); !strings.Contains(all, "reset") && !strings.Contains(all, "pipe") && !strings.Contains(all, "abort") {
				t.Errorf("warnings %q do not say that the connection was lost", near.report.Warnings)
			}
			if near.flow(t, model.To).Bytes == 0 {
				t.Error("what had been sent is not reported")
			}
		})
	}
}

func TestSenderVanishes(t *testing.T) {
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			near, far := prepare(t, e, newWire(t), long(3))
			near.run(t.Context())
			far.run(t.Context())
			awaitTraffic(t, far)
			if err := near.Close(); err != nil {
				t.Fatal(err)
			}
			await(t, far.done, "receiver")
			if far.err != nil || len(far.report.Warnings) == 0 {
				t.Errorf("error %v, warnings %q; want a warning", far.err, far.report.Warnings)
			}
			await(t, far.Measured(), "measured")
		})
	}
}

func TestSenderVanishesBeforeTheWindow(t *testing.T) {
	f := long(1)
	f.Omit = time.Hour
	near, far := prepare(t, New(), newWire(t), f)
	far.run(t.Context())
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, far.done, "receiver")
	if far.err == nil || !strings.Contains(far.err.Error(), "before the measured window") {
		t.Errorf("error %v", far.err)
	}
}

func TestBytesCutShort(t *testing.T) {
	f := model.Flow{Direction: model.To, Streams: 2, Bytes: 1 << 50, Interval: minInterval}
	near, far := prepare(t, New(), newWire(t), f)
	near.run(t.Context())
	far.run(t.Context())
	awaitTraffic(t, far)
	near.Stop()
	await(t, near.done, "sender")
	await(t, far.done, "receiver")
	for _, e := range []*end{near, far} {
		if e.err != nil || len(e.report.Warnings) != 1 || !strings.Contains(e.report.Warnings[0], "of 1125899906842624 bytes") {
			t.Errorf("error %v, warnings %q", e.err, e.report.Warnings)
		}
	}
	if got, sent := far.flow(t, model.To).Bytes, near.flow(t, model.To).Bytes; got != sent {
		t.Errorf("received %d of %d bytes before the end", got, sent)
	}
}

// TestCancel cancels a sender that is blocked because nobody reads, and a
// receiver that is blocked because nobody writes.
func TestCancel(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for name, e := range everyPlane() {
		for _, role := range []model.Role{model.Sender, model.Receiver} {
			t.Run(name+"/"+string(role), func(t *testing.T) {
				near, far := prepare(t, e, newWire(t), long(3))
				ctx, cancel := context.WithCancelCause(t.Context())
				victim := far
				if role == model.Sender {
					victim = near
				}
				victim.run(ctx)
				if role == model.Sender {
					awaitTraffic(t, victim)
				}
				cancel(cause)
				begun := time.Now()
				await(t, victim.done, "cancelled end")
				// 100 ms is what is promised; the rest is for a busy machine.
				if d := time.Since(begun); d > time.Second {
					t.Errorf("took %v to end", d)
				}
				said := strings.Join(victim.report.Warnings, "\n")
				if victim.err != nil {
					said += victim.err.Error()
				}
				if !strings.Contains(said, cause.Error()) {
					t.Errorf("neither warnings nor error name the cause: %q", said)
				}
				await(t, victim.Measured(), "measured")
			})
		}
	}
}

func TestSenderThatNobodyStops(t *testing.T) {
	e := New()
	e.grace = minInterval
	f := timed(model.To, 1)
	near, far := prepare(t, e, newWire(t), f)
	near.run(t.Context())
	far.run(t.Context())
	await(t, near.Measured(), "an end that only sends has measured at once")
	await(t, near.done, "sender")
	await(t, far.done, "receiver")
	if all := strings.Join(near.report.Warnings, "\n"); near.err != nil || !strings.Contains(all, "was not stopped") {
		t.Errorf("error %v, warnings %q", near.err, near.report.Warnings)
	}
}

func TestStandstill(t *testing.T) {
	e := New()
	e.stall = minInterval
	f := model.Flow{Direction: model.To, Bytes: 1 << 40, Interval: minInterval}
	near, far := prepare(t, e, newWire(t), f)
	near.run(t.Context())
	await(t, near.done, "sender whose receiver does not read")
	if all := strings.Join(near.report.Warnings, "\n"); near.err != nil || !strings.Contains(all, "no byte moved") {
		t.Errorf("error %v, warnings %q", near.err, near.report.Warnings)
	}
	far.run(t.Context())
	await(t, far.done, "receiver")
}

func TestRunOnce(t *testing.T) {
	near, far := prepare(t, New(), newWire(t), timed(model.To, 1))
	conduct(t, near, far)
	if _, err := near.Run(t.Context(), near.emit); err == nil {
		t.Error("a test ran twice")
	}
}

func TestStopBeforeRun(t *testing.T) {
	near, _ := prepare(t, New(), newWire(t), timed(model.To, 1))
	near.Stop()
	near.Stop()
	near.run(t.Context())
	await(t, near.done, "stopped end")
	if near.err == nil && len(near.report.Warnings) == 0 {
		t.Errorf("a run that was stopped at once says nothing: %+v", near.report)
	}
}

func TestNothingLeaks(t *testing.T) {
	percent := debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	procs := runtime.GOMAXPROCS(0)
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			goroutines, files := runtime.NumGoroutine(), openFiles(t)
			f := timed(model.Both, 4)
			f.Duration = 2 * minInterval
			near, far := prepare(t, e, w, f)
			conduct(t, near, far)
			for _, e := range []*end{near, far} {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
			poll := time.NewTicker(time.Millisecond)
			defer poll.Stop()
			for limit := time.After(soon); runtime.NumGoroutine() > goroutines || openFiles(t) > files; {
				select {
				case <-poll.C:
				case <-limit:
					t.Fatalf("%d goroutines and %d files, %d and %d before", runtime.NumGoroutine(), openFiles(t), goroutines, files)
				}
			}
		})
	}
	if now := runtime.GOMAXPROCS(0); now != procs {
		t.Errorf("GOMAXPROCS is %d, was %d", now, procs)
	}
	if now := debug.SetGCPercent(100); now != 100 {
		t.Errorf("the collector's percentage is %d, was 100", now)
	}
}
