package udpflow

import (
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/model"
)

// begin takes the first reading.
func (f *flow) begin() {
	f.read(0)
	f.prev.copyFrom(&f.cur)
	if f.spec.Omit == 0 {
		f.openWindow()
	}
}

func (f *flow) openWindow() {
	f.state = measuring
	f.open.copyFrom(&f.prev)
}

// closeWindow ends the window at the last reading.
func (f *flow) closeWindow() {
	f.state = winding
	f.shut.copyFrom(&f.prev)
	f.answering.Store(true)
}

// step ends the present interval at time at: it adds its samples to out, and
// moves the flow on where that is due.
func (f *flow) step(at time.Duration, host model.Host, out []model.Sample) []model.Sample {
	if f.state < winding && at > f.prev.at {
		f.read(at)
		// A very short interval at an edge says nothing about rates; its bytes count all the same.
		if at-f.prev.at >= f.shortest() {
			out = f.samples(host, out)
		}
		f.prev, f.cur = f.cur, f.prev
	}
	switch {
	case f.state == warming && at >= f.spec.Omit:
		f.openWindow()
	case f.state == measuring && f.due() > 0 && at >= f.due():
		f.closeWindow()
	}
	f.progress(at)
	return out
}

// progress moves the flow on where its streams say so.
func (f *flow) progress(at time.Duration) {
	switch {
	case f.state == closed || f.halted: // who halted it knows why
	case f.threadsOver():
		f.finish(f.ending())
	case f.role == model.Sender:
	case f.told(at):
		if f.state < winding {
			if f.early() {
				f.finish("the peer ended it")
				return
			}
			f.closeWindow()
		}
		f.state = closed
	case f.state == winding && at-f.shut.at > f.bounds.linger:
		if f.prev.count == 0 && !f.heard() {
			f.fault = fmt.Errorf("%s receiver: no datagram came: something on the way lets none through", f.direction)
		}
		f.state = closed
	case f.state < winding && f.quietFor(at) > f.bounds.silence:
		f.finish(fmt.Sprintf("nothing came for %v", f.bounds.silence))
	}
}

func (f *flow) threadsOver() bool {
	for _, s := range f.out {
		if !s.over.Load() {
			return false
		}
	}
	return !slices.ContainsFunc(f.in, func(s *inbound) bool { return !s.over.Load() })
}

// told reports whether the receiver has the counts of all streams, and all of
// their datagrams or no more patience for the late ones. Before the window is
// over that matters only where the sender ended before its plan.
func (f *flow) told(at time.Duration) bool {
	for _, s := range f.in {
		told := time.Duration(s.told.Load())
		switch {
		case told == 0:
			return false
		case f.state < winding && f.spec.Bytes == 0 && !s.early.Load():
			return false
		case !s.complete.Load() && at-max(told, f.shut.at) < f.bounds.drain:
			return false
		}
	}
	return f.role == model.Receiver
}

// early reports whether a sender ended before its plan.
func (f *flow) early() bool {
	return slices.ContainsFunc(f.in, func(s *inbound) bool { return s.early.Load() })
}

// heard reports whether anything ever came.
func (f *flow) heard() bool {
	return slices.ContainsFunc(f.in, func(s *inbound) bool { return s.heard.Load() != 0 })
}

// quietFor returns how long nothing came on any stream.
func (f *flow) quietFor(at time.Duration) time.Duration {
	least := at
	for _, s := range f.in {
		least = min(least, s.quietFor(at))
	}
	return least
}

// done reports whether the flow has nothing more to wait for.
func (f *flow) done() bool { return f.state == closed }

// due is when the open window closes by itself; 0 is never.
func (f *flow) due() time.Duration {
	if f.spec.Duration == 0 {
		return 0
	}
	return f.open.at + f.spec.Duration
}

// How often the sampler looks at what ends without being due: within the
// window, and behind it, when that is all it waits for.
const (
	lookNow  = 2 * time.Millisecond
	lookThen = 20 * time.Millisecond
)

// next is when the interval that begins after the planned time ends.
func (f *flow) next(planned time.Duration) time.Duration {
	switch {
	case f.state == warming:
		return min(f.whole(planned), f.spec.Omit)
	case f.state == measuring && f.due() > 0:
		return min(f.after(planned), f.due())
	}
	return f.after(planned)
}

// after is the next whole interval since the window opened after planned.
func (f *flow) after(planned time.Duration) time.Duration {
	return f.open.at + f.whole(planned-f.open.at)
}

// whole is the next multiple of the interval after t, or the one after that
// where a sampler that woke up late would leave a very short one.
func (f *flow) whole(t time.Duration) time.Duration {
	return ((t+f.shortest())/f.spec.Interval + 1) * f.spec.Interval
}

// shortest is the length below which an interval is too short for a rate.
func (f *flow) shortest() time.Duration { return f.spec.Interval / 10 }

// finish ends the flow, whatever its state, for the reason why. It says in a
// warning, or in f.fault, what is missing from the plan.
func (f *flow) finish(why string) {
	switch f.state {
	case closed:
		return
	case warming:
		f.fault = fmt.Errorf("%s %s: %s after %v, before the measured window", f.direction, f.role, why, round(f.prev.at))
	case measuring:
		f.complain(why)
	case winding:
	}
	if f.state < winding {
		f.closeWindow()
	}
	f.state = closed
}

// complain compares what was done with the plan. A sender may be stopped a
// little early, because its start is not the receiver's.
func (f *flow) complain(why string) {
	lasted, moved := f.prev.at-f.open.at, f.prev.bytes-f.open.bytes
	missing := f.spec.Duration > lasted
	if f.role == model.Sender {
		missing = f.spec.Duration*9/10 > lasted
	}
	if f.spec.Bytes != 0 {
		missing = f.role == model.Receiver || f.prev.bytes < int64(f.spec.Bytes)
	}
	switch {
	case !missing:
	case moved == 0:
		f.fault = fmt.Errorf("%s %s: %s after %v without a datagram", f.direction, f.role, why, round(lasted))
	case f.spec.Bytes != 0:
		f.warn("%s after %d of %d bytes", why, moved, f.spec.Bytes)
	default:
		f.warn("%s after %v of %v", why, round(lasted), f.spec.Duration)
	}
}

func (f *flow) warn(format string, args ...any) {
	f.warnings = append(f.warnings, fmt.Sprintf("%s %s: ", f.direction, f.role)+fmt.Sprintf(format, args...))
}

// round makes a time fit for a sentence.
func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// ending says why the streams ended, once all threads have.
func (f *flow) ending() string {
	for _, s := range f.out {
		if s.reason != nil {
			return s.reason.Error()
		}
	}
	for _, s := range f.in {
		if s.reason != nil {
			return s.reason.Error()
		}
	}
	return "stopped"
}
