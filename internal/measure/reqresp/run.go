package reqresp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/goruntime"
	"linerate/internal/measure/run"
	"linerate/internal/panics"
)

// test is one end of one run. It is measured when this end has asked and answered everything,
// or ended early.
type test struct {
	*engine.Life
	engine    *Engine
	waiter    waiter
	host      model.Host
	spec      spec      // zero fields filled in
	asking    *asker    // nil if this end does not ask
	answering *answerer // nil if it does not answer
	warnings  []string
}

// Close implements engine.Test. It waits for Run.
func (t *test) Close() error {
	return t.End(func() error {
		var errs []error
		if t.asking != nil {
			errs = append(errs, t.asking.close())
		}
		if t.answering != nil {
			errs = append(errs, t.answering.close())
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
	ends := 0
	for _, there := range []bool{t.asking != nil, t.answering != nil} {
		if there {
			ends++
		}
	}
	begin := goruntime.Begin
	if t.spec.Requests.Connect {
		begin = goruntime.Room // the runtime's own connections produce garbage
	}
	hold := begin(t.waiter.threads(ends * t.spec.Streams))
	defer hold.End()
	r := &course{test: t, Meter: run.Meter{Host: t.host, Spec: t.spec.Flow, Emit: emit, Hold: hold, Warnings: t.warnings}}
	if err := r.launch(ctx); err != nil {
		r.halt()
		return model.EndReport{}, err
	}
	r.loop(ctx)
	return r.report()
}

// course is the sampler of one test.
type course struct {
	run.Meter
	*test

	phase  phase           // of the asking
	window time.Duration   // measured
	ended  <-chan struct{} // closed when the workers have ended
	asked  <-chan struct{} // ended, until handled; nil if this end does not ask
	cut    string          // reason for an early end of asking

	marks    <-chan mark // of the asking peer; nil if this end does not answer, or no longer
	closing  mark        // its last mark
	answered bool        // nothing more is to be answered
	lost     string      // reason for an early end of the peer's asking
	limit    time.Duration
}

// phase is an asking end's position in its run.
type phase int

const (
	warming   phase = iota // the omitted time
	measuring              // the window is open
	draining               // waiting for unanswered requests
	over
)

// launch starts to answer, waits until the peer is ready, and starts to ask.
func (r *course) launch(ctx context.Context) error {
	r.StartClock()
	r.phase, r.answered = over, true
	if a := r.answering; a != nil {
		a.fail = r.Fail
		if err := a.begin(); err != nil {
			return err
		}
		r.marks, r.answered = a.marks, false
	}
	if a := r.asking; a != nil {
		if err := r.await(ctx); err != nil {
			// The peer may have begun, and would wait for the end.
			_ = a.channel.write(mark{kind: markClose})
			return fmt.Errorf("wait for the answering end %s: %w", a.direction, err)
		}
		a.fail = r.Fail
		a.begin()
		r.StartClock()
		a.start = r.Start
		ended := make(chan struct{})
		r.ended, r.asked, r.phase = ended, ended, warming
		close(a.release)
		go func() {
			a.running.Wait()
			close(ended)
		}()
	}
	// The peer's clock began up to a grace later, and it may wait for answers.
	r.limit = r.spec.Omit + r.spec.Duration + r.engine.patience + 2*r.engine.grace
	return nil
}

// await waits for the answering end to be ready.
func (r *course) await(ctx context.Context) error {
	c := r.asking.channel
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go panics.From(r.Fail, func() {
		select {
		case <-r.Stopping():
			cancel(errStopped)
		case <-done:
		}
	})()
	return c.bounded(ctx, r.engine.grace, func() error {
		m, err := c.readMark(r.spec.Duration)
		if err == nil && m.kind != markReady {
			err = fmt.Errorf("mark %q instead", byte(m.kind))
		}
		return err
	})
}

// loop samples until both halves are over.
func (r *course) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for r.phase != over || !r.answered {
		timer.Reset(time.Until(r.Start.Add(r.next())))
		select {
		case <-timer.C:
			r.tick()
		case <-r.asked:
			r.asked = nil
			// After the last scheduled request the window is still open for a while.
			switch why := r.asking.ending(); {
			case why != "" && ctx.Err() != nil: // the other end was told to end first
				r.finishAsking(context.Cause(ctx).Error())
			case why != "" || r.phase == draining:
				r.finishAsking(why)
			}
		case m, more := <-r.marks:
			r.hear(m, more)
		case <-r.Stopping():
			r.finish(errStopped.Error())
		case <-ctx.Done():
			r.finish(context.Cause(ctx).Error())
		}
	}
}

// next returns when the sampler has to wake up.
func (r *course) next() time.Duration {
	next := r.Next()
	switch r.phase {
	case warming:
		next = min(next, r.spec.Omit)
	case measuring:
		next = min(next, r.shut())
	case draining:
		next = min(next, r.shut()+r.engine.patience)
	case over:
	}
	return next
}

// shut returns when the window closes.
func (r *course) shut() time.Duration { return r.spec.Omit + r.spec.Duration }

// tick ends an interval, a phase, or a wait that took too long.
func (r *course) tick() {
	at := r.Now()
	if at >= r.next() {
		r.sample(at)
	}
	switch {
	case r.phase == warming && at >= r.spec.Omit:
		r.phase = measuring
		r.Open()
		// The workers notice a peer that is gone.
		_ = r.asking.channel.write(mark{kind: markOpen})
	case r.phase == measuring && at >= r.shut():
		r.phase, r.window = draining, r.spec.Duration
		r.Shut()
		if r.asked == nil {
			r.finishAsking("")
		}
	case r.phase == draining && at >= r.shut()+r.engine.patience:
		r.asking.expired.Store(true)
		r.asking.halt()
		r.finishAsking("")
	}
	if !r.answered && at > r.limit {
		r.finishAnswering(fmt.Sprintf("no word of the asking end within %v", r.limit))
	}
	r.LookAtHeap()
}

// finishAsking ends the asking half: its workers have ended or been stopped. why is the reason
// for an early end.
func (r *course) finishAsking(why string) {
	<-r.ended
	r.asked = nil
	if r.phase < draining {
		at := r.Now()
		r.cut = why
		r.sample(at)
		r.window = max(0, at-r.spec.Omit)
		r.Shut()
	}
	r.phase = over
	// If it fails the answering end is gone, and needs no mark.
	_ = r.asking.channel.write(mark{kind: markClose, window: min(r.window, r.spec.Duration)})
}

// hear handles a mark of the asking peer.
func (r *course) hear(m mark, more bool) {
	switch {
	case !more && r.answering.broken != nil:
		r.finishAnswering(r.answering.broken.Error())
	case !more:
		r.finishAnswering("the asking end went away")
	case m.kind == markOpen && r.asking == nil:
		r.Open()
	case m.kind == markClose:
		r.closing = m
		r.finishAnswering("")
	}
}

// finishAnswering ends the answering half; why is the reason for an early end.
func (r *course) finishAnswering(why string) {
	r.answering.halt()
	r.marks, r.answered, r.lost = nil, true, why
	if r.asking == nil {
		r.Shut()
	}
}

// finish ends both halves, with the reason why.
func (r *course) finish(why string) {
	if r.phase != over {
		r.asking.halt()
		r.finishAsking(why)
	}
	if !r.answered {
		r.finishAnswering(why)
	}
}

// halt stops what launch began before it failed.
func (r *course) halt() {
	if r.answering != nil {
		r.answering.halt()
	}
}
