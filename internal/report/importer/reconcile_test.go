package importer

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"linerate/docs"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/must"
)

// sumJSON returns a sum of iperf3's JSON, starting at 0.
func sumJSON(to, mbit float64, sender bool, more string) string {
	return fmt.Sprintf(`{"start":0,"end":%g,"seconds":%g,"bytes":%.0f,"bits_per_second":%.0f,"omitted":false,"sender":%t%s}`, to, to, mbit*1e6/8*to, mbit*1e6, sender, more)
}

const startJSON = `"start":{"version":"iperf 3.7","test_start":{"protocol":"%s","num_streams":1,"reverse":%d}}`

// reconciled holds files whose parts contradict each other, or that imports once refused for
// fields that their version does not write, with the expected result.
var reconciled = map[string]struct {
	text string
	want map[model.Direction]float64 // goodput
	note string                      // expected note; "": no note at all
}{
	"repeated keys of --bidir": {
		`{` + fmt.Sprintf(startJSON, "TCP", 0) + `,"intervals":[{"streams":[],"sum":` + sumJSON(2, 700, true, "") + `,"sum":` + sumJSON(2, 200, false, "") + `}],"end":{
		"sum_sent":` + sumJSON(2, 700, true, "") + `,"sum_received":` + sumJSON(2, 690, true, "") + `,"sum_sent":` + sumJSON(2, 205, false, "") + `,"sum_received":` + sumJSON(2, 200, false, "") + `}}`,
		map[model.Direction]float64{model.To: 690e6, model.From: 200e6}, bySenderNone},
	"the sum of UDP is the sender's": {`{` + fmt.Sprintf(startJSON, "UDP", 1) + `,"intervals":[{"streams":[],"sum":` + sumJSON(2, 300, false, "") + `}],"end":{"sum":` + sumJSON(2, 900, true, `,"packets":900,"lost_packets":600,"jitter_ms":1`) + `}}`,
		map[model.Direction]float64{model.From: 300e6}, bySenderNone},
	"interrupted": {`{` + fmt.Sprintf(startJSON, "TCP", 0) + `,"intervals":[{"streams":[],"sum":` + sumJSON(1, 500, true, "") + `}],"end":{},"error":"interrupt - the client has terminated"}`,
		map[model.Direction]float64{model.To: 500e6}, "the client has terminated"},
	"streams that are not their sum": {`{` + fmt.Sprintf(startJSON, "TCP", 0) + `,"intervals":[{"streams":[` + sumJSON(1, 100, true, "") + `],"sum":` + sumJSON(1, 500, true, "") + `}],"end":{"sum_sent":` + sumJSON(1, 500, true, "") + `,"sum_received":` + sumJSON(1, 490, true, "") + `}}`,
		map[model.Direction]float64{model.To: 490e6}, "their sum says"},
	"streams that are not their summary": {
		`{` + fmt.Sprintf(startJSON, "TCP", 0) + `,"intervals":[{"streams":[],"sum":` + sumJSON(1, 500, true, "") + `}],"end":{"streams":[{"sender":` + sumJSON(1, 500, true, "") + `,"receiver":` + sumJSON(1, 100, true, "") + `}],"sum_sent":` + sumJSON(1, 500, true, "") + `,"sum_received":` + sumJSON(1, 490, true, "") + `}}`,
		map[model.Direction]float64{model.To: 490e6}, "the streams received 12.5 MB, and their sum says 61.2 MB"},
	"-nan": {`{` + fmt.Sprintf(startJSON, "TCP", 0) + `,"intervals":[{"streams":[],"sum":` + sumJSON(1, 500, true, `,"lost_percent":	-nan`) + `}],"end":{"sum_sent":` + sumJSON(1, 500, true, "") + `,"sum_received":` + sumJSON(1, 490, true, `,"lost_percent": nan`) + `}}`,
		map[model.Direction]float64{model.To: 490e6}, bySenderNone},
	"iperf3 -V": {
		"iperf 3.1.3\nCYGWIN_NT-10.0 a 2.5.1(0.297/5/3) x86_64\nTime: Mon, 26 Jun 2017 14:08:52 GMT\nConnecting to host 192.0.2.2, port 5207\n      Cookie: abc\n[  4] local 192.0.2.1 port 57434 connected to 192.0.2.2 port 5207\nStarting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 0 seconds, 1 second test\n" +
			"[ ID] Interval           Transfer     Bandwidth\n[  4]   0.00-1.00   sec  23.8 MBytes   200 Mbits/sec\n- - - - - - - - - - - - - - - - - - - - - - - - -\nTest Complete. Summary Results:\n[ ID] Interval           Transfer     Bandwidth\n" +
			"[  4]   0.00-1.00   sec  23.8 MBytes   200 Mbits/sec                  sender\n[  4]   0.00-1.00   sec  23.7 MBytes   199 Mbits/sec                  receiver\nCPU Utilization: local/sender 3.5% (1.4%u/2.1%s), remote/receiver 0.0% (0.0%u/0.0%s)\n\niperf Done.\n",
		map[model.Direction]float64{model.To: 199e6}, bySenderNone},
	"stream of events": {
		`{"event":"start","data":{"version":"iperf 3.18","test_start":{"protocol":"TCP","num_streams":1}}}` + "\n" + `{"event":"interval","data":{"sum":` + sumJSON(1, 500, true, "") + `}}` + "\n" +
			`{"event":"end","data":{"sum_sent":` + sumJSON(1, 500, true, "") + `,"sum_received":` + sumJSON(1, 480, true, "") + `}}` + "\n",
		map[model.Direction]float64{model.To: 480e6}, bySenderNone},
	"stream of events, cut": {`{"event":"start","data":{"version":"iperf 3.18","test_start":{"protocol":"TCP","num_streams":1}}}` + "\n" + `{"event":"interval","data":{"sum":` + sumJSON(1, 500, true, "") + `}}` + "\n" + `{"event":"inter`,
		map[model.Direction]float64{model.To: 500e6}, "did not end by itself"},
	"stream of events in the log of a container": {
		`2026-11-27T07:38:10.123456789Z {"event":"start","data":{"test_start":{"protocol":"TCP","num_streams":1}}}` + "\n" + `2026-11-27T07:38:11.1Z {"event":"interval","data":{"sum":` + sumJSON(1, 500, true, "") + `}}` + "\n" +
			`2026-11-27T07:38:11+00:00 {"event":"end","data":{"sum_sent":` + sumJSON(1, 500, true, "") + `,"sum_received":` + sumJSON(1, 480, true, "") + `}}` + "\n",
		map[model.Direction]float64{model.To: 480e6}, bySenderNone},
	"stream of events and its document": {
		strings.ReplaceAll(`{"event":"start","data":{"cookie":"abc","test_start":{"protocol":"TCP","num_streams":1}}}`+"\n"+`{"event":"interval","data":{"sum":=}}`+"\n"+`{"event":"end","data":{"sum_sent":=,"sum_received":=}}`+"\n"+
			`{"start":{"cookie":"abc","test_start":{"protocol":"TCP","num_streams":1}},`+"\n"+`"intervals":[{"streams":[],"sum":=}],`+"\n"+`"end":{"sum_sent":=,"sum_received":=}}`+"\n", "=", sumJSON(1, 500, true, "")),
		map[model.Direction]float64{model.To: 500e6}, bySenderNone},
	"iperf3 -J in an array, as jq -s makes it": {"[\n{" + fmt.Sprintf(startJSON, "TCP", 0) + `,"intervals":[{"streams":[],"sum":` + sumJSON(1, 500, true, "") + `}],"end":{"sum_sent":` + sumJSON(1, 500, true, "") + `,"sum_received":` + sumJSON(1, 480, true, "") + "}}\n]\n",
		map[model.Direction]float64{model.To: 480e6}, bySenderNone},
	"iperf3 -J between lines of a shell": {
		"$ iperf3 -J -c h 2>&1\nwarning: this system does not seem to support IPv6 - trying IPv4\n{" + fmt.Sprintf(startJSON, "TCP", 0) + ",\n" + `"intervals":[{"streams":[],"sum":` + sumJSON(1, 500, true, "") + "}],\n" + `"end":{"sum_sent":` + sumJSON(1, 500, true, "") + ",\n" + `"sum_received":` + sumJSON(1, 480, true, "") + "}}\n$ exit\n",
		map[model.Direction]float64{model.To: 480e6}, `line 2 is not of iperf3's JSON, and was skipped: "warning: this system does not seem to support IPv6 - trying IPv4"` + "\n" + `line 7`},
	"iperf3 3.1, UDP": {
		"Connecting to host h, port 5201\n[  4] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\n[ ID] Interval           Transfer     Bandwidth       Total Datagrams\n" +
			"[  4]   0.00-1.00   sec   1.25 MBytes  10.5 Mbits/sec  160  \n- - - - -\n[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams\n[  4]   0.00-1.00   sec  1.25 MBytes  10.5 Mbits/sec  0.100 ms  80/160 (50%)  \n[  4] Sent 160 datagrams\n",
		map[model.Direction]float64{model.To: 5.25e6}, "less the 50 %"},
	"iperf3 3.1, UDP, received": {
		"Connecting to host h, port 5201\nReverse mode, remote host h is sending\n[  4] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\n[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams\n" +
			"[  4]   0.00-1.00   sec   1.25 MBytes  10.5 Mbits/sec  0.1 ms  160/320 (50%)  \n- - - - -\n[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams\n[  4]   0.00-1.00   sec  2.50 MBytes  21.0 Mbits/sec  0.100 ms  160/320 (50%)  \n",
		map[model.Direction]float64{model.From: 10.5e6}, bySenderNone},
	"iperf3 with times before its lines": {
		"Wed Nov 25 12:08:36 2026 Connecting to host h, port 5201\nWed Nov 25 12:08:36 2026 [  5] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\nWed Nov 25 12:08:37 2026 [ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n" +
			"Wed Nov 25 12:08:37 2026 [  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec    0   1.0 MBytes\nWed Nov 25 12:08:37 2026 - - - - -\nWed Nov 25 12:08:37 2026 [ ID] Interval           Transfer     Bitrate         Retr\n" +
			"Wed Nov 25 12:08:37 2026 [  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec    0             sender\nWed Nov 25 12:08:37 2026 [  5]   0.00-1.00   sec   118 MBytes   990 Mbits/sec                  receiver\n",
		map[model.Direction]float64{model.To: 990e6}, bySenderNone},
	"iperf3 with the server's output": {
		"Connecting to host h, port 5201\n[  5] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\n[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n[  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec    0   1.0 MBytes\n- - - - -\n[ ID] Interval           Transfer     Bitrate         Retr\n" +
			"[  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec    0             sender\n[  5]   0.00-1.00   sec   118 MBytes   990 Mbits/sec                  receiver\n\nServer output:\nAccepted connection from 192.0.2.1, port 4\n[  6] local 192.0.2.2 port 5201 connected to 192.0.2.1 port 5\n" +
			"[ ID] Interval           Transfer     Bitrate\n[  6]   0.00-1.00   sec   118 MBytes   990 Mbits/sec\n- - - - -\n[ ID] Interval           Transfer     Bitrate\n[  6]   0.00-1.00   sec   118 MBytes   990 Mbits/sec                  receiver\n\niperf Done.\n",
		map[model.Direction]float64{model.To: 990e6}, bySenderNone},
	"iperf3 text, interrupted": {
		"iperf3: interrupt - the client has terminated\nConnecting to host h, port 5201\n[  5] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\n[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n[  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec    0   1.0 MBytes\n- - - - -\n[ ID] Interval           Transfer     Bitrate         Retr\n" +
			"[  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec    0             sender\n[  5]   0.00-1.00   sec  0.00 Bytes  0.00 bits/sec                  receiver\n",
		map[model.Direction]float64{model.To: 998e6}, "did not end by itself (the client has terminated)"},
	"iperf3 -f T": {
		"Connecting to host h, port 5201\n[  4] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\n[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n[  4]   0.00-1.00   sec  12.5 MBytes  0.00 TBytes/sec    0   1.0 MBytes\n- - - - -\n[ ID] Interval           Transfer     Bitrate         Retr\n" +
			"[  4]   0.00-1.00   sec  12.5 MBytes  0.00 TBytes/sec    0            sender\n[  4]   0.00-1.00   sec  12.0 MBytes  0.00 TBytes/sec                  receiver\n",
		map[model.Direction]float64{model.To: 100.663e6}, bySenderNone},
	"iperf3 server, its client killed": {
		"Accepted connection from 192.0.2.1, port 3\nServer listening on 5201 (test #2)\nAccepted connection from 192.0.2.1, port 4\n[  6] local 192.0.2.2 port 5201 connected to 192.0.2.1 port 5\n[ ID] Interval           Transfer     Bitrate\n[  6]   0.00-1.00   sec  4.50 MBytes  37.7 Mbits/sec\n[ ID] Interval           Transfer     Bitrate\n[  6]   0.00-1.00   sec  4.50 MBytes  37.7 Mbits/sec\n- - - - -\n" +
			"[ ID] Interval           Transfer     Bitrate\n[  6]   0.00-1.00   sec  9.00 MBytes  75.4 Mbits/sec                  receiver\niperf3: the client has terminated\n",
		map[model.Direction]float64{model.To: 37.7e6}, "did not end by itself (the client has terminated)"},
	"iperf3 text, killed": {
		"Connecting to host h, port 5201\n[  5] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\n[  7] local 192.0.2.1 port 6 connected to 192.0.2.2 port 5201\n[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n" +
			"[  5]   0.00-1.00   sec  12.0 MBytes   101 Mbits/sec    0    331 KBytes\n[  7]   0.00-1.00   sec  12.0 MBytes   101 Mbits/sec    0    331 KBytes\n[SUM]   0.00-1.00   sec  24.0 MBytes   201 Mbits/sec    0\n- - - - -\n[  5]   1.00-2.00   sec  23.8 MBytes   200 Mbits/sec    0    331 KBytes\n[  7]   1.00-2.00   sec  23.8 MB",
		map[model.Direction]float64{model.To: 201e6}, "the lines of sender and receiver are missing): what counts is the 1 s"},
	"iperf 2 -P, whose sum ends before its streams": {
		"Client connecting to 192.0.2.2, TCP port 5001\n[  1] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001\n[  2] local 192.0.2.1 port 40001 connected with 192.0.2.2 port 5001\n[ ID] Interval       Transfer     Bandwidth\n" +
			"[  1] 0.0000-2.3140 sec  4.38 MBytes  15.9 Mbits/sec\n[  2] 0.0000-2.3828 sec  6.50 MBytes  22.9 Mbits/sec\n[SUM] 0.0000-2.1136 sec  10.9 MBytes  43.2 Mbits/sec\n",
		map[model.Direction]float64{model.To: 38.8e6}, "the sum is over 2.11 s and says 43.2 Mbit/s, and its streams took 2.38 s: the sum of their rates counts"},
	"iperf 2, killed": {
		"Client connecting to 192.0.2.2, TCP port 5001\n[  1] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001\n[ ID] Interval       Transfer     Bandwidth\n" +
			"[  1] 0.0000-1.0000 sec  12.5 MBytes   105 Mbits/sec\n[  1] 1.0000-2.0000 sec  25.0 MBytes   210 Mbits/sec\n[  1] 2.0000-3.00",
		map[model.Direction]float64{model.To: 157.5e6}, "the summary of its test is missing): what counts is the 2 s"},
	"nuttcp -i -fparse":  {"megabytes=12.0000 real_sec=1.00 rate_Mbps=100.6633 retrans=0\nmegabytes=36.0000 real_seconds=2.00 rate_Mbps=150.9949 tx_cpu=79 rx_cpu=0 retrans=0 rtt_ms=1.60\n", map[model.Direction]float64{model.To: 150.9949e6}, "does not write the direction"},
	"nuttcp -fxmitstats": {"   36.0000 MB /   2.00 sec =  150.9949 Mbps 95 %TX\n", map[model.Direction]float64{model.To: 150.9949e6}, bySender(model.To)},
	"iperf 2 -R -e": {"Client connecting to 192.0.2.2, TCP port 5001\n[  1] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001 (reverse) (sock=3)\n[ ID] Interval            Transfer    Bandwidth       Reads=Dist\n[ *1] 0.0000-1.0133 sec  12.0 MBytes  99.4 Mbits/sec  111=8:1:1:5:5:1:1:89\n",
		map[model.Direction]float64{model.From: 99.4e6}, bySenderNone},
	"iperf 2 -u -R, nothing arrived": {"Client connecting to 192.0.2.2, UDP port 5001\n[  1] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001 (reverse)\n[ ID] Interval            Transfer    Bandwidth       Reads=Dist\n[ *1] 0.0000-4.0964 sec  0.000 Bytes  0.000 bits/sec   0.000 ms 0/0 (0%) -/-/-/- ms 0 pps\n",
		map[model.Direction]float64{model.From: 0}, "nothing arrived"},
	"iperf 2 -u -P, whose connections come first": {
		"[  1] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001\n[  2] local 192.0.2.1 port 40001 connected with 192.0.2.2 port 5001\nClient connecting to 192.0.2.2, UDP port 5001\n[ ID] Interval       Transfer     Bandwidth\n" +
			"[  1] 0.0000-2.0011 sec  4.77 MBytes  20.0 Mbits/sec\n[  1] Sent 3406 datagrams\n[  2] 0.0000-2.0010 sec  4.77 MBytes  20.0 Mbits/sec\n[  2] Sent 3406 datagrams\n[SUM] 0.0000-2.0011 sec  9.55 MBytes  40.0 Mbits/sec\n",
		map[model.Direction]float64{model.To: 40e6}, bySender(model.To)},
	"iperf 2, a server's sum of intervals alone": {
		"Server listening on TCP port 5001\n[  2] local 192.0.2.2 port 5001 connected with 192.0.2.1 port 40044\n[  3] local 192.0.2.2 port 5001 connected with 192.0.2.1 port 40060\n[ ID] Interval            Transfer    Bandwidth       Reads=Dist\n" +
			"[  3] 0.0000-1.0000 sec  12.1 MBytes   102 Mbits/sec\n[  2] 0.0000-1.0000 sec  12.0 MBytes   101 Mbits/sec\n[SUM] 0.0000-1.0000 sec  24.1 MBytes   202 Mbits/sec\n[  3] 1.0000-1.9895 sec  5.90 MBytes  50.0 Mbits/sec\n[  3] 0.0000-1.9895 sec  18.0 MBytes  75.9 Mbits/sec\n" +
			"[  2] 1.0000-2.0000 sec  6.00 MBytes  50.3 Mbits/sec\n[  2] 0.0000-2.0056 sec  18.0 MBytes  75.3 Mbits/sec\n",
		map[model.Direction]float64{model.To: 151.2e6}, "the sum of their summaries counts"},
	"iperf3 -T": {
		strings.ReplaceAll("=Connecting to host h, port 5201\n=[  5] local 192.0.2.1 port 5 connected to 192.0.2.2 port 5201\n=[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n=[  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec    0   1.0 MBytes\n=- - - - -\n"+
			"=[ ID] Interval           Transfer     Bitrate         Retr\n=[  5]   0.00-1.00   sec   119 MBytes   998 Mbits/sec    0             sender\n=[  5]   0.00-1.00   sec   118 MBytes   990 Mbits/sec                  receiver\n=iperf Done.\n", "=", "before:  "),
		map[model.Direction]float64{model.To: 990e6}, bySenderNone},
	"iperf3 in a journal": {
		strings.ReplaceAll("=Accepted connection from 192.0.2.1, port 4\n=[  5] local 192.0.2.2 port 5201 connected to 192.0.2.1 port 5\n=[ ID] Interval           Transfer     Bitrate\n=[  5]   0.00-1.00   sec   118 MBytes   990 Mbits/sec\n=- - - - -\n"+
			"=[ ID] Interval           Transfer     Bitrate\n=[  5]   0.00-1.00   sec   118 MBytes   990 Mbits/sec                  receiver\n", "=", "Nov  9 12:00:00 nas iperf3[312]: "),
		map[model.Direction]float64{model.To: 990e6}, bySenderNone},
	"nuttcp -i, killed": {"   12.0000 MB /   1.00 sec =  100.6633 Mbps\n   24.0000 MB /   1.00 sec =  201.3266 Mbps\n   12.00",
		map[model.Direction]float64{model.To: 150.995e6}, "the line with %TX and %RX is missing): what counts is the 2 s"},
	"iperf 2 --full-duplex, two streams": {
		"Client connecting to 192.0.2.2, TCP port 5001\n[  1] local 192.0.2.1%eth0 port 40000 connected with 192.0.2.2 port 5001 (full-duplex)\n[  2] local 192.0.2.1%eth0 port 40001 connected with 192.0.2.2 port 5001 (full-duplex)\n[ ID] Interval       Transfer     Bandwidth\n" +
			"[ *1] 0.0000-1.0011 sec  47.7 MBytes   400 Mbits/sec\n[  1] 0.0000-1.0012 sec  23.8 MBytes   200 Mbits/sec\n[  2] 0.0000-1.0013 sec  11.9 MBytes  99.8 Mbits/sec\n[ *2] 0.0000-1.0014 sec  47.7 MBytes   400 Mbits/sec\n[SUM] 0.0000-1.0014 sec   131 MBytes  1.10 Gbits/sec\n",
		map[model.Direction]float64{model.To: 299.8e6, model.From: 800e6}, bySender(model.To)},
	"nuttcp -v": {
		"nuttcp-t: v6.1.2: socket\nnuttcp-t: buflen=8192, nstream=1, port=5330 udp -> 192.0.2.2\nnuttcp-t: 6.0000 MB in 1.00 real seconds = 6144.00 KB/sec = 50.3316 Mbps\nnuttcp-t: 0.2user 0.0sys 0:01real 28% 0i+0d 1190maxrss 0+0pf 0+1742csw\n\n" +
			"nuttcp-r: v6.1.2: socket\nnuttcp-r: buflen=8192, nstream=1, port=5330 udp\nnuttcp-r: 3.0000 MB in 1.00 real seconds = 3072.00 KB/sec = 25.1658 Mbps\nnuttcp-r: 384 / 768 drop/pkt 50.00% data loss\n",
		map[model.Direction]float64{model.To: 25.1658e6}, bySenderNone},
	"nuttcp -I": {"run 7:   12.0000 MB /   1.00 sec =  100.6633 Mbps     0 retrans\nrun 7:   24.0000 MB /   1.00 sec =  201.3266 Mbps     2 retrans\n\nrun 7:   36.0000 MB /   2.00 sec =  150.9949 Mbps 9 %TX 21 %RX 2 retrans 0.05 msRTT\n",
		map[model.Direction]float64{model.To: 150.9949e6}, nutWay},
	"nuttcp -v -r -I": {
		"nuttcp-r-run 7: v6.1.2: socket\nnuttcp-r-run 7: buflen=65536, nstream=1, port=5001 tcp\nnuttcp-r-run 7: accept from 192.0.2.2\nnuttcp-r-run 7: 12.0000 MB in 1.00 real seconds = 12288.00 KB/sec = 100.6633 Mbps\n\n" +
			"nuttcp-t-run 7: v6.1.2: socket\nnuttcp-t-run 7: buflen=65536, nstream=1, port=5001 tcp -> 192.0.2.1\nnuttcp-t-run 7: 12.0000 MB in 1.00 real seconds = 12288.00 KB/sec = 100.6633 Mbps\nnuttcp-t-run 7: retrans = 3\n",
		map[model.Direction]float64{model.From: 100.6633e6}, bySenderNone},
	"iperf 2 -d": {
		"Client connecting to 192.0.2.2, TCP port 5001\nServer listening on TCP port 5011\n[  1] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001\n[  2] local 192.0.2.1 port 5011 connected with 192.0.2.2 port 50000\n" +
			"[ ID] Interval       Transfer     Bandwidth\n[  2] 0.0000-1.0003 sec  11.9 MBytes  99.8 Mbits/sec\n[  1] 0.0000-1.0003 sec  23.8 MBytes   200 Mbits/sec\n",
		map[model.Direction]float64{model.To: 200e6, model.From: 99.8e6}, bySender(model.To)},
	"iperf 2 --full-duplex": {
		"Client connecting to 192.0.2.2, TCP port 5001\n[  1] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001 (full-duplex)\n[ ID] Interval       Transfer     Bandwidth\n" +
			"[ *1] 0.0000-1.0003 sec  11.9 MBytes  99.8 Mbits/sec\n[  1] 0.0000-1.0003 sec  23.8 MBytes   200 Mbits/sec\n[FD1] 0.0000-1.0000 sec  35.7 MBytes   300 Mbits/sec\n",
		map[model.Direction]float64{model.To: 200e6, model.From: 99.8e6}, bySender(model.To)},
	"iperf 2, the server's report of one of two streams": {
		"Client connecting to 192.0.2.2, UDP port 5001\n[  1] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001\n[  2] local 192.0.2.1 port 40001 connected with 192.0.2.2 port 5001\n[ ID] Interval       Transfer     Bandwidth\n" +
			"[  1] 0.0000-1.0003 sec  1.25 MBytes  10.5 Mbits/sec\n[  2] 0.0000-1.0003 sec  1.25 MBytes  10.5 Mbits/sec\n[SUM] 0.0000-1.0003 sec  2.50 MBytes  21.0 Mbits/sec\n[  1] Server Report:\n[  1] 0.0000-1.0000 sec  1.00 MBytes  8.39 Mbits/sec   0.1 ms  178/890 (20%)\n",
		map[model.Direction]float64{model.To: 21e6}, "1 of 2 streams"},
	"iperf 2 -y C": {"20261125120834,192.0.2.1,40000,192.0.2.2,5001,1,0.0-1.0,12500000,100000000\n20261125120835,192.0.2.1,40000,192.0.2.2,5001,1,1.0-2.0,25000000,200000000\n20261125120835,192.0.2.1,40000,192.0.2.2,5001,1,0.0-2.0,37500000,150000000\n",
		map[model.Direction]float64{model.To: 150e6}, bySender(model.To)},
	"iperf 2 -y C -P, without a sum": {"19700101000000,192.0.2.1,40000,192.0.2.2,5001,1,0.0-1.5,18750000,100000000\n19700101000000,192.0.2.1,40001,192.0.2.2,5001,2,0.0-1.5,37500000,200000000\n",
		map[model.Direction]float64{model.To: 100e6}, "line 2: stream 2 follows stream 1 without a sum"},
	"iperf 2 -y C -d": {"20261125120834,192.0.2.1,40000,192.0.2.2,5001,1,0.0-1.5,18750000,100000000\n20261125120834,192.0.2.2,40001,192.0.2.1,5001,2,0.0-1.5,37500000,200000000\n",
		map[model.Direction]float64{model.To: 100e6}, bySender(model.To)},
	"flent, statistics of sockets and no raw values": {`{"x_values":[0,1],"results":{"TCP upload":[4,4],"TCP upload::tcp_cwnd":[100,100],"TCP upload::tcp_rtt":[1,1]},"metadata":{"STEP_SIZE":1}}`,
		map[model.Direction]float64{model.To: 4e6}, bySenderNone},
	"flent, a stream without raw values": {`{"x_values":[0,1],"results":{"TCP upload::1":[4,4],"TCP upload::2":[3,3]},"metadata":{"STEP_SIZE":1},"raw_values":{"TCP upload::1":[{"t":102,"val":4,"dur":2}],"TCP upload::2":[]}}`,
		map[model.Direction]float64{model.To: 4e6}, `series "TCP upload::2" has values, and no raw values`},
	"flent, a stream that ends early": {`{"x_values":[0,1],"results":{"TCP upload::1":[4,4],"TCP upload::2":[3,3]},"metadata":{"STEP_SIZE":1},"raw_values":{"TCP upload::1":[{"t":104,"val":4,"dur":4}],"TCP upload::2":[{"t":101,"val":4,"dur":1}]}}`,
		map[model.Direction]float64{model.To: 5e6}, `the raw values of "TCP upload::2" are of 1 s, and those of the longest stream of 4 s`},
	"flent, raw values that are not its summary": {`{"x_values":[0,1],"results":{"TCP upload":[4,4]},"metadata":{"STEP_SIZE":1,"SERIES_META":{"TCP upload":{"MEAN_VALUE":8,"UNITS":"Mbits/s"}}},"raw_values":{"TCP upload":[{"t":102,"val":4,"dur":2}]}}`,
		map[model.Direction]float64{model.To: 4e6}, "the raw values are 4 Mbit/s, and the streams say 8 Mbit/s of themselves"},
	"flent with gaps": {
		`{"x_values":[0,1,2,3],"results":{"TCP upload avg":[1,null,null,null],"TCP upload::1":[1,null,null,2],"TCP upload::2":[3,null,null,null]},"metadata":{"STEP_SIZE":1},
		"raw_values":{"TCP upload::1":[{"t":102,"val":1,"dur":2},{"t":104,"val":2,"dur":2}],"TCP upload::2":[{"t":104,"val":3,"dur":4}]}}`,
		map[model.Direction]float64{model.To: 4.5e6}, bySenderNone},
	"flent with gaps and no raw values": {`{"x_values":[0,1,2,3],"results":{"TCP upload avg":[2,null,null,2],"TCP upload::1":[1,null,null,1],"TCP upload::2":[3,null,null,3]},"metadata":{"STEP_SIZE":1}}`,
		map[model.Direction]float64{model.To: 4e6}, "in 2 of 4 steps"},
	"netperf, its table": {"MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nRecv   Send    Send\nSocket Socket  Message  Elapsed\nSize   Size    Size     Time     Throughput\nbytes  bytes   bytes    secs.    10^6bits/sec\n\n 87380  16384  16384    10.00     200.50\n",
		map[model.Direction]float64{model.To: 200.5e6}, bySenderNone},
	"qperf, bandwidth": {"warning: obsolete option: -u; use -uu instead\nconf:\n    loc_node   =  vm\n    loc_qperf  =  0.4.11\ntcp_bw:\n    bw        =   1.59 GB/sec\n    msg_size  =     64 KiB (65,536)\n    time      =      2 sec\n",
		map[model.Direction]float64{model.To: 12.72e9}, bySenderNone},
	"qperf, datagrams": {
		"udp_bw:\n    send_bw  =  11853103104 bits/sec\n    recv_bw  =  11396448256 bits/sec\n", map[model.Direction]float64{model.To: 11396448256}, bySenderNone,
	},
	"netperf -P 0": {
		"MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nRecv   Send    Send\nSocket Socket  Message  Elapsed\nSize   Size    Size     Time     Throughput\nbytes  bytes   bytes    secs.    10^6bits/sec\n\n 87380  16384  16384    10.00     200.50\n 87380  16384  32768    10.00     300.50\n",
		map[model.Direction]float64{model.To: 200.5e6}, "line 8: a row without a banner of its own (netperf -P 0) is taken as another test like the one above"},
	"netperf -f K -c -C": {
		"MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nRecv   Send    Send                          Utilization       Service Demand\nSocket Socket  Message  Elapsed              Send     Recv     Send    Recv\nSize   Size    Size     Time     Throughput  local    remote   local   remote\n" +
			"bytes  bytes   bytes    secs.    KBytes  /s  % S      % S      us/KB   us/KB\n\n131072  16384  16384    1.00       1000.00   100.00   100.00   17.981  17.981\n",
		map[model.Direction]float64{model.To: 8.192e6}, bySenderNone},
	"netperf, the latency of sends": {"OMNI Receive TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nProtocol,Direction,Elapsed Time (sec),Throughput,Throughput Units,50th Percentile Latency Microseconds,99th Percentile Latency Microseconds\nTCP,Receive,10.00,547.63,10^6bits/s,29,33000\n",
		map[model.Direction]float64{model.From: 547.63e6}, bySenderNone},
	"netperf -D, killed": {"MIGRATED TCP MAERTS TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nInterim result:  200.50 10^6bits/s over 1.000 seconds ending at 1355513562.123\nInterim result:  100.50 10^6bits/s over 1.000 seconds ending at 1355513563.123\nInterim re",
		map[model.Direction]float64{model.From: 150.5e6}, "its table is missing): what counts is the 2 s"},
	"netperf -c -C": {
		"MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nRecv   Send    Send                          Utilization       Service Demand\nSocket Socket  Message  Elapsed              Send     Recv     Send    Recv\nSize   Size    Size     Time     Throughput  local    remote   local   remote\nbytes  bytes   bytes    secs.    10^6bits/s  % S      % S      us/KB   us/KB\n\n131072  16384  16384    3.00        200.50   50.00    60.00    428.629  428.629\n",
		map[model.Direction]float64{model.To: 200.5e6}, bySenderNone},
	"netperf -c, datagrams": {
		"MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nSocket  Message  Elapsed      Messages                   CPU      Service\nSize    Size     Time         Okay Errors   Throughput   Util     Demand\nbytes   bytes    secs            #      #   10^6bits/sec % SU     us/KB\n\n212992    1400   3.00       10000      0       40.0     100.00   417.577\n212992           3.00        5000              20.0     -1.00    -1.000\n",
		map[model.Direction]float64{model.To: 20e6}, bySenderNone},
	"netperf, omni columns": {
		"OMNI Receive TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\n!!! WARNING\n!!! Desired confidence was not achieved within the specified iterations.\nProtocol Throughput Throughput  Elapsed Direction \n                    Units       Time              \n                                (sec)             \n                                                  \nTCP      38.31      10^6bits/s  3.17    Receive   \n",
		map[model.Direction]float64{model.From: 38.31e6}, "did not reach the confidence"},
	"netperf, datagrams": {
		"MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nSocket  Message  Elapsed      Messages\nSize    Size     Time         Okay Errors   Throughput\nbytes   bytes    secs            #      #   10^6bits/sec\n\n212992   65507   10.00      100000      0     5000.00\n212992           10.00       50000            2500.00\n",
		map[model.Direction]float64{model.To: 2500e6}, bySenderNone},
}

