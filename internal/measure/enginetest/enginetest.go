// Package enginetest runs both ends of an engine in one process, for the tests of engines.
//
// A Wire stands in for the two sessions: Prepare opens both ends of a flow over it, and Conduct
// runs them in the order of package engine. A test changes the traffic with Wire.Relay and
// Wire.RelayUDP, or runs the ends in two namespaces (NewVeth).
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
)

// Soon is how long a step of a test may take before it counts as hanging. A passing test never
// waits for it, so it can be longer than the busiest machine needs.
const Soon = time.Minute

// End is one end of a prepared test, with its results.
type End struct {
	engine.Test
	Done   chan struct{}   // closed when Run has returned; nil before Start
	Report model.EndReport // of Run, when Done is closed
	Err    error           // of Run, when Done is closed

	mu      sync.Mutex
	samples []model.Sample
	more    chan struct{} // closed at the next samples
}

// NewEnd returns an End for test, and closes it at the end of t.
func NewEnd(t testing.TB, test engine.Test) *End {
	e := &End{Test: test, more: make(chan struct{})}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

// Prepare returns both ends of f, not started.
func Prepare(t testing.TB, e engine.Engine, w *Wire, f model.Flow) (near, far *End) {
	t.Helper()
	return PrepareEnds(t, e, e, w, f)
}

// PrepareEnds is Prepare with a separate engine for each end.
func PrepareEnds(t testing.TB, atNear, atFar engine.Engine, w *Wire, f model.Flow) (near, far *End) {
	t.Helper()
	var test engine.Test
	var err error
	other := make(chan struct{})
	go func() {
		defer close(other)
		test, err = atFar.Prepare(t.Context(), w.Env(model.Far), f)
	}()
	own, nearErr := atNear.Prepare(t.Context(), w.Env(model.Near), f)
	<-other
	if nearErr == nil {
		near = NewEnd(t, own)
	}
	if err == nil {
		far = NewEnd(t, test)
	}
	if nearErr != nil || err != nil {
		t.Fatalf("prepare: near %v, far %v", nearErr, err)
	}
	return near, far
}

// Emit stores samples that a session would send on.
func (e *End) Emit(s []model.Sample) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.samples = append(e.samples, s...)
	close(e.more)
	e.more = make(chan struct{})
}

// Samples returns what has been emitted so far.
func (e *End) Samples() []model.Sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.samples)
}

// Start runs the end.
func (e *End) Start(ctx context.Context) {
	e.Done = make(chan struct{})
	go func() {
		defer close(e.Done)
		e.Report, e.Err = e.Run(ctx, e.Emit)
	}()
}

// AwaitSample waits until the end, which must be started, has emitted a sample for which fits
// returns true.
func (e *End) AwaitSample(t testing.TB, fits func(model.Sample) bool) {
	t.Helper()
	limit := time.NewTimer(Soon)
	defer limit.Stop()
	for {
		e.mu.Lock()
		found, more := slices.ContainsFunc(e.samples, fits), e.more
		e.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-e.Done:
			if !slices.ContainsFunc(e.Samples(), fits) {
				t.Fatalf("the run is over without such a sample: %+v, %v", e.Report, e.Err)
			}
			return
		case <-limit.C:
			t.Fatalf("no such sample within %v", Soon)
		}
	}
}

// AwaitTraffic waits until the end has emitted samples with payload.
func (e *End) AwaitTraffic(t testing.TB) {
	t.Helper()
	e.AwaitSample(t, func(s model.Sample) bool { return s.Direction != "" && s.Value > 0 })
}

// Flow returns the report of direction d.
func (e *End) Flow(t testing.TB, d model.Direction) model.FlowReport {
	t.Helper()
	for _, f := range e.Report.Flows {
		if f.Direction == d {
			return f
		}
	}
	t.Fatalf("no report of direction %s: %+v, %v", d, e.Report, e.Err)
	return model.FlowReport{}
}

// Latency returns the distribution of direction d with that name.
func (e *End) Latency(t testing.TB, d model.Direction, name string) model.Latency {
	t.Helper()
	for _, l := range e.Report.Latencies {
		if l.Name == name && l.Direction == d {
			return l
		}
	}
	t.Fatalf("no latency %q %s: %+v, %v", name, d, e.Report.Values, e.Err)
	return model.Latency{}
}

// Value returns the run's value of m in direction d.
func (e *End) Value(t testing.TB, d model.Direction, m model.Metric) float64 {
	t.Helper()
	for _, v := range e.Report.Values {
		if v.Metric == m && v.Direction == d {
			return v.Value
		}
	}
	t.Fatalf("no value %q %s: %+v, %v", m, d, e.Report.Values, e.Err)
	return 0
}

// await fails the test if c is not closed within Soon.
func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(Soon):
		t.Fatalf("%s: still waiting after %v", what, Soon)
	}
}

// Conduct runs both ends as a session does: it starts the receiver, then the sender, waits
// until the receiver returns, or until both ends have measured, and stops them.
func Conduct(t testing.TB, near, far *End, d model.Direction) error {
	t.Helper()
	first, second := far, near
	if d == model.From {
		first, second = near, far
	}
	first.Start(t.Context())
	second.Start(t.Context())
	if d == model.Both {
		await(t, near.Measured(), "near end measured")
		await(t, far.Measured(), "far end measured")
	} else {
		await(t, first.Done, "receiver")
	}
	near.Stop()
	far.Stop()
	await(t, near.Done, "near end")
	await(t, far.Done, "far end")
	return errors.Join(named("near", near.Err), named("far", far.Err))
}

func named(end string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s end: %w", end, err)
	}
	return err
}

// Succeed is Conduct, and fails the test if either end fails.
func Succeed(t testing.TB, near, far *End, d model.Direction) {
	t.Helper()
	if err := Conduct(t, near, far, d); err != nil {
		t.Fatal(err)
	}
}
