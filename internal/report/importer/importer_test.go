package importer

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func load(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
}

func value(t Test, d model.Direction, m model.Metric) float64 {
	r := model.Run{Values: t.Values}
	v, ok := r.Value(d, m)
	if !ok {
		return math.NaN()
	}
	return v
}

func count(t Test, m model.Metric) (n int) {
	for _, s := range t.Samples {
		if s.Metric == m {
			n++
		}
	}
	return n
}

// TestPrograms reads the output of real programs (iperf 2.1.8, iperf 3.12, NPtcp 3.7, nuttcp
// 6.1.2, sockperf 3.7 on a path of 200 Mbit/s), and examples from the manuals of netperf,
// perftest and flent.
func TestPrograms(t *testing.T) {
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-6*math.Abs(want) }
	for name, c := range map[string]struct {
		format    string
		tests     int
		direction model.Direction
		streams   int
		goodput   float64 // of the last test, in the direction or towards the far end
		samples   int     // intervals of its rate
		metric    model.Metric
	}{
		"iperf2.txt":        {"iperf2", 1, model.To, 1, 186e6, 3, model.Sent},
		"iperf2-30.txt":     {"iperf2", 1, model.To, 1, 0, 30, model.Sent},
		"iperf2-p2.txt":     {"iperf2", 1, model.To, 2, 190.5e6, 2, model.Sent},
		"iperf2-plain.txt":  {"iperf2", 1, model.To, 1, 0, 0, model.Sent},
		"iperf2-udp.txt":    {"iperf2", 1, model.To, 1, 21e6, 2, model.Sent},
		"iperf2-server.txt": {"iperf2", 3, model.To, 1, 112e6, 1, model.Goodput},
		"iperf3.txt":        {"iperf3", 1, model.To, 1, 0, 3, model.Sent},
		"iperf3-p2.txt":     {"iperf3", 1, model.To, 2, 189e6, 2, model.Sent},
		"iperf3-udp.txt":    {"iperf3", 1, model.To, 1, 50e6, 2, model.Sent},
		"iperf3-bidir.txt":  {"iperf3", 1, model.Both, 1, 167e6, 2, model.Sent},
		"iperf3.json":       {"iperf3-json", 1, model.To, 1, 0, 3, model.Sent},
		"iperf3-p2.json":    {"iperf3-json", 1, model.To, 2, 0, 3, model.Sent},
		"iperf3-r.json":     {"iperf3-json", 1, model.From, 1, 0, 2, model.Goodput},
		"iperf3-udp.json":   {"iperf3-json", 1, model.To, 1, 0, 2, model.Sent},
		"iperf3-bidir.json": {"iperf3-json", 1, model.Both, 1, 134798355.40803546, 2, model.Sent},
		"np.out":            {"netpipe", 1, model.To, 0, 0, 0, model.Goodput},
		"nuttcp.txt":        {"nuttcp", 1, model.To, 0, 189.8801e6, 3, model.Goodput},
		"nuttcp-parse.txt":  {"nuttcp", 1, model.To, 0, 191.0974e6, 0, model.Goodput},
		"nuttcp-udp.txt":    {"nuttcp", 1, model.To, 0, 19.943e6, 0, model.Goodput},
		"sockperf.txt":      {"sockperf", 1, model.To, 0, 0, 0, model.Goodput},
		"sockperf-rtt.txt":  {"sockperf", 1, model.To, 0, 0, 0, model.Goodput},
		"netperf.txt":       {"netperf", 2, model.To, 0, 0, 0, model.Goodput},
		"ib_send_bw.txt":    {"perftest", 1, model.To, 0, 0, 0, model.Goodput},
		"ib_send_lat.txt":   {"perftest", 1, model.To, 0, 0, 0, model.Goodput},
		"rrul.flent.gz":     {"flent", 1, model.Both, 0, 94.2e6, 2, model.Goodput},
	} {
		t.Run(name, func(t *testing.T) {
			f := must.Get(Read("", load(t, name), Options{}))(t)
			must.Need(t, f.Format == c.format && len(f.Tests) == c.tests, "%s, %d tests", f.Format, len(f.Tests))
			last := f.Tests[len(f.Tests)-1]
			must.True(t, last.Flow.Direction == c.direction && last.Flow.Streams == c.streams, "%s, %d streams", last.Flow.Direction, last.Flow.Streams)
			got := value(last, last.Flow.Direction.Parts()[0], model.Goodput)
			must.True(t, !(c.goodput > 0) || near(got, c.goodput), "goodput %g, want %g", got, c.goodput)
			n := 0
			for _, s := range last.Samples {
				if s.Metric == c.metric && s.Direction == last.Flow.Direction.Parts()[0] {
					n++
				}
			}
			must.True(t, n == c.samples, "%d intervals, want %d", n, c.samples)
		})
	}
}

