package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// banner3 matches the first line of an iperf3 test.
var banner3 = regex.New(`(?m)^(Connecting to host |Accepted connection from )`)

// interrupted matches iperf3's message on a test that ended early.
var interrupted = regex.New(`^iperf3: (?:error|interrupt) - (.*)$`)

// version3 and time3 are lines of -V, which stand above the banner of a test.
var (
	version3 = regex.New(`^iperf (3\.[0-9][0-9.+a-z-]*)(?: \(cJSON .*\))?$`)
	time3    = regex.New(`^Time: (.* (?:GMT|UTC))$`)
)

func isIperf3(text string) bool { return banner3.MatchString(text) }

// readIperf3 reads text of an iperf3 client.
func readIperf3(text string, _ Options) (File, error) {
	var all []section
	var now *section
	below, pending := false, ""
	out := File{Program: "iperf3"}
	var started time.Time // of the test whose banner follows
	for n, l := range lines(text) {
		host, begins := strings.CutPrefix(l, "Connecting to host ")
		server := strings.HasPrefix(l, "Accepted connection from ")
		switch {
		case begins || server:
			host, _, _ = strings.Cut(host, ", port")
			if server {
				host = ""
			}
			all = append(all, section{first: n, far: host, server: server, totals: map[int]bool{}, ended: pending, started: started})
			below, pending, started = false, "", time.Time{}
			now = &all[len(all)-1]
		case version3.MatchString(l):
			out.Program = "iperf " + version3.FindStringSubmatch(l)[1]
		case time3.MatchString(l):
			at, _ := time.Parse(time.RFC1123, time3.FindStringSubmatch(l)[1]) // zero: not known
			if now != nil && len(now.rows) == 0 {
				now.started = at
			} else {
				started = at
			}
		case interrupted.MatchString(l) && now != nil && len(now.rows) > 0 && !now.done:
			now.ended = interrupted.FindStringSubmatch(l)[1]
		case strings.HasPrefix(l, "iperf3: interrupt - "): // a shell that joins both outputs writes it first
			pending = strings.TrimPrefix(l, "iperf3: interrupt - ")
		case now == nil:
			if strings.HasPrefix(l, "iperf3: error") {
				return File{}, whole(n, l)
			}
		case strings.HasPrefix(l, "Reverse mode"):
			now.reverse = true
		case connected.MatchString(l):
			now.ends = append(now.ends, connected.FindStringSubmatch(l))
		case strings.Contains(l, "ID] Interval"): // repeated above the summaries
			below = len(now.rows) > 0
			now.udp = now.udp || strings.Contains(l, "Datagrams")
			if now.server && !below { // a server does not write that its test is reversed
				now.reverse = strings.Contains(l, "Cwnd") || strings.Contains(l, "  Total Datagrams")
			}
		case strings.Contains(l, "Total Datagrams"):
			now.udp = true
		case l == "iperf3: the client has terminated":
			now.ended = "the client has terminated"
		case l == "iperf Done.":
			now.done = true
		default:
			got, ok, err := readRow(n, l)
			if err == nil && !ok {
				err = whole(n, l)
			}
			if err != nil {
				return File{}, err
			}
			if ok {
				now.bidir = now.bidir || got.role != ""
				now.rows = append(now.rows, got)
				now.totals[n] = below
			}
		}
	}
	tests := map[string]int{} // the test of each connection in a client's section
	empty := ""               // sections of a server without a test
	for i, s := range all {
		if s.server && len(s.rows) == 0 && i+1 < len(all) {
			empty += fmt.Sprintf(", %d", s.first)
			continue
		}
		t, err := s.test3()
		if err != nil {
			return File{}, err
		}
		if empty != "" {
			t.note("a client connected and nothing was measured: line " + empty[2:])
			empty = ""
		}
		if i, ok := tests[s.connection()]; ok && s.server {
			out.Tests[i].compare(t)
			continue
		}
		if !s.server && len(s.ends) > 0 {
			tests[s.connection()] = len(out.Tests)
		}
		out.Tests = append(out.Tests, t)
	}
	return out, nil
}

// connection returns the ports of the first connection of a section, the client's first.
func (s section) connection() string {
	switch {
	case len(s.ends) == 0:
		return ""
	case s.server:
		return s.ends[0][5] + " " + s.ends[0][3]
	}
	return s.ends[0][3] + " " + s.ends[0][5]
}

// compare notes if the other end's report has a different received rate.
func (t *Test) compare(other Test) {
	for _, v := range t.Values {
		for _, again := range other.Values {
			if v.Metric == model.Goodput && again.Metric == v.Metric && again.Direction == v.Direction && differ(v.Value, again.Value) {
				t.note(fmt.Sprintf("direction %s: %s arrived, and the other end's report says %s", v.Direction, units.BitRate(v.Value), units.BitRate(again.Value)))
			}
		}
	}
}

