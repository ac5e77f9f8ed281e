package importer

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/regex"
)

func isNetperf(text string) bool {
	return netperfHead.MatchString(text) || netperfKey.MatchString(text) || strings.Contains(text, "Throughput,") && strings.Contains(text, "Throughput Units")
}

// netperfFar matches the far end, if the banner is wrapped before it.
var netperfFar = regex.New(`^\S+ \(\S*\) port [0-9]+ AF_INET`)

// netperfHead matches the banner of netperf: the test, and the far end.
var netperfHead = regex.New(`(?m)^(?:MIGRATED )?(\S+) (STREAM|MAERTS|REQUEST/RESPONSE|SENDFILE|Connect/Request/Response|CONNECT/REQUEST/RESPONSE|CC|Send|Receive|Send\|Recv) TEST (?:from .* )?to\b *(\S*)`)

// bothWays is the DIRECTION of transactions.
const bothWays = "Send|Recv"

// netperfKey matches a line of -- -k.
var netperfKey = regex.New(`(?m)^([A-Z][A-Z0-9_]+)=(.*)$`)

// netperfUnits converts THROUGHPUT_UNITS to bit/s.
var netperfUnits = map[string]float64{"10^3bits/s": 1e3, "10^6bits/s": 1e6, "10^9bits/s": 1e9, "KBytes/s": 8 << 10, "MBytes/s": 8 << 20, "GBytes/s": 8 << 30}

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
	case ok && kv["DIRECTION"] == bothWays:
		return t, faultf(line, "%s of transactions are of both directions together: run netperf without -f, which counts transactions", kv["THROUGHPUT_UNITS"])
	case ok:
		t.add(d, model.Goodput, v*f)
	case kv["THROUGHPUT_UNITS"] == "Trans/s":
		t.Flow.Engine = requests.Name
		t.add(d, model.RequestRate, v)
	default:
		return t, faultf(line, "THROUGHPUT_UNITS %q is not known", kv["THROUGHPUT_UNITS"])
	}
	if kv["PROTOCOL"] == "" {
		t.note("netperf does not say which protocol it used: it is taken as TCP")
	}
	if t.Flow.Engine == requests.Name {
		err = t.latencies(line, kv)
	}
	if kv["WARNING"] != "" {
		t.note(kv["WARNING"])
	}
	return t, err
}

// latencies adds those of transactions. For a stream netperf has the time of a call instead.
func (t *Test) latencies(line int, kv map[string]string) error {
	d, v := t.Flow.Direction, t.Values[0].Value
	answers := math.Inf(1) // unknown
	if t.Flow.Duration > 0 {
		answers = math.Round(v * t.Flow.Duration.Seconds())
	} else if v < 100 && kv["P99_LATENCY"] != "" {
		t.note("the file does not say how many transactions there were, so its percentiles may be of a few")
	}
	for _, of := range []struct {
		key string
		m   model.Metric
		q   float64
	}{{"P50_LATENCY", model.LatencyP50, 0.5}, {"P99_LATENCY", model.LatencyP99, 0.99}} {
		if kv[of.key] != "" {
			us, err := number(line, kv[of.key])
			if err != nil {
				return err
			}
			t.quantile(d, of.m, of.q, us/1e6, answers, 0)
		}
	}
	return nil
}

// netperfUnit matches the last line above the numbers of netperf's own table, which names the
// columns of the time and of the result.
var netperfUnit = regex.New(`^((?:[Bb]ytes +)+)secs\.? +(# +# +)?(10\^[0-9]bits/s|[KMG]Bytes */s|per sec)`)

// netperfColumns are the keys of -k by the column names of omni tables.
var netperfColumns = map[string]string{
	"Throughput": "THROUGHPUT", "Throughput Units": "THROUGHPUT_UNITS", "Elapsed Time (sec)": "ELAPSED_TIME", "Protocol": "PROTOCOL", "Direction": "DIRECTION",
	"50th Percentile Latency Microseconds": "P50_LATENCY", "99th Percentile Latency Microseconds": "P99_LATENCY",
}

// netperfInterim matches a line of -D: a rate, its unit, and its length in seconds.
var netperfInterim = regex.New(`^Interim result: +([0-9.,]+) (\S+) over ([0-9.,]+) seconds ending at`)

