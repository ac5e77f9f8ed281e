package importer

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
)

func isNetperf(text string) bool {
	return strings.Contains(text, "THROUGHPUT=") && strings.Contains(text, "THROUGHPUT_UNITS=") || netperfHead.MatchString(text) || netperfTable(text)
}

// netperfHead is the banner of netperf: the test, and the two ends.
var netperfHead = regexp.MustCompile(`(?m)^(?:MIGRATED )?(\S+) (STREAM|MAERTS|REQUEST/RESPONSE|SENDFILE|CONNECT/REQUEST/RESPONSE) TEST (?:from|to) `)

// netperfTable reports whether a text has the columns of netperf's omni CSV (-- -o).
func netperfTable(text string) bool {
	return strings.Contains(text, "Throughput,") && strings.Contains(text, "Throughput Units")
}

// netperfUnits is what THROUGHPUT_UNITS are worth, in bit/s.
var netperfUnits = map[string]float64{"10^3bits/s": 1e3, "10^6bits/s": 1e6, "10^9bits/s": 1e9, "KBytes/s": 8 << 10, "MBytes/s": 8 << 20, "GBytes/s": 8 << 30}

// readNetperf reads what netperf writes with "-- -k": a test begins where a key comes
// again.
func readNetperf(text string, _ Options) (File, error) {
	out := File{Program: "netperf"}
	if !strings.Contains(text, "THROUGHPUT=") {
		return readNetperfTables(text)
	}
	kv := map[string]string{}
	begin := 1
	flush := func() error {
		t, err := netperfTest(begin, kv)
		if err == nil {
			out.Tests = append(out.Tests, t)
		}
		kv = map[string]string{}
		return err
	}
	for n, l := range lines(text) {
		k, v, ok := strings.Cut(l, "=")
		if m := netperfHead.FindStringSubmatch(l); m != nil {
			k, v, ok = "TEST", m[1]+" "+m[2], true
		}
		if !ok || strings.ContainsAny(k, " \t") {
			continue // its banner
		}
		if _, again := kv[k]; again {
			if err := flush(); err != nil {
				return out, err
			}
			begin = n
		}
		kv[k] = v
	}
	return out, flush()
}

func netperfTest(line int, kv map[string]string) (Test, error) {
	t := Test{Kind: cmp.Or(kv["TEST"], kv["PROTOCOL"]), Near: kv["LOCAL_HOST"], Far: kv["REMOTE_HOST"], Flow: model.Flow{Engine: bulk.Name, Direction: model.To}}
	if kv["THROUGHPUT"] == "" || kv["THROUGHPUT_UNITS"] == "" {
		return t, faultf(line, "the test that begins here has no THROUGHPUT with its THROUGHPUT_UNITS: it was cut off")
	}
	v, err := number(line, kv["THROUGHPUT"])
	if err != nil {
		return t, err
	}
	if strings.HasPrefix(kv["PROTOCOL"], "UDP") {
		t.Flow.Engine = udp.Name
	}
	if strings.Contains(kv["DIRECTION"], "Receive") && !strings.Contains(kv["DIRECTION"], "Send") {
		t.Flow.Direction = model.From
	}
	if took := kv["ELAPSED_TIME"]; took != "" {
		s, err := number(line, took)
		if err != nil {
			return t, err
		}
		t.Flow.Duration = seconds(s)
	}
	d := t.Flow.Direction
	switch f, ok := netperfUnits[kv["THROUGHPUT_UNITS"]]; {
	case ok:
		t.add(d, model.Goodput, v*f)
	case kv["THROUGHPUT_UNITS"] == "Trans/s":
		t.Flow.Engine = requests.Name
		t.add(d, model.RequestRate, v)
	default:
		return t, faultf(line, "THROUGHPUT_UNITS %q is not known", kv["THROUGHPUT_UNITS"])
	}
	answers := math.Inf(1) // not known
	if t.Flow.Duration > 0 && kv["THROUGHPUT_UNITS"] == "Trans/s" {
		answers = math.Round(v * t.Flow.Duration.Seconds())
	} else if v < 100 && kv["P99_LATENCY"] != "" {
		t.note("the file does not say how many transactions there were, so its percentiles may be of a few")
	}
	share := map[model.Metric]float64{model.LatencyP50: 0.5, model.LatencyP99: 0.99}
	for key, m := range map[string]model.Metric{"P50_LATENCY": model.LatencyP50, "P99_LATENCY": model.LatencyP99} {
		if kv[key] != "" {
			us, err := number(line, kv[key])
			if err != nil {
				return t, err
			}
			t.quantile(d, m, share[m], us/1e6, answers, 0)
		}
	}
	return t, nil
}

// netperfUnit is the last line above the numbers of netperf's own table: its last column is
// the result, and the one before the elapsed time or, of datagrams, the errors.
var netperfUnit = regexp.MustCompile(`secs\.? +(?:# +# +)?(10\^[0-9]bits/sec|[KMG]Bytes/sec|per sec)\s*$`)

// netperfColumns are the keys of -k by the names that the columns of the omni CSV have.
var netperfColumns = map[string]string{
	"Throughput": "THROUGHPUT", "Throughput Units": "THROUGHPUT_UNITS", "Elapsed Time (sec)": "ELAPSED_TIME", "Protocol": "PROTOCOL", "Direction": "DIRECTION",
	"50th Percentile Latency Microseconds": "P50_LATENCY", "99th Percentile Latency Microseconds": "P99_LATENCY",
}