// bySenderNone stands for a consistent file: there is no note.
const bySenderNone = ""

// others holds formats without goodput.
var others = map[string]string{
	"perftest, its JSON": "{\ntest_info: {\ntest: RDMA_Write_Latency_Test,\nDevice: \"mlx5_0\",\nMtu: 4096,\n},\nresults: {\nMsgSize: 2,\nn_iterations: 1000,\nt_min: 1.10,\nt_max: 9.20,\nt_typical: 1.20,\nt_avg: 1.30,\nt_stdev: 0.20,\npercentile_99: 2.50,\npercentile_99.9: 6.50,\n},\n}\n",
	"perftest, reads":    "                    RDMA_Read Latency Test\n #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n 2       1000          1.05           8.04         1.50     	       1.60        	0.05   		2.50    		8.04   \n",
	"netperf, omni CSV": "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.2 () port 0 AF_INET : demo : first burst 0\n" +
		"Throughput,Throughput Units,Elapsed Time (sec),50th Percentile Latency Microseconds,99th Percentile Latency Microseconds\n1500.25,Trans/s,10.00,600,900\n",
	"iperf 2 --bounceback": "Client connecting to 192.0.2.2, TCP port 5001 with pid 7 (1 flows)\nBounce-back test (size= 100 Byte) (server hold req=0 usecs & tcp_quickack)\n[  1] local 192.0.2.1%eth0 port 40000 connected with 192.0.2.2 port 5001 (bb w/quickack len/hold=100/0) (sock=3)\n" +
		"[ ID] Interval            Transfer    Bandwidth         BB cnt=avg/min/max/stdev         Rtry  Cwnd/RTT    RPS\n[  1] 0.0000-1.0000 sec  1.95 KBytes  16.0 Kbits/sec    10=0.098/0.006/0.918/0.288 ms    0   28K/14 us    10225 rps\n" +
		"[  1] 1.0000-2.0000 sec  1.95 KBytes  16.0 Kbits/sec    10=0.012/0.006/0.055/0.015 ms    0   42K/8 us    85470 rps\n[  1] 0.0000-2.0302 sec  4.10 KBytes  16.6 Kbits/sec    21=0.061/0.006/0.918/0.201 ms    0   45K/3615 us    16317 rps\n",
	"NPtcp, its output": "Sending output to np.out\nSend and receive buffers are 16384 and 131072 bytes\n(A bug in Linux doubles the requested buffer sizes)\nNow starting the main loop\n" +
		"  0:       1 bytes     20 times -->      0.33 Mbps in      23.10 usec\n  1:       2 bytes     20 times -->      0.65 Mbps in      23.40 usec\n  2:       3 bytes     20 times -->     22.89 Mbps in       1.00 usec\n",
	"qperf, latency": "tcp_lat:\n    latency        =  4.23 us\n    msg_rate       =   118 K/sec\n    loc_send_msgs  =  52,547 \nudp_lat:\n    latency  =  13500 ns\n",
	"netperf, omni CSV with a histogram": "MIGRATED UDP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to\n192.0.2.2 () port 0 AF_INET : histogram : first burst 0\n" +
		"Throughput,Throughput Units,50th Percentile Latency Microseconds,99th Percentile\nLatency Microseconds,Minimum Latency Microseconds\n2500.50,Trans/s,400,700,300\n\nHistogram of request/response times\n" +
		"HUNDRED_USEC  :    0:    0:    0:  100: 2400\nHIST_TOTAL:        2500\n",
	"netperf -o all, with commas in its command": "OMNI Send|Recv TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nProtocol,Elapsed Time (sec),Throughput,Throughput Units,99th Percentile Latency Microseconds,Command Line\nTCP,3.00,500.25,Trans/s,80,\"netperf -H h -- -o A,B\"\n",
	"netperf TCP_CRR -c -C": "MIGRATED TCP Connect/Request/Response TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\nLocal /Remote\nSocket Size   Request Resp.  Elapsed Trans.   CPU    CPU    S.dem   S.dem\nSend   Recv   Size    Size   Time    Rate     local  remote local   remote\n" +
		"bytes  bytes  bytes   bytes  secs.   per sec  % S    % S    us/Tr   us/Tr\n\n16384  131072 1       1      3.00    6311.80  50.00  60.00  316.867  316.867\n16384  131072\n",
	"netperf, its table of transactions": "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.2 () port 0 AF_INET : demo : first burst 0\nLocal /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\n" +
		"Send   Recv   Size     Size    Time     Rate\nbytes  Bytes  bytes    bytes   secs.    per sec\n\n65536  87380  1        1       10.00    12500.50\n65536  87380\n" +
		"Alignment      Offset         RoundTrip  Trans    Throughput\nLocal  Remote  Local  Remote  Latency    Rate     10^6bits/s\nSend   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound\n    8      0       0      0   80.00    12500.500 0.1     0.1\n",
	"iperf 2 -y C of datagrams": "20261125120834,192.0.2.1,40000,192.0.2.2,5001,1,0.0-1.0,1250000,10000000,0.100,9,850,1.059,0\n20261125120835,192.0.2.1,40000,192.0.2.2,5001,1,1.0-2.0,1250000,10000000,0.100,9,850,1.059,0\n" +
		"20261125120835,192.0.2.1,40000,192.0.2.2,5001,1,0.0-2.0,2500000,10000000,0.100,18,1700,1.059,0\n",
}

