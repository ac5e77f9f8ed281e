package importer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// row matches a line of numbers of iperf 2 or 3: stream, start and end, bytes, rate, and the
// rest. The brackets hold the number of a stream, or SUM.
var row = regex.New(`^\[ *(\*?[0-9]+|SUM)[^\]]*\](?:\[([TR]X-[CS])\])? +([0-9.,]+) *- *([0-9.,]+) +sec +([0-9.,]+|-?nan) ([KMGT]?)Bytes +([0-9.,]+|-?nan) ([KMGT]?)(bits|Bytes)/sec *(.*)$`)

// connected matches the line with the two ends of a connection.
var connected = regex.New(`^\[ *(\*?[0-9]+)\] local ([^\s%]+)\S* port ([0-9]+) connected (?:to|with) (\S+) port ([0-9]+)(.*)$`)

// of returns the factor of the letter before Bytes and bits: iperf counts bytes by 1024 and
// bits by 1000.
func of(letter string, base float64) float64 {
	f := 1.0
	for range strings.Index("KMGT", letter) + 1 {
		f *= base
	}
	if letter == "" {
		return 1
	}
	return f
}

// line is a parsed row.
type line struct {
	number   int
	id, role string // role: TX-C and so on of --bidir
	from, to float64
	digits   int // of to, after the decimal point
	bytes    float64
	bitrate  float64 // bit/s
	rest     string
}

func readRow(n int, text string) (line, bool, error) {
	m := row.FindStringSubmatch(text)
	if m == nil {
		return line{}, false, nil
	}
	for _, i := range []int{5, 7} {
		if strings.HasSuffix(m[i], "nan") { // nothing in no time
			m[i] = "0"
		}
	}
	v, err := numbers(n, m[3], m[4], m[5], m[7])
	if err != nil {
		return line{}, true, err
	}
	l := line{number: n, id: m[1], role: m[2], from: v[0], to: v[1], digits: len(m[4]) - 1 - strings.IndexByte(m[4]+".", '.'), bytes: v[2] * of(m[6], 1024), bitrate: v[3] * of(m[8], 1000), rest: m[10]}
	if m[9] == "Bytes" {
		l.bitrate = v[3] * of(m[8], 1024) * 8
	}
	if took := l.to - l.from; took > 0.05 && finest(m[7]) > 0.01 && finest(m[5]) < finest(m[7])/2 {
		l.bitrate = l.bytes * 8 / took // for -f with a large unit
	}
	if l.to < l.from {
		return l, true, faultf(n, "the interval ends before it begins")
	}
	return l, true, nil
}

// finest returns the relative rounding error of a number.
func finest(text string) float64 {
	whole, digits, _ := strings.Cut(text, ".")
	v, err := strconv.ParseFloat(whole+digits, 64)
	if err != nil || v == 0 {
		return 1
	}
	return 0.5 / v
}

// lossOf matches "0.036 ms  0/8629" in a line of UDP.
var lossOf = regex.New(`([0-9.,]+) +ms +([0-9]+)/ *([0-9]+)`)

// loss returns the jitter of l in seconds, and the share of its datagrams that were lost, nil
// if it has none.
func (l line) loss() (jitter float64, lost *float64, err error) {
	m := lossOf.FindStringSubmatch(l.rest)
	if m == nil {
		return 0, nil, nil
	}
	v, err := numbers(l.number, m[1], m[2], m[3])
	if err != nil || v[2] == 0 {
		return 0, nil, err
	}
	ratio := v[1] / v[2]
	if ratio > 1 {
		return 0, nil, faultf(l.number, "%.0f of %.0f datagrams are lost", v[1], v[2])
	}
	return v[0] / 1000, &ratio, nil
}

// amount converts l.
func (l line) amount() *amount {
	return &amount{line: l.number, from: l.from, to: l.to, bytes: l.bytes, rate: l.bitrate, omitted: strings.Contains(l.rest, "(omitted)")}
}

// again reports whether l repeats an earlier interval.
func (l line) again(a amount) bool { return l.from == a.from && l.to == a.to && l.bytes == a.bytes }

// clock matches the time that the log of a container or of a build puts before each line (RFC
// 3339).
var clock = regex.New(`(?m)^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9:]+) ?`)

// stamped matches the first banner of a program that writes the time or a title before each
// line, or of a journal.
var stamped = regex.New(`^(.{1,100}?)(Connecting to host |Accepted connection from |Client connecting to |Server listening on )`)