// netperfRow matches a number; the header lines of a table have no number as a field.
var netperfRow = regex.New(`(?:^|[ ,])[0-9]+(?:\.[0-9]+)?(?:[ ,]|$)`)

// netperf is the state of the parser.
type netperf struct {
	out         File
	kv          map[string]string // of the present test
	begin       int               // its first line
	done        bool              // its numbers are complete
	above       []string          // the lines above them
	time, rate  int               // their columns in netperf's own table, 0 outside one
	unit        string            // of rate
	fields      int               // of its rows
	waiting     int               // for the receiver's line, with this number of fields; 0 if there is none
	moved, took float64           // from the lines of -D
	counted     int               // from the histogram
}

// readNetperf reads the output of netperf for one or several tests: its own table, and those of
// omni as columns (-- -O), as CSV (-- -o) and as KEY=VALUE (-- -k).
func readNetperf(text string, _ Options) (File, error) {
	r := netperf{out: File{Program: "netperf"}, kv: map[string]string{}, done: true}
	for n, l := range lines(text) {
		if err := r.take(n, l); err != nil {
			return r.out, err
		}
	}
	return r.out, r.end()
}

// take parses line n.
func (r *netperf) take(n int, l string) error {
	if m := netperfHead.FindStringSubmatch(l); m != nil {
		err := r.start(n)
		if r.kv["REMOTE_HOST"] = m[3]; m[1] != "OMNI" {
			r.kv["PROTOCOL"], r.kv["TEST"] = m[1], m[1]+" "+m[2]
		}
		switch up := strings.ToUpper(m[2]); {
		case up == "MAERTS", up == "RECEIVE":
			r.kv["DIRECTION"] = "Receive"
		case strings.Contains(up, "RESPONSE"), m[2] == bothWays:
			r.kv["DIRECTION"] = bothWays
		}
		return err
	}
	f := strings.Fields(l)
	switch {
	case !r.done && r.kv["REMOTE_HOST"] == "" && netperfFar.MatchString(l):
		r.kv["REMOTE_HOST"] = f[0]
	case netperfInterim.MatchString(l):
		m := netperfInterim.FindStringSubmatch(l)
		v, err := numbers(n, m[1], m[3])
		if err != nil {
			return err
		}
		r.moved, r.took, r.kv["THROUGHPUT_UNITS"] = r.moved+v[0]*v[1], r.took+v[1], m[2]
	case netperfKey.MatchString(l):
		m := netperfKey.FindStringSubmatch(l)
		if _, again := r.kv[m[1]]; r.done || again && m[1] != "PROTOCOL" && m[1] != "DIRECTION" && m[1] != "REMOTE_HOST" {
			if err := r.start(n); err != nil {
				return err
			}
		}
		r.kv[m[1]] = m[2]
	case netperfUnit.MatchString(l):
		m := netperfUnit.FindStringSubmatch(l)
		r.time, r.unit = len(strings.Fields(m[1])), strings.ReplaceAll(strings.Replace(m[3], "per sec", "Trans/s", 1), " ", "")
		r.rate = r.time + 1 + len(strings.Fields(m[2]))
	case r.waiting > 0 && len(f) == r.waiting && netperfRow.MatchString(l):
		r.waiting = 0
		return r.arrived(n, f[3])
	case strings.HasPrefix(l, "!!! Desired confidence was not achieved"):
		r.kv["WARNING"] = "netperf repeated the test and did not reach the confidence that was asked for: its runs differ much"
	case strings.HasPrefix(l, "HIST_TOTAL:"):
		if v, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(l, "HIST_TOTAL:"))); err == nil && v != r.counted && len(r.out.Tests) > 0 {
			r.out.Tests[len(r.out.Tests)-1].note(fmt.Sprintf("line %d: the histogram says %d in all, and its lines have %d", n, v, r.counted))
		}
	case strings.Contains(l, "SEC") && strings.Contains(l, ":"):
		for _, x := range strings.Split(l, ":")[1:] {
			if v, err := strconv.Atoi(strings.TrimSpace(x)); err == nil {
				r.counted += v
			}
		}
	case strings.HasPrefix(l, "Alignment "): // the second table of -v 2
		r.rate, r.fields = 0, 0
	case r.done && r.fields > 0 && len(f) == r.fields && netperfRow.MatchString(l):
		r.fields, r.done = 0, false
		if err := r.take(n, l); err != nil {
			return err
		}
		r.out.Tests[len(r.out.Tests)-1].note(fmt.Sprintf("line %d: a row without a banner of its own (netperf -P 0) is taken as another test like the one above", n))
	case !r.done && r.rate > 0 && len(f) > r.rate && netperfRow.MatchString(l):
		r.fields = len(f)
		r.kv["ELAPSED_TIME"], r.kv["THROUGHPUT"], r.kv["THROUGHPUT_UNITS"] = f[r.time], f[r.rate], r.unit
		if strings.HasPrefix(r.kv["PROTOCOL"], "UDP") && r.unit != "Trans/s" {
			r.waiting = len(f) - 2 // without the message size and the errors
		}
		return r.add(n)
	case netperfRow.MatchString(l) && len(r.above) > 0 && r.rate == 0:
		if err := r.row(n, l); err != nil {
			return err
		}
		return r.add(n)
	case strings.Contains(l, "Throughput") && (!r.done || strings.Contains(l, ",")) || len(r.above) > 0:
		if r.done {
			r.done, r.begin = false, n
		}
		r.above = append(r.above, l)
	}
	return nil
}

