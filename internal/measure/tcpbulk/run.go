package tcpbulk

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
	engine   *Engine
	plane    plane
	host     model.Host
	spec     model.Flow // zero fields filled in
	flows    []*flow
	warnings []string
}

// Close implements engine.Test. It waits for Run.
func (t *test) Close() error {
	return t.End(func() error {
		var errs []error
		for _, f := range t.flows {
			errs = append(errs, f.close())
		}
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
	r := &run{
		test: t, emit: emit,
		hold:  quiet.Begin(t.plane.threads(streams)),
		ended: make(chan *flow, len(t.flows)),
	}
	defer r.hold.End()
	defer r.release()
	if err := r.launch(); err != nil {
		return model.EndReport{}, err
	}
	r.loop(ctx)
	r.halt()
	return r.report()
}

// run is the sampler of one test.
type run struct {
	*test
	emit     func([]model.Sample)
	hold     *quiet.Hold
	start    time.Time
	ended    chan *flow // flows whose workers have all ended
	reported bool       // measured is closed
	samples  []model.Sample

	cpuPrev, cpuOpen, cpuShut usage.Reading
	progress                  time.Duration // when payload moved last
	moved                     int64         // how much until then
	cap                       time.Duration // when a sender gives up waiting for Stop
}

// launch starts the workers, then the clock.
func (r *run) launch() error {
	for i, f := range r.flows {
		f.work.fail = r.Fail
		if err := r.plane.move(f.work); err != nil {
			for _, begun := range r.flows[:i] {
				begun.work.stop.Store(true)
				close(begun.work.release)
				begun.work.running.Wait()
			}
			return fmt.Errorf("start workers %s: %w", f.direction, err)
		}
	}
	for _, f := range r.flows {
		f.work.ready.Wait()
	}
	r.cap = r.spec.Omit + r.spec.Duration + r.engine.grace
	r.start = time.Now()
	for _, f := range r.flows {
		f.begin()
		f.work.start = r.start
	}
	r.cpuPrev = usage.ReadEdge(time.Since(r.start))
	r.cpuOpen = r.cpuPrev
	for _, f := range r.flows {
		close(f.work.release)
		go func() {
			f.work.running.Wait()
			r.ended <- f
		}()
	}
	r.release()
	return nil
}

// loop samples until every flow is complete, or something ends the run.
func (r *run) loop(ctx context.Context) {
	planned := time.Duration(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !r.complete() {
		planned = r.next(planned)
		timer.Reset(time.Until(r.start.Add(planned)))
		select {
		case <-timer.C:
			r.step()
			r.guard()
		case f := <-r.ended:
			r.step()
			f.finish(f.ending())
		case <-r.Stopping():
			r.finish("stopped")
		case <-ctx.Done():
			r.finish(context.Cause(ctx).Error())
		}
		r.settle()
	}
}

// next is when the present interval ends. Intervals that passed unseen, on a
// machine that was busy elsewhere, are part of the present one.
func (r *run) next(planned time.Duration) time.Duration {
	planned = max(planned, time.Since(r.start))
	next := planned + r.spec.Interval
	for _, f := range r.flows {
		if !f.done() {
			next = min(next, f.next(planned))
		}
	}
	return next
}

// step ends the present interval of all flows and emits its samples.
func (r *run) step() {
	at := time.Since(r.start)
	r.samples = r.samples[:0]
	var moved int64
	for _, f := range r.flows {
		r.samples = f.step(at, r.host, r.samples)
		moved += f.progress()
	}
	if moved != r.moved {
		r.moved, r.progress = moved, at
	}
	cpu := usage.Read(time.Since(r.start))
	if cpu.At-r.cpuPrev.At >= r.spec.Interval/10 {
		r.samples = append(r.samples, cpu.Sample(r.cpuPrev, r.host, r.spec.Omit))
		r.cpuPrev = cpu
	}
	if len(r.samples) > 0 {
		r.emit(append([]model.Sample(nil), r.samples...))
	}
}

// settle notes what the last step completed.
func (r *run) settle() {
	main := r.main()
	// The first reading is of the start, where nothing is omitted.
	if main.state != warming && r.cpuOpen.At < main.open.at {
		r.cpuOpen = usage.ReadEdge(time.Since(r.start))
	}
	if r.cpuShut.At == 0 && main.done() {
		r.cpuShut = usage.ReadEdge(time.Since(r.start))
	}
	r.release()
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

// release closes measured when all received flows are complete, or the run is
// over without.
func (r *run) release() {
	if r.reported {
		return
	}
	if !r.start.IsZero() {
		for _, f := range r.flows {
			if f.role == model.Receiver && !f.done() {
				return
			}
		}
	}
	r.reported = true
	r.Complete()
}

// complete reports whether all flows are.
func (r *run) complete() bool {
	return !slices.ContainsFunc(r.flows, func(f *flow) bool { return !f.done() })
}

// finish ends all flows for the reason why. The workers end first: what they
// had in their hands is counted then.
func (r *run) finish(why string) {
	r.halt()
	r.step()
	for _, f := range r.flows {
		f.finish(why)
	}
}

// guard ends a run that nobody else would end.
func (r *run) guard() {
	at := time.Since(r.start)
	switch {
	case r.spec.Bytes != 0 && at-r.progress > r.engine.stall:
		r.finish(fmt.Sprintf("no byte moved for %v", r.engine.stall))
	case r.spec.Bytes == 0 && at >= r.cap:
		for _, f := range r.flows {
			if !f.done() {
				f.warn("was not stopped within %v after the receiver's window", r.engine.grace)
			}
		}
		r.finish("gave up")
	}
	if r.hold.Check() {
		r.warnings = append(r.warnings,
			fmt.Sprintf("garbage was collected during the run: the heap grew by %d MiB", quiet.MaxGrowth>>20))
	}
}

// halt stops the workers and waits for them.
func (r *run) halt() {
	for _, f := range r.flows {
		f.work.stop.Store(true)
	}
	for _, f := range r.flows {
		for _, s := range f.streams {
			s.link.interrupt(f.role)
		}
	}
	for _, f := range r.flows {
		f.work.running.Wait()
	}
}

// report puts together what this end says, or why there is no result.
func (r *run) report() (model.EndReport, error) {
	out := model.EndReport{Host: r.host, Waiting: r.plane.waiting(), Warnings: r.warnings}
	usage.Fill(&out, r.cpuOpen, r.cpuShut)
	var faults []error
	for _, f := range r.flows {
		f.losses()
		out.Warnings = append(out.Warnings, f.warnings...)
		if f.fault != nil {
			faults = append(faults, f.fault)
			continue
		}
		out.Flows = append(out.Flows, f.report())
	}
	return out, errors.Join(faults...)
}
