package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"linerate/internal/measure/netpipe"
)

// Bulk is the result of a bulk test, at the receiver.
type Bulk struct {
	Bytes   float64 // of payload
	Seconds float64
}

// Datagrams is the result of a datagram test.
type Datagrams struct {
	Sent, Received, Lost float64 // datagrams
	Seconds              float64
}

// Latency is half a round trip in seconds; a value that the program does not report is zero.
type Latency struct {
	Mean, P50, P99 float64
}

// errNothing reports a complete but empty report.
var errNothing = errors.New("nothing was received")

// sane returns an error if the counts of d contradict each other.
func sane(d Datagrams, program string) (Datagrams, error) {
	if !(d.Sent > 0 && d.Received >= 0 && d.Lost >= 0 && d.Seconds > 0) {
		return Datagrams{}, fmt.Errorf("read report of %s: odd counts %+v", program, d)
	}
	return d, nil
}

// iperf3Sum is a sum at the end of an iperf3 report.
type iperf3Sum struct {
	Bytes   float64 `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Packets float64 `json:"packets"`
	Lost    float64 `json:"lost_packets"`
}

func parseIperf3(b []byte) (sent, received iperf3Sum, err error) {
	var report struct {
		Error string `json:"error"`
		End   struct {
			Sent     iperf3Sum `json:"sum_sent"`
			Received iperf3Sum `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(b, &report); err != nil {
		return sent, received, fmt.Errorf("read report of iperf3: %w", err)
	}
	if report.Error != "" {
		return sent, received, fmt.Errorf("iperf3 says: %s", report.Error)
	}
	if report.End.Received.Bytes <= 0 || report.End.Received.Seconds <= 0 {
		return sent, received, fmt.Errorf("read report of iperf3: %w", errNothing)
	}
	return report.End.Sent, report.End.Received, nil
}

// ParseIperf3TCP parses the client's JSON.
func ParseIperf3TCP(b []byte) (Bulk, error) {
	_, r, err := parseIperf3(b)
	return Bulk{r.Bytes, r.Seconds}, err
}

// ParseIperf3UDP parses the client's JSON. The receiver's packets are those that it knows of,
// lost ones included.
func ParseIperf3UDP(b []byte) (Datagrams, error) {
	s, r, err := parseIperf3(b)
	if err != nil {
		return Datagrams{}, err
	}
	return sane(Datagrams{Sent: s.Packets, Received: r.Packets - r.Lost, Lost: r.Lost, Seconds: r.Seconds}, Iperf3)
}

// ParseIperf2TCP parses a server's CSV, one line per stream:
//
//	19700101000000,10.77.0.1,47296,10.77.0.2,5001,1,0.0-1.0,907018300,7243296791
//
// The interval is rounded, the rate is not, so the time is computed from the rate. The streams
// together took as long as the longest.
func ParseIperf2TCP(b []byte, streams int) (Bulk, error) {
	rows, err := csv(b, 9)
	if err != nil {
		return Bulk{}, fmt.Errorf("read report of iperf: %w", err)
	}
	if len(rows) != streams {
		return Bulk{}, fmt.Errorf("read report of iperf: %d streams of %d", len(rows), streams)
	}
	var out Bulk
	for _, r := range rows {
		out.Bytes += r[7]
		if r[8] > 0 {
			out.Seconds = max(out.Seconds, r[7]*8/r[8])
		}
	}
	if out.Bytes == 0 || out.Seconds == 0 {
		return Bulk{}, fmt.Errorf("read report of iperf: %w", errNothing)
	}
	return out, nil
}

// ParseIperf2UDP parses a server's CSV, whose last columns are jitter, lost, total, percent and
// out of order:
//
//	19700101000000,10.77.0.1,48655,10.77.0.2,5001,1,0.0-1.0,8417344,66800606,0.004,171058,302579,56.533,0
func ParseIperf2UDP(b []byte) (Datagrams, error) {
	rows, err := csv(b, 14)
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("%d lines where one is due", len(rows))
	}
	if err == nil && (rows[0][7] == 0 || rows[0][8] == 0) {
		err = errNothing
	}
	if err != nil {
		return Datagrams{}, fmt.Errorf("read report of iperf: %w", err)
	}
	r := rows[0]
	return sane(Datagrams{Sent: r[11], Received: r[11] - r[10], Lost: r[10], Seconds: r[7] * 8 / r[8]}, Iperf2)
}

// csv returns the lines that have at least n columns; columns that are not numbers are 0.
func csv(b []byte, n int) ([][]float64, error) {
	var out [][]float64
	for line := range strings.Lines(string(b)) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if len(fields) < n {
			continue // messages of the program
		}
		row := make([]float64, len(fields))
		for i, f := range fields {
			row[i], _ = strconv.ParseFloat(f, 64)
		}
		// Bytes, or -1 if iperf does not know.
		if row[7] < 0 || math.IsNaN(row[7]+row[8]) {
			return nil, fmt.Errorf("odd line %q", line)
		}
		out = append(out, row)
	}
	if len(out) == 0 {
		return nil, errNothing
	}
	return out, nil
}

// mebi is nuttcp's megabyte.
const mebi = 1 << 20

// ParseNuttcpTCP parses the client's line of -fparse:
//
//	megabytes=3763.5000 real_seconds=1.00 rate_Mbps=31563.7716 tx_cpu=37 rx_cpu=32 rtt_ms=0.05
//
// The time is rounded, the rate is not.
func ParseNuttcpTCP(b []byte) (Bulk, error) {
	v, err := keys(b, "megabytes", "rate_Mbps")
	if err != nil {
		return Bulk{}, err
	}
	bytes := v["megabytes"] * mebi
	return Bulk{Bytes: bytes, Seconds: bytes * 8 / (v["rate_Mbps"] * 1e6)}, nil
}

