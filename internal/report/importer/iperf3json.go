package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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

func isIperf3JSON(text string) bool {
	head := text[:min(len(text), 64<<10)]
	return isJSON(head) && strings.Contains(head, `"start"`) && strings.Contains(text, `"intervals"`)
}

func isIperf3Stream(text string) bool {
	head := text[:min(len(text), 64<<10)]
	return isJSON(head) && strings.Contains(head, `"event"`) && strings.Contains(head, `"data"`)
}

// readIperf3JSON reads the output of iperf3 -J, one document, several, or an array of them, and
// of --json-stream (3.17 on): events, the last of which are missing if it was cut off. With
// --json-stream-full-output the document of the same test follows, and takes precedence.
func readIperf3JSON(text string, _ Options) (File, error) {
	var out File
	var events *document3
	in, last, array := json.NewDecoder(strings.NewReader(text)), 0, false
	flush := func() (err error) {
		if events != nil {
			events.cut = events.End == nil
			err = out.add3(events, last)
		}
		events = nil
		return err
	}
	for {
		var d struct {
			document3
			event3
		}
		if rest := strings.TrimLeft(text[in.InputOffset():], " \t\r\n"); strings.HasPrefix(rest, map[bool]string{false: "[", true: "]"}[array]) {
			_, _ = in.Token() // it is the bracket
			array = !array
			continue
		}
		err := in.Decode(&d)
		line := lineAt(text, in.InputOffset())
		var syntax *json.SyntaxError
		if array && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && events != nil && events.End == nil:
			return out, flush()
		case errors.Is(err, io.ErrUnexpectedEOF):
			return out, faultf(1+strings.Count(text, "\n"), "the JSON ends in the middle: the file was cut off")
		case errors.As(err, &syntax):
			return out, faultf(lineAt(text, syntax.Offset), "no JSON: %w", err)
		case err != nil:
			return out, faultf(line, "%w", err)
		case d.Event == "" && events != nil && d.Start.Cookie != "" && d.Start.Cookie == events.Start.Cookie:
			events = nil
		case d.Event == "start" || d.Event == "":
			err = flush()
		}
		switch {
		case err != nil:
		case d.Event == "":
			err = out.add3(&d.document3, line)
		default:
			if events == nil {
				events = &document3{}
			}
			last, err = line, events.take(d.event3, line)
		}
		if err != nil {
			return out, err
		}
	}
}

// event3 is an event of --json-stream.
type event3 struct {
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// take adds an event that ends in a line.
func (d *document3) take(e event3, line int) (err error) {
	switch e.Event {
	case "start":
		err = json.Unmarshal(e.Data, &d.Start)
	case "interval":
		var i interval3
		err = json.Unmarshal(e.Data, &i)
		d.Intervals = append(d.Intervals, i)
	case "end":
		if d.End != nil {
			return faultf(line, "a second end of the same test")
		}
		err = json.Unmarshal(e.Data, &d.End)
	case "error":
		err = json.Unmarshal(e.Data, &d.Error)
	}
	if err != nil {
		return faultf(line, "event %q: %w", e.Event, err)
	}
	return nil
}

func lineAt(text string, offset int64) int {
	return 1 + strings.Count(text[:min(max(0, int(offset)), len(text))], "\n")
}

// add3 adds the test of a document that ends in a line.
func (f *File) add3(d *document3, line int) error {
	failed := strings.TrimPrefix(strings.TrimPrefix(d.Error, "error - "), "interrupt - ")
	switch {
	case failed != "" && len(d.Intervals) == 0:
		return faultf(0, "the test failed: %s", failed)
	case d.End.empty() && failed == "" && !d.cut || len(d.Intervals) == 0 && d.End.empty():
		return faultf(line, "a test has no end: it was cut off")
	}
	t, err := d.test(failed)
	if err != nil {
		return faultf(line, "%w", err)
	}
	f.Program = cmp.Or(f.Program, d.Start.Version, "iperf3")
	f.Tests = append(f.Tests, t)
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
		if total == nil || total.Packets <= 0 {
			total = arrived
		}
		switch {
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
	if c.lost != nil {
		t.add(w, model.LossRatio, *c.lost)
		if jitter != nil {
			t.add(w, model.Jitter, *jitter/1000)
		}
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
