package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/panics"
)

// measure runs the test, samples the host's counters beside it and sends both.
func (a *agent) measure(r *run, send func(session.Event) error) (err error) {
	type outcome struct {
		report model.EndReport
		err    error
	}
	var out outcome
	if a.Runs != nil {
		ended := a.Runs(r.flow)
		defer func() { ended(out.report, err) }()
	}
	batches := make(chan []model.Sample, queued)
	defer a.charge(r)()
	if late := a.stopAfter(r.flow); late > 0 {
		defer time.AfterFunc(late, r.test.Stop).Stop()
	}
	emit := func(s []model.Sample) {
		r.sampled(a.host, s)
		if a.Sampled != nil {
			a.Sampled(s)
		}
		select {
		case batches <- slices.Clone(s):
		default:
			r.cancel(errors.New("the controller does not read the samples"))
		}
	}
	done := make(chan outcome, 1)
	go func() {
		var report model.EndReport
		err := guarded("measure", func() (err error) {
			counters := a.watch(r, emit)
			defer func() { report.Counters = append(report.Counters, counters()...) }()
			report, err = r.test.Run(r.ctx, emit)
			return err
		})
		report.Warnings = append(report.Warnings, r.unwatched...)
		close(batches)
		done <- outcome{report, err}
	}()
	if err := r.forward(batches, send); err != nil {
		r.cancel(err)
		r.test.Stop()
		out = <-done
		return err
	}
	out = <-done
	switch {
	case r.ctx.Err() != nil: // says more than the engine's error
		return fmt.Errorf("measure: %w", context.Cause(r.ctx))
	case out.err != nil:
		return fmt.Errorf("measure: %w", out.err)
	}
	if a.Discreet {
		out.report = publicReport(out.report)
	}
	return send(session.Event{Kind: session.Result, Report: out.report})
}

// guarded calls f. A panic in it, of an engine, ends only this run.
func guarded(what string, f func() error) error {
	err := panics.Call(f)
	if bug, ok := errors.AsType[*panics.Panic](err); ok {
		return fmt.Errorf("%s: a bug in the agent: %v\n%s", what, bug.Value, bug.Stack)
	}
	return err
}

// watch starts to sample the host's counters, at intervals of at least a second. The returned
// function stops that and returns how far they moved.
func (a *agent) watch(r *run, emit func([]model.Sample)) func() []model.Counter {
	none := func() []model.Counter { return nil }
	if a.Watch == nil {
		return none
	}
	if a.Discreet {
		whole := emit
		emit = func(s []model.Sample) { whole(publicSamples(s)) }
	}
	stop, err := a.Watch(r.ctx, a.host, max(r.flow.Interval, time.Second), emit)
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			r.unwatched = append(r.unwatched, fmt.Sprintf("the host's counters were not read: %v", err))
		}
		return none
	}
	return stop
}

// forward sends samples until batches is closed, and an event when the test has measured.
func (r *run) forward(batches <-chan []model.Sample, send func(session.Event) error) error {
	measured := r.test.Measured()
	for {
		var e session.Event
		select {
		case s, more := <-batches:
			if !more {
				return nil
			}
			e = session.Event{Kind: session.Samples, Samples: s}
		case <-measured:
			measured = nil
			e = session.Event{Kind: session.Measured}
		}
		if err := send(e); err != nil {
			return err
		}
	}
}
