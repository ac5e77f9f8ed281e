package importer

import (
	"fmt"
	"math"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// amount is the count of one line or one object of a file: start and end in seconds, and the
// rate.
type amount struct {
	line     int // 0 if it is not a line
	from, to float64
	bytes    float64
	rate     float64 // bit/s
	omitted  bool
}

// account holds a file's numbers on one direction of a test.
type account struct {
	direction     model.Direction
	at            model.Host // the end that wrote the file and counted the intervals
	intervals     []amount
	sent, arrived *amount  // the summaries of the two ends
	lost          *float64 // share of the datagrams that the receiver missed; nil for a stream
	ended         string   // why the test has no summary; "" if it must have one
}

// Tolerances for two numbers of one file that mean the same.
const (
	sameRate   = 0.03 // programs round to three digits, and ends start and stop at different times
	clockDigit = 0.06 // error in seconds of a time with one decimal
	sameClock  = 0.1  // gap in seconds between the lines of intervals
)

// differ reports whether two amounts are too different to be the same.
func differ(a, b float64) bool { return math.Abs(a-b) > sameRate*math.Max(math.Abs(a), math.Abs(b)) }

// consistent checks that the bytes of a are its rate times its time; it returns a note if they
// are not. It skips times too short to divide by.
func (a amount) consistent() string {
	if took := a.to - a.from; took > 0.05 && differ(a.bytes*8, a.rate*took) && math.Abs(a.bytes*8-a.rate*took) > 16<<10+clockDigit*a.rate {
		return fmt.Sprintf("%s%s in %.2f s are not the %s beside them", at(a.line), units.Bytes(a.bytes), took, units.BitRate(a.rate))
	}
	return ""
}

func at(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", line)
}

// settle adds the goodput of a direction to t. It uses received data, by the receiver's
// summary, else by its intervals, else by the sender's summary minus the losses; sent data only
// if nothing shows what arrived. It notes contradicting numbers of the file.
func (c *account) settle(t *Test) error {
	sum := c.total(t)
	receives := c.direction.Receiver() == c.at
	for _, a := range []*amount{c.sent, c.arrived} {
		if a != nil {
			if text := a.consistent(); text != "" {
				t.note(text)
			}
		}
	}
	mine, verb := c.sent, "sent"
	if receives {
		mine, verb = c.arrived, "received"
	}
	// No version of iperf 2 writes a last interval that is incomplete.
	if mine != nil && sum != nil && mine.to > 0 && differ(mine.bytes, sum.bytes) && math.Abs(mine.bytes-sum.bytes)*8 > 16<<10+(clockDigit+1.1*math.Max(0, mine.to-mine.from-(sum.to-sum.from)))*sum.rate {
		t.note(fmt.Sprintf("%sthe intervals are %s, and the summary of what was %s is %s", at(mine.line), units.Bytes(sum.bytes), verb, units.Bytes(mine.bytes)))
	}
	if c.sent != nil && c.arrived != nil && c.arrived.bytes > c.sent.bytes*1.01+2<<20 && c.sent.bytes > 0 {
		t.note(fmt.Sprintf("%smore arrived (%s) than was sent (%s)", at(c.arrived.line), units.Bytes(c.arrived.bytes), units.Bytes(c.sent.bytes)))
	}
	total := c.arrived
	switch {
	case total != nil && total.rate > 0 && receives && c.ended != "" && sum != nil && differ(total.rate, sum.rate):
		total = sum // iperf3's server counts an interval twice if its client is gone
	case total != nil && total.rate > 0:
	case receives && sum != nil && sum.rate > 0:
		switch {
		case c.arrived == nil && c.lost == nil && c.ended == "":
			t.note("the summary of what arrived is missing: the mean of the intervals counts")
		case c.arrived != nil:
			t.note("the summary says that nothing arrived, and the intervals do: their mean counts")
		}
		total = sum
	case c.silent():
		c.nothing(t)
	case c.sent != nil && c.sent.rate > 0 && c.lost != nil:
		less := *c.sent
		less.rate *= 1 - *c.lost
		t.note(fmt.Sprintf("what arrived is taken as the %s that were sent less the %.2g %% that were lost", units.BitRate(c.sent.rate), 100**c.lost))
		total = &less
	case c.sent != nil && c.sent.rate > 0:
		total = c.sent
		t.note(bySender(c.direction))
	case c.arrived != nil && c.ended == "":
		c.nothing(t)
	case sum != nil && c.ended != "":
		total = sum
		if !receives {
			t.note(bySender(c.direction))
		}
	case total == nil:
		return fmt.Errorf("direction %s of the test has no summary", c.direction)
	}
	if c.ended != "" {
		t.note(fmt.Sprintf("the test did not end by itself (%s): what counts is the %.3g s that were measured", c.ended, total.to-total.from))
	}
	t.Flow.Duration = max(t.Flow.Duration, seconds(total.to-total.from))
	t.add(c.direction, model.Goodput, total.rate)
	return nil
}

// silent reports whether the client's file says that the receiver counted nothing. A server
// writes zeros for a receiver that it does not know, and so does a client whose test ended
// early.
func (c *account) silent() bool {
	return c.arrived != nil && c.arrived.rate == 0 && c.ended == "" && c.at == model.Near
}

// nothing notes that nothing arrived: every datagram that was sent is lost.
func (c *account) nothing(t *Test) {
	if c.sent == nil || c.sent.bytes == 0 {
		t.note("nothing arrived")
		return
	}
	t.note(fmt.Sprintf("%snothing arrived of the %s that were sent", at(c.arrived.line), units.Bytes(c.sent.bytes)))
	if all := 1.0; t.Flow.Engine == udp.Name {
		c.lost = &all
	}
}

// datagrams adds the loss and the jitter in seconds. There is no jitter if nothing arrived.
func (t *Test) datagrams(d model.Direction, lost, jitter float64) {
	t.add(d, model.LossRatio, lost)
	if lost < 1 {
		t.add(d, model.Jitter, jitter)
	}
}

// total returns the sum of the intervals after the warm-up, nil if there are none. It notes
// gaps between them.
func (c *account) total(t *Test) *amount {
	var all, before *amount
	longest := 0.0
	for i := range c.intervals {
		a := &c.intervals[i]
		if text := a.consistent(); text != "" {
			t.note(text)
		}
		if before != nil && before.omitted == a.omitted && math.Abs(a.from-before.to) > sameClock {
			t.note(fmt.Sprintf("%sthe interval begins at %.2f s, and the one before ends at %.2f s: lines are missing, doubled or not in order", at(a.line), a.from, before.to))
		}
		before = a
		if a.omitted {
			continue
		}
		if all == nil {
			all = &amount{line: a.line, from: a.from, to: a.from}
			if a.from > sameClock && !c.warm() {
				t.note(fmt.Sprintf("%sthe first interval begins at %.2f s: lines before it are missing", at(a.line), a.from))
			}
		}
		longest = max(longest, a.to-a.from)
		all.bytes += a.rate * (a.to - a.from) / 8
		all.to += a.to - a.from
	}
	if all == nil || all.to <= all.from {
		return nil
	}
	all.rate = all.bytes * 8 / (all.to - all.from)
	for _, end := range []*amount{c.sent, c.arrived} {
		// Few programs write a last interval that is incomplete.
		if end != nil && c.ended == "" && end.to-end.from > 0.5 && math.Abs((end.to-end.from)-(all.to-all.from)) > max(0.5, 1.05*longest)+0.02*end.to {
			t.note(fmt.Sprintf("%sthe intervals cover %.2f s, and the summary %.2f s", at(end.line), all.to-all.from, end.to-end.from))
			break
		}
	}
	return all
}

// warm reports whether the result excludes a warm-up.
func (c *account) warm() bool { return len(c.intervals) > 0 && c.intervals[0].omitted }