// TestMeaning checks what the programs mean by their numbers.
func TestMeaning(t *testing.T) {
	read := func(name string) Test { return must.Get(Read("", load(t, name), Options{}))(t).Tests[0] }
	first := read("np.out").Points[0]
	must.True(t, first.Size == 1 && !(math.Abs(first.Trials[0].Seconds()-1.4154e-5) > 2e-8), "%+v", first)
	both := must.Get(Read("", []byte("2 1.52588 0.00001\n4 3.05176 0.00001\n6 4.57764 0.00001\n"), Options{}))(t).Tests[0]
	must.Contain(t, strings.Join(both.Notes, "\n"), "both directions together", "NPtcp -2")
	printed := must.Get(Read("", []byte(others["NPtcp, its output"]), Options{}))(t).Tests[0].Points
	must.True(t, len(printed) == 3 && printed[0].Trials[0] == 23100*time.Nanosecond && printed[2].Size == 3, "%+v", printed)
	double := must.Get(Read("", []byte(pipeBoth+"\n  0:       3 bytes     20 times -->     45.78 Mbps in       1.00 usec\n  1:       4 bytes     20 times -->"), Options{}))(t).Tests[0]
	must.True(t, double.Points[0].Size == 3 && strings.Contains(double.Notes[0], "line 3 has no result"), "%+v", double)
	nut := must.Get(Read("", []byte(reconciled["nuttcp -v -r -I"].text), Options{}))(t).Tests[0]
	must.True(t, value(nut, model.From, model.Retransmits) == 3 && nut.Flow.Streams == 1 && nut.Far == "192.0.2.2", "%+v", nut)
	half, full := read("sockperf.txt"), read("sockperf-rtt.txt")
	if got := value(half, model.To, model.LatencyP50); math.Abs(got-2*8.956e-6) > 1e-12 {
		t.Errorf("sockperf's half of a round trip: %g", got)
	}
	if got := value(full, model.To, model.LatencyP99); math.Abs(got-462.270e-6) > 1e-12 {
		t.Errorf("sockperf's whole round trip: %g", got)
	}
	u := read("iperf2-udp.txt")
	must.True(t, value(u, model.To, model.LossRatio) == 0 && value(u, model.To, model.Jitter) == 4e-6 && len(u.Notes) == 0, "%+v", u)
	s := read("iperf2.txt")
	must.True(t, len(s.Notes) == 1 && s.Notes[0] == bySender(model.To), "a client of iperf 2 counts what it sends: %q", s.Notes)
	s = read("iperf2-server.txt")
	must.True(t, s.Near == "10.8.0.1" && s.Far == "10.8.0.2" && len(s.Notes) == 0, "%+v", s)
	got := value(read("ib_send_lat.txt"), model.To, model.LatencyP99)
	must.True(t, !(math.Abs(got-2.5e-6) > 1e-12), "%g", got)
	bw := read("ib_send_bw.txt")
	must.True(t, math.Abs(bw.Points[1].Trials[0].Seconds()-65536/(10973.21*(1<<20))) <= 1e-9, "%+v", bw.Points)
	q := must.Get(Read("", []byte(others["qperf, latency"]), Options{}))(t)
	must.True(t, math.Abs(value(q.Tests[1], model.To, model.RTT)-27e-6) < 1e-12, "qperf's half of a round trip: %+v", q.Tests[1])
	bounced := must.Get(Read("", []byte(others["iperf 2 --bounceback"]), Options{}))(t).Tests[0]
	must.True(t, math.Abs(value(bounced, model.To, model.RTT)-61e-6) < 1e-12 && math.IsNaN(value(bounced, model.To, model.Goodput)), "%+v", bounced)
	f, err := Read("", load(t, "netperf.txt"), Options{})
	must.True(t, err == nil && value(f.Tests[1], model.To, model.RequestRate) == 24512.10 && !(math.Abs(value(f.Tests[1], model.To, model.LatencyP99)-61e-6) > 1e-12), "%+v, %v", f.Tests, err)
}

