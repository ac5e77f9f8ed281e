package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// mutated calls f with texts in which one line is left out, doubled or swapped with the next,
// and with the text cut off after it.
func mutated(text string, f func(how, text string)) {
	all := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n", "\n")
	all = all[:len(all)-1]
	for i := range all {
		join := func(parts ...[]string) string { return strings.Join(slices.Concat(parts...), "") }
		f(fmt.Sprintf("without line %d", i+1), join(all[:i], all[i+1:]))
		f(fmt.Sprintf("line %d twice", i+1), join(all[:i+1], all[i:]))
		if i > 0 {
			f(fmt.Sprintf("lines %d and %d swapped", i, i+1), join(all[:i-1], all[i:i+1], all[i-1:i], all[i+1:]))
			f(fmt.Sprintf("cut before line %d", i+1), join(all[:i]))
		}
	}
}

// TestMutated: a file with a line missing, doubled or out of order, or that is cut off, does
// not give different numbers silently: the import refuses it, reads it like the whole file, or
// adds a note.
func TestMutated(t *testing.T) {
	texts := map[string]string{}
	files := must.Get(filepath.Glob("testdata/*.txt"))(t)
	jsons := must.Get(filepath.Glob("testdata/*.json"))(t)
	for _, name := range append(append(files, jsons...), "testdata/np.out") {
		b := must.Get(os.ReadFile(name))(t)
		texts[filepath.Base(name)] = string(b)
	}
	maps.Copy(texts, others)
	for name, c := range reconciled {
		if strings.Count(c.text, "\n") > 1 {
			texts[name] = c.text
		}
		var spread bytes.Buffer // spreads a one-line document over a line per value
		if json.Indent(&spread, []byte(c.text), "", " ") == nil {
			texts[name+", spread"] = spread.String()
		}
	}
	for name, c := range failedLogs(t) {
		if strings.Count(c.text, "\n") < 60 { // the others are long, and in formats covered above
			texts["log of "+name] = c.text
		}
	}
	mutants := 0
	for name, text := range texts {
		whole, err := Read("", []byte(text), Options{})
		must.Dof(t, err, "%s", name)
		mutated(strings.ReplaceAll(text, "\r\n", "\n"), func(how, text string) {
			mutants++
			got, err := Read("", []byte(text), Options{})
			if err != nil {
				return
			}
			must.Equal(t, silent(whole, got), "", "%s, %s", name, how)
		})
	}
	t.Logf("%d files, %d mutants", len(texts), mutants)
}

// TestCutInALine: a file that was cut off in the middle of a number does not give another number
// silently.
func TestCutInALine(t *testing.T) {
	texts := maps.Clone(others)
	for _, name := range must.Get(filepath.Glob("testdata/*.txt"))(t) {
		texts[name] = string(must.Get(os.ReadFile(name))(t))
	}
	for name, c := range reconciled {
		texts[name] = c.text
	}
	for name, text := range texts {
		whole := must.Get(Read("", []byte(text), Options{}))(t)
		text = strings.TrimRight(text, "\n")
		from := max(1, len(text)-300)
		for i := from; i < len(text); i++ {
			if got, err := Read("", []byte(text[:i]), Options{}); err == nil {
				must.Equal(t, silent(whole, got), "", "%s, cut behind %q", name, text[max(0, i-40):i])
			}
		}
	}
}

// lineNumbers matches those in a note, which a missing line changes.
var lineNumbers = regexp.MustCompile(`lines? [0-9]+( to [0-9]+)?`)