// unstamped removes the prefix of each line of a text, if its banners have one.
func unstamped(text string) string {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return text
	}
	shape := func(s string) string {
		return strings.Map(func(c rune) rune {
			switch {
			case c >= '0' && c <= '9', c == ' ':
				return '0'
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
				return 'a'
			}
			return c
		}, s)
	}
	all := strings.Split(text, "\n")
	stamp := ""
	for _, l := range all {
		if m := stamped.FindStringSubmatch(l); m != nil {
			stamp = shape(m[1])
			break
		}
	}
	if stamp == "" {
		return text
	}
	for i, l := range all {
		if len(l) >= len(stamp) && shape(l[:len(stamp)]) == stamp {
			all[i] = l[len(stamp):]
		}
	}
	return strings.Join(all, "\n")
}

// parts notes if the lines of streams over one interval do not add up to their sum.
func parts(t *Test, rows []line, streams int) {
	type when struct {
		from, to   float64
		role, rest string
	}
	key := func(l line) when {
		w := when{from: l.from, to: l.to, role: l.role}
		for _, end := range []string{"sender", "receiver", "(omitted)"} {
			if strings.HasSuffix(l.rest, end) {
				w.rest = end
			}
		}
		return w
	}
	all, n := map[when]float64{}, map[when]int{}
	for _, l := range rows {
		if l.id != "SUM" {
			all[key(l)] += l.bytes
			n[key(l)]++
		}
	}
	// iperf 2 ends its streams at slightly different times.
	apart := map[when][]when{}
	about := func(k when, by float64) when {
		k.from, k.to = math.Round(k.from*10), math.Round(k.to*10)+by
		return k
	}
	for k := range n {
		if n[k] != streams {
			apart[about(k, 0)] = append(apart[about(k, 0)], k)
		}
	}
	for _, l := range rows {
		k := key(l)
		if l.id != "SUM" {
			continue
		}
		count, bytes := n[k], all[k]
		if count != streams {
			count, bytes = 0, 0
			for by := -1.0; by <= 1; by++ {
				for _, near := range apart[about(k, by)] {
					count, bytes = count+n[near], bytes+all[near]
				}
			}
		}
		if count == 0 {
			continue
		}
		if count != streams {
			t.note(fmt.Sprintf("line %d: %d streams make a sum, and %d lines of them are there", l.number, streams, count))
		} else if differ(bytes, l.bytes) && l.to-l.from > sameClock {
			t.note(fmt.Sprintf("line %d: the streams have %s, and their sum says %s", l.number, units.Bytes(bytes), units.Bytes(l.bytes)))
		}
	}
}

// sample returns the interval l in direction d, as counted by end h.
func (l line) sample(h model.Host, d model.Direction, m model.Metric, value float64) model.Sample {
	return model.Sample{Host: h, Direction: d, Metric: m, Start: seconds(l.from), Length: seconds(l.to - l.from), Value: value, Omitted: strings.Contains(l.rest, "(omitted)")}
}

// rateMetric returns the metric of a rate that end h counted in direction d.
func rateMetric(h model.Host, d model.Direction) model.Metric {
	if d.Receiver() == h {
		return model.Goodput
	}
	return model.Sent
}

// section is the part of an iperf file from one banner to the next.
type section struct {
	first   int // number of its first line
	server  bool
	udp     bool
	reverse bool
	bounces bool // iperf 2 --bounceback: round trips
	bidir   bool
	far     string    // as the client was told
	started time.Time // as -V of iperf3 says
	rows    []line
	ends    [][]string // matches of connected
	report  map[int]bool
	ended   string          // why the test ended early
	done    bool            // the program reported its end
	totals  map[int]bool    // rows after the line that divides intervals from summaries
	listens string          // port at which a client waits for the server's own stream
	inbound map[string]bool // streams to that port
	inTurn  bool            // they started after the client's own had ended
}

// engine is the kind of traffic of a section.
func (s section) engine() string {
	if s.udp {
		return udp.Name
	}
	return bulk.Name
}

// whole checks that a text between the rows is part of iperf's output, not a damaged row.
func whole(n int, text string) error {
	if strings.HasPrefix(text, "[FD") { // the sum of both directions
		return nil
	}
	if strings.HasPrefix(text, "[") && strings.Contains(text, "/sec") && !strings.Contains(text, "ID]") {
		return faultf(n, "not a line of this program: %.60q", text)
	}
	for _, bad := range []string{"error - ", "connect failed", "unable to connect", "Connection refused", "unable to"} {
		if strings.Contains(text, bad) {
			return faultf(n, "the test failed: %.80s", strings.TrimSpace(text))
		}
	}
	return nil
}

// cut returns the error for a section without an end.
func cut(what string, last line) error {
	return faultf(last.number, "the file ends before %s: the test was cut off", what)
}

// streams counts the streams of a section.
func streams(rows []line) int {
	seen := map[string]bool{}
	for _, l := range rows {
		if l.id != "SUM" && !strings.HasPrefix(l.role, "RX") {
			seen[l.id] = true
		}
	}
	return max(1, len(seen))
}