// severalTests are the files of reconciled with more than one test.
var severalTests = map[string]int{"netperf -P 0": 2, "iperf 2 -y C -P, without a sum": 2, "iperf 2 -y C -d": 2}

// TestReconciled checks the import of each file.
func TestReconciled(t *testing.T) {
	for name, c := range reconciled {
		t.Run(name, func(t *testing.T) {
			f := must.Get(Read("", []byte(c.text), Options{}))(t)
			one := f.Tests[0]
			for d, want := range c.want {
				got := value(one, d, model.Goodput)
				must.True(t, math.Abs(got-want) <= 1e-3*want, "%s: %g, want %g", d, got, want)
			}
			must.True(t, !strings.Contains(one.Near+one.Far, "%"), "an interface in the name of an end: %s, %s", one.Near, one.Far)
			n := len(one.Flow.Direction.Parts())
			tests := 1
			if of, ok := severalTests[name]; ok {
				tests = of
			}
			must.True(t, n == len(c.want) && len(f.Tests) == tests, "%d directions, %d tests", n, len(f.Tests))
			notes := strings.Join(slices.Concat(lists.Each(f.Tests, func(one Test) []string { return one.Notes })...), "\n")
			must.True(t, strings.Contains(notes, c.note) && (c.note != "" || notes == ""), "notes %q, want %q", notes, c.note)
		})
	}
}

