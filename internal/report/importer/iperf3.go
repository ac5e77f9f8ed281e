package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// banner3 begins a test of iperf3's client.
var banner3 = regexp.MustCompile(`(?m)^(Connecting to host |Accepted connection from )`)

func isIperf3(text string) bool { return banner3.MatchString(text) }

// readIperf3 reads text of an iperf3 client.
func readIperf3(text string, _ Options) (File, error) {
	var all []section
	var now *section
	for n, l := range lines(text) {
		host, begins := strings.CutPrefix(l, "Connecting to host ")
		server := strings.HasPrefix(l, "Accepted connection from ")
		switch {
		case begins || server:
			host, _, _ = strings.Cut(host, ", port")
			if server {
				host = ""
			}
			all = append(all, section{first: n, far: host, server: server})
			now = &all[len(all)-1]
		case now == nil:
			if strings.HasPrefix(l, "iperf3: error") {
				return File{}, whole(n, l)
			}
		case strings.HasPrefix(l, "Reverse mode"):
			now.reverse = true
		case connected.MatchString(l):
			now.ends = append(now.ends, connected.FindStringSubmatch(l))
		case strings.Contains(l, "Total Datagrams"):
			now.udp = true
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
			}
		}
	}
	out := File{Program: "iperf3"}
	for _, s := range all {
		t, err := s.test3()
		if err != nil {
			return File{}, err
		}
		out.Tests = append(out.Tests, t)
	}
	return out, nil
}

// test3 makes the test of a section of iperf3.
func (s section) test3() (Test, error) {
	t := Test{Far: s.far, Flow: model.Flow{Engine: s.engine(), Direction: model.To, Streams: streams(s.rows)}}
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
	case s.reverse:
		t.Flow.Direction = model.From
	}
	if len(s.rows) == 0 {
		return t, faultf(s.first, "the test that begins here has no result: it was cut off")
	}
	for _, d := range t.Flow.Direction.Parts() {
		if err := s.way3(&t, me, d); err != nil {
			return t, err
		}
	}
	return t, nil
}

// way3 adds direction d of a section to t, as end me tells it.
func (s section) way3(t *Test, me model.Host, d model.Direction) error {
	var own []line
	several := t.Flow.Streams > 1
	for _, l := range s.rows {
		if s.bidir && strings.HasPrefix(l.role, "TX") != (d.Sender() == me) || several != (l.id == "SUM") {
			continue
		}
		own = append(own, l)
	}
	var sent, arrived *line
	for _, l := range own {
		switch {
		case strings.HasSuffix(l.rest, "sender"):
			sent = &l
		case strings.HasSuffix(l.rest, "receiver"):
			arrived = &l
		default:
			metric := rateMetric(me, d)
			t.Samples = append(t.Samples, l.sample(me, d, metric, l.bitrate))
			if retr := strings.Fields(l.rest); metric == model.Sent && !s.udp && len(retr) > 0 {
				v, err := number(l.number, retr[0])
				if err != nil {
					return err
				}
				t.Samples = append(t.Samples, l.sample(me, d, model.Retransmits, v))
			}
		}
	}
	if sent == nil && arrived == nil {
		return cut("the lines of sender and receiver", s.rows[len(s.rows)-1])
	}
	total := arrived
	if total == nil || total.bitrate == 0 && sent != nil && sent.bitrate > 0 { // old servers tell the client nothing
		total = sent
		t.note(bySender)
	}
	t.Flow.Duration = max(t.Flow.Duration, seconds(total.to))
	t.add(d, model.Goodput, total.bitrate)
	if sent != nil && !s.udp {
		if retr := strings.Fields(sent.rest); len(retr) > 1 {
			v, err := number(sent.number, retr[0])
			if err != nil {
				return err
			}
			t.add(d, model.Retransmits, v)
		}
	}
	return datagrams(t, d, *total)
}

// document3 is what of iperf3's JSON counts.
type document3 struct {
	Error string `json:"error"`
	Start struct {
		Connected []struct {
			Local  string `json:"local_host"`
			Remote string `json:"remote_host"`
		} `json:"connected"`
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
	} `json:"start"`
	Intervals []struct {
		Sum     sum3  `json:"sum"`
		Reverse *sum3 `json:"sum_bidir_reverse"`
	} `json:"intervals"`
	End *struct {
		Sum             *sum3  `json:"sum"` // of UDP
		Sent            *sum3  `json:"sum_sent"`
		Received        *sum3  `json:"sum_received"`
		SentReverse     *sum3  `json:"sum_sent_bidir_reverse"`
		ReceivedReverse *sum3  `json:"sum_received_bidir_reverse"`
		Congestion      string `json:"sender_tcp_congestion"`
	} `json:"end"`
}

