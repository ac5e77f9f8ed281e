package run

import (
	"context"
	"errors"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
)

// Run is the sampler of one end of a run whose directions are counted in bytes.
type Run struct {
	Meter
	*engine.Life
	Parts []*Part
	// Halt ends the threads of all parts and waits for them, so that their last counts are
	// included.
	Halt func()
	// Look returns how long the sampler may sleep within an interval; if nil, to its end.
	Look func() time.Duration
	// Guard, if not nil, is called each time the sampler has slept.
	Guard func(at time.Duration)
	// Ended, if not nil, delivers functions to call when threads have ended.
	Ended <-chan func()
}

// Launch starts the clock.
func (r *Run) Launch() {
	r.StartClock()
	for _, p := range r.Parts {
		p.Begin()
	}
}

// Loop samples until every part is done, or the run is ended.
func (r *Run) Loop(ctx context.Context) {
	planned := r.next(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for r.settle(); slices.ContainsFunc(r.Parts, func(p *Part) bool { return p.State != Done }); r.settle() {
		wait := time.Until(r.Start.Add(planned))
		if r.Look != nil {
			wait = min(wait, r.Look())
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
			at := r.Now()
			if at >= planned {
				r.Step()
				planned = r.next(planned)
			}
			if r.Guard != nil {
				r.Guard(at)
			}
			r.LookAtHeap()
		case f := <-r.Ended:
			r.Step()
			f()
		case <-r.Stopping():
			r.Finish("stopped")
		case <-ctx.Done():
			r.Finish(context.Cause(ctx).Error())
		}
	}
}

// next returns the end of the current interval. On a busy machine, intervals that passed
// unnoticed are merged into the current one.
func (r *Run) next(planned time.Duration) time.Duration {
	planned = max(planned, r.Now())
	next := planned + r.Spec.Interval
	for _, p := range r.Parts {
		if p.State < Winding {
			next = min(next, p.next(planned))
		}
	}
	return next
}

// Step ends the current interval of all parts and emits its samples.
func (r *Run) Step() {
	at := r.Now()
	working := false
	for _, p := range r.Parts {
		working = working || p.State < Winding
		r.samples = p.step(at, r.Host, r.samples)
	}
	r.Flush(working)
}

// settle handles what the last step completed.
func (r *Run) settle() {
	main := r.main()
	// The first reading is at the start if nothing is omitted.
	if main.State != Warming && r.open.At < main.Open.At {
		r.Open()
	}
	if r.shut.At == 0 && main.State >= Winding {
		r.Shut()
	}
	if !slices.ContainsFunc(r.Parts, func(p *Part) bool { return p.Role == model.Receiver && p.State != Done }) {
		r.Complete()
	}
}

// main returns the part whose window is used for CPU time: the received one, if there is one.
func (r *Run) main() *Part {
	return r.Parts[max(0, slices.IndexFunc(r.Parts, func(p *Part) bool { return p.Role == model.Receiver }))]
}

// Finish ends all parts with the reason why.
func (r *Run) Finish(why string) {
	r.Halt()
	r.Step()
	for _, p := range r.Parts {
		p.Finish(why)
	}
}

// Report returns this end's report, or the reason why there is no result.
func (r *Run) Report(waiting string) (model.EndReport, error) {
	out := r.Meter.Report(waiting)
	var faults []error
	for _, p := range r.Parts {
		if p.Fault != nil {
			faults = append(faults, p.Fault)
		} else {
			out.Flows = append(out.Flows, p.Flow())
		}
		out.Warnings = append(out.Warnings, p.Warnings...)
	}
	return out, errors.Join(faults...)
}