// TestVerbose: the import takes the version and the time of each test from the output of iperf3
// -V.
func TestVerbose(t *testing.T) {
	one := reconciled["iperf3 -V"].text
	f := must.Get(Read("", []byte(one+strings.ReplaceAll(one, "14:08:52", "15:00:00")), Options{}))(t)
	must.True(t, f.Program == "iperf 3.1.3" && len(f.Tests) == 2, "%+v", f)
	for i, want := range []string{"2017-06-26T14:08:52Z", "2017-06-26T15:00:00Z"} {
		must.Equal(t, f.Tests[i].Started.UTC().Format(time.RFC3339), want)
	}
}

// TestOnlyOnce: each test of a file counts once.
func TestOnlyOnce(t *testing.T) {
	one := string(load(t, "iperf3.json"))
	for _, text := range []string{one + one, "[" + one + "," + one + "]", "run 1\n" + one + "run 2\n" + one} {
		must.Len(t, must.Get(Read("", []byte(text), Options{}))(t).Tests, 2, "two documents, %.9q", text)
	}
	must.Len(t, must.Get(Read("", []byte(others["netperf, its table of transactions"]), Options{}))(t).Tests, 1, "netperf -v 2 tells of one test")
	f := must.Get(Read("", []byte(others["netperf, omni CSV with a histogram"]), Options{}))(t)
	must.Equal(t, f.Tests[0].Far, "192.0.2.2", "the far end behind a wrapped line")
}

