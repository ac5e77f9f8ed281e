package udpflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/quiet"
	"linerate/internal/measure/usage"
)

// test is one end of one run.
type test struct {
	*engine.Life
	engine *Engine
	host   model.Host
	spec   model.Flow // zero fields filled in, but for Block
	flows  []*flow
	line   *line
}

// Close implements engine.Test. It waits for Run.
func (t *test) Close() error {
	return t.End(func() error {
		var errs []error
		for _, f := range t.flows {
			errs = append(errs, f.close())
		}
		return errors.Join(append(errs, t.line.close())...)
	})
}

// counter returns how many datagrams this end has received; nil where it does
// not receive.
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
	r := &run{test: t, emit: emit, hold: quiet.Begin(threads)}
	defer r.hold.End()
	r.launch()
	r.loop(ctx)
	for _, f := range r.flows {
		f.halt()
	}
	return r.report()
}

// run is the sampler of one test.
type run struct {
	*test
	emit     func([]model.Sample)
	hold     *quiet.Hold
	start    time.Time
	reported bool // measured is closed
	samples  []model.Sample
	warnings []string

	cpuPrev, cpuOpen, cpuShut usage.Reading
}

// launch starts clock and threads.
func (r *run) launch() {
	r.start = time.Now()
	for _, f := range r.flows {
		f.begin()
	}
	r.cpuPrev = usage.ReadEdge(time.Since(r.start))
	r.cpuOpen = r.cpuPrev
	for _, f := range r.flows {
		f.launch(r.start, r.Fail)
	}
	r.settle()
}

// loop samples until every flow is complete, or something ends the run. In
// between it looks whether something ended that was not due.
func (r *run) loop(ctx context.Context) {
	planned := r.next(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !r.complete() {
		timer.Reset(min(r.look(), time.Until(r.start.Add(planned))))
		select {
		case <-timer.C:
			if at := time.Since(r.start); at >= planned {
				r.step()
				planned = r.next(planned)
			} else {
				r.watch(at)
			}
			r.desert()
			r.guard()
		case <-r.Stopping():
			r.finish("stopped")
		case <-ctx.Done():
			r.finish(context.Cause(ctx).Error())
		}
		r.settle()
	}
}

// look is how long the sampler may sleep.
func (r *run) look() time.Duration {
	for _, f := range r.flows {
		if f.state < winding {
			return lookThen
		}
	}
	return lookNow
}

// next is when the present interval ends. Intervals that passed unseen, on a
// machine that was busy elsewhere, are part of the present one.
func (r *run) next(planned time.Duration) time.Duration {
	planned = max(planned, time.Since(r.start))
	next := planned + r.spec.Interval
	for _, f := range r.flows {
		if f.state < winding {
			next = min(next, f.next(planned))
		}
	}
	return next
}

// step ends the present interval of all flows and emits its samples.
func (r *run) step() {
	at := time.Since(r.start)
	r.samples = r.samples[:0]
	working := false
	for _, f := range r.flows {
		working = working || f.state < winding
		r.samples = f.step(at, r.host, r.samples)
	}
	cpu := usage.Read(time.Since(r.start))
	if working && cpu.At-r.cpuPrev.At >= r.spec.Interval/10 {
		r.samples = append(r.samples, cpu.Sample(r.cpuPrev, r.host, r.spec.Omit))
		r.cpuPrev = cpu
	}
	if len(r.samples) > 0 {
		r.emit(append([]model.Sample(nil), r.samples...))
	}
}

// watch ends the interval where a flow's streams ended before their time.
func (r *run) watch(at time.Duration) {
	for _, f := range r.flows {
		if f.state < winding && (f.threadsOver() || f.told(at)) {
			r.step()
			return
		}
	}
	for _, f := range r.flows {
		f.progress(at)
	}
}

// desert ends the flows of this end whose receiver has gone.
func (r *run) desert() {
	at := time.Since(r.start)
	for _, f := range r.flows {
		if f.role != model.Sender || f.state >= winding {
			continue
		}
		if why := r.deserted(f, at); why != "" {
			f.halt()
			r.step()
			f.finish(why)
		}
	}
}

// deserted says why the receiver of f seems to have gone, at time at; "" is that
// it does not. A path that carries nothing is no reason, if its reports come:
// over the line, by UDP where the line's acknowledgments get lost under the
// load, or as data of its own.
func (r *run) deserted(f *flow, at time.Duration) string {
	if r.line.gone.Load() {
		return "the receiver hung up"
	}
	quiet := min(at, r.line.quiet())
	for _, s := range f.out {
		quiet = min(quiet, at-time.Duration(s.heard.Load()))
	}
	for _, o := range r.flows {
		if o.role == model.Receiver && o.heard() {
			quiet = min(quiet, o.quietFor(at))
		}
	}
	if quiet <= f.bounds.reports {
		return ""
	}
	return fmt.Sprintf("the receiver did not report for %v", f.bounds.reports)
}

// settle notes what the last step completed.
func (r *run) settle() {
	main := r.main()
	// The first reading is of the start, where nothing is omitted.
	if main.state != warming && r.cpuOpen.At < main.open.at {
		r.cpuOpen = usage.ReadEdge(time.Since(r.start))
	}
	if r.cpuShut.At == 0 && main.state >= winding {
		r.cpuShut = usage.ReadEdge(time.Since(r.start))
	}
	for _, f := range r.flows {
		if f.done() && f.role == model.Receiver {
			f.halt()
		}
	}
	if r.reported {
		return
	}
	for _, f := range r.flows {
		if f.role == model.Receiver && !f.done() {
			return
		}
	}
	r.reported = true
	r.Complete()
}

// main is the flow whose window is that of the CPU figures: the one received,
// where there is one.
func (r *run) main() *flow {
	for _, f := range r.flows {
		if f.role == model.Receiver {
			return f
		}
	}
	return r.flows[0]
}

// complete reports whether all flows are.
func (r *run) complete() bool {
	return !slices.ContainsFunc(r.flows, func(f *flow) bool { return !f.done() })
}

// finish ends all flows for the reason why. The threads end first: what they
// had in their hands is counted then.
func (r *run) finish(why string) {
	for _, f := range r.flows {
		f.halt()
	}
	r.step()
	for _, f := range r.flows {
		f.finish(why)
	}
}

// guard looks after the heap.
func (r *run) guard() {
	if r.hold.Check() {
		r.warnings = append(r.warnings,
			fmt.Sprintf("garbage was collected during the run: the heap grew by %d MiB", quiet.MaxGrowth>>20))
	}
}
