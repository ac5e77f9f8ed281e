package tcpbulk

import (
	"errors"
	"io"
	"os"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/measure/run"
	"linerate/internal/measure/tcpinfo"
)

// flow is one direction at one end: its streams, and the sampler's data. Only the sampler's
// goroutine uses it.
type flow struct {
	run.Part
	pace    float64 // bytes a second per stream; 0 is as fast as possible
	streams []*stream
	work    *work

	prev, cur []tcpinfo.Info // sender: of each stream, at the last two readings
	sums      sums           // sender: over the measured window
	belief    belief         // sender: of bbr
}

func newFlow(d model.Direction, role model.Role, spec model.Flow) *flow {
	// A sender's window ends with the receiver's.
	f := &flow{Part: run.Part{Direction: d, Role: role, Spec: spec, Endless: role == model.Sender}}
	f.Count, f.Report = f.count, f.report
	return f
}

// prepare allocates everything that the run needs.
func (f *flow) prepare() {
	n := len(f.streams)
	f.work = newWork(f.Role, f.streams, f.Spec)
	f.work.pace = f.pace
	f.Prepare(n)
	if f.Role == model.Sender {
		f.Tell = f.tell
		f.prev, f.cur = make([]tcpinfo.Info, n), make([]tcpinfo.Info, n)
		f.sums.prepare(f.Spec, n)
		f.belief.prepare(f.Spec, f.streams)
	}
}

// count reads the counters first, because they belong to the time of the reading, then the
// kernel's statistics.
func (f *flow) count(r *run.Reading) {
	for i, s := range f.streams {
		r.Set(i, s.count.Load())
	}
	if f.Role != model.Sender || f.sums.reason != "" {
		return
	}
	f.prev, f.cur = f.cur, f.prev
	for i, s := range f.streams {
		info, err := s.info(f.State == run.Measuring)
		if err != nil {
			f.sums.reason = err.Error()
			return
		}
		f.cur[i] = info
	}
	if f.State == run.Measuring {
		f.sums.add(f.prev, f.cur)
		f.belief.read(f.streams)
	}
}

// ending returns why the streams ended, once all workers have ended.
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

// losses warns of streams that ended inside the window while others continued. The receiver may
// also end a sender's streams: once its window is complete it resets them one after the other,
// see run.Part.
func (f *flow) losses() {
	if f.Spec.Bytes != 0 {
		return // Finish checks the bytes
	}
	end := f.Shut.At
	if f.Role == model.Sender {
		end = min(end, f.Open.At+f.Spec.Duration*9/10)
	}
	lost := 0
	var reason error
	for _, s := range f.streams {
		if s.reason != nil && s.last.Load() < int64(end) && (!f.Unplanned || !errors.Is(s.reason, io.EOF)) {
			lost, reason = lost+1, s.reason
		}
	}
	if lost > 0 && lost < len(f.streams) {
		f.Warn("%d of %d streams ended early: %v", lost, len(f.streams), reason)
	}
}

// progress returns a number that grows while payload moves: what was received, or has left the
// send buffer.
func (f *flow) progress() int64 {
	n := f.Prev.Bytes
	for i := range f.cur {
		n -= int64(f.cur[i].NotSent.Or(0))
	}
	return n
}

// report completes this end's report of the direction.
func (f *flow) report(r *model.FlowReport) {
	f.losses()
	if f.Role == model.Receiver && f.Spec.Bytes != 0 {
		r.Window = f.arrival()
	}
	r.Uncopied = f.work.discard != 0 || f.work.file >= 0
	if f.Role == model.Sender {
		r.TCP, r.Subflows = f.summary(), f.paths()
	}
}

// arrival returns the time from the first byte of any stream to the end of the last.
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

// close closes the connections.
func (f *flow) close() error {
	errs := lists.Each(f.streams, func(s *stream) error { return s.link.close() })
	if f.work != nil && f.work.file >= 0 {
		errs = append(errs, os.NewFile(uintptr(f.work.file), "payload").Close())
		f.work.file = -1
	}
	return errors.Join(errs...)
}
