package term_test

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report/term"
)

// moved are the samples of an interval of two connections, as the far end received.
func moved(start time.Duration, omitted bool, streams ...float64) []model.Sample {
	s := model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput, Start: start, Length: time.Second, Omitted: omitted}
	batch := []model.Sample{s, {Host: model.Near, Direction: model.To, Metric: model.Sent, Start: start, Length: time.Second, Value: 1}}
	for i, v := range streams {
		one := s
		one.Metric, one.Of, one.Value = model.StreamGoodput, string(rune('1'+i)), v
		batch[0].Value += v
		batch = append(batch, one)
	}
	return batch
}

// told is what the near end, which sends, says of the same interval.
func told(start time.Duration, omitted bool, retr float64, streams ...float64) []model.Sample {
	s := model.Sample{Host: model.Near, Direction: model.To, Start: start, Length: time.Second, Omitted: omitted}
	var batch []model.Sample
	add := func(m model.Metric, of string, v float64) {
		s.Metric, s.Of, s.Value = m, of, v
		batch = append(batch, s)
	}
	add(model.Retransmits, "", retr)
	add(model.Cwnd, "", 3<<20)
	for i, v := range streams {
		add(model.StreamRetransmits, string(rune('1'+i)), v)
		add(model.StreamCwnd, string(rune('1'+i)), 1<<20)
	}
	return batch
}

func newIntervals(v term.Intervals) *term.Intervals {
	v.Name = func(h model.Host) string { return map[model.Host]string{model.Near: "desk", model.Far: "nas"}[h] }
	v.Begin()
	return &v
}

// same compares lines with a text.
func same(t *testing.T, what string, got []string, want string) {
	t.Helper()
	must.Equal(t, strings.Join(got, "\n"), want, "%s", what)
}

// TestFirstHour18Intervals: intervals, connections and their sum in iperf3's columns,
// counted from the end of the warm-up, whose they are, and beside what the receiver
// counted what the sender's kernel says, in whichever order the two tell it.
func TestFirstHour18Intervals(t *testing.T) {
	v := newIntervals(term.Intervals{Every: true, Streams: 2})
	var got []string
	for _, batch := range [][]model.Sample{
		told(2*time.Second+1e6, true, 4, 4, 0), moved(2*time.Second, true, 1e8, 2e8),
		moved(3*time.Second, false, 470e6, 471e6), told(3*time.Second+1e6, false, 7, 5, 2),
		moved(4*time.Second, false, 9.4e9, 1e3), // of which its sender says nothing
	} {
		got = append(got, v.Add(batch)...)
	}
	got = append(got, v.End(model.Run{Ends: []model.EndReport{
		{Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Bytes: 300 << 20, Window: 2 * time.Second, Streams: []units.Bytes{100 << 20, 200 << 20}, TCP: &model.TCPSummary{Retransmits: fact.Known[int64](7, "test")}}}},
		{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Bytes: 3 << 20, Window: 2 * time.Second}}},
	}})...)
	same(t, "two connections", got, `to nas: what nas received
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  1]   0.00-1.00   sec  11.9 MBytes   100 Mbits/sec    4   1.00 MBytes       (omitted)
[  2]   0.00-1.00   sec  23.8 MBytes   200 Mbits/sec    0   1.00 MBytes       (omitted)
[SUM]   0.00-1.00   sec  35.8 MBytes   300 Mbits/sec    4             (omitted)
- - - - - - - - - - - - - - - - - - - - - - - - -
[  1]   0.00-1.00   sec  56.0 MBytes   470 Mbits/sec    5   1.00 MBytes
[  2]   0.00-1.00   sec  56.1 MBytes   471 Mbits/sec    2   1.00 MBytes
[SUM]   0.00-1.00   sec   112 MBytes   941 Mbits/sec    7
- - - - - - - - - - - - - - - - - - - - - - - - -
[  1]   1.00-2.00   sec  1.09 GBytes  9.40 Gbits/sec
[  2]   1.00-2.00   sec   125 Bytes  1.00 Kbits/sec
[SUM]   1.00-2.00   sec  1.09 GBytes  9.40 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  1]   0.00-2.00   sec   100 MBytes   419 Mbits/sec    5             sender
[  2]   0.00-2.00   sec   200 MBytes   839 Mbits/sec    2             sender
[SUM]   0.00-2.00   sec   300 MBytes  1.26 Gbits/sec    7             sender
[SUM]   0.00-2.00   sec  3.00 MBytes  12.6 Mbits/sec                  receiver
`)

	v = newIntervals(term.Intervals{Every: true, Streams: 1, Alone: true})
	same(t, "beside another program's server", v.Add(append(moved(0, false, 1), told(0, false, 3)...)), `to nas: what desk sent
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  1]   0.00-1.00   sec  0.12 Bytes  1.00 bits/sec    3   3.00 MBytes`)
	v = newIntervals(term.Intervals{Streams: 1})
	must.Len(t, v.Add(moved(0, false, 1)), 0, "nobody asked for intervals")
}

// TestFirstHour18Datagrams: of UDP the receiver's jitter and losses, and of a server
// that tells nothing how many were sent.
func TestFirstHour18Datagrams(t *testing.T) {
	came := model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput, Length: time.Second, Value: 1e6}
	batch := []model.Sample{came}
	for m, n := range map[model.Metric]float64{model.Datagrams: 85, model.Lost: 15, model.Jitter: 12e-6} {
		one := came
		one.Metric, one.Value = m, n
		batch = append(batch, one)
	}
	v := newIntervals(term.Intervals{Every: true, Streams: 1, Datagrams: true})
	got := v.Add(batch)
	got = append(got, v.End(model.Run{Ends: []model.EndReport{
		{Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Bytes: 145600, Window: time.Second, UDP: &model.UDPSummary{Sent: 100}}}},
		{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Bytes: 123760, Window: time.Second, UDP: &model.UDPSummary{Received: 85, Lost: 15, Jitter: fact.Known(12*time.Microsecond, "test")}}}},
	}})...)
	same(t, "own", got, `to nas: what nas received
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  1]   0.00-1.00   sec   122 KBytes  1.00 Mbits/sec  0.012 ms  15/100 (15%)
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  1]   0.00-1.00   sec   142 KBytes  1.16 Mbits/sec  100  sender
[  1]   0.00-1.00   sec   121 KBytes   990 Kbits/sec  0.012 ms  15/100 (15%)  receiver
`)
	v = newIntervals(term.Intervals{Every: true, Streams: 1, Datagrams: true, Alone: true})
	sent := came
	sent.Host, sent.Metric = model.Near, model.Sent
	many := sent
	many.Metric, many.Value = model.Datagrams, 85
	same(t, "beside another program's server", v.Add([]model.Sample{sent, many}), `to nas: what desk sent
[ ID] Interval           Transfer     Bitrate         Total Datagrams
[  1]   0.00-1.00   sec   122 KBytes  1.00 Mbits/sec  85`)
}
