package udpflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	host  model.Host
	spec  model.Flow // zero fields filled in, except Block
	flows []*flow
	line  *line
}

// Close implements engine.Test. It waits for Run.
func (t *test) Close() error {
	return t.End(func() error {
		errs := lists.Each(t.flows, func(f *flow) error { return f.close() })
		return errors.Join(append(errs, t.line.close())...)
	})
}

// counter returns a function that counts the datagrams that this end has received; nil if it
// does not receive.
func (t *test) counter() func() int64 {
	var in []*inbound
	for _, f := range t.flows {
		in = append(in, f.in...)
	}
	if len(in) == 0 {
		return nil
	}
	return func() (n int64) {
		for _, s := range in {
			n += s.count.Load()
		}
		return n
	}
}

// Run implements engine.Test. It may be called once.
func (t *test) Run(ctx context.Context, emit func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := t.Begin(ctx)
	if err != nil {
		return model.EndReport{}, err
	}
	defer end(&err)
	threads := 0
	for _, f := range t.flows {
		for _, c := range f.conns {
			threads += c.Threads()
		}
	}
	hold := goruntime.Begin(threads)
	defer hold.End()
	c := &course{test: t, Run: run.Run{
		Meter: run.Meter{Host: t.host, Spec: t.spec, Emit: emit, Hold: hold},
		Life:  t.Life, Halt: t.halt,
	}}
	c.Look, c.Guard = c.look, c.guard
	for _, f := range t.flows {
		c.Parts = append(c.Parts, &f.Part)
	}
	c.Launch()
	for _, f := range t.flows {
		f.launch(c.Start, t.Fail)
	}
	c.Loop(ctx)
	t.halt()
	out, err := c.Report(t.flows[0].conns[0].Waiting())
	for _, f := range out.Flows {
		if f.Role == model.Receiver {
			out.Values = append(out.Values, values(f)...)
		}
	}
	return out, err
}

func (t *test) halt() {
	for _, f := range t.flows {
		f.halt()
	}
}

// course is a running test.
type course struct {
	run.Run
	test *test
}

// How often the sampler checks for unscheduled events: within the window, and after it, when it
// waits for nothing else.
const (
	lookNow  = 2 * time.Millisecond
	lookThen = 20 * time.Millisecond
)

// look returns how long the sampler may sleep.
func (c *course) look() time.Duration {
	if slices.ContainsFunc(c.Parts, func(p *run.Part) bool { return p.State < run.Winding }) {
		return lookThen
	}
	return lookNow
}

// guard checks for an early end: of streams, or of the receiver of what this end sends.
func (c *course) guard(at time.Duration) {
	if slices.ContainsFunc(c.test.flows, func(f *flow) bool { return f.State < run.Winding && (f.threadsOver() || f.counted(at)) }) {
		c.Step()
	}
	for _, f := range c.test.flows {
		f.progress(at)
		if why := c.deserted(f, at); why != "" {
			f.halt()
			c.Step()
			f.Finish(why)
		}
		if f.State == run.Done && f.Role == model.Receiver {
			f.halt()
		}
	}
}

// deserted returns why the receiver of f seems to have gone, at time at; "" if it does not. A
// path without data is no reason while reports arrive: over the line, over UDP if the line's
// acknowledgments are lost under the load, or as data of the receiver's own.
func (c *course) deserted(f *flow, at time.Duration) string {
	line := c.test.line
	switch {
	case f.Role != model.Sender || f.State >= run.Winding:
		return ""
	case line.gone.Load():
		return "the receiver hung up"
	}
	quiet := min(at, line.quiet())
	for _, s := range f.out {
		quiet = min(quiet, time.Duration(s.looked.Load()-s.heard.Load()))
	}
	for _, o := range c.test.flows {
		if o.Role == model.Receiver && o.heard() {
			quiet = min(quiet, o.quietFor(at))
		}
	}
	if quiet <= f.bounds.reports {
		return ""
	}
	return fmt.Sprintf("the receiver did not report for %v", f.bounds.reports)
}