// ParseNuttcpUDP parses the client's line of -fparse, in which pkt counts the packets sent:
//
//	megabytes=13.3488 real_seconds=1.00 rate_Mbps=111.9481 tx_cpu=55 rx_cpu=21 drop=29802 pkt=248509 data_loss=11.99251
func ParseNuttcpUDP(b []byte) (Datagrams, error) {
	v, err := keys(b, "megabytes", "rate_Mbps", "drop", "pkt")
	if err != nil {
		return Datagrams{}, err
	}
	return sane(Datagrams{
		Sent: v["pkt"], Received: v["pkt"] - v["drop"], Lost: v["drop"],
		Seconds: v["megabytes"] * mebi * 8 / (v["rate_Mbps"] * 1e6),
	}, Nuttcp)
}

// keys returns the key=value words of nuttcp's last line that has the first key.
func keys(b []byte, wanted ...string) (map[string]float64, error) {
	out := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, wanted[0]+"=") {
			continue
		}
		clear(out)
		for word := range strings.FieldsSeq(line) {
			key, value, _ := strings.Cut(word, "=")
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				out[key] = n
			}
		}
	}
	for _, k := range wanted {
		if _, there := out[k]; !there {
			return nil, fmt.Errorf("read report of nuttcp: no %s in %q", k, clip(b))
		}
	}
	if out["megabytes"] <= 0 || out["rate_Mbps"] <= 0 {
		return nil, fmt.Errorf("read report of nuttcp: %w", errNothing)
	}
	return out, nil
}

// clip shortens output for an error.
func clip(b []byte) string { return strings.TrimSpace(string(b[:min(len(b), 300)])) }

// ParseSockperf parses the client's report, in microseconds and half round trips:
//
//	sockperf: Summary: Latency is 3.987 usec
//	sockperf: ---> percentile 99.000 =   10.291
//	sockperf: ---> percentile 50.000 =    3.011
func ParseSockperf(b []byte) (Latency, error) {
	var l Latency
	for _, x := range []struct {
		to *float64
		re string
	}{
		{&l.Mean, `Summary: Latency is ([0-9.]+) usec`},
		{&l.P50, `percentile 50\.000\s*=\s*([0-9.]+)`},
		{&l.P99, `percentile 99\.000\s*=\s*([0-9.]+)`},
	} {
		m := regexp.MustCompile(x.re).FindSubmatch(b)
		if m == nil {
			return Latency{}, fmt.Errorf("read report of sockperf: no %s in %q", x.re, clip(b))
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil || v <= 0 {
			return Latency{}, fmt.Errorf("read report of sockperf: %q is no time", m[1])
		}
		*x.to = v * 1e-6
	}
	return l, nil
}

// ParseQperfTCP returns the bytes per second of tcp_bw with --unify_units:
//
//	bw  =  5601234567 bytes/sec
func ParseQperfTCP(b []byte) (float64, error) { return qperfValue(b, "bw") }

// ParseQperfLatency returns the latency of tcp_lat, half a round trip.
func ParseQperfLatency(b []byte) (Latency, error) {
	v, err := qperfValue(b, "latency")
	return Latency{Mean: v}, err
}

// qperfValue returns a value in its base unit.
func qperfValue(b []byte, name string) (float64, error) {
	m := regexp.MustCompile(`(?m)^\s*` + name + `\s*=\s*([0-9.,e+-]+)\s*(\S*)`).FindSubmatch(b)
	if m == nil {
		return 0, fmt.Errorf("read report of qperf: no %s in %q", name, clip(b))
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(string(m[1]), ",", ""), 64)
	unit, known := map[string]float64{
		"sec": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
		"bytes/sec": 1, "KB/sec": 1e3, "MB/sec": 1e6, "GB/sec": 1e9, "TB/sec": 1e12,
	}[string(m[2])]
	if err != nil || !known || v <= 0 {
		return 0, fmt.Errorf("read report of qperf: %q is no value", m[0])
	}
	return v * unit, nil
}

// ParseNetPIPE parses an np.out: the one-way time in seconds of each size, for the fastest of
// three trials. A size that occurs twice counts once, the faster.
func ParseNetPIPE(b []byte) (map[int]float64, error) {
	out := map[int]float64{}
	for line := range strings.Lines(string(b)) {
		l, err := netpipe.ParseLine(strings.TrimRight(line, "\r\n"))
		if err != nil {
			return nil, fmt.Errorf("read points of NPtcp: %w", err)
		}
		if before, there := out[l.Bytes]; !there || l.Seconds < before {
			out[l.Bytes] = l.Seconds
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read points of NPtcp: %w", errNothing)
	}
	return out, nil
}

// Iperf3Version parses the output of iperf3 --version: 3 and 12 for "iperf 3.12 (cJSON
// 1.7.15)"; ok is false for other text.
func Iperf3Version(text string) (major, minor int, ok bool) {
	m := regexp.MustCompile(`iperf (\d+)\.(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	major, _ = strconv.Atoi(m[1])
	minor, _ = strconv.Atoi(m[2])
	return major, minor, true
}

// Iperf3Threads reports whether that release has a thread per stream, as from 3.16.
func Iperf3Threads(text string) bool {
	major, minor, ok := Iperf3Version(text)
	return ok && (major > 3 || major == 3 && minor >= 16)
}
