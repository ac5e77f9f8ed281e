package term_test

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/term"
)

// moved returns the samples of an interval of two connections, as the far end received.
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

// told returns the report of the sending near end on the same interval.
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

// TestFirstHour18Intervals: intervals, connections and their sum appear in iperf3's columns,
// with times from the end of the warm-up and the counting host, and the sender's kernel data
// beside the receiver's counts, in whichever order the two report.
func TestFirstHour18Intervals(t *testing.T) {
	v := newIntervals(term.Intervals{Every: true, Streams: 2})
	var got []string
	for _, batch := range [][]model.Sample{
		told(2*time.Second+1e6, true, 4, 4, 0), moved(2*time.Second, true, 1e8, 2e8),
		moved(3*time.Second, false, 470e6, 471e6), told(3*time.Second+1e6, false, 7, 5, 2),
		moved(4*time.Second, false, 9.4e9, 1e3), // without a report from its sender
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

// TestFirstHour18Datagrams: UDP shows the receiver's jitter and losses, and for a server
// without a report how many were sent.
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

// jargon matches technical terms that readers may not know. An untrustworthy session always
// says what differed.
var jargon = regexp.MustCompile(`(?i)e-value|\bp [0-9]|\bp assumes|\balpha\b|bootstrap|evidence|intervals? of [0-9]|confidence|noise of|over runs|over intervals|together:|copy of the baseline|guard (holds|violated|not decided)|larger than the margin|not enough data`)

// leading matches the start of a command that a report suggests.
var leading = regexp.MustCompile(`(^|: | {4})linerate (show|run|tune|keep|test|check|set|sweep|copy|knobs|recheck|demo|undo) ?\S`)

// TestBothWaysWithAForeignServer: one heading fits both directions, and what the server did not
// report is left out.
func TestBothWaysWithAForeignServer(t *testing.T) {
	v := newIntervals(term.Intervals{Every: true, Streams: 1, Alone: true, Both: true})
	sample := func(d model.Direction, m model.Metric, value float64) model.Sample {
		return model.Sample{Host: model.Near, Direction: d, Metric: m, Length: time.Second, Value: value}
	}
	got := v.Add([]model.Sample{sample(model.From, model.Goodput, 8e9)})
	got = append(got, v.Add([]model.Sample{sample(model.To, model.Sent, 4e9), sample(model.To, model.Retransmits, 3), sample(model.To, model.Cwnd, 1<<20)})...)
	sent := model.FlowReport{Direction: model.To, Role: model.Sender, Bytes: 2 << 20, Window: time.Second, TCP: &model.TCPSummary{Retransmits: fact.Known[int64](3, "test")}}
	copied := model.FlowReport{Direction: model.To, Role: model.Receiver, Bytes: sent.Bytes, Window: sent.Window}
	got = append(got, v.End(model.Run{Ends: []model.EndReport{{Host: model.Near, Flows: []model.FlowReport{sent}}, {Host: model.Far, Flows: []model.FlowReport{copied}}}})...)
	same(t, "both ways", got, strings.TrimPrefix(`
to nas (TX-C): what desk sent; from it (RX-C): what desk received
[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd
[  1][RX-C]   0.00-1.00   sec   954 MBytes  8.00 Gbits/sec
[  1][TX-C]   0.00-1.00   sec   477 MBytes  4.00 Gbits/sec    3   1.00 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID][Role] Interval           Transfer     Bitrate         Retr
[  1][TX-C]   0.00-1.00   sec  2.00 MBytes  16.8 Mbits/sec    3             sender
`, "\n"))
}

// Issue 12, point 7: every printed report fits its width, avoids statistical terms unless asked
// for them, and ends with a next command.
func TestEveryGoldenReport(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/*.golden"))(t)
	must.Need(t, len(files) >= 50, "%d golden reports:", len(files))
	reports := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".golden")
		raw := must.Get(os.ReadFile(file))(t)
		text := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(string(raw), "")
		width := 80
		switch {
		case strings.HasSuffix(name, "-wide"):
			width = 120
		case strings.HasSuffix(name, "-40"):
			width = 40
		}
		for _, fault := range faults(text, width, strings.HasSuffix(name, "-details"), !strings.HasPrefix(name, "list") && name != "copypath") { // which no store has
			t.Errorf("%s: %s", name, fault)
		}
		reports++
	}
	t.Logf("%d golden reports", reports)
}

// The same holds for a comparison of two sessions, and for a search, even one that a budget or
// an interruption cut short.
func TestOthersLeadOn(t *testing.T) {
	compared := func(w io.Writer, o term.Options) error {
		p := term.NewPage(o)
		p.Text("A  20261121T070000-9a4d  lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=64KiB")
		p.Gap()
		p.Table([]string{"setting", "direction", ">median A", ">runs", ">median B", ">runs", ">change"}, [][]string{
			{"far.tcp.recv_buffer_max=64KiB", "near -> far", "941.5 Mbit/s", "20", "1.009 Gbit/s", "20", "+7.17 %"}, {"current", "far -> near", "-", "-", "941.5 Mbit/s", "20", "-"},
		}, nil)
		p.Gap()
		p.Note("no verdict: the two sessions ran one after the other")
		p.Command(report.Step{What: "see the second one", Command: "linerate show 20261121T080000-9a4d"})
		return p.Print(w)
	}
	tuned := func(s model.Session, rec tune.Record) func(io.Writer, term.Options) error {
		s.ID, s.Command = "20261121T090000-9a4d", []string{"/usr/bin/linerate", "tune", "root@nas", "--budget", "90s", "--direction=to"}
		return func(w io.Writer, o term.Options) error { return term.RenderTuned(w, report.BuildTuned(s, rec, nil), o) }
	}
	for name, c := range map[string]struct {
		write func(io.Writer, term.Options) error
		last  string
	}{
		"compared":    {compared, "see the second one: linerate show 20261121T080000-9a4d"},
		"tuned":       {tuned(model.Session{State: model.SessionDone}, tune.Record{Reason: "no other setting is known to help"}), "see this again: linerate show 20261121T090000-9a4d"},
		"short":       {tuned(model.Session{State: model.SessionDone}, tune.Record{Reason: tune.BudgetSpent}), "without a budget: linerate tune root@nas --direction=to"},
		"interrupted": {tuned(model.Session{State: model.SessionInterrupted}, tune.Record{}), "go on: linerate tune --resume 20261121T090000-9a4d"},
	} {
		for _, width := range []int{40, 80} {
			var text strings.Builder
			must.Do(t, c.write(&text, term.Options{Width: width}))
			for _, fault := range faults(text.String(), width, false, true) {
				t.Errorf("%s at %d columns: %s\n%s", name, width, fault, &text)
			}
			must.True(t, width != 80 || strings.HasSuffix(text.String(), "  "+c.last+"\n"), "%s does not end with %q:\n%s", name, c.last, &text)
		}
	}
}

// faults returns the faults of a report of this width; whole marks a session's report, which
// ends with a command.
func faults(text string, width int, details, whole bool) (out []string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > width && strings.Contains(strings.TrimSpace(line), " ") { // one word stays whole, to be copied
			out = append(out, "a line of "+line)
		}
	}
	if found := jargon.FindString(text); found != "" && !details {
		out = append(out, "statistics without --details: "+found)
	}
	last := lines[len(lines)-1]
	for i := len(lines) - 2; i >= 0 && strings.HasSuffix(lines[i], ` \`); i-- { // of one command
		last = lines[i]
	}
	if whole && !leading.MatchString(last) {
		out = append(out, "ends with no command: "+last)
	}
	return out
}