// silent returns a number of got that whole lacks, unless a note of got, or one more note of
// the same text, explains it.
func silent(whole, got File) string {
	noted := map[string]int{}
	values := map[model.Value]bool{}
	type between struct { // the ends, and not which of them is the near one
		sender, receiver string
		m                model.Metric
		v                float64
	}
	ways := map[between]bool{}
	way := func(t Test, v model.Value) between {
		if v.Direction == model.From {
			t.Near, t.Far = t.Far, t.Near
		}
		return between{t.Near, t.Far, v.Metric, v.Value}
	}
	for _, one := range whole.Tests {
		for _, n := range one.Notes {
			noted[lineNumbers.ReplaceAllString(n, "")]++
		}
		for _, v := range one.Values {
			values[v], ways[way(one, v)] = true, one.Near != "" && one.Far != ""
		}
	}
	for _, one := range got.Tests {
		left := maps.Clone(noted)
		if slices.ContainsFunc(one.Notes, func(n string) bool {
			n = lineNumbers.ReplaceAllString(n, "")
			left[n]--
			return left[n] < 0
		}) {
			continue
		}
		for _, v := range one.Values {
			if !values[v] && !ways[way(one, v)] {
				return fmt.Sprintf("%s %s is %g", v.Direction, v.Metric, v.Value)
			}
		}
	}
	return ""
}

// TestNotesAreCounted: a file with a fault in every line lists a few of them and counts the
// others, so that the answer stays visible.
func TestNotesAreCounted(t *testing.T) {
	text := "Client connecting to 10.0.0.2, TCP port 5001\n[ ID] Interval       Transfer     Bandwidth\n" +
		strings.Repeat("[  3]  0.0- 1.0 sec  1.00 MBytes  8.39 Mbits/sec\n", 1000)
	notes := must.Get(Read("", []byte(text), Options{}))(t).Tests[0].Notes
	must.Equal(t, len(notes), maxNotes+1)
	must.Contain(t, notes[maxNotes], "warnings more")
}

// TestNothingArrived: a test whose receiver counted nothing has a goodput of zero, and the
// loss of its datagrams is not the zero of its sender, which cannot know.
func TestNothingArrived(t *testing.T) {
	const table = "[ ID] Interval           Transfer     Bitrate         Total Datagrams\n[  5]   0.00-1.00   sec   122 KBytes  1.00 Mbits/sec  125\n- - - - -\n" +
		"[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n[  5]   0.00-1.00   sec   122 KBytes  1.00 Mbits/sec  0.000 ms  0/125 (0%)  sender\n"
	const received = "[  5]   0.00-1.00   sec  0.00 Bytes  0.00 bits/sec  0.000 ms  0/0 (0%)  receiver\n"
	client := "Connecting to host h, port 5201\n[  5] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\n" + table
	server := "Accepted connection from 192.0.2.1, port 4\n[  5] local 192.0.2.2 port 5201 connected to 192.0.2.1 port 5\n" + table
	document := func(reverse int, more string) string {
		sent := sumJSON(1, 1, true, `,"packets":125,"lost_packets":0,"jitter_ms":0`)
		return "{" + strings.Replace(fmt.Sprintf(startJSON, "UDP", reverse), `{"version`, more+`{"version`, 1) + `,"intervals":[{"streams":[],"sum":` + sent + `}],"end":{"sum":` + sent + `,"sum_sent":` + sent +
			`,"sum_received":` + sumJSON(1, 0, false, `,"packets":0,"lost_packets":0,"jitter_ms":0`) + `}}`
	}
	ofServer := strings.Replace(document(1, ""), `{"version"`, `{"accepted_connection":{},"version"`, 1)
	for name, c := range map[string]struct {
		text  string
		d     model.Direction
		rate  float64
		loses bool
		note  string
	}{
		"a client's text": {client + received, model.To, 0, true, "nothing arrived of the 122 KiB that were sent"},
		"a server's text": {server, model.From, 1e6, false, bySender(model.From)},
		"a client's JSON": {document(0, ""), model.To, 0, true, "nothing arrived of the 125 kB"},
		"a server's JSON": {ofServer, model.From, 1e6, false, bySender(model.From)},
		"a client's text without the receiver's line": {client, model.To, 1e6, false, bySender(model.To)},
	} {
		t.Run(name, func(t *testing.T) {
			one := must.Get(Read("", []byte(c.text), Options{}))(t).Tests[0]
			must.Equal(t, one.Flow.Direction, c.d)
			must.Equal(t, value(one, c.d, model.Goodput), c.rate)
			must.Contain(t, strings.Join(one.Notes, "\n"), c.note)
			loss := -1.0
			for _, v := range one.Values {
				must.True(t, v.Metric != model.Jitter, "a jitter of datagrams that did not arrive: %+v", v)
				if v.Metric == model.LossRatio {
					loss = v.Value
				}
			}
			must.Equal(t, loss, map[bool]float64{true: 1, false: -1}[c.loses], "loss")
		})
	}
}

