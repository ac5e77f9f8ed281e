package series

import (
	"math"
	"slices"
	"time"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/packets"
)

// The names of a look's runs in its session.
const (
	Probes = "probes" // datagrams at a low rate: round trip without load, loss
	Bulk   = "bulk"   // as much as the path carries
	// Packets are runs that find the largest packet that passes, and whether ECN marks arrive.
	Packets = packets.Name
)

// Stream is a monitored number of a path.
type Stream struct {
	Metric    model.Metric
	Direction model.Direction
}

// Part returns the name of the runs that measure it.
func (s Stream) Part() string {
	switch s.Metric {
	case model.Goodput:
		return Bulk
	case packets.Passes, packets.Marks:
		return Packets
	default:
		return Probes
	}
}

// Name returns the display name on the path to an end: "goodput from nas".
func (s Stream) Name(end string) string {
	switch s.Metric {
	case model.IdleP50:
		return "round trip to " + end
	case packets.Passes:
		return "largest packet " + string(s.Direction) + " " + end
	case packets.Marks:
		return "share of ECN marks that arrive " + string(s.Direction) + " " + end
	default:
		return metric.Name(s.Metric) + " " + string(s.Direction) + " " + end
	}
}

// Streams returns all monitored streams in the order of display. A round trip is the same from
// either end.
func Streams() []Stream {
	return []Stream{{model.Goodput, model.To}, {model.Goodput, model.From}, {model.IdleP50, model.To}, {model.LossRatio, model.To}, {model.LossRatio, model.From}}
}

const (
	// shortTrip is added to every round trip, because relative changes of the hosts' own delay
	// are not significant (p).
	shortTrip = 0.001
	// lossStep is the loss that counts like a tenth less goodput (fleet.md section 6.1).
	lossStep = 0.001
	tenth    = 0.0953101798 // ln 1.1
)

// number converts a value of s to a scale on which equal steps have equal weight; more is
// worse.
func (s Stream) number(v float64) float64 {
	if s.Metric == model.Goodput {
		return -math.Log(max(v, 1))
	}
	switch s.Metric {
	case model.LossRatio:
		return v / lossStep * tenth
	case packets.Passes, packets.Marks:
		return -v
	default:
		return math.Log(v + shortTrip)
	}
}

// Value converts a number back to the value.
func (s Stream) Value(y float64) float64 {
	if s.Metric == model.Goodput {
		return math.Exp(-y)
	}
	switch s.Metric {
	case model.LossRatio:
		return max(0, y*lossStep/tenth)
	case packets.Passes, packets.Marks:
		return max(0, -y)
	default:
		return max(0, math.Exp(y)-shortTrip)
	}
}

// Numbers returns the numbers of s in runs, in order. A run in which nothing arrived counts as
// no goodput and full loss.
func (s Stream) Numbers(runs []model.Run) (y []float64) {
	for _, r := range runs {
		if r.Setting != s.Part() || r.Flow.Direction != s.Direction {
			continue
		}
		v, ok := r.Value(s.Direction, s.Metric)
		switch {
		case ok && r.State == model.RunValid:
			y = append(y, s.number(v))
		case s.Metric == model.Goodput && diagnose.Dead(r, s.Direction):
			y = append(y, s.number(0))
		case s.Metric == model.LossRatio && diagnose.Dead(r, s.Direction):
			y = append(y, s.number(1))
		}
	}
	return y
}

// Path is the history of a monitored path. The zero value with a margin set is empty and ready
// to use.
type Path struct {
	Margin  float64
	Alarm   float64        // as of a Series
	Changes []StreamChange // the newest last
	Count   int            // looks that count
	Missed  int            // consecutive looks at an unreachable host
	Last    Look           // the last one that counts

	streams map[Stream]*Series
}

// StreamChange is a change of a stream.
type StreamChange struct {
	Stream
	Change
}

