package loaded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/run"
	"linerate/internal/panics"
)

// test is one end of one run. It is measured when this end of the load has measured and the
// near end has all its answers.
type test struct {
	*engine.Life
	engine   *Engine
	host     model.Host
	spec     model.Flow
	link     units.BitRate // rate of the link, 0 if unknown
	egress   model.Egress  // of the trace
	cookie   [cookieSize]byte
	tcp      *net.TCPConn
	udp      *net.UDPConn // nil if there is none
	load     engine.Test
	warnings []string

	arrived atomic.Uint64 // bits of the load that this end has received
	over    atomic.Bool   // reading and writing has ended
}

func newTest(e *Engine, env engine.Env, f model.Flow) *test {
	return &test{
		Life: engine.NewLife(), engine: e, host: env.Host, spec: f, link: env.LinkRate.Or(0), egress: env.Egress,
	}
}

// Close implements engine.Test. It waits for Run.
func (t *test) Close() error {
	return t.End(func() error {
		var errs []error
		if t.tcp != nil {
			errs = append(errs, closed(t.tcp.Close()))
		}
		if t.udp != nil {
			errs = append(errs, closed(t.udp.Close()))
		}
		if t.load != nil {
			errs = append(errs, t.load.Close())
		}
		return errors.Join(errs...)
	})
}

// wake ends the calls on the probes' connections.
func (t *test) wake() {
	// They fail only on closed connections, on which nothing waits.
	_ = t.tcp.SetDeadline(past)
	if t.udp != nil {
		_ = t.udp.SetDeadline(past)
	}
}

// Run implements engine.Test. It may be called once.
func (t *test) Run(ctx context.Context, emit func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := t.Begin(ctx)
	if err != nil {
		return model.EndReport{}, err
	}
	defer end(&err)
	r := &course{test: t, Meter: run.Meter{Host: t.host, Spec: t.spec, Emit: emit, Start: time.Now()}}
	if t.host == model.Near {
		return r.near(ctx)
	}
	return r.far(ctx)
}

// course is one end's running test.
type course struct {
	run.Meter
	*test
	samples  chan []model.Sample // of the load; nil before and after it
	outcome  chan outcome        // of the load; nil before it
	began    time.Duration       // start of the load
	finished bool                // the load has ended
	result   outcome
	probed   bool // the near end has its answers
	trace    *trace
}

// outcome is what the load's Run returned.
type outcome struct {
	report model.EndReport
	err    error
}

// loadMeasured returns a channel that is closed when the load has measured; nil before it
// began.
func (r *course) loadMeasured() <-chan struct{} {
	if r.outcome == nil {
		return nil
	}
	return r.load.Measured()
}

// begin starts the load.
func (r *course) begin(ctx context.Context) {
	r.began = r.Now()
	r.trace.loads(r.spec)
	// A few batches are buffered, so that the load need not wait.
	samples, done := make(chan []model.Sample, 16), make(chan outcome, 1)
	r.samples, r.outcome = samples, done
	go func() {
		var o outcome
		o.err = panics.Call(func() (err error) {
			o.report, err = r.load.Run(ctx, func(s []model.Sample) {
				samples <- append([]model.Sample(nil), s...)
			})
			return err
		})
		close(samples)
		done <- o
	}()
}

// pass emits samples of the load on this engine's clock. A closed channel ends the load.
func (r *course) pass(s []model.Sample, more bool) {
	if !more {
		r.samples = nil
		r.result = <-r.outcome
		r.finished = true
		return
	}
	for i := range s {
		if s[i].Metric == model.Goodput && s[i].Host == r.host {
			r.arrived.Add(uint64(s[i].Value * s[i].Length.Seconds()))
		}
		if s[i].Metric == model.Sent && s[i].Host == r.host {
			r.trace.sent(s[i].Value, s[i].Length)
		}
		s[i].Start += r.began
	}
	r.Emit(s)
}

// drain waits for the end of a stopped load.
func (r *course) drain() {
	for r.samples != nil {
		s, more := <-r.samples
		r.pass(s, more)
	}
}

// far runs the end that returns the probes.
func (r *course) far(ctx context.Context) (model.EndReport, error) {
	r.Start = time.Now()
	r.trace = r.startTrace(ctx)
	e := newEcho(r.test)
	if err := e.begin(); err != nil {
		return model.EndReport{}, err
	}
	defer e.finish()
	if err := r.awaitLoad(ctx, e); err != nil {
		return model.EndReport{}, err
	}
	r.begin(ctx)
	r.followFar(ctx, e)
	r.drain()
	out := r.result.report
	out.Warnings = append(append([]string(nil), r.warnings...), out.Warnings...)
	out.Trace = r.trace.report(ctx)
	return out, r.result.err
}

// awaitLoad waits until the near end requests the load.
func (r *course) awaitLoad(ctx context.Context, e *echo) error {
	limit := time.NewTimer(r.spec.Lead + r.engine.grace)
	defer limit.Stop()
	var err error
	select {
	case <-e.load:
		return nil
	case <-e.end:
		err = errors.New("the near end wants no load")
	case <-e.gone:
		err = fmt.Errorf("%w: %w", errGone, e.reason)
	case <-limit.C:
		err = errors.New("no word of the near end")
	case <-r.Stopping():
		err = errStopped
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return fmt.Errorf("probe without load: %w", err)
}

// errStopped reports that the run was stopped before it had a result.
var errStopped = errors.New("stopped")

// followFar passes on the load's samples until it is over and the near end has its answers.
func (r *course) followFar(ctx context.Context, e *echo) {
	end, gone, stop := e.end, e.gone, r.Stopping()
	late := time.NewTimer(0)
	defer late.Stop()
	<-late.C
	measured := false
	for !r.finished || !r.probed {
		if measured && r.probed {
			r.Complete()
		}
		loadMeasured := r.loadMeasured()
		if measured {
			loadMeasured = nil
		}
		select {
		case s, more := <-r.samples:
			if r.pass(s, more); r.finished {
				late.Reset(r.engine.patience + r.engine.grace)
			}
		case <-loadMeasured:
			measured = true
		case <-end:
			end, r.probed = nil, true
		case <-gone:
			gone = nil
			select {
			case <-e.end: // both are closed: the end came first
				r.probed = true
			default:
			}
			if !r.probed {
				r.probed = true
				r.warnings = append(r.warnings, fmt.Sprintf("the near end went away before it had probed everything: %v", e.reason))
				r.load.Stop()
			}
		case <-late.C:
			r.probed = true
			r.warnings = append(r.warnings, "the near end did not say that it had probed everything")
		case <-stop:
			stop, r.probed = nil, true
			r.load.Stop()
		case <-ctx.Done(): // the load ends by itself
			r.probed = true
			r.drain()
		}
	}
}
