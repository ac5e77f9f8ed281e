package tcpbulk

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
	"linerate/internal/panics"
)

// long returns a flow that does not end by itself.
func long(streams int) model.Flow {
	return model.Flow{Direction: model.To, Streams: streams, Duration: time.Hour, Interval: engine.MinInterval}
}

// carrying returns two ends between which a flow runs.
func carrying(t testing.TB, e *Engine, f model.Flow) (near, far *enginetest.End) {
	t.Helper()
	near, far = enginetest.Prepare(t, e, enginetest.NewWire(t), f)
	near.Start(t.Context())
	far.Start(t.Context())
	far.AwaitTraffic(t)
	return near, far
}

func TestReceiverVanishes(t *testing.T) {
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			near, far := carrying(t, e, long(3))
			must.Do(t, far.Close())
			must.Wait(t, "sender", near.Done)
			must.Do(t, near.Err)
			all := strings.Join(near.Report.Warnings, "\n")
			must.True(t, strings.Contains(all, "reset") || strings.Contains(all, "pipe") || strings.Contains(all, "abort"), "warnings %q do not say that the connection was lost", near.Report.Warnings)
			must.True(t, near.Flow(t, model.To).Bytes != 0, "what had been sent is not reported")
		})
	}
}

func TestSenderVanishes(t *testing.T) {
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			near, far := carrying(t, e, long(3))
			must.Do(t, near.Close())
			must.Wait(t, "receiver", far.Done)
			must.True(t, far.Err == nil && len(far.Report.Warnings) != 0, "error %v, warnings %q; want a warning", far.Err, far.Report.Warnings)
			must.Wait(t, "measured", far.Measured())
		})
	}
}

func TestSenderVanishesBeforeTheWindow(t *testing.T) {
	f := long(1)
	f.Omit = time.Hour
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	far.Start(t.Context())
	must.Do(t, near.Close())
	must.Wait(t, "receiver", far.Done)
	must.Say(t, far.Err, "before the measured window")
}

func TestBytesCutShort(t *testing.T) {
	f := model.Flow{Direction: model.To, Streams: 2, Bytes: 1 << 50, Interval: engine.MinInterval}
	near, far := carrying(t, New(), f)
	near.Stop()
	must.Wait(t, "sender", near.Done)
	must.Wait(t, "receiver", far.Done)
	for _, e := range []*enginetest.End{near, far} {
		must.True(t, e.Err == nil && len(e.Report.Warnings) == 1 && strings.Contains(e.Report.Warnings[0], "of 1125899906842624 bytes"),
			"error %v, warnings %q", e.Err, e.Report.Warnings)
	}
	got, sent := far.Flow(t, model.To).Bytes, near.Flow(t, model.To).Bytes
	must.True(t, got == sent, "received %d of %d bytes before the end", got, sent)
}

// TestCancel cancels a sender that is blocked because its peer does not read, and a receiver
// that is blocked because its peer does not write.
func TestCancel(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for name, e := range everyPlane() {
		for _, role := range []model.Role{model.Sender, model.Receiver} {
			t.Run(name+"/"+string(role), func(t *testing.T) {
				near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), long(3))
				ctx, cancel := context.WithCancelCause(t.Context())
				victim := far
				if role == model.Sender {
					victim = near
				}
				victim.Start(ctx)
				if role == model.Sender {
					victim.AwaitTraffic(t)
				}
				cancel(cause)
				// Without the cancel it would take an hour.
				must.Wait(t, "cancelled end", victim.Done)
				said := strings.Join(victim.Report.Warnings, "\n")
				if victim.Err != nil {
					said += victim.Err.Error()
				}
				must.Contain(t, said, cause.Error(), "neither warnings nor error name the cause")
				must.Wait(t, "measured", victim.Measured())
			})
		}
	}
}

func TestSenderThatNobodyStops(t *testing.T) {
	e := New()
	e.grace = engine.MinInterval
	f := timed(model.To, 1)
	near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
	near.Start(t.Context())
	far.Start(t.Context())
	must.Wait(t, "an end that only sends has measured at once", near.Measured())
	must.Wait(t, "sender", near.Done)
	must.Wait(t, "receiver", far.Done)
	all := strings.Join(near.Report.Warnings, "\n")
	must.True(t, near.Err == nil && strings.Contains(all, "was not stopped"), "error %v, warnings %q", near.Err, near.Report.Warnings)
}

func TestStandstill(t *testing.T) {
	e := New()
	e.stall = 2 * time.Second // in which a busy machine begins
	f := model.Flow{Direction: model.To, Bytes: 1 << 40, Interval: engine.MinInterval}
	near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
	near.Start(t.Context())
	must.Wait(t, "sender whose receiver does not read", near.Done)
	all := strings.Join(near.Report.Warnings, "\n")
	must.True(t, near.Err == nil && strings.Contains(all, "no byte moved"), "error %v, warnings %q", near.Err, near.Report.Warnings)
	far.Start(t.Context())
	must.Wait(t, "receiver", far.Done)
}

func TestRunOnce(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), timed(model.To, 1))
	enginetest.Succeed(t, near, far, model.To)
	must.Fail(t, must.Err(near.Run(t.Context(), near.Emit)), "a test ran twice")
}

func TestStopBeforeRun(t *testing.T) {
	near, _ := enginetest.Prepare(t, New(), enginetest.NewWire(t), timed(model.To, 1))
	near.Stop()
	near.Stop()
	near.Start(t.Context())
	must.Wait(t, "stopped end", near.Done)
	must.True(t, near.Err != nil || len(near.Report.Warnings) != 0, "a run that was stopped at once says nothing: %+v", near.Report)
}

func TestNothingLeaks(t *testing.T) {
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			w := enginetest.NewWire(t)
			check := enginetest.Untouched(t)
			f := timed(model.Both, 4)
			f.Duration = 2 * engine.MinInterval
			near, far := enginetest.Prepare(t, e, w, f)
			enginetest.Succeed(t, near, far, model.Both)
			for _, e := range []*enginetest.End{near, far} {
				must.OK(t, e.Close())
			}
			check()
		})
	}
}

// bugged is a mover with a bug in a worker.
type bugged struct{ mover }

func (b bugged) move(w *work) error {
	w.worker(func() { panic("boom") })
	return b.mover.move(w)
}

// TestBugInAWorker: the bug ends the run at once, at either end.
func TestBugInAWorker(t *testing.T) {
	for name, e := range everyPlane() {
		for _, sender := range []bool{true, false} {
			near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), timed(model.To, 2))
			at := far
			if sender {
				at = near
			}
			own := at.Test.(*test)
			own.plane = bugged{own.plane}
			_ = enginetest.Conduct(t, near, far, model.To)
			_, ok := errors.AsType[*panics.Panic](at.Err)
			must.True(t, ok, "%s, sender %t: %v", name, sender, at.Err)
		}
	}
}
