package tcpbulk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/goruntime"
	"linerate/internal/measure/run"
)

// test is one end of one run.
type test struct {
	*engine.Life
	engine   *Engine
	plane    mover
	host     model.Host
	spec     model.Flow // zero fields filled in
	flows    []*flow
	warnings []string
}

// Close implements engine.Test. It waits for Run.
func (t *test) Close() error {
	return t.End(func() error {
		errs := lists.Each(t.flows, func(f *flow) error { return f.close() })
		return errors.Join(errs...)
	})
}

// Run implements engine.Test. It may be called once.
func (t *test) Run(ctx context.Context, emit func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := t.Begin(ctx)
	if err != nil {
		return model.EndReport{}, err
	}
	defer end(&err)
	streams := 0
	for _, f := range t.flows {
		streams += len(f.streams)
	}
	hold := goruntime.Begin(t.plane.threads(streams))
	defer hold.End()
	ended := make(chan func(), len(t.flows))
	c := &course{test: t, Run: run.Run{
		Meter: run.Meter{Host: t.host, Spec: t.spec, Emit: emit, Hold: hold, Warnings: t.warnings},
		Life:  t.Life, Halt: t.halt, Ended: ended,
	}}
	c.Guard = c.guard
	if err := c.launch(ended); err != nil {
		return model.EndReport{}, err
	}
	c.Loop(ctx)
	t.halt()
	return c.Report(t.plane.waiting())
}

// course is a running test.
type course struct {
	run.Run
	test     *test
	progress time.Duration // time of the last progress
	moved    int64         // how much had moved then
}

// launch starts the workers, then the clock. ended gets each flow when all its workers have
// ended.
func (c *course) launch(ended chan<- func()) error {
	t := c.test
	for i, f := range t.flows {
		f.work.fail = t.Fail
		if err := t.plane.move(f.work); err != nil {
			for _, begun := range t.flows[:i] {
				begun.work.stop.Store(true)
				close(begun.work.release)
				begun.work.running.Wait()
			}
			return fmt.Errorf("start workers %s: %w", f.Direction, err)
		}
		c.Parts = append(c.Parts, &f.Part)
	}
	for _, f := range t.flows {
		f.work.ready.Wait()
	}
	c.Launch()
	for _, f := range t.flows {
		f.work.start = c.Start
		close(f.work.release)
		go func() {
			f.work.running.Wait()
			ended <- func() { f.Finish(f.ending()) }
		}()
	}
	return nil
}

// guard ends a run that would not end otherwise.
func (c *course) guard(at time.Duration) {
	var moved int64
	for _, f := range c.test.flows {
		moved += f.progress()
	}
	if moved != c.moved {
		c.moved, c.progress = moved, at
	}
	e := c.test.engine
	switch {
	case c.Spec.Bytes != 0 && at-c.progress > e.stall:
		c.Finish(fmt.Sprintf("no byte moved for %v", e.stall))
	case c.Spec.Bytes == 0 && at >= c.Spec.Omit+c.Spec.Duration+e.grace:
		for _, p := range c.Parts {
			if p.State != run.Done {
				p.Warn("was not stopped within %v after the receiver's window", e.grace)
			}
		}
		c.Finish("gave up")
	}
}

// halt stops the workers and waits for them.
func (t *test) halt() {
	for _, f := range t.flows {
		f.work.stop.Store(true)
	}
	for _, f := range t.flows {
		for _, s := range f.streams {
			s.link.interrupt(f.Role)
		}
	}
	for _, f := range t.flows {
		f.work.running.Wait()
	}
}