// TestSummaryIsNoInterval: the 31st line of a 30 s test is its summary. Five such logs in one
// file have 150 intervals of five runs, not 155.
func TestSummaryIsNoInterval(t *testing.T) {
	f := must.Get(Read("", []byte(strings.Repeat(string(load(t, "iperf2-30.txt")), 5)), Options{}))(t)
	intervals := 0
	for _, one := range f.Tests {
		intervals += count(one, model.Sent)
	}
	must.True(t, len(f.Tests) == 5 && intervals == 150, "%d runs, %d intervals", len(f.Tests), intervals)
}

// TestFewAnswers: the import leaves out percentiles of too few answers, and those that fall
// among the lost ones, and notes how many answers there were.
func TestFewAnswers(t *testing.T) {
	file := func(name string, change ...string) string {
		return strings.NewReplacer(change...).Replace(string(load(t, name)))
	}
	pings := func(seq ...int) string {
		var axis, raw []string
		for i, n := range seq {
			axis, raw = append(axis, fmt.Sprint(i)), append(raw, fmt.Sprintf(`{"t":%d,"val":1,"seq":%d}`, i, n))
		}
		return fmt.Sprintf(`{"x_values":[%[1]s],"results":{"Ping (ms) ICMP":[%[1]s]},"metadata":{"STEP_SIZE":1},"raw_values":{"Ping (ms) ICMP":[%[2]s,{"t":9,"seq":%[3]d,"lost":true}]}}`, strings.Join(axis, ","), strings.Join(raw, ","), seq[len(seq)-1]+1)
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 2 * i
	}
	for name, c := range map[string]struct {
		text     string
		p50, p99 bool
		note     string
	}{
		"sockperf, 14 of 1301":       {file("sockperf-ul.txt"), true, false, "answered 14 of 1301 messages"},
		"sockperf, 1 in 50 dropped":  {file("sockperf-rtt.txt", "SentMessages=9445", "SentMessages=9645", "dropped messages = 0", "dropped messages = 200"), true, false, "of 9645 requests 200 were never answered"},
		"sockperf, enough":           {file("sockperf-rtt.txt"), true, true, ""},
		"sockperf without counts":    {file("sockperf-rtt.txt", "Total 9445 observations", ""), true, true, "may be of a few"},
		"sockperf, counts apart":     {file("sockperf-rtt.txt", "Total 9445 ", "Total 9000 "), true, true, "9445 messages were received, and 9000 observed"},
		"netperf, 99 transactions":   {file("netperf.txt", "24512.10", "9.90"), true, false, "it takes 100 answers or more, and there are 99"},
		"netperf, an unknown number": {"Throughput,Throughput Units,99th Percentile Latency Microseconds\n12.5,Trans/s,900\n", false, true, "may be of a few"},
		"perftest, 20 iterations":    {file("ib_send_lat.txt", " 1000 ", " 20 "), true, false, "there are 20"},
		"flent, 3 pings":             {file("rrul.flent.gz"), true, false, "there are 3"},
		"flent, every second ping":   {pings(hundred...), true, false, "answered 100 of 200 pings"},
	} {
		t.Run(name, func(t *testing.T) {
			one := must.Get(Read("", []byte(c.text), Options{}))(t).Tests
			last := one[len(one)-1]
			has := func(m model.Metric) bool { return !math.IsNaN(value(last, last.Flow.Direction.Parts()[0], m)) }
			must.True(t, has(model.LatencyP50) == c.p50 && has(model.LatencyP99) == c.p99, "%+v", last.Values)
			notes := strings.Join(last.Notes, "\n")
			must.True(t, strings.Contains(notes, c.note) && (c.note != "" || notes == ""), "notes %q, want %q", notes, c.note)
		})
	}
}

// log is a log of two tests equal to one, and of a failed test that note describes.
type log struct{ one, text, note string }

// upTo returns the first lines of a file.
func upTo(t *testing.T, name string, lines int) string {
	all := strings.SplitAfter(string(load(t, name)), "\n")
	if lines < 0 {
		lines += len(all)
	}
	return strings.Join(all[:lines], "")
}