// TestPerftest: the meaning of a perftest row depends on the title of its test.
func TestPerftest(t *testing.T) {
	sends := string(load(t, "ib_send_bw.txt"))
	reads := others["perftest, reads"]
	for title, c := range map[string]struct {
		text string
		of   model.Direction
		mode string
		took time.Duration // by a message of 2 B
		p50  float64
	}{
		"Send BW Test":               {sends, model.To, sizes.Stream, 250, 0},
		"Send Bidirectional BW Test": {sends, model.To, sizes.Both, 500, 0},
		"RDMA_Read BW Test":          {sends, model.From, sizes.Stream, 250, 0},
		"RDMA_Read Latency Test":     {reads, model.To, "", 750, 1.5e-6},
		"RDMA_Write Latency Test":    {reads, model.To, "", 1500, 3e-6},
		"":                           {reads, model.To, "", 1500, 3e-6},
	} {
		f := must.Get(Read("", []byte(strings.NewReplacer("Send BW Test", title, "RDMA_Read Latency Test", title).Replace(c.text)), Options{}))(t)
		one := f.Tests[0]
		own := must.Get(traffic.Read[sizes.Params](one.Flow.Params))(t)
		must.True(t, one.Flow.Direction == c.of && own.Mode == c.mode, "%s: %s, mode %q", title, one.Flow.Direction, own.Mode)
		must.True(t, one.Points[0].Trials[0] == c.took, "%s: %+v", title, one.Points)
		must.True(t, c.p50 == 0 || value(one, model.To, model.LatencyP50) == c.p50, "%s: %+v", title, one.Values)
		must.Equal(t, len(one.Notes) > 0, title == "", "%s: %q", title, one.Notes)
	}
}

