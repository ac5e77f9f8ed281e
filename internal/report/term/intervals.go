package term

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// Intervals collects the traffic of a test in each interval and over its connections, and
// writes it in the columns of iperf3, for people and scripts that know them. The numbers are
// the receiver's, unless only the sender reports any; sender-only numbers, such as
// retransmissions, are added to them.
type Intervals struct {
	Every     bool // a line for each interval; otherwise only those over the whole run
	Streams   int  // connections in each direction
	Alone     bool // only the near end reports numbers, as with another program's server
	Both      bool // both directions at once
	Datagrams bool // UDP
	Name      func(model.Host) string

	at      model.Direction // direction of the last header
	base    map[start]time.Duration
	waiting map[model.Direction]*interval                   // received; the sender's numbers are still missing
	said    map[model.Direction][]*said                     // the sender's numbers for intervals still to be received
	again   map[model.Direction]map[string]fact.Of[float64] // segments that each connection retransmitted in the measured window
}

// start identifies the warm-up or the measured window of a direction.
type start struct {
	direction model.Direction
	omitted   bool
}

// interval is the traffic of a direction in an interval.
type interval struct {
	start
	begin, length time.Duration
	all           row
	streams       []row
}

// row is a line of an interval: for one connection, or for all of a direction.
type row struct {
	id    string
	bytes float64
	also  cells
}

// cells are the columns after the rate; unknown ones stay empty.
type cells struct{ retr, cwnd, jitter, lost, datagrams fact.Of[float64] }

// said is a sender's kernel's report on an interval, per connection and, under "", in total.
type said struct {
	begin time.Duration
	of    map[string]cells
}

// kept is how many sender intervals are stored while the receiver's are missing.
const kept = 8

// Begin starts a run.
func (v *Intervals) Begin() {
	v.at, v.base = "", map[start]time.Duration{}
	v.waiting, v.said = map[model.Direction]*interval{}, map[model.Direction][]*said{}
	v.again = map[model.Direction]map[string]fact.Of[float64]{}
}

// Add returns the lines of the intervals in a batch of one end's samples, once both ends have
// reported them.
func (v *Intervals) Add(batch []model.Sample) []string {
	if v.base == nil {
		return nil
	}
	var lines []string
	for _, s := range batch {
		v.sender(s)
	}
	for _, s := range batch {
		host, m := v.teller(s.Direction)
		if !v.Every || s.Host != host || s.Metric != m {
			continue
		}
		lines = append(lines, v.rest(s.Direction)...) // its sender reported nothing in time
		v.waiting[s.Direction] = v.interval(batch, s)
	}
	for _, d := range []model.Direction{model.To, model.From} {
		if i := v.waiting[d]; i != nil && (v.joined(i) || v.Datagrams || v.Alone) {
			lines = append(lines, v.rest(d)...)
		}
	}
	return lines
}

// sender stores the sender's kernel's numbers.
func (v *Intervals) sender(s model.Sample) {
	if s.Host != s.Direction.Sender() {
		return
	}
	all := v.said[s.Direction]
	if len(all) == 0 || all[len(all)-1].begin != s.Start {
		all = append(all, &said{s.Start, map[string]cells{}})
		all = all[max(0, len(all)-kept):]
	}
	last := all[len(all)-1]
	c, known := last.of[s.Of], fact.Known(s.Value, "sender")
	switch s.Metric {
	case model.Retransmits, model.StreamRetransmits:
		c.retr = known
		if !s.Omitted {
			if v.again[s.Direction] == nil {
				v.again[s.Direction] = map[string]fact.Of[float64]{}
			}
			v.again[s.Direction][s.Of] = fact.Known(v.again[s.Direction][s.Of].Or(0)+s.Value, "sender")
		}
	case model.Cwnd, model.StreamCwnd:
		c.cwnd = known
	default:
		return
	}
	last.of[s.Of] = c
	v.said[s.Direction] = all
}

// joined adds the sender's numbers to i, and reports whether they exist.
func (v *Intervals) joined(i *interval) bool {
	for n, s := range v.said[i.direction] {
		// Each end counts from its own start; both start together.
		if (s.begin - i.begin).Abs() >= i.length/2 {
			continue
		}
		i.all.also = s.of[""]
		for k := range i.streams {
			i.streams[k].also = s.of[i.streams[k].id]
		}
		if len(i.streams) > 0 {
			i.all.also.cwnd = fact.Of[float64]{} // the window of a sum has no meaning
		}
		v.said[i.direction] = v.said[i.direction][n+1:]
		return true
	}
	return false
}

// interval returns the interval of sample s, from the samples with it in batch.
func (v *Intervals) interval(batch []model.Sample, s model.Sample) *interval {
	i := &interval{start: start{s.Direction, s.Omitted}, begin: s.Start, length: s.Length, all: row{id: v.all(), bytes: s.Value * s.Length.Seconds() / 8}}
	each := model.StreamGoodput
	if s.Metric == model.Sent {
		each = model.StreamSent
	}
	for _, one := range batch {
		if one.Host != s.Host || one.Direction != s.Direction || one.Start != s.Start {
			continue
		}
		known := fact.Known(one.Value, "samples")
		switch one.Metric {
		case each:
			i.streams = append(i.streams, row{id: one.Of, bytes: one.Value * one.Length.Seconds() / 8})
		case model.Jitter:
			i.all.also.jitter = known
		case model.Lost:
			i.all.also.lost = known
		case model.Datagrams:
			i.all.also.datagrams = known
		default:
		}
	}
	slices.SortStableFunc(i.streams, func(x, y row) int {
		a, _ := strconv.Atoi(x.id)
		b, _ := strconv.Atoi(y.id)
		return a - b
	})
	return i
}

