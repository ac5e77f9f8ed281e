package tcpbulk

import (
	"errors"
	"fmt"
	"io"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/tcpinfo"
)

// flow is one direction at one end: its streams, and what the sampler knows.
// Only the sampler's goroutine uses it.
type flow struct {
	direction model.Direction
	role      model.Role
	spec      model.Flow
	pace      float64 // bytes a second of each stream; 0 is as fast as possible
	streams   []*stream
	work      *work

	state      state
	open, shut snapshot // edges of the measured window
	prev, cur  snapshot // edges of the present interval
	sums       sums     // sender: over the measured window
	fault      error    // why there is no result
	warnings   []string
}

// state says where a flow is in its run.
type state int

const (
	warming   state = iota // the omitted time
	measuring              // the window is open
	closed                 // the window is closed
)

// snapshot is a reading of clock and counters together.
type snapshot struct {
	at    time.Duration // since the start
	total int64         // bytes over all streams
	bytes []int64       // per stream
	info  []tcpinfo.Info
}

func newSnapshot(role model.Role, n int) snapshot {
	s := snapshot{bytes: make([]int64, n)}
	if role == model.Sender {
		s.info = make([]tcpinfo.Info, n)
	}
	return s
}

func (s *snapshot) copyFrom(o *snapshot) {
	s.at, s.total = o.at, o.total
	copy(s.bytes, o.bytes)
	copy(s.info, o.info)
}

func newFlow(d model.Direction, role model.Role, spec model.Flow) *flow {
	return &flow{direction: d, role: role, spec: spec}
}

// prepare makes everything that the run will need.
func (f *flow) prepare() {
	n := len(f.streams)
	f.work = newWork(f.role, f.streams, f.spec)
	f.work.pace = f.pace
	f.open, f.shut = newSnapshot(f.role, n), newSnapshot(f.role, n)
	f.prev, f.cur = newSnapshot(f.role, n), newSnapshot(f.role, n)
	if f.role == model.Sender {
		f.sums.prepare(f.spec, n)
	}
}

// read takes a snapshot at time at into f.cur: counters first, because they
// belong to the time, then what the kernel says.
func (f *flow) read(at time.Duration) {
	f.cur.at, f.cur.total = at, 0
	for i, s := range f.streams {
		n := s.count.Load()
		f.cur.bytes[i] = n
		f.cur.total += n
	}
	if f.role != model.Sender || f.sums.reason != "" {
		return
	}
	for i, s := range f.streams {
		info, err := s.link.info()
		if err != nil {
			f.sums.reason = err.Error()
			return
		}
		f.cur.info[i] = info
	}
}

// begin takes the first snapshot.
func (f *flow) begin() {
	f.read(0)
	f.prev.copyFrom(&f.cur)
	if f.spec.Omit == 0 {
		f.openWindow()
	}
}

func (f *flow) openWindow() {
	f.state = measuring
	f.open.copyFrom(&f.cur)
}

// step ends the present interval at time at: it adds its samples to out, and
// opens or closes the window where that is due.
func (f *flow) step(at time.Duration, host model.Host, out []model.Sample) []model.Sample {
	if f.done() {
		return out
	}
	f.read(at)
	length := f.cur.at - f.prev.at
	if length <= 0 {
		return out
	}
	if f.state == measuring && f.role == model.Sender {
		f.sums.add(&f.prev, &f.cur)
	}
	// A very short interval at an edge says nothing about rates; its bytes count all the same.
	if length >= f.shortest() {
		out = f.samples(host, out)
	}
	f.prev, f.cur = f.cur, f.prev
	f.cur.copyFrom(&f.prev)
	switch {
	case f.state == warming && at >= f.spec.Omit:
		f.openWindow()
	case f.state == measuring && f.due() > 0 && at >= f.due():
		f.closeWindow()
	}
	return out
}

// done reports whether the flow has nothing more to measure.
func (f *flow) done() bool { return f.state == closed }

// due is when the open window closes by itself; 0 is never.
func (f *flow) due() time.Duration {
	if f.role == model.Sender || f.spec.Duration == 0 {
		return 0
	}
	return f.open.at + f.spec.Duration
}