// TestOtherEnd: a server's differing report of the same test becomes a warning.
func TestOtherEnd(t *testing.T) {
	own, server, _ := strings.Cut(reconciled["iperf3 with the server's output"].text, "Server output:")
	f := must.Get(Read("", []byte(own+strings.ReplaceAll(server, "118 MBytes   990", "59.0 MBytes   495")), Options{}))(t)
	must.True(t, len(f.Tests) == 1 && value(f.Tests[0], model.To, model.Goodput) == 990e6, "%+v", f.Tests)
	must.Contain(t, strings.Join(f.Tests[0].Notes, "\n"), "the other end's report says 495 Mbit/s")
}

// TestDocumented: the table of docs/imports.md lists exactly the inputs of these tests.
func TestDocumented(t *testing.T) {
	text := must.Get(docs.Texts.ReadFile("imports.md"))(t)
	named := map[string]bool{}
	for row := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if len(cells) == 5 && strings.HasPrefix(strings.TrimSpace(cells[3]), "yes") || len(cells) == 5 && strings.Contains(cells[3], "common columns") {
			for name := range strings.SplitSeq(cells[4], ";") {
				named[strings.TrimSpace(name)] = true
			}
		}
	}
	have := slices.Concat(slices.Collect(maps.Keys(reconciled)), slices.Collect(maps.Keys(others)))
	for _, pattern := range []string{"testdata/*.*", "testdata/cases/*"} {
		for _, file := range must.Get(filepath.Glob(pattern))(t) {
			have = append(have, filepath.Base(file))
		}
	}
	slices.Sort(have)
	must.Equal(t, strings.Join(slices.Sorted(maps.Keys(named)), "\n"), strings.Join(have, "\n"), "inputs in the table")
}