// TestServerThatSends: a server's log has no line that says -R; its header and its summaries
// tell that the server sent.
func TestServerThatSends(t *testing.T) {
	const banner = "Accepted connection from 192.0.2.1, port 4\n[  5] local 192.0.2.2 port 5201 connected to 192.0.2.1 port 5\n"
	const row = "[  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec"
	for name, text := range map[string]string{
		"3.2 on":                banner + "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n" + row + "    0   1.0 MBytes\n- - -\n[ ID] Interval           Transfer     Bitrate         Retr\n" + row + "    0             sender\n",
		"3.2 on, killed":        banner + "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n" + row + "    0   1.0 MBytes\n",
		"3.1, without tcp_info": banner + "[ ID] Interval           Transfer     Bandwidth\n" + row + "\n- - -\n[ ID] Interval           Transfer     Bandwidth\n" + row + "                  sender\n[  5]   0.00-1.00   sec  0.00 Bytes  0.00 bits/sec                  receiver\n",
	} {
		one := must.Get(Read("", []byte(text), Options{}))(t).Tests[0]
		must.Equal(t, one.Flow.Direction, model.From, "%s", name)
		must.Equal(t, value(one, model.From, model.Goodput), 998e6, "%s", name)
		must.Contain(t, strings.Join(one.Notes, "\n"), bySender(model.From), "%s", name)
	}
	received := strings.NewReplacer("Retr  Cwnd", "", "    0   1.0 MBytes", "").Replace(banner + "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n" + row + "    0   1.0 MBytes\n- - -\n" + row + "                  receiver\n")
	must.Equal(t, must.Get(Read("", []byte(received), Options{}))(t).Tests[0].Flow.Direction, model.To, "a server that receives")
}

// TestTransactionsInBits: netperf -f counts transactions as bits of both directions together,
// which is the goodput of neither.
func TestTransactionsInBits(t *testing.T) {
	const table = "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\n"
	for _, text := range []string{
		table + "Local /Remote\nSocket Size   Request  Resp.   Elapsed\nSend   Recv   Size     Size    Time     Throughput\nbytes  Bytes  bytes    bytes   secs.    10^6bits/sec\n\n16384  131072 1        1       1.00        0.01\n16384  131072\n",
		table + "REQUEST_SIZE=100\nTHROUGHPUT=6.91\nTHROUGHPUT_UNITS=10^6bits/s\n",
		"OMNI Send|Recv TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nProtocol,Throughput,Throughput Units\nTCP,6.91,10^6bits/s\n",
	} {
		must.Say(t, must.Err(Read("", []byte(text), Options{})), "both directions together")
	}
	one := must.Get(Read("", []byte(reconciled["netperf, the latency of sends"].text), Options{}))(t).Tests[0]
	must.Len(t, one.Values, 1, "how long a call of a stream took is no latency: %+v", one.Values)
}

// TestRowsWithoutBanner: the rows below the first one of a table, of netperf -P 0, are tests.
func TestRowsWithoutBanner(t *testing.T) {
	must.Equal(t, value(must.Get(Read("", []byte(reconciled["netperf -P 0"].text), Options{}))(t).Tests[1], model.To, model.Goodput), 300.5e6)
	datagrams := reconciled["netperf, datagrams"].text
	_, rows, _ := strings.Cut(datagrams, "\n\n")
	all := must.Get(Read("", []byte(datagrams+strings.ReplaceAll(rows, "2500.00", "2000.00")), Options{}))(t).Tests
	must.Need(t, len(all) == 2, "%+v", all)
	must.Equal(t, value(all[1], model.To, model.Goodput), 2000e6)
	must.Len(t, must.Get(Read("", []byte(others["netperf, its table of transactions"]), Options{}))(t).Tests, 1, "the second table of -v 2 is of the same test")
}