// start begins a test at line n.
func (r *netperf) start(n int) error {
	err := r.end()
	*r = netperf{out: r.out, kv: map[string]string{}, begin: n}
	return err
}

// add adds the test whose numbers end in line n.
func (r *netperf) add(n int) error {
	t, err := netperfTest(n, r.kv)
	if r.waiting > 0 {
		t.note(bySender(t.Flow.Direction))
	}
	r.out.Tests, r.done, r.above, r.counted = append(r.out.Tests, t), true, nil, 0
	return err
}

// end completes the last test.
func (r *netperf) end() error {
	switch {
	case r.done:
		return nil
	case r.kv["THROUGHPUT"] != "":
		return r.add(r.begin)
	case r.took == 0:
		return faultf(r.begin, "the test that begins here has no numbers: it was cut off")
	}
	r.kv["THROUGHPUT"], r.kv["ELAPSED_TIME"] = fmt.Sprint(r.moved/r.took), fmt.Sprint(r.took)
	r.kv["WARNING"] = fmt.Sprintf("the test did not end by itself (its table is missing): what counts is the %.3g s that were measured", r.took)
	return r.add(r.begin)
}

// row parses line n, the numbers of an omni table: the names above are separated by commas too,
// or start in the same columns.
func (r *netperf) row(n int, l string) error {
	cells := func(l string) ([]string, error) {
		c, err := csv.NewReader(strings.NewReader(l)).Read()
		return c, err
	}
	values, err := cells(l)
	names, wrong := cells(strings.Join(r.above, " "))
	if len(values) == 1 { // columns
		values, names, wrong = strings.Fields(l), nil, nil
		starts := netperfCell.FindAllStringIndex(l, -1)
		for i, at := range starts {
			var name []string
			for _, h := range r.above {
				to := len(h)
				if i+1 < len(starts) {
					to = min(to, starts[i+1][0])
				}
				name = append(name, strings.Fields(h[min(at[0], to):to])...)
			}
			names = append(names, strings.Join(name, " "))
		}
	}
	if err := errors.Join(err, wrong); err != nil {
		return faultf(n, "%w", err)
	}
	if len(names) != len(values) {
		return faultf(n, "it has %d values, and the line above names %d columns", len(values), len(names))
	}
	for i, name := range names {
		if key := netperfColumns[strings.TrimSpace(name)]; key != "" {
			r.kv[key] = strings.TrimSpace(values[i])
		}
	}
	return nil
}

var netperfCell = regex.New(`\S+`)

// arrived sets the rate of the last test, of datagrams, to the receiver's.
func (r *netperf) arrived(n int, rate string) error {
	v, err := number(n, rate)
	if err != nil {
		return err
	}
	t := &r.out.Tests[len(r.out.Tests)-1]
	for i := range t.Values {
		if sent := t.Values[i].Value; t.Values[i].Metric == model.Goodput {
			t.Values[i].Value = v * netperfUnits[r.unit]
			if sent > 0 && t.Values[i].Value <= sent {
				t.add(t.Values[i].Direction, model.LossRatio, 1-t.Values[i].Value/sent)
			}
		}
	}
	t.Notes = slices.DeleteFunc(t.Notes, func(n string) bool { return n == bySender(t.Flow.Direction) })
	return nil
}