// TestUTF16 reads PowerShell's output through >, with and without its byte order mark.
func TestUTF16(t *testing.T) {
	for name, low := range map[string]int{"little endian": 0, "big endian": 1} {
		var text []byte
		for _, u := range utf16.Encode([]rune("\ufeff" + string(load(t, "iperf3.txt")))) {
			pair := []byte{byte(u), byte(u >> 8)}
			text = append(text, pair[low], pair[1-low])
		}
		for _, text := range [][]byte{text, text[2:]} {
			must.Equal(t, must.Get(Read("", text, Options{}))(t).Format, "iperf3", "%s, %x", name, text[:2])
		}
	}
}

// TestEndsOfLines: lines may end as those of Windows and of old programs of the Mac.
func TestEndsOfLines(t *testing.T) {
	text := reconciled["nuttcp -i -fparse"].text
	want := must.Get(Read("", []byte(text), Options{}))(t)
	for _, end := range []string{"\r\n", "\r"} {
		got := must.Get(Read("", []byte(strings.ReplaceAll(text, "\n", end)), Options{}))(t)
		must.True(t, len(got.Tests) == 1 && slices.Equal(got.Tests[0].Values, want.Tests[0].Values), "%q: %+v", end, got)
	}
}

// TestSockperf2 reads the percentiles of version 2, which are padded and have two digits.
func TestSockperf2(t *testing.T) {
	three := string(load(t, "sockperf.txt"))
	two := regexp.MustCompile(`percentile ([0-9]+\.[0-9]{2})[0-9] =`).ReplaceAllString(three, "percentile  $1 =")
	must.Need(t, two != three, "no line was changed")
	a := must.Get(Read("", []byte(three), Options{}))(t)
	b := must.Get(Read("", []byte(two), Options{}))(t)
	must.True(t, slices.Equal(a.Tests[0].Values, b.Tests[0].Values), "%+v", b)
}

// TestNearest: for an unknown file, the error names the three nearest kinds and what it lacks.
func TestNearest(t *testing.T) {
	_, err := Read("", []byte("[ ID] Interval       Transfer\n[  1] 0.0-1.0 sec 1 MBytes 8 Mbits/sec\n"), Options{})
	must.True(t, err != nil && strings.Contains(err.Error(), `the nearest: iperf2 (lacks "Client connecting to "); iperf3 (lacks`) && strings.Count(err.Error(), "(lacks ") == 3, "%v", err)
}