// TestReportBoth: the tables that perftest --report-both adds are of the test above them, and
// not tests of their own.
func TestReportBoth(t *testing.T) {
	const head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
	const line = "---------------------------------------------------------------------------------------\n"
	both := func(all, local, remote string) string {
		row := " 65536      5000             %s              %s		     0.100000\n"
		return "                    Send Bidirectional BW Test\n" + line + head + fmt.Sprintf(row, all, all) + line + "\n Local results: \n" + line + head + fmt.Sprintf(row, local, local) +
			line + "\n Remote results: \n" + line + head + fmt.Sprintf(row, remote, remote) + line
	}
	for name, c := range map[string]struct{ text, note string }{
		"alike":                {both("180.00", "90.00", "90.00"), ""},
		"apart":                {both("180.00", "100.00", "80.00"), "line 16: of messages of 64 KiB this end sent 100 Gbit/s and the other one 80 Gbit/s: what counts is their mean"},
		"not what both are":    {both("180.00", "90.00", "10.00"), "line 16: of messages of 64 KiB this end sent 90 Gbit/s and the other one 10 Gbit/s, and both together 180 Gbit/s"},
		"cut behind the first": {strings.SplitAfter(both("180.00", "90.00", "90.00"), "Local results: \n")[0], "the results of both ends are not whole"},
	} {
		f := must.Get(Read("", []byte(c.text), Options{}))(t)
		must.Need(t, len(f.Tests) == 1 && len(f.Tests[0].Points) == 1, "%s: %+v", name, f.Tests)
		must.True(t, f.Tests[0].Points[0].Trials[0] == 5825, "%s: %+v", name, f.Tests[0].Points)
		notes := strings.Join(f.Tests[0].Notes, "\n")
		must.True(t, (notes == "") == (c.note == ""), "%s: %s", name, notes)
		must.Contain(t, notes, c.note, "%s", name)
	}
	two := both("180.00", "90.00", "90.00")
	must.Len(t, must.Get(Read("", []byte(two+two), Options{}))(t).Tests, 2)
}

// TestVerboseAmongOthers: a log of nuttcp with -v and without it holds the tests of both.
func TestVerboseAmongOthers(t *testing.T) {
	verbose, short := reconciled["nuttcp -v"].text, reconciled["nuttcp -i -fparse"].text
	for name, text := range map[string]string{"-v first": verbose + "\n" + short, "-v last": short + verbose, "-v between": short + verbose + short} {
		f := must.Get(Read("", []byte(text), Options{}))(t)
		must.Equal(t, len(f.Tests), strings.Count(text, "real_seconds")+strings.Count(text, "nuttcp-t: v"), "%s", name)
		rates := map[float64]int{}
		for _, one := range f.Tests {
			rates[value(one, model.To, model.Goodput)]++
		}
		must.True(t, rates[25.1658e6] == 1 && rates[150.9949e6] == len(f.Tests)-1, "%s: %v", name, rates)
	}
}

// TestEndsOfCSV: iperf 2 -y C has no word for the direction: its ends tell of -d and -r, and the
// ports of who received datagrams.
func TestEndsOfCSV(t *testing.T) {
	all := must.Get(Read("", []byte(reconciled["iperf 2 -y C -d"].text), Options{}))(t).Tests
	must.Equal(t, all[1].Flow.Direction, model.From)
	must.Equal(t, value(all[1], model.From, model.Goodput), 200e6)
	must.Equal(t, all[1].Near+" "+all[1].Far, "192.0.2.1 192.0.2.2")
	for _, ends := range []string{"192.0.2.1,40000,192.0.2.2,5001", "192.0.2.2,5001,192.0.2.1,40000"} {
		one := must.Get(Read("", []byte(strings.ReplaceAll(others["iperf 2 -y C of datagrams"], "192.0.2.1,40000,192.0.2.2,5001", ends)), Options{}))(t).Tests[0]
		must.Equal(t, one.Near+" "+one.Far, "192.0.2.1 192.0.2.2", "%s", ends)
		must.Equal(t, one.Flow.Direction, model.To, "%s", ends)
	}
}
