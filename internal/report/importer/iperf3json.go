package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// document3 has the fields of iperf3's JSON that are used.
type document3 struct {
	Error     string      `json:"error"`
	Start     start3      `json:"start"`
	Intervals []interval3 `json:"intervals"`
	End       *end3       `json:"end"`

	cut bool // a stream of events without its end
}

type start3 struct {
	Connected []struct {
		Local  string `json:"local_host"`
		Remote string `json:"remote_host"`
	} `json:"connected"`
	Cookie    string `json:"cookie"`
	Version   string `json:"version"`
	Timestamp struct {
		Seconds float64 `json:"timesecs"`
	} `json:"timestamp"`
	Accepted *struct{} `json:"accepted_connection"`
	Test     struct {
		Protocol string  `json:"protocol"`
		Streams  int     `json:"num_streams"`
		Block    int64   `json:"blksize"`
		Omit     float64 `json:"omit"`
		Reverse  int     `json:"reverse"`
		Bidir    int     `json:"bidir"`
	} `json:"test_start"`
}

type interval3 struct {
	Streams []sum3 `json:"streams"`
	Sum     sums3  `json:"sum"`
	Reverse sums3  `json:"sum_bidir_reverse"`
}

type end3 struct {
	Streams []struct {
		Sender   *sum3 `json:"sender"`   // of TCP
		Receiver *sum3 `json:"receiver"` // of TCP
	} `json:"streams"`
	Sum             sums3  `json:"sum"` // of UDP
	Sent            sums3  `json:"sum_sent"`
	Received        sums3  `json:"sum_received"`
	SentReverse     sums3  `json:"sum_sent_bidir_reverse"`
	ReceivedReverse sums3  `json:"sum_received_bidir_reverse"`
	Congestion      string `json:"sender_tcp_congestion"`
}

func (e *end3) empty() bool {
	return e == nil || len(e.Sum)+len(e.Sent)+len(e.Received) == 0
}

// parts notes if the summaries of the streams of TCP do not add up to those of the test.
func (e *end3) parts(t *Test) {
	for _, end := range []struct {
		verb string
		of   func(i int) *sum3
		sums sums3
	}{
		{"sent", func(i int) *sum3 { return e.Streams[i].Sender }, slices.Concat(e.Sent, e.SentReverse)},
		{"received", func(i int) *sum3 { return e.Streams[i].Receiver }, slices.Concat(e.Received, e.ReceivedReverse)},
	} {
		streams, all, some := 0.0, 0.0, false
		for i := range e.Streams {
			if s := end.of(i); s != nil {
				streams, some = streams+s.Bytes, true
			}
		}
		for _, s := range end.sums {
			all += s.Bytes
		}
		if some && len(end.sums) > 0 && differ(streams, all) {
			t.note(fmt.Sprintf("the streams %s %s, and their sum says %s", end.verb, units.Bytes(streams), units.Bytes(all)))
		}
	}
}

// sum3 is the sum of all streams over an interval or the whole test.
type sum3 struct {
	Start       float64  `json:"start"`
	End         float64  `json:"end"`
	Seconds     float64  `json:"seconds"`
	Bytes       float64  `json:"bytes"`
	Rate        float64  `json:"bits_per_second"`
	Retransmits *float64 `json:"retransmits"`
	Jitter      *float64 `json:"jitter_ms"`
	Lost        *float64 `json:"lost_packets"`
	Packets     float64  `json:"packets"`
	Omitted     bool     `json:"omitted"`
	Sender      *bool    `json:"sender"`
}

func (s *sum3) amount() *amount {
	if s == nil {
		return nil
	}
	return &amount{from: s.Start, to: s.End, bytes: s.Bytes, rate: s.Rate, omitted: s.Omitted}
}

// sums3 are all values of a repeated key: iperf3 3.7 to 3.10 writes the keys of --bidir twice,
// first for the client's sent data, then for its received data.
type sums3 []sum3

// UnmarshalJSON appends one more value of the key.
func (s *sums3) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	var one sum3
	if err := json.Unmarshal(b, &one); err != nil {
		return err
	}
	*s = append(*s, one)
	return nil
}

// nth returns value n of a key, nil if it has fewer.
func (s sums3) nth(n int) *sum3 {
	if n < len(s) {
		return &s[n]
	}
	return nil
}

