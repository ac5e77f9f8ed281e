package experiment

import (
	"context"
	"time"
)

// between waits before a run for as long as a busy host or a person wants. It does not wait for
// a person while something is held for the run.
func (e *experiment) between(ctx context.Context, block int) error {
	if err := e.await(ctx, block); err != nil || e.Between == nil || e.holds {
		return err
	}
	began := e.Now()
	err := e.Between(ctx)
	e.started = e.started.Add(e.Now().Sub(began))
	return err
}

// await pauses before a run if the last one found a host busy.
func (e *experiment) await(ctx context.Context, block int) error {
	if e.busy == 0 {
		return nil
	}
	e.Observe(e.event(Event{Kind: CoolingDown, Block: block}))
	return wait(ctx, min(busyRest<<(e.busy-1), longestBusyRest))
}

// How long an experiment pauses after a run for which a host was busy, that is had given its
// resources to others: twice as long after each further one in a row.
const (
	busyRest        = 10 * time.Second
	longestBusyRest = time.Minute
)

// wait waits for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// rest waits for the cool-down between runs, but not after the very last one.
func (e *experiment) rest(ctx context.Context, block int, lastInBlock bool) error {
	if e.Plan.Cooldown <= 0 || lastInBlock && len(e.pending) == 0 {
		return nil
	}
	e.Observe(e.event(Event{Kind: CoolingDown, Block: block}))
	return wait(ctx, e.Plan.Cooldown)
}
