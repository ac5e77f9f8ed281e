package term_test

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
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

// TestFirstHour18Intervals: intervals, connections and their sum in iperf3's columns,
// counted from the end of the warm-up, and whose they are.
func TestFirstHour18Intervals(t *testing.T) {
	v := term.Intervals{Every: true, Streams: 2, Name: func(h model.Host) string { return map[model.Host]string{model.Near: "desk", model.Far: "nas"}[h] }}
	v.Begin()
	var got []string
	for _, batch := range [][]model.Sample{moved(2*time.Second, true, 1e8, 2e8), moved(3*time.Second, false, 470e6, 471e6), moved(4*time.Second, false, 9.4e9, 1e3)} {
		got = append(got, v.Add(batch)...)
	}
	got = append(got, v.End(model.Run{Ends: []model.EndReport{
		{Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Bytes: 300 << 20, Window: 2 * time.Second, Streams: nil, TCP: &model.TCPSummary{Retransmits: fact.Known[int64](7, "test")}}}},
		{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Bytes: 3 << 20, Window: 2 * time.Second}}},
	}})...)
	want := `to nas: what nas received
[ ID] Interval           Transfer     Bitrate
[  1]   0.00-1.00   sec  11.9 MBytes   100 Mbits/sec  (omitted)
[  2]   0.00-1.00   sec  23.8 MBytes   200 Mbits/sec  (omitted)
[SUM]   0.00-1.00   sec  35.8 MBytes   300 Mbits/sec  (omitted)
- - - - - - - - - - - - - - - - - - - - - - - - -
[  1]   0.00-1.00   sec  56.0 MBytes   470 Mbits/sec
[  2]   0.00-1.00   sec  56.1 MBytes   471 Mbits/sec
[SUM]   0.00-1.00   sec   112 MBytes   941 Mbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[  1]   1.00-2.00   sec  1.09 GBytes  9.40 Gbits/sec
[  2]   1.00-2.00   sec   125 Bytes  1.00 Kbits/sec
[SUM]   1.00-2.00   sec  1.09 GBytes  9.40 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[SUM]   0.00-2.00   sec   300 MBytes  1.26 Gbits/sec  sender, 7 retransmits
[SUM]   0.00-2.00   sec  3.00 MBytes  12.6 Mbits/sec  receiver
`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}

	v = term.Intervals{Every: true, Streams: 1, Alone: true, Name: v.Name}
	v.Begin()
	if text := strings.Join(v.Add(moved(0, false, 1)), "\n"); !strings.HasPrefix(text, "to nas: what desk sent\n") || !strings.Contains(text, "\n[  1]   0.00-1.00 ") {
		t.Errorf("beside another program's server:\n%s", text)
	}
	v = term.Intervals{Streams: 1, Name: v.Name}
	v.Begin()
	if lines := v.Add(moved(0, false, 1)); len(lines) > 0 {
		t.Errorf("nobody asked for intervals: %q", lines)
	}
}