// test returns the test of a document; failed is why it ended early.
func (d *document3) test(failed string) (Test, error) {
	t := Test{Flow: model.Flow{Engine: bulk.Name, Direction: model.To, Streams: max(1, d.Start.Test.Streams), Block: units.Bytes(d.Start.Test.Block), Omit: seconds(d.Start.Test.Omit)}}
	if d.End == nil {
		d.End = &end3{}
	}
	t.Flow.Congestion = d.End.Congestion
	if d.Start.Test.Protocol == "UDP" {
		t.Flow.Engine = udp.Name
	}
	if at := d.Start.Timestamp.Seconds; at > 0 {
		t.Started = time.Unix(int64(at), 0).UTC()
	}
	me := model.Near
	if d.Start.Accepted != nil {
		me = model.Far
	}
	if c := d.Start.Connected; len(c) > 0 {
		t.Near, t.Far = c[0].Local, c[0].Remote
		if me == model.Far {
			t.Near, t.Far = t.Far, t.Near
		}
	}
	first := model.To
	if d.Start.Test.Reverse != 0 {
		first = model.From
	}
	if failed == "" && d.End.empty() {
		failed = "the file has no end"
	}
	twice := max(len(d.End.Sent), len(d.End.Received)) > 1
	for i := range d.Intervals {
		if n := len(d.Intervals[i].Sum); n > 2 || n > 1 && !twice && !d.End.empty() {
			return t, fmt.Errorf("interval %d has %d sums, and its test one direction", i+1, n)
		}
		twice = twice || len(d.Intervals[i].Sum) > 1
	}
	d.End.parts(&t)
	both := d.Start.Test.Bidir != 0 || twice || len(d.End.SentReverse)+len(d.End.ReceivedReverse) > 0
	t.Flow.Direction = first
	if !both && slices.ContainsFunc(d.Intervals, interval3.bothWays) {
		return t, errors.New("its streams go both ways, and it has the sums of one: another program, such as jq, dropped the keys that iperf3 writes twice; import the file as iperf3 wrote it")
	}
	if !both {
		return t, d.way(&t, me, first, d.End.Sent.nth(0), d.End.Received.nth(0), d.End.Sum.nth(0), failed, func(i interval3) *sum3 { return i.Sum.nth(0) })
	}
	t.Flow.Direction = model.Both
	err := d.way(&t, me, model.To, d.End.Sent.nth(0), d.End.Received.nth(0), d.End.Sum.nth(0), failed, func(i interval3) *sum3 { return i.Sum.nth(0) })
	if err != nil {
		return t, err
	}
	sent, received, sum := d.End.SentReverse, d.End.ReceivedReverse, sums3(nil)
	if twice {
		sent, received, sum = after(d.End.Sent), after(d.End.Received), after(d.End.Sum)
	}
	return t, d.way(&t, me, model.From, sent.nth(0), received.nth(0), sum.nth(0), failed, func(i interval3) *sum3 {
		if s := i.Reverse.nth(0); s != nil {
			return s
		}
		return i.Sum.nth(1)
	})
}

func after(s sums3) sums3 { return s[min(1, len(s)):] }

// way adds direction w, as reported by end me.
func (d *document3) way(t *Test, me model.Host, w model.Direction, sent, arrived, datagrams *sum3, failed string, interval func(interval3) *sum3) error {
	metric := rateMetric(me, w)
	c := account{direction: w, at: me, sent: sent.amount(), arrived: arrived.amount(), ended: failed}
	var jitter *float64
	var lost, packets float64
	for _, i := range d.Intervals {
		x := interval(i)
		if x == nil {
			continue
		}
		if text := i.parts(x); text != "" {
			t.note(text)
		}
		if x.Sender != nil && *x.Sender != (metric == model.Sent) {
			t.note("the intervals say another direction than the start of the test")
		}
		c.intervals = append(c.intervals, *x.amount())
		s := model.Sample{Host: me, Direction: w, Metric: metric, Start: seconds(x.Start), Length: seconds(x.End - x.Start), Value: x.Rate, Omitted: x.Omitted}
		t.Samples = append(t.Samples, s)
		if x.Retransmits != nil {
			s.Metric, s.Value = model.Retransmits, *x.Retransmits
			t.Samples = append(t.Samples, s)
		}
		if !x.Omitted {
			jitter, packets = x.Jitter, packets+x.Packets
			if x.Lost != nil {
				lost += *x.Lost
			}
		}
	}
	if t.Flow.Engine == udp.Name {
		// For UDP older versions have only one sum: the sender's sent data, and the receiver's
		// losses. Received data is in the intervals of a receiver.
		if c.sent == nil && datagrams != nil {
			c.sent = datagrams.amount()
		}
		total := datagrams
		if arrived != nil && sent != nil || total == nil || total.Packets <= 0 {
			total = arrived
		}
		switch {
		case total != nil && total.Packets > 0 && total.Lost != nil && *total.Lost == 0 && metric == model.Sent && (me == model.Far || failed != ""):
			packets = 0 // a sender whose peer did not report
		case total != nil && total.Packets > 0 && total.Lost != nil:
			jitter, lost, packets = total.Jitter, *total.Lost, total.Packets
		case total != nil && total.Packets > 0:
			packets = 0
			t.note("the summary does not say how many datagrams were lost")
		case metric == model.Sent:
			packets = 0
		}
		if packets > 0 {
			ratio := lost / packets
			c.lost = &ratio
		}
	}
	if err := c.settle(t); err != nil {
		return err
	}
	if sent != nil && sent.Retransmits != nil {
		t.add(w, model.Retransmits, *sent.Retransmits)
	}
	switch {
	case c.lost == nil:
	case jitter == nil:
		t.add(w, model.LossRatio, *c.lost)
	default:
		t.datagrams(w, *c.lost, *jitter/1000)
	}
	return nil
}

// bothWays reports whether streams go in both directions while the interval has one sum.
func (i interval3) bothWays() bool {
	sends := map[bool]bool{}
	for _, s := range i.Streams {
		if s.Sender != nil {
			sends[*s.Sender] = true
		}
	}
	return len(sends) == 2 && len(i.Sum)+len(i.Reverse) == 1
}

// parts checks that the streams of an interval in the direction of its sum x add up to it.
func (i interval3) parts(x *sum3) string {
	all, some := 0.0, false
	for _, s := range i.Streams {
		if s.Sender == nil || x.Sender == nil || *s.Sender == *x.Sender {
			all, some = all+s.Bytes, true
		}
	}
	if some && differ(all, x.Bytes) {
		return fmt.Sprintf("in the interval from %.2f s the streams have %s, and their sum says %s", x.Start, units.Bytes(all), units.Bytes(x.Bytes))
	}
	return ""
}