// next is when the interval that begins after the planned time ends.
func (f *flow) next(planned time.Duration) time.Duration {
	switch {
	case f.state == warming:
		return min(f.whole(planned), f.spec.Omit)
	case f.due() > 0:
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

// closeWindow ends the window at the last snapshot.
func (f *flow) closeWindow() {
	f.state = closed
	f.shut.copyFrom(&f.prev)
}

// finish ends the flow, whatever its state, at the last snapshot, for the
// reason why. It says in a warning, or in f.fault, what is missing from the plan.
func (f *flow) finish(why string) {
	switch f.state {
	case closed:
		return
	case warming:
		f.fault = fmt.Errorf("%s %s: %s after %v, before the measured window", f.direction, f.role, why, round(f.prev.at))
	case measuring:
		f.complain(why)
	}
	f.closeWindow()
}

// complain compares what was done with the plan. A sender may be stopped a
// little early, because its start is not the receiver's: the receiver's window
// is the truth. Below 90 % a run is invalid (statistics.md section 1 rule 5).
func (f *flow) complain(why string) {
	lasted, moved := f.prev.at-f.open.at, f.prev.total-f.open.total
	missing := f.spec.Duration > lasted
	if f.role == model.Sender {
		missing = f.spec.Duration*9/10 > lasted
	}
	if f.spec.Bytes != 0 {
		missing = f.prev.total < int64(f.spec.Bytes)
	}
	switch {
	case !missing:
	case moved == 0:
		f.fault = fmt.Errorf("%s %s: %s after %v without a byte", f.direction, f.role, why, round(lasted))
	case f.spec.Bytes != 0:
		f.warn("%s after %d of %d bytes", why, f.prev.total, f.spec.Bytes)
	default:
		f.warn("%s after %v of %v", why, round(lasted), f.spec.Duration)
	}
}

func (f *flow) warn(format string, args ...any) {
	f.warnings = append(f.warnings, fmt.Sprintf("%s %s: ", f.direction, f.role)+fmt.Sprintf(format, args...))
}

// round makes a time fit for a sentence.
func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// ending says why the streams ended, once all workers have.
func (f *flow) ending() string {
	peers := 0
	for _, s := range f.streams {
		switch {
		case s.reason == nil:
		case errors.Is(s.reason, io.EOF):
			peers++
		default:
			return s.reason.Error()
		}
	}
	if peers > 0 {
		return "the peer ended it"
	}
	return "stopped"
}

// losses warns of streams that ended inside the window while others went on.
// A sender's streams may also be ended by the receiver, which resets them one
// after the other once its window is complete: see complain.
func (f *flow) losses() {
	if f.spec.Bytes != 0 {
		return // complain has counted
	}
	end := f.shut.at
	if f.role == model.Sender {
		end = min(end, f.open.at+f.spec.Duration*9/10)
	}
	lost := 0
	var reason error
	for _, s := range f.streams {
		if s.reason != nil && s.last.Load() < int64(end) {
			lost, reason = lost+1, s.reason
		}
	}
	if lost > 0 && lost < len(f.streams) {
		f.warn("%d of %d streams ended early: %v", lost, len(f.streams), reason)
	}
}

// progress is a number that grows while payload moves: what has been received,
// or has left the send buffer.
func (f *flow) progress() int64 {
	n := f.prev.total
	for i := range f.prev.info {
		n -= int64(f.prev.info[i].NotSent.Or(0))
	}
	return n
}

// report is what this end says of the direction.
func (f *flow) report() model.FlowReport {
	r := model.FlowReport{Direction: f.direction, Role: f.role, Window: f.shut.at - f.open.at}
	if f.role == model.Receiver && f.spec.Bytes != 0 {
		r.Window = f.arrival()
	}
	for i := range f.streams {
		n := units.Bytes(f.shut.bytes[i] - f.open.bytes[i])
		r.Streams = append(r.Streams, n)
		r.Bytes += n
	}
	if f.role == model.Sender {
		r.TCP = f.summary()
	}
	return r
}

// arrival is the time from the first byte of any stream to the end of the last.
func (f *flow) arrival() time.Duration {
	first, last := int64(-1), int64(0)
	for _, s := range f.streams {
		if t := s.first.Load(); t > 0 && (first < 0 || t < first) {
			first = t
		}
		last = max(last, s.last.Load())
	}
	if first < 0 {
		return 0
	}
	return time.Duration(last - first)
}

// close frees the connections.
func (f *flow) close() error {
	var errs []error
	for _, s := range f.streams {
		errs = append(errs, s.link.close())
	}
	return errors.Join(errs...)
}