// Range returns the range of the present value, with 95 % confidence.
func (t *StreamChange) Range() (low, high float64) {
	sign := map[bool]float64{true: 1, false: -1}[t.Worse]
	at := func(by float64) float64 {
		if math.IsInf(by, 0) { // the runs do not bound it
			return t.Value(t.Now)
		}
		return t.Value(t.Was + sign*by)
	}
	low, high = at(t.By.Low), at(t.By.High)
	return min(low, high), max(low, high)
}

// Doubt is a stream with a suspected change.
type Doubt struct {
	Stream
	Suspicion
}

// Runs returns the numbers of the runs after the look's own.
func (d Doubt) Runs(runs []model.Run) []float64 {
	if y := d.Numbers(runs); len(y) > 0 {
		return y[1:]
	}
	return nil
}

// Series returns the series of a stream.
func (p *Path) Series(s Stream) *Series {
	if p.streams == nil {
		p.streams = map[Stream]*Series{}
	}
	if p.streams[s] == nil {
		p.streams[s] = &Series{Margin: p.Margin, Alarm: p.Alarm}
	}
	return p.streams[s]
}

// Numbers are those of a look, in the order of Streams; NaN if not measured.
type Numbers [5]float32

// Of returns the number of a stream.
func (n Numbers) Of(s Stream) float64 {
	return float64(n[slices.Index(Streams(), s)])
}

// NumbersOf returns the numbers of the runs of a look.
func NumbersOf(runs []model.Run) (n Numbers) {
	for i, s := range Streams() {
		n[i] = float32(math.NaN())
		if y := s.Numbers(runs); len(y) > 0 {
			n[i] = float32(y[0])
		}
	}
	return n
}

// Compared returns the numbers that were measured, with nothing that is expected.
func (n Numbers) Compared() (all []Compared) {
	for i, s := range Streams() {
		if y := float64(n[i]); !math.IsNaN(y) {
			all = append(all, Compared{Stream: s, Number: y})
		}
	}
	return all
}

// Add adds the numbers of a look. It returns the stream that has most likely changed, nil for none
// (each look confirms at most one change), and what is known of each stream.
func (p *Path) Add(l Look, n Numbers) (most *Doubt, all []Compared) {
	p.Count, p.Missed, p.Last = p.Count+1, 0, l
	for _, c := range n.Compared() {
		c, d := p.AddOne(&l, c.Stream, c.Number)
		if d != nil && (most == nil || d.C > most.C) {
			most = d
		}
		all = append(all, c)
	}
	return most, all
}

// AddOne adds a number of a look. It returns what is known of it, and the doubt that it raises, nil for
// none.
func (p *Path) AddOne(l *Look, s Stream, y float64) (Compared, *Doubt) {
	c, d, suspect := p.Series(s).add(l, y)
	c.Stream = s
	if !suspect {
		return c, nil
	}
	return c, &Doubt{s, d}
}

// Forget drops what no reference at a time or later uses.
func (p *Path) Forget(at time.Time) {
	for _, s := range p.streams {
		s.forget(at.Add(-window))
	}
}

// Settle applies the numbers of the runs after a look to its doubt, and returns the change, nil for
// none.
func (p *Path) Settle(d *Doubt, y []float64) *StreamChange {
	c, changed := p.Series(d.Stream).Settle(d.Suspicion, y)
	if !changed {
		return nil
	}
	p.Changes = append(p.Changes, StreamChange{d.Stream, c})
	return &p.Changes[len(p.Changes)-1]
}

// Take adds a stored look, with its time in the user's time zone.
func (p *Path) Take(s *model.Session, at *time.Location) {
	switch {
	case s.State == model.SessionFailed:
		p.Missed++
	case s.State == model.SessionDone && slices.ContainsFunc(s.Runs, func(r model.Run) bool { return r.State == model.RunValid }):
		if d, _ := p.Add(Look{s.Created.In(at), s.ID}, NumbersOf(s.Runs)); d != nil {
			p.Settle(d, d.Runs(s.Runs))
		}
	}
}