// failedLogs returns logs in every format that can hold several tests.
func failedLogs(t *testing.T) map[string]log {
	three, two, doc, events := string(load(t, "iperf3.txt")), string(load(t, "iperf2.txt")), string(load(t, "iperf3.json")), reconciled["stream of events"].text
	csv := others["iperf 2 -y C of datagrams"]
	nut, nutv, sock, lat, bw, latJSON := string(load(t, "nuttcp.txt")), reconciled["nuttcp -v"].text, string(load(t, "sockperf.txt")), string(load(t, "ib_send_lat.txt")), string(load(t, "ib_send_bw.txt")), others["perftest, its JSON"]
	const noServer = `{"start":{"connected":[]},"intervals":[],"end":{},"error":"error - unable to connect to server: Connection refused"}` + "\n"
	const busy = `{"event":"start","data":{}}` + "\n" + `{"event":"error","data":"the server is busy"}` + "\n" + `{"event":"end","data":{}}` + "\n"
	const alone = "Client connecting to 10.8.0.2, TCP port 5001\nconnect failed: Connection refused\n"
	const noRDMA = "Couldn't connect to 10.8.0.2:18515\nUnable to open file descriptor for socket connection\n Unable to init the socket connection\n"
	const noSock = "sockperf: == version #3.7-no.git == \nsockperf: ERROR: Can`t connect socket (errno=111 Connection refused)\n"
	return map[string]log{
		"iperf3, no connection":     {three, three + "run 2\niperf3: error - unable to connect to server: Connection refused\n" + three, "line 14: a test is not imported: the test failed: iperf3: error - unable to connect to server: Connection refused"},
		"iperf3, a busy server":     {three, three + "Connecting to host h, port 5201\niperf3: error - the server is busy\n" + three, "lines 13 to 14: a test is not imported: line 14: the test failed: iperf3: error - the server is busy"},
		"iperf3, killed at once":    {three, upTo(t, "iperf3.txt", 3) + three + three, "lines 1 to 3: a test is not imported: the test that begins here has no result: it was cut off"},
		"iperf3 -J, no connection":  {doc, doc + noServer + doc, fmt.Sprintf("line %d: a test is not imported: the test failed: unable to connect to server: Connection refused", strings.Count(doc, "\n")+1)},
		"iperf3 -J, killed":         {doc, upTo(t, "iperf3.json", 40) + doc + doc, "lines 1 to 40: a test is not imported: "},
		"iperf3 --json-stream":      {events, busy + events + events, "lines 1 to 3: a test is not imported: the test failed: the server is busy"},
		"iperf 2, no connection":    {two, two + alone + two, "lines 11 to 13: a test is not imported: line 12: the test failed: connect failed: Connection refused"},
		"iperf 2, the first":        {two, alone + two + two, "lines 1 to 3: a test is not imported: line 2: the test failed: connect failed: Connection refused"},
		"iperf 2 -y C":              {csv, csv + "connect failed: Connection refused\n" + csv, "line 4: a test is not imported: the test failed: connect failed: Connection refused"},
		"iperf 2 -y C, the first":   {csv, "connect failed: Connection refused\n" + csv + csv, "line 1: a test is not imported: the test failed: connect failed: Connection refused"},
		"nuttcp, a blocked port":    {nut, nut + "nuttcp-t: v6.1.2: Error: server not ACKing data\n" + nut, "line 6: a test is not imported: the test failed: nuttcp-t: v6.1.2: Error: server not ACKing data"},
		"nuttcp, killed by a fault": {nut, upTo(t, "nuttcp.txt", 2) + "nuttcp-r: v6.1.2: Error: read\n" + nut + nut, "lines 1 to 3: a test is not imported: line 3: the test failed: nuttcp-r: v6.1.2: Error: read"},
		"nuttcp -v, no server":      {nutv, nutv + "nuttcp-t: v6.1.2: socket\nnuttcp-t: v6.1.2: Error: connect: Connection refused\n" + nutv, "lines 10 to 11: a test is not imported: line 11: the test failed: nuttcp-t: v6.1.2: Error: connect: Connection refused"},
		"nuttcp -v, killed":         {nutv, nutv + nutv + "nuttcp-t: v6.1.2: socket\n", "line 19: a test is not imported: the test that begins here has no result: it was cut off"},
		"sockperf, no connection":   {sock, sock + noSock + sock, fmt.Sprintf("lines %d to %[2]d: a test is not imported: line %[2]d: the test failed: sockperf: ERROR: Can`t connect socket (errno=111 Connection refused)", strings.Count(sock, "\n")+1, strings.Count(sock, "\n")+2)},
		"sockperf, killed":          {sock, upTo(t, "sockperf.txt", 8) + sock + sock, "lines 1 to 8: a test is not imported: the test that begins here has no percentiles: it was cut off"},
		"perftest, no connection":   {lat, lat + noRDMA + lat, "lines 5 to 8: a test is not imported: the test failed: Couldn't connect to 10.8.0.2:18515"},
		"perftest, the first":       {bw, noRDMA + bw + bw, "lines 1 to 4: a test is not imported: the test failed: Couldn't connect to 10.8.0.2:18515"},
		"perftest, killed":          {bw, bw + upTo(t, "ib_send_bw.txt", 5) + bw, "lines 10 to 14: a test is not imported: the test that begins here has no result: it was cut off"},
		"perftest, its JSON":        {latJSON, latJSON + noRDMA + latJSON, "lines 19 to 21: a test is not imported: the test failed: Couldn't connect to 10.8.0.2:18515"},
	}
}

