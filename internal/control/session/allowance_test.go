package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestGreedyAgentLosesTheSession: an agent that sends samples without end once
// filled the memory of the controller.
func TestGreedyAgentLosesTheSession(t *testing.T) {
	batch := make([]model.Sample, MaxSamples)
	for i := range batch {
		batch[i] = model.Sample{Direction: model.To, Metric: model.Goodput, Length: time.Second}
	}
	left := make(chan struct{})
	conn, _ := serving(t, stub{run: func(_ context.Context, send func(Event) error) error {
		defer close(left)
		if err := send(Event{Kind: Ready}); err != nil {
			return err
		}
		for {
			if err := send(Event{Kind: Samples, Samples: batch}); err != nil {
				return err
			}
		}
	}}, short())
	c := mustOpen(t, conn)
	flow := model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 3 * time.Second, Interval: time.Second}
	must.Get(c.Prepare(t.Context(), Preparation{Run: 1, Flow: flow}))(t)
	got := 0
	err := c.Run(t.Context(), 1, func(e Event) { got += len(e.Samples) })
	must.True(t, errors.Is(err, ErrGreedy) && strings.Contains(err.Error(), "the agent sent more than this run can have") && got <= 100_000,
		"%d samples, error %v", got, err)
	soon(t, "the agent to be cut off", left)
	must.Is(t, must.Err(c.Facts(t.Context(), "")), ErrGreedy, "the session goes on")
}

// TestAllowanceOfHonestRuns: what real agents send passes, at every moment.
func TestAllowanceOfHonestRuns(t *testing.T) {
	start := time.Now()
	for name, f := range map[string]model.Flow{
		"a second": {Duration: 10 * time.Second, Interval: time.Second}, "fast": {Duration: time.Second, Interval: 10 * time.Millisecond},
		"short": {Duration: 100 * time.Millisecond}, "bytes": {Bytes: 1 << 30},
	} {
		a := newAllowance(f)
		must.Do(t, a.take(Event{Kind: Ready}, start))
		series := make([]model.Sample, 40)
		host := make([]model.Sample, 3000)
		for at := time.Duration(0); at < 20*time.Second; at += a.interval {
			err := a.take(Event{Kind: Samples, Samples: series}, start.Add(at))
			if at%time.Second == 0 {
				err = errors.Join(err, a.take(Event{Kind: Samples, Samples: host}, start.Add(at)))
			}
			must.Dof(t, err, "%s: after %v", name, at)
		}
		end := errors.Join(a.take(Event{Kind: Measured}, start.Add(20*time.Second)), a.take(Event{Kind: Result}, start.Add(21*time.Second)))
		must.OK(t, end, "%s", name)
	}
}

func TestAllowanceOfEvents(t *testing.T) {
	a := newAllowance(model.Flow{Points: 3})
	now := time.Now()
	for _, e := range []Event{{Kind: Ready}, {Kind: Measured}, {Kind: Result, Report: model.EndReport{Points: make([]model.Point, 3)}}} {
		must.OK(t, a.take(e, now), "%+v", e)
	}
	for _, e := range []Event{{Kind: Measured}, {Kind: Result, Report: model.EndReport{Points: make([]model.Point, 4)}}} {
		must.Is(t, a.take(e, now), ErrGreedy, "%+v", e)
	}
}
