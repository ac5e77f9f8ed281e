package udpflow

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

func warned(e *enginetest.End, what string) bool {
	return strings.Contains(strings.Join(e.Report.Warnings, "\n"), what)
}

// long is a flow that ends only when something makes it.
func long() model.Flow {
	return model.Flow{
		Direction: model.To, Streams: 2, Duration: time.Hour, Interval: engine.MinInterval,
		Params: traffic.Write(udp.Params{Rate: 20e6}),
	}
}

func TestReceiverVanishes(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), long())
	near.Start(t.Context())
	far.Start(t.Context())
	far.AwaitTraffic(t)
	must.Do(t, far.Close())
	enginetest.Await(t, near.Done, "sender")
	must.True(t, near.Err == nil && (warned(near, "nobody listens") || warned(near, "hung up")),
		"error %v, warnings %q", near.Err, near.Report.Warnings)
	must.True(t, near.Flow(t, model.To).UDP.Sent != 0, "what had been sent is not reported")
}

func TestSenderEndsEarly(t *testing.T) {
	for name, e := range everyWay() {
		t.Run(name, func(t *testing.T) {
			near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), long())
			near.Start(t.Context())
			far.Start(t.Context())
			far.AwaitTraffic(t)
			must.Do(t, near.Close())
			enginetest.Await(t, far.Done, "receiver")
			enginetest.Await(t, far.Measured(), "measured")
			enginetest.Await(t, near.Done, "sender")
			must.True(t, far.Err == nil && warned(far, "the peer ended it"), "error %v, warnings %q", far.Err, far.Report.Warnings)
			checkBooks(t, near.Flow(t, model.To), far.Flow(t, model.To))
		})
	}
}

func TestSenderVanishes(t *testing.T) {
	under := make(chan struct{})
	r := &relay{mute: true, fate: func(i int) (int, int) {
		if i == 1 {
			close(under)
		}
		if i < 200 {
			return 1, 0
		}
		return 0, 0
	}}
	w := enginetest.NewWire(t)
	w.RelayUDP = r.between(t)
	e := New()
	e.bounds.silence = 200 * time.Millisecond
	near, far := enginetest.Prepare(t, e, w, long())
	near.Start(t.Context())
	enginetest.Await(t, under, "datagram under way")
	far.Start(t.Context())
	enginetest.Await(t, far.Done, "receiver")
	must.True(t, far.Err == nil && warned(far, "nothing came for 200ms"), "error %v, warnings %q", far.Err, far.Report.Warnings)
	must.True(t, far.Flow(t, model.To).UDP.Received != 0, "what had been received is not reported")
}

// TestNothingComes has a path that carries nothing at all.
func TestNothingComes(t *testing.T) {
	r := &relay{mute: true, fate: func(int) (int, int) { return 0, 0 }}
	w := enginetest.NewWire(t)
	w.RelayUDP = r.between(t)
	e := New()
	e.bounds.linger, e.bounds.grace = 50*time.Millisecond, 500*time.Millisecond
	near, far := enginetest.Prepare(t, e, w, timed(model.To))
	near.Start(t.Context())
	far.Start(t.Context())
	enginetest.Await(t, far.Done, "receiver")
	must.Say(t, far.Err, "no datagram came")
	enginetest.Await(t, near.Done, "sender") // nobody stops it
	must.True(t, near.Err == nil && warned(near, "neither answered nor stopped"), "error %v, warnings %q", near.Err, near.Report.Warnings)
}

func TestBytesCutShort(t *testing.T) {
	f := long()
	f.Duration, f.Bytes = 0, 1<<50
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	near.Start(t.Context())
	far.Start(t.Context())
	far.AwaitTraffic(t)
	near.Stop()
	enginetest.Await(t, near.Done, "sender")
	enginetest.Await(t, far.Done, "receiver")
	for _, e := range []*enginetest.End{near, far} {
		must.True(t, e.Err == nil && warned(e, "of 1125899906842624 bytes"), "error %v, warnings %q", e.Err, e.Report.Warnings)
	}
	checkBooks(t, near.Flow(t, model.To), far.Flow(t, model.To))
}

// TestCancel cancels one end while the other is not even there.
func TestCancel(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for name, e := range everyWay() {
		for _, d := range []model.Direction{model.To, model.From} {
			t.Run(name+"/"+string(d), func(t *testing.T) {
				f := long()
				f.Direction = d
				near, _ := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
				ctx, cancel := context.WithCancelCause(t.Context())
				near.Start(ctx)
				if d == model.To {
					near.AwaitTraffic(t)
				}
				cancel(cause)
				enginetest.Await(t, near.Done, "run")
				must.True(t, d != model.To || warned(near, cause.Error()), "warnings %q", near.Report.Warnings)
				must.True(t, d != model.From || near.Err != nil && strings.Contains(near.Err.Error(), cause.Error()), "error %v", near.Err)
			})
		}
	}
}

// TestAnyMoment stops and closes at random moments of short runs: everything
// ends, and nothing is left over.
func TestAnyMoment(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := enginetest.NewWire(t)
	check := enginetest.Untouched(t)
	engines := everyWay()
	for i := range 24 {
		e := engines["native"]
		if i%4 == 0 {
			e = engines["portable"]
		}
		f := timed([]model.Direction{model.To, model.From, model.Both}[i%3])
		f.Duration, f.Omit = 30*time.Millisecond, 10*time.Millisecond
		near, far := enginetest.Prepare(t, e, w, f)
		acts := []func(){near.Stop, far.Stop, func() { near.Close() }, func() { far.Close() }}
		timers := make([]*time.Timer, 2)
		for k := range timers {
			timers[k] = time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, acts[rng.IntN(len(acts))])
		}
		near.Start(t.Context())
		far.Start(t.Context())
		for _, e := range []*enginetest.End{near, far} {
			select {
			case <-e.Measured():
			case <-e.Done: // closed before it ran
			case <-time.After(enginetest.Soon):
				t.Fatalf("still waiting after %v", enginetest.Soon)
			}
		}
		near.Stop()
		far.Stop()
		enginetest.Await(t, near.Done, "near")
		enginetest.Await(t, far.Done, "far")
		for _, timer := range timers {
			timer.Stop()
		}
		must.OK(t, errors.Join(near.Close(), far.Close()))
	}
	check()
}

func TestCloseBeforeRun(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), long())
	for range 2 {
		must.Do(t, errors.Join(near.Close(), far.Close()))
	}
	must.Fail(t, must.Err(near.Run(t.Context(), near.Emit)), "ran after close")
}