// netperfInterim is a line of -D: a rate, its unit, and the seconds that it is of
// (display_demo of netlib.c [K]).
var netperfInterim = regexp.MustCompile(`^Interim result: +([0-9.,]+) (\S+) over ([0-9.,]+) seconds ending at`)

// readNetperfTables reads netperf's own table and its omni CSV, of one or several tests.
func readNetperfTables(text string) (File, error) {
	out := File{Program: "netperf"}
	kv := map[string]string{}
	begin, unit, header, counted := 0, "", "", 0
	done := true
	var waiting *Test       // for the line of the receiver
	var moved, took float64 // by the lines of -D
	ended := func() error {
		if done {
			return nil
		}
		if took == 0 {
			return faultf(begin, "the test that begins here has no numbers: it was cut off")
		}
		kv["THROUGHPUT"], kv["ELAPSED_TIME"] = fmt.Sprint(moved/took), fmt.Sprint(took)
		t, err := netperfTest(begin, kv)
		t.note(fmt.Sprintf("the test did not end by itself (its table is missing): what counts is the %.3g s that were measured", took))
		out.Tests = append(out.Tests, t)
		return err
	}
	for n, l := range lines(text) {
		f := strings.Fields(l)
		numeric := strings.Trim(l, "0123456789.,+-eE \t") == "" && len(f) > 0
		switch {
		case netperfHead.MatchString(l):
			if err := ended(); err != nil {
				return out, err
			}
			moved, took = 0, 0
			m := netperfHead.FindStringSubmatch(l)
			kv = map[string]string{"PROTOCOL": m[1], "TEST": m[1] + " " + m[2]}
			if m[2] == "MAERTS" {
				kv["DIRECTION"] = "Receive"
			}
			if _, to, ok := strings.Cut(l, " to "); ok {
				kv["REMOTE_HOST"], _, _ = strings.Cut(to, " ")
			}
			begin, unit, header, done, waiting = n, "", "", false, nil
		case netperfInterim.MatchString(l):
			m := netperfInterim.FindStringSubmatch(l)
			v, err := numbers(n, m[1], m[3])
			if err != nil {
				return out, err
			}
			moved, took, kv["THROUGHPUT_UNITS"] = moved+v[0]*v[1], took+v[1], m[2]
		case netperfUnit.MatchString(l):
			unit = strings.Replace(netperfUnit.FindStringSubmatch(l)[1], "/sec", "/s", 1)
		case header == "" && strings.Contains(l, "Throughput") && strings.Contains(l, ","), header != "" && !done && (l[0] < '0' || l[0] > '9'):
			header, done, begin = strings.TrimSpace(header+" "+l), false, n
		case header != "" && !done:
			names, values := strings.Split(header, ","), strings.Split(l, ",")
			if len(names) != len(values) {
				return out, faultf(n, "it has %d values, and the line above names %d columns", len(values), len(names))
			}
			for i, name := range names {
				if key := netperfColumns[strings.TrimSpace(name)]; key != "" {
					kv[key] = strings.TrimSpace(values[i])
				}
			}
			t, err := netperfTest(n, kv)
			if err != nil {
				return out, err
			}
			out.Tests, header, done, counted = append(out.Tests, t), "", true, 0
		case unit != "" && numeric && len(f) >= 4 && !done:
			kv["THROUGHPUT"], kv["THROUGHPUT_UNITS"], kv["ELAPSED_TIME"] = f[len(f)-1], unit, f[len(f)-2]
			if unit == "per sec" {
				kv["THROUGHPUT_UNITS"] = "Trans/s"
			}
			datagrams := strings.HasPrefix(kv["PROTOCOL"], "UDP") && unit != "per sec"
			if datagrams {
				kv["ELAPSED_TIME"] = f[2]
			}
			t, err := netperfTest(n, kv)
			if err != nil {
				return out, err
			}
			out.Tests, done = append(out.Tests, t), true
			if waiting = nil; datagrams {
				waiting = &out.Tests[len(out.Tests)-1]
				waiting.note(bySender)
			}
		case waiting != nil && numeric && len(f) == 4: // what arrived
			v, err := number(n, f[3])
			if err != nil {
				return out, err
			}
			for i := range waiting.Values {
				if waiting.Values[i].Metric == model.Goodput {
					if sent := waiting.Values[i].Value; sent > 0 && v*netperfUnits[unit] <= sent {
						waiting.add(waiting.Values[i].Direction, model.LossRatio, 1-v*netperfUnits[unit]/sent)
					}
					waiting.Values[i].Value = v * netperfUnits[unit]
				}
			}
			waiting.Notes, waiting = nil, nil
		case strings.HasPrefix(l, "HIST_TOTAL:"):
			if v, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(l, "HIST_TOTAL:"))); err == nil && v != counted && len(out.Tests) > 0 {
				out.Tests[len(out.Tests)-1].note(fmt.Sprintf("line %d: the histogram says %d in all, and its lines have %d", n, v, counted))
			}
		case strings.Contains(l, "SEC") && strings.Contains(l, ":"):
			for _, x := range strings.Split(l, ":")[1:] {
				if v, err := strconv.Atoi(strings.TrimSpace(x)); err == nil {
					counted += v
				}
			}
		}
	}
	return out, ended()
}