// TestSomeFailed: the import reads the complete tests of a log as if they stood alone, and names
// the lines of the others and their faults.
func TestSomeFailed(t *testing.T) {
	for name, c := range failedLogs(t) {
		got, err := Read("", []byte(c.text), Options{})
		want := must.Get(Read("", []byte(c.one), Options{}))(t)
		must.Need(t, err == nil && len(got.Tests) == 2, "%s: %d tests, %v", name, len(got.Tests), err)
		for _, test := range got.Tests {
			must.Same(t, test.Values, want.Tests[0].Values, "%s", name)
			must.Equal(t, fmt.Sprint(test.Points), fmt.Sprint(want.Tests[0].Points), "%s", name)
		}
		must.Contain(t, strings.Join(got.Tests[0].Notes, "\n"), c.note, "%s", name)
	}
	for text, note := range map[string]string{
		upTo(t, "netperf.txt", 10): "lines 9 to 10: a test is not imported: ",
		"tcp_bw:\n    bw  =  1.6 GB/sec\nudp_bw:\n    send_bw  =  1.6 GB/sec\n": "lines 3 to 4: a test is not imported: test udp_bw has no recv_bw: it was cut off",
	} {
		got, err := Read("", []byte(text), Options{})
		must.True(t, err == nil && len(got.Tests) == 1 && strings.Contains(strings.Join(got.Tests[0].Notes, "\n"), note), "%+v, %v", got.Tests, err)
	}
}

// TestBroken: the import refuses cut-off, mixed or foreign files, and names the line.
func TestBroken(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"qperf failed":                      {"tcp_bw:\n192.0.2.9: failed to connect\n", "test tcp_bw failed: 192.0.2.9: failed to connect"},
		"qperf of RDMA":                     {"rc_bw:\n    bw  =  1.6 GB/sec\n", "those over TCP and UDP are read"},
		"qperf, a line of another test":     {"tcp_bw:\n    bw  =  1.6 GB/sec\n    latency  =  4 us\n", "which qperf writes of another test"},
		"iperf2 nothing":                    {upTo(t, "iperf2.txt", 4), "cut off"},
		"iperf2 comma":                      {strings.ReplaceAll(upTo(t, "iperf2.txt", -1), "23.0 MBytes", "23,0 MBytes"), "LC_ALL=C"},
		"iperf2 broken":                     {strings.Replace(upTo(t, "iperf2.txt", -1), "1.0000-2.0000 sec", "1.0000-2.0", 1), "line 8"},
		"iperf2 failed":                     {"------\nClient connecting to 10.0.0.1, TCP port 5001\nconnect failed: Connection refused\n", "failed"},
		"iperf3 nothing":                    {upTo(t, "iperf3.txt", 3), "cut off"},
		"iperf3 JSON cut":                   {upTo(t, "iperf3.json", 40), "cut off"},
		"iperf3 JSON bad":                   {strings.Replace(string(load(t, "iperf3.json")), `"bytes":`, `"bytes"`, 1), "line "},
		"iperf3 array cut":                  {"[" + string(load(t, "iperf3.json")) + ",", "cut off"},
		"iperf3 JSON, a line in the middle": {strings.Replace(string(load(t, "iperf3.json")), "\n", "\nwarning: slow\n", 1), "line 2: no JSON"},
		"iperf3 --bidir, keys dropped":      {strings.Replace(reconciled["streams that are not their sum"].text, `[{"streams":[`, `[{"streams":[`+sumJSON(1, 300, false, "")+",", 1), "dropped the keys"},
		"iperf3 refused":                    {`{"start":{"connected":[]},"intervals":[],"end":{},"error":"error - unable to connect to server: Connection refused"}`, "Connection refused"},
		"np.out mixed":                      {string(load(t, "np.out")) + "1.0.0.1 -> nas\n", "line "},
		"NPtcp failed":                      {others["NPtcp, its output"] + "  3:       4 bytes     20 times --> NetPIPE: read: error encountered, errno=104\n", "line 8: the test failed"},
		"np.out other":                      {"1 500 0.00001\n2 500 0.00001\n", "not the columns"},
		"iperf 2 server that connects back": {"Server listening on TCP port 5001\n[  5] local 192.0.2.2 port 5001 connected with 192.0.2.1 port 40000\nClient connecting to 192.0.2.1, TCP port 5001\n[  5] 0.0000-1.2020 sec   195 MBytes  1.36 Gbits/sec\n", "import the client's file"},
		"sockperf cut":                      {upTo(t, "sockperf.txt", 12), "cut off"},
		"iperf 2 --bounceback, cut":         {strings.Split(others["iperf 2 --bounceback"], "[  1] 0.0000-2")[0], "has no summary: it was cut off"},
		"empty":                             {" \n", "empty"},
		"binary":                            {"\x7fELF\x00\xff", "no text"},
		"gzip":                              {string(load(t, "rrul.flent.gz")[:60]), "compression"},
		"letter":                            {"Dear Sir,\n", "known"},
	} {
		must.Say(t, must.Err(Read("", []byte(c.text), Options{})), c.says, "%s", name)
	}
	must.Is(t, must.Err(Read("", []byte("Dear Sir,\n"), Options{})), ErrUnknown)
}