// test3 returns the test of a section of iperf3.
func (s section) test3() (Test, error) {
	t := Test{Far: s.far, Started: s.started, Flow: model.Flow{Engine: s.engine(), Direction: model.To, Streams: streams(s.rows)}}
	me := model.Near
	if s.server {
		me = model.Far
	}
	if len(s.ends) > 0 {
		t.Near = s.ends[0][2]
		if s.server {
			t.Near, t.Far = s.ends[0][4], s.ends[0][2]
		}
	}
	switch {
	case s.bidir:
		t.Flow.Direction = model.Both
	case s.reverse, s.server && s.onlySends():
		t.Flow.Direction = model.From
	}
	if len(s.rows) == 0 {
		return t, faultf(s.first, cutOff)
	}
	if n := len(s.ends); n > t.Flow.Streams && !s.bidir {
		t.note(fmt.Sprintf("%d connections were made, and lines of %d streams are there", n, t.Flow.Streams))
	}
	for _, d := range t.Flow.Direction.Parts() {
		if err := s.way3(&t, me, d); err != nil {
			return t, err
		}
	}
	return t, nil
}

// onlySends reports whether the summaries of a section have data of the sender and none of the
// receiver.
func (s section) onlySends() bool {
	sent, arrived := 0.0, 0.0
	for _, l := range s.rows {
		switch {
		case strings.HasSuffix(l.rest, "sender"):
			sent += l.bytes
		case strings.HasSuffix(l.rest, "receiver"):
			arrived += l.bytes
		}
	}
	return sent > 0 && arrived == 0
}

// way3 adds direction d of a section to t, as reported by end me.
func (s section) way3(t *Test, me model.Host, d model.Direction) error {
	var way, own []line
	several := t.Flow.Streams > 1
	for _, l := range s.rows {
		if s.bidir && strings.HasPrefix(l.role, "TX") != (d.Sender() == me) {
			continue
		}
		if way = append(way, l); several == (l.id == "SUM") {
			own = append(own, l)
		}
	}
	if several {
		parts(t, way, t.Flow.Streams)
	}
	worded := slices.ContainsFunc(own, func(l line) bool { return strings.HasSuffix(l.rest, "sender") || strings.HasSuffix(l.rest, "receiver") })
	c := account{direction: d, at: me, ended: s.ended}
	metric := rateMetric(me, d)
	var jitter float64
	var resent *line
	for _, l := range own {
		var end **amount
		switch {
		case strings.HasSuffix(l.rest, "sender"):
			end, resent = &c.sent, &l
		case strings.HasSuffix(l.rest, "receiver"):
			end = &c.arrived
		case s.ended != "" && len(c.intervals) > 0 && l.again(c.intervals[len(c.intervals)-1]):
			continue // a server writes the last interval twice
		case !worded && s.totals[l.number] && s.udp && (metric == model.Sent || l.bytes > 0):
			end = &c.sent // iperf3 3.0 to 3.1: the sender's sent data, and the receiver's losses
		case !worded && s.totals[l.number]:
			end = &c.arrived
		default:
			t.Samples = append(t.Samples, l.sample(me, d, metric, l.bitrate))
			c.intervals = append(c.intervals, *l.amount())
			retr := strings.Fields(l.rest)
			if metric == model.Sent && !s.udp && len(retr) > 0 && retr[0] != "(omitted)" {
				v, err := number(l.number, retr[0])
				if err != nil {
					return err
				}
				t.Samples = append(t.Samples, l.sample(me, d, model.Retransmits, v))
			}
			continue
		}
		if *end != nil {
			return faultf(l.number, "a second summary of the same end; the first is in line %d", (*end).line)
		}
		*end = l.amount()
		if j, lost, err := l.loss(); err != nil {
			return err
		} else if lost != nil && (c.lost == nil || end == &c.arrived) && (*lost > 0 || !strings.HasSuffix(l.rest, "sender")) {
			jitter, c.lost = j, lost
		}
	}
	if c.sent == nil && c.arrived == nil && s.ended == "" {
		if len(c.intervals) == 0 {
			return cut("the lines of sender and receiver", s.rows[len(s.rows)-1])
		}
		c.ended = "the lines of sender and receiver are missing"
	}
	if err := c.settle(t); err != nil {
		return err
	}
	if resent != nil && !s.udp {
		if retr := strings.Fields(resent.rest); len(retr) > 1 {
			v, err := number(resent.number, retr[0])
			if err != nil {
				return err
			}
			t.add(d, model.Retransmits, v)
		}
	}
	if c.lost != nil && s.udp {
		t.datagrams(d, *c.lost, jitter)
	}
	return nil
}