// sum3 is the sum of all streams over an interval or the whole.
type sum3 struct {
	Start       float64  `json:"start"`
	End         float64  `json:"end"`
	Seconds     float64  `json:"seconds"`
	Rate        float64  `json:"bits_per_second"`
	Retransmits *float64 `json:"retransmits"`
	Jitter      float64  `json:"jitter_ms"`
	Lost        float64  `json:"lost_packets"`
	Packets     float64  `json:"packets"`
	Omitted     bool     `json:"omitted"`
}

func isIperf3JSON(text string) bool {
	head := text[:min(len(text), 64<<10)]
	return strings.HasPrefix(strings.TrimSpace(head), "{") && strings.Contains(head, `"start"`) && strings.Contains(text, `"intervals"`)
}

// readIperf3JSON reads one or more documents of iperf3 -J.
func readIperf3JSON(text string, _ Options) (File, error) {
	var out File
	in := json.NewDecoder(strings.NewReader(text))
	for {
		var d document3
		err := in.Decode(&d)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		line := 1 + strings.Count(text[:min(int(in.InputOffset()), len(text))], "\n")
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return out, faultf(1+strings.Count(text, "\n"), "the JSON ends in the middle: the file was cut off")
		case errors.As(err, &syntax):
			return out, faultf(1+strings.Count(text[:min(int(syntax.Offset), len(text))], "\n"), "no JSON: %w", err)
		case err != nil:
			return out, faultf(line, "%w", err)
		case d.Error != "":
			return out, faultf(0, "the test failed: %s", strings.TrimPrefix(d.Error, "error - "))
		case d.End == nil || d.End.Sum == nil && d.End.Sent == nil && d.End.Received == nil:
			return out, faultf(0, "a test has no end: it was cut off")
		}
		out.Program = cmp.Or(out.Program, d.Start.Version, "iperf3")
		out.Tests = append(out.Tests, d.test())
	}
}

// test makes the test of a document.
func (d *document3) test() Test {
	t := Test{Flow: model.Flow{Engine: bulk.Name, Direction: model.To, Streams: max(1, d.Start.Test.Streams), Block: units.Bytes(d.Start.Test.Block), Omit: seconds(d.Start.Test.Omit), Congestion: d.End.Congestion}}
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
	t.Flow.Direction = first
	d.way(&t, me, first, d.End.Sent, d.End.Received, func(i int) *sum3 { return &d.Intervals[i].Sum })
	if d.Start.Test.Bidir != 0 || d.End.SentReverse != nil {
		t.Flow.Direction = model.Both
		d.way(&t, me, model.From, d.End.SentReverse, d.End.ReceivedReverse, func(i int) *sum3 { return d.Intervals[i].Reverse })
	}
	return t
}

// way adds direction w, as end me tells it.
func (d *document3) way(t *Test, me model.Host, w model.Direction, sent, arrived *sum3, interval func(int) *sum3) {
	metric := rateMetric(me, w)
	for i := range d.Intervals {
		x := interval(i)
		if x == nil {
			continue
		}
		s := model.Sample{Host: me, Direction: w, Metric: metric, Start: seconds(x.Start), Length: seconds(x.End - x.Start), Value: x.Rate, Omitted: x.Omitted}
		t.Samples = append(t.Samples, s)
		if x.Retransmits != nil {
			s.Metric, s.Value = model.Retransmits, *x.Retransmits
			t.Samples = append(t.Samples, s)
		}
	}
	total := arrived
	if total == nil || total.Rate == 0 {
		total = cmp.Or(sent, d.End.Sum)
		t.note(bySender)
	}
	if total == nil {
		return
	}
	t.Flow.Duration = max(t.Flow.Duration, seconds(total.Seconds))
	t.add(w, model.Goodput, total.Rate)
	if sent != nil && sent.Retransmits != nil {
		t.add(w, model.Retransmits, *sent.Retransmits)
	}
	if u := d.End.Sum; u != nil && t.Flow.Engine == udp.Name && u.Packets > 0 {
		t.add(w, model.LossRatio, u.Lost/u.Packets)
		t.add(w, model.Jitter, u.Jitter/1000)
	}
}
