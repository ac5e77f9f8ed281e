package netpipe

// StopSeconds is the one-way time of a message at which an end stops its schedule before the
// upper bound ("Schedule").
const StopSeconds = 1.0

// Schedule yields the message sizes of a test in NetPIPE's order. Both ends run one each and
// must get the same sizes. It is not safe for concurrent use.
type Schedule struct {
	settings  Settings
	size      int // of this step, before perturbation
	increment int // from this step to the next one
	step      int // NetPIPE's count of steps, which begins at 1 unless Start is 1
	offset    int // of the next point of this step
	previous  int
	index     int
	slow      bool
}

// Point is one size of a schedule.
type Point struct {
	Index     int // from 0
	Bytes     int // size of the message
	Base      int // size before perturbation
	Previous  int // size of the previous point; Start for the first one
	Increment int // distance of the bases at this point
}

// NewSchedule returns the schedule of s, or the error of Validate. With -2 pass the result of
// Bounded.
func NewSchedule(s Settings) (*Schedule, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c := &Schedule{settings: s, size: s.Start, increment: 1, previous: s.Start}
	if s.Start > 1 {
		c.increment, c.step = s.Start/2, 1
	}
	c.offset = c.least()
	return c, nil
}

// Next returns the next point, false after the last one. lastSeconds is the one-way time of the
// previous point, or of the opening ping-pong for the first one; from StopSeconds the schedule
// ends at the next base. Duplicates and steps back are part of the schedule.
//
// NPtcp also ends after 7,997 points; no valid settings reach a tenth of that.
func (c *Schedule) Next(lastSeconds float64) (Point, bool) {
	if c.offset == c.least() { // a new base
		if !(lastSeconds < StopSeconds) {
			c.slow = true
		}
		if c.slow || c.size > c.settings.Upper {
			return Point{}, false
		}
	}
	p := Point{
		Index: c.index, Bytes: c.size + c.offset, Base: c.size, Previous: c.previous, Increment: c.increment,
	}
	c.index++
	c.previous = p.Bytes
	c.advance()
	return p, true
}

// Slow reports whether the schedule ended because a message took StopSeconds or more. The other
// end decides that independently, by its own clock, and does not announce it.
func (c *Schedule) Slow() bool { return c.slow }

// advance moves to the next point of this step, or to the next step.
func (c *Schedule) advance() {
	if c.perturbed() && c.offset < c.settings.Perturbation {
		c.offset += c.settings.Perturbation
		return
	}
	c.size += c.increment
	c.step++
	if c.step > 2 && c.step%2 == 1 {
		c.increment *= 2
	}
	c.offset = c.least()
}

// perturbed reports whether this step has three points: only if the bases are so far apart that
// these do not overlap their neighbours.
func (c *Schedule) perturbed() bool {
	return c.settings.Perturbation > 0 && c.increment > c.settings.Perturbation+1
}

// least returns the offset of the first point of this step.
func (c *Schedule) least() int {
	if c.perturbed() {
		return -c.settings.Perturbation
	}
	return 0
}

// Sizes returns the message sizes of the whole schedule of s, for a path on which no message
// takes StopSeconds, or the error of Validate.
func Sizes(s Settings) ([]int, error) {
	c, err := NewSchedule(s)
	if err != nil {
		return nil, err
	}
	var sizes []int
	for {
		p, ok := c.Next(0)
		if !ok {
			return sizes, nil
		}
		sizes = append(sizes, p.Bytes)
	}
}
