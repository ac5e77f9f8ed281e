package run

import (
	"fmt"
	"strconv"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Part is one direction at one end: its window, and the bytes moved in it. Only the sampler's
// goroutine uses it.
type Part struct {
	Direction model.Direction
	Role      model.Role
	Spec      model.Flow // with its Interval
	Datagrams bool       // they are counted too
	Endless   bool       // the window stays open until the end of the run, whatever Spec says
	Unplanned bool       // Spec plans more than is expected: a smaller amount is no fault

	// Count stores the current counters in a reading, with a place for each stream.
	Count func(*Reading)
	// Tell, if not nil, adds further samples of an interval, from Prev to Cur.
	Tell func(add Add)
	// Closed is called when the window closes; if nil, the part is then done.
	Closed func()
	// Progress, if not nil, is called after each interval.
	Progress func(at time.Duration)
	// Report, if not nil, completes this end's report of the direction.
	Report func(*model.FlowReport)

	State      State
	Open, Shut Reading // edges of the measured window
	Prev, Cur  Reading // edges of the current interval
	Fault      error   // why there is no result
	Warnings   []string
	shown      int64 // losses reported in samples
	awaited    bool  // the window was over before anything arrived
}

// Add adds a sample of the current interval; of is its stream, "" for all.
type Add func(m model.Metric, value float64, of string)

// State is a part's position in its run.
type State int

// The states.
const (
	Warming   State = iota // the omitted time
	Measuring              // the window is open
	Winding                // the window is closed: data is still in flight
	Done                   // the part is over
)

// Reading is a reading of clock and counters together.
type Reading struct {
	At        time.Duration // since the start
	Bytes     int64         // payload over all streams
	Each      []int64       // per stream
	Datagrams int64
	Missing   int64 // datagrams
}

// Set sets the payload of stream i.
func (r *Reading) Set(i int, n int64) {
	r.Each[i] = n
	r.Bytes += n
}

func (r *Reading) copyFrom(o *Reading) {
	each := r.Each
	*r = *o
	r.Each = each
	copy(each, o.Each)
}

// Prepare allocates the readings of n streams.
func (p *Part) Prepare(n int) {
	for _, r := range []*Reading{&p.Open, &p.Shut, &p.Prev, &p.Cur} {
		r.Each = make([]int64, n)
	}
}

func (p *Part) read(at time.Duration) {
	p.Cur = Reading{At: at, Each: p.Cur.Each}
	p.Count(&p.Cur)
}

// Look takes a reading and stores it as Prev.
func (p *Part) Look(at time.Duration) {
	p.read(at)
	p.Prev, p.Cur = p.Cur, p.Prev
}

// Begin takes the first reading.
func (p *Part) Begin() {
	p.Look(0)
	if p.Spec.Omit == 0 {
		p.open()
	}
}

func (p *Part) open() {
	p.State = Measuring
	p.Open.copyFrom(&p.Prev)
}

// Close ends the window at the last reading.
func (p *Part) Close() {
	p.State = Winding
	p.Shut.copyFrom(&p.Prev)
	if p.Closed == nil {
		p.State = Done
	} else {
		p.Closed()
	}
}

// step ends the current interval at time at: it adds its samples to out, and moves the part to
// its next state if that is due.
func (p *Part) step(at time.Duration, host model.Host, out []model.Sample) []model.Sample {
	if p.State < Winding && at > p.Prev.At {
		p.read(at)
		if at-p.Prev.At >= Shortest(p.Spec.Interval) {
			out = p.sample(host, out)
		}
		p.Prev, p.Cur = p.Cur, p.Prev
	}
	switch {
	case p.State == Warming && at >= p.Spec.Omit:
		p.open()
	case p.State == Measuring && p.awaited && p.Prev.Bytes > 0:
		p.awaited = false
		p.open()
	case p.State == Measuring && p.due() > 0 && at >= p.due():
		if p.awaited = !p.awaited && p.begins(); !p.awaited {
			p.Close()
		}
	}
	if p.Progress != nil {
		p.Progress(at)
	}
	return out
}

// latest is how much longer than planned a receiver waits for the first byte of a stream: by
// then TCP has retransmitted a lost segment twice (RFC 6298 section 2.1), and a busy machine
// has begun.
const latest = 3 * time.Second

// begins reports whether a short window is still without data that may arrive: then the window
// begins with the first data.
func (p *Part) begins() bool {
	return p.Role == model.Receiver && !p.Datagrams && p.Prev.Bytes == 0 && p.Spec.Duration < 2*latest
}

// sample adds the values of the interval from Prev to Cur to out.
func (p *Part) sample(host model.Host, out []model.Sample) []model.Sample {
	prev, cur := &p.Prev, &p.Cur
	length := cur.At - prev.At
	add := func(m model.Metric, v float64, of string) {
		out = append(out, model.Sample{
			Host: host, Direction: p.Direction, Metric: m, Of: of, Value: v,
			Start: prev.At, Length: length, Omitted: p.State == Warming || p.awaited,
		})
	}
	all, one := model.Goodput, model.StreamGoodput
	if p.Role == model.Sender {
		all, one = model.Sent, model.StreamSent
	}
	add(all, float64(cur.Bytes-prev.Bytes)*8/length.Seconds(), "")
	for i := 0; len(cur.Each) > 1 && i < len(cur.Each); i++ {
		add(one, float64(cur.Each[i]-prev.Each[i])*8/length.Seconds(), Stream(i))
	}
	if p.Datagrams {
		add(model.Datagrams, float64(cur.Datagrams-prev.Datagrams), "")
	}
	if p.Datagrams && p.Role == model.Receiver {
		// Late datagrams were counted as lost before: they are subtracted from later losses, so
		// that no interval has negative loss.
		lost := max(0, cur.Missing-p.shown)
		p.shown += lost
		add(model.Lost, float64(lost), "")
	}
	if p.Tell != nil {
		p.Tell(add)
	}
	return out
}

// Stream returns the name of stream i in samples.
func Stream(i int) string { return strconv.Itoa(i + 1) }

// due returns when the open window closes by itself; 0 is never.
func (p *Part) due() time.Duration {
	if p.Endless || p.Spec.Duration == 0 {
		return 0
	}
	if p.awaited {
		return p.Open.At + p.Spec.Duration + latest
	}
	return p.Open.At + p.Spec.Duration
}

// next returns the end of the interval that begins after the planned time.
func (p *Part) next(planned time.Duration) time.Duration {
	if p.State == Warming {
		return min(Whole(planned, p.Spec.Interval), p.Spec.Omit)
	}
	after := p.Open.At + Whole(planned-p.Open.At, p.Spec.Interval)
	if due := p.due(); due > 0 {
		return min(after, due)
	}
	return after
}

// Finish ends the part, whatever its state, at the last reading, with the reason why. It
// reports a deviation from the plan as a warning, or in Fault.
func (p *Part) Finish(why string) {
	switch p.State {
	case Done:
		return
	case Warming:
		p.Fault = fmt.Errorf("%s %s: %s after %v, before the measured window", p.Direction, p.Role, why, round(p.Prev.At))
	case Measuring:
		p.complain(why)
	case Winding:
	}
	if p.State < Winding {
		p.Close()
	}
	p.State = Done
}

// complain compares the run with the plan. A sender may be stopped a little early, because its
// start differs from the receiver's: the receiver's window counts. Below 90 % a run is invalid
// (statistics.md section 1 rule 5).
func (p *Part) complain(why string) {
	lasted, moved := p.Prev.At-p.Open.At, p.Prev.Bytes-p.Open.Bytes
	missing := p.Spec.Duration > lasted
	if p.Role == model.Sender {
		missing = p.Spec.Duration*9/10 > lasted
	}
	unit := "byte"
	if p.Datagrams {
		unit = "datagram"
	}
	if p.Spec.Bytes != 0 {
		// Only the sender knows how many datagrams the bytes take.
		missing = moved < int64(p.Spec.Bytes) || p.Datagrams && p.Role == model.Receiver
	}
	switch {
	case !missing || p.Unplanned && moved != 0:
	case moved == 0:
		p.Fault = fmt.Errorf("%s %s: %s after %v without a %s", p.Direction, p.Role, why, round(lasted), unit)
	case p.Spec.Bytes != 0:
		p.Warn("%s after %d of %d bytes", why, moved, p.Spec.Bytes)
	default:
		p.Warn("%s after %v of %v", why, round(lasted), p.Spec.Duration)
	}
}

// Warn adds a warning about the direction.
func (p *Part) Warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf("%s %s: ", p.Direction, p.Role)+fmt.Sprintf(format, args...))
}

// round rounds a time for a sentence.
func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// Flow returns this end's report of the direction.
func (p *Part) Flow() model.FlowReport {
	r := model.FlowReport{Direction: p.Direction, Role: p.Role, Window: p.Shut.At - p.Open.At}
	for i := range p.Shut.Each {
		n := units.Bytes(p.Shut.Each[i] - p.Open.Each[i])
		r.Streams = append(r.Streams, n)
		r.Bytes += n
	}
	if p.Report != nil {
		p.Report(&r)
	}
	return r
}