// rest returns the lines of the interval of d that waits for its sender.
func (v *Intervals) rest(d model.Direction) []string {
	i := v.waiting[d]
	if i == nil {
		return nil
	}
	delete(v.waiting, d)
	v.joined(i)
	var lines []string
	if v.at == "" || v.at != d && !v.Both {
		v.at = d
		also := i.all.also
		if v.Both && !v.Datagrams { // of the other direction, which has no header of its own
			also.retr = fact.Known(0.0, "sender")
		}
		lines = append(lines, v.title(d), v.head(also, true))
	}
	if _, known := v.base[i.start]; !known {
		v.base[i.start] = i.begin
	}
	more := ""
	if i.omitted {
		more = "(omitted)"
	}
	for _, r := range append(i.streams, i.all) {
		if len(i.streams) > 0 && r.id == v.all() {
			lines = append(lines, v.line(r, d, i.begin-v.base[i.start], i.length, more), intervalRule)
			continue
		}
		lines = append(lines, v.line(r, d, i.begin-v.base[i.start], i.length, more))
	}
	return lines
}

// End returns the lines over a whole run: each connection, and their sum, as each end counted
// it.
func (v *Intervals) End(r model.Run) []string {
	var lines []string
	for _, d := range []model.Direction{model.To, model.From} {
		lines = append(lines, v.rest(d)...)
	}
	ruled := false
	for _, d := range []model.Direction{model.To, model.From} {
		var body []string
		var also cells
		var sent model.FlowReport
		for _, role := range []model.Role{model.Sender, model.Receiver} {
			for _, e := range r.Ends {
				for _, f := range e.Flows {
					// A copy of the sender's count stands for that of a server that reports none.
					copied := v.Alone && role == model.Receiver && f.Bytes == sent.Bytes && f.Window == sent.Window
					if f.Direction == d && f.Role == role && f.Window > 0 && !copied {
						if role == model.Sender {
							sent = f
						}
						rows := v.flow(f)
						body = append(body, rows...)
						if c := over(f); len(body) == len(rows) || c.jitter.IsKnown() || c.lost.IsKnown() {
							also = c
						}
					}
				}
			}
		}
		if len(body) == 0 {
			continue
		}
		switch {
		case v.Both && ruled:
		case v.at == "":
			lines = append(lines, v.title(d), v.head(also, false))
		case v.Streams < 2:
			lines = append(lines, intervalRule, v.head(also, false))
		default:
			lines = append(lines, v.head(also, false))
		}
		ruled = true
		lines = append(lines, body...)
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	return lines
}

// flow returns the lines of one end's count of a direction.
func (v *Intervals) flow(f model.FlowReport) []string {
	var lines []string
	if len(f.Streams) > 1 {
		for i, bytes := range f.Streams {
			r := row{id: strconv.Itoa(i + 1), bytes: float64(bytes)}
			if f.Role == model.Sender {
				r.also.retr = v.again[f.Direction][r.id]
			}
			lines = append(lines, v.line(r, f.Direction, 0, f.Window, string(f.Role)))
		}
	}
	return append(lines, v.line(row{v.all(), float64(f.Bytes), over(f)}, f.Direction, 0, f.Window, string(f.Role)))
}

// over returns the columns for a whole run.
func over(f model.FlowReport) (c cells) {
	switch {
	case f.TCP != nil:
		if n, known := f.TCP.Retransmits.Get(); known {
			c.retr = fact.Known(float64(n), "sender")
		}
	case f.UDP != nil && f.Role == model.Sender:
		c.datagrams = fact.Known(float64(f.UDP.Sent), "sender")
	case f.UDP != nil:
		c.lost, c.datagrams = fact.Known(float64(f.UDP.Lost), "receiver"), fact.Known(float64(f.UDP.Received), "receiver")
		if j, known := f.UDP.Jitter.Get(); known {
			c.jitter = fact.Known(j.Seconds(), "receiver")
		}
	}
	return c
}

// all returns the ID of a direction's total.
func (v *Intervals) all() string {
	if v.Streams > 1 {
		return "SUM"
	}
	return "1"
}

// teller returns the host and the metric whose samples count for a direction.
func (v *Intervals) teller(d model.Direction) (model.Host, model.Metric) {
	if v.Alone && d == model.To {
		return model.Near, model.Sent
	}
	return d.Receiver(), model.Goodput
}

// title says whose numbers follow.
func (v *Intervals) title(d model.Direction) string {
	far := v.Name(model.Far)
	switch {
	case v.Both && v.Alone:
		near := v.Name(model.Near)
		return clean(fmt.Sprintf("to %s (TX-C): what %s sent; from it (RX-C): what %s received", far, near, near))
	case v.Both:
		return clean(fmt.Sprintf("to %s (TX-C) and from it (RX-C): what each end received", far))
	}
	way := "to " + far
	if d == model.From {
		way = "from " + far
	}
	host, m := v.teller(d)
	if m == model.Sent {
		return clean(fmt.Sprintf("%s: what %s sent", way, v.Name(host)))
	}
	return clean(fmt.Sprintf("%s: what %s received", way, v.Name(host)))
}