// columns parses --column arguments.
func columns(t *testing.T, all ...string) Options {
	t.Helper()
	var o Options
	for _, text := range all {
		o.Columns = append(o.Columns, must.Get(ParseColumn(text))(t))
	}
	return o
}

// TestTables imports tables of published articles.
func TestTables(t *testing.T) {
	shares := "table,direction,baseline,candidate,baseline_mb_s,candidate_mb_s\n1,write,mtu 1500,mtu 9000,87.6,90.5\n1,read,mtu 1500,mtu 9000,80.7,81.1\n"
	f, err := Read("", []byte(shares), columns(t, "direction=direction", "goodput=baseline_mb_s:MB/s@{baseline}", "goodput=candidate_mb_s:MB/s@{candidate}"))
	must.Need(t, err == nil && len(f.Tests) == 4, "%+v, %v", f, err)
	got := f.Tests[1]
	must.True(t, got.Setting == "mtu 9000" && got.Flow.Direction == model.To && value(got, model.To, model.Goodput) == 90.5*8e6, "%+v", got)
	windows := "test,window_bytes,avg,min,max\n1,65536,209.98,145.00,304.00\n"
	f, err = Read("", []byte(windows), columns(t, "setting=test", "setting=window_bytes", "goodput=avg:Mbit/s", "min=min:Mbit/s", "max=max:Mbit/s"))
	must.True(t, err == nil && f.Tests[0].Setting == "test 1, window_bytes 65536" && *f.Tests[0].Spread == (Spread{Min: 145e6, Max: 304e6}), "%+v, %v", f, err)
	for text, says := range map[string]string{
		"test,avg\n1\n":            "line 2",
		"test,avg\n1,\"2,5\"\n":    "LC_ALL=C",
		"test;avg\n1;2,5\n":        "semicolons",
		"test,avg\n1,-1\n":         "line 2",
		"test,other\n1,2\n":        `"avg"`,
		"test,avg\n1,2\n3,nan\n":   "line 3",
		"test,avg\n1,2\n3,1e999\n": "line 3",
	} {
		must.Say(t, must.Err(Read("", []byte(text), columns(t, "setting=test", "goodput=avg:Mbit/s"))), says, "%q", text)
	}
	for _, bad := range []string{"goodput=avg", "speed=avg:Mbit/s", "goodput=avg:furlong", "setting=a:ms", "goodput", "block=b@x"} {
		must.Fail(t, must.Err(ParseColumn(bad)), "%s", bad)
	}
}

// FuzzRead: a reader fails only with an error, whatever the text, and anything it reads has
// values.
func FuzzRead(f *testing.F) {
	all := must.Get(filepath.Glob("testdata/*.*"))(f)
	for _, name := range all {
		if text, err := os.ReadFile(name); err == nil {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Read("", text, Options{})
		if err != nil {
			return
		}
		for _, one := range got.Tests {
			must.True(t, len(one.Values) != 0 || len(one.Points) != 0, "%s: a test without a value", got.Format)
		}
	})
}
