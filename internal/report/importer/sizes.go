package importer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// pipeRow matches a line of np.out: bytes, Mbit/s of 1048576 bits, seconds one way.
var pipeRow = regex.New(`^\s*([0-9]+)\s+([0-9.,eE+-]+)\s+([0-9.,eE+-]+)\s*$`)

// The first output of NPtcp -2 and -s.
const (
	pipeBoth   = "Output is for the combined bandwidth."
	pipeStream = "Streaming in one direction only."
)

// pipeTry matches the start of a line of NPtcp's own output, and pipeShown a whole one: bytes,
// Mbit/s as above, microseconds one way.
var (
	pipeTry   = regex.New(`(?m)^ *[0-9]+: +[0-9]+ bytes +[0-9]+ times -->`)
	pipeShown = regex.New(`^ *[0-9]+: +([0-9]+) bytes +[0-9]+ times --> +([0-9.,]+) Mbps in +([0-9.,]+) usec$`)
)

func isNetpipe(text string) bool {
	if pipeTry.MatchString(text) {
		return true
	}
	for n, l := range lines(text) {
		if !pipeRow.MatchString(l) {
			return false
		}
		if n > 3 {
			break
		}
	}
	return true
}

// readNetpipe reads np.out of NetPIPE 3, or the output of NPtcp.
func readNetpipe(text string, _ Options) (File, error) {
	t := Test{Flow: model.Flow{Engine: sizes.NetPIPE, Direction: model.To}}
	row, unit, shown := pipeRow, 1.0, pipeTry.MatchString(text)
	own, ways := sizes.Params{Sizes: []units.Bytes{}}, 1.0
	if shown {
		row, unit = pipeShown, 1e-6
	}
	switch {
	case shown && strings.Contains(text, pipeBoth):
		own.Mode, ways = sizes.Both, 2
	case shown && strings.Contains(text, pipeStream):
		own.Mode = sizes.Stream
	}
	t.Flow = sizes.With(t.Flow, own)
	for n, l := range lines(text) {
		m := row.FindStringSubmatch(l)
		switch {
		case m != nil:
		case shown && strings.Contains(l, "NetPIPE: "):
			return File{}, faultf(n, "the test failed: %.80s", l)
		case shown && pipeTry.MatchString(l):
			t.note(fmt.Sprintf("line %d has no result: NPtcp ended before", n))
			continue
		case shown && len(t.Points) == 0: // text before the results
			continue
		default:
			return File{}, faultf(n, "not the three numbers of a message size: %.60q", l)
		}
		v, err := numbers(n, m[1:]...)
		if err != nil {
			return File{}, err
		}
		size, rate, took := v[0], v[1]*(1<<20)/ways, v[2]*unit
		if size < 1 || rate <= 0 || took <= 0 {
			return File{}, faultf(n, "a size, a rate and a time are greater than zero")
		}
		exact, slack := size*8/rate, 0.02 // np.out has at least two digits
		if shown {                        // both have two decimals
			slack += 0.005/v[1] + 0.005/v[2]
		}
		if shown && v[2] > v[1] {
			exact = took
		}
		if q := size * 8 / took / rate; math.Abs(q-1) > slack {
			return File{}, faultf(n, "%.0f bytes in %g s are not the rate beside them: these are not the columns of NetPIPE 3", size, took)
		}
		t.Points = append(t.Points, model.Point{Size: units.Bytes(size), Rounds: 1, Trials: []time.Duration{seconds(exact)}})
	}
	t.Flow.Points = len(t.Points)
	if !shown && len(t.Points) > 2 && !slices.ContainsFunc(t.Points, func(p model.Point) bool { return p.Size%2 != 0 }) {
		t.note("all sizes are even, as NPtcp -2 writes them: if it ran with -2, each size and its rate count both directions together")
	}
	t.note("NetPIPE writes the best of its trials for each size, so what disturbed it is not seen")
	return File{Program: "NetPIPE", Tests: []Test{t}}, nil
}

// nutWay is the note on a file without -v.
const nutWay = "nuttcp does not write the direction: it is taken as from the client to the server"

// nutLine matches a result of nuttcp: MB of 1048576 bytes, seconds, Mbit/s of 1000000.
var nutLine = regex.New(`^ *([0-9.,]+) MB / +([0-9.,]+) sec = +([0-9.,]+) Mbps(.*)$`)

// nutNamed matches the identifier that nuttcp -I writes before each result, and after the names
// of its ends.
var nutNamed = regex.New(`(?m)^(?:(nuttcp-[tr])-[^:\n]{1,40}(:)|[^:\n]{1,40}: +((?:[0-9.,]+ MB / +[0-9.,]+ sec|megabytes=).*))`)

// withoutName removes the identifier from text.
func withoutName(text string) string { return nutNamed.ReplaceAllString(text, "$1$2$3") }

func isNuttcp(text string) bool {
	for _, l := range lines(withoutName(text)) {
		if nutLine.MatchString(l) || strings.HasPrefix(l, "megabytes=") && strings.Contains(l, "rate_Mbps=") {
			return true
		}
	}
	return strings.HasPrefix(strings.TrimSpace(text), "nuttcp")
}

// readNuttcp reads text of nuttcp: intervals, and a summary with the CPU of both ends. It does
// not contain the direction: without -r the client sends.
func readNuttcp(text string, _ Options) (File, error) {
	text = withoutName(text)
	if !nutEnd.MatchString(text) {
		return readNuttcpRows(text)
	}
	out := File{Program: "nuttcp"}
	parts := testsOf(text, nuttcpBegins())
	short := func(p part) bool {
		return !nutBegin.MatchString(text[p.from:p.to]) && !nutEnd.MatchString(text[p.from:p.to])
	}
	if !slices.ContainsFunc(parts, short) {
		return readNuttcpEnds(text)
	}
	for _, p := range parts { // a log of tests with -v and without it
		read := readNuttcpEnds
		if short(p) {
			read = readNuttcpRows
		}
		one, err := read(strings.Repeat("\n", p.first-1) + text[p.from:p.to])
		if err != nil {
			return out, err
		}
		out.Tests = append(out.Tests, one.Tests...)
	}
	return out, nil
}

// readNuttcpRows reads text of nuttcp without -v.
func readNuttcpRows(text string) (File, error) {
	out := File{Program: "nuttcp"}
	var open []model.Sample
	c := account{direction: model.To, at: model.Far}
	at, began := 0.0, 0 // the first line of a test of -v without results so far
	for n, l := range lines(text) {
		if strings.Contains(l, ": Error") {
			return out, faultf(n, "the test failed: %.80s", l)
		}
		if began == 0 && nutBegin.MatchString(l) {
			began = n
		}
		v, rest, err := nutRow(n, l)
		if err != nil {
			return out, err
		}
		if v == nil {
			continue
		}
		began = 0
		if !strings.Contains(rest, "%TX") {
			open = append(open, model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput, Start: seconds(at), Length: seconds(v[1]), Value: v[2] * 1e6})
			c.intervals = append(c.intervals, amount{line: n, from: at, to: at + v[1], bytes: v[0] * (1 << 20), rate: v[2] * 1e6})
			at += v[1]
			continue
		}
		end := &amount{line: n, to: v[1], bytes: v[0] * (1 << 20), rate: v[2] * 1e6}
		if c.sent, c.arrived = nil, end; !strings.Contains(rest, "%RX") { // -fxmitstats
			c.sent, c.arrived = end, nil
		}
		t := Test{Flow: model.Flow{Engine: bulk.Name, Direction: model.To, Duration: seconds(v[1])}, Samples: open}
		t.note(nutWay)
		if err := c.settle(&t); err != nil {
			return out, faultf(n, "%w", err)
		}
		if m := nutLoss.FindStringSubmatch(rest); m != nil {
			lost, err := numbers(n, m[1], m[2])
			if err != nil {
				return out, err
			}
			t.Flow.Engine = udp.Name
			t.add(model.To, model.LossRatio, lost[0]/math.Max(1, lost[1]))
		}
		if m := nutRetr.FindStringSubmatch(rest); m != nil {
			retr, err := number(n, m[1])
			if err != nil {
				return out, err
			}
			t.add(model.To, model.Retransmits, retr)
		}
		out.Tests, open, at = append(out.Tests, t), nil, 0
		c.intervals = nil
	}
	switch {
	case began > 0:
		return out, faultf(began, cutOff)
	case len(open) == 0:
		return out, nil
	}
	t := Test{Flow: model.Flow{Engine: bulk.Name, Direction: model.To}, Samples: open}
	t.note(nutWay)
	c.arrived, c.ended = nil, "the line with %TX and %RX is missing"
	out.Tests = append(out.Tests, t)
	return out, c.settle(&out.Tests[len(out.Tests)-1])
}

// nuttcpBegins returns a function that recognises the first line of a nuttcp test.
func nuttcpBegins() func(line string) bool {
	open, heads, ends := false, "", 0 // an interval was the last result; the -v output for the test so far
	return func(l string) (fresh bool) {
		l = withoutName(l)
		v, rest, err := nutRow(0, l)
		head := nutBegin.FindStringSubmatch(l)
		switch {
		case strings.Contains(l, ": Error"):
			fresh = !open && heads == ""
			open, heads, ends = false, "", 0
		case head != nil:
			if fresh = heads == "" || strings.Contains(heads, head[1]); fresh {
				open, heads, ends = false, "", 0
			}
			heads += head[1]
		case nutEnd.MatchString(l):
			if ends++; ends == 2 {
				heads, ends = "", 0
			}
		case heads == "" && (v != nil || err != nil):
			fresh, open = !open, !strings.Contains(rest, "%TX")
		}
		return fresh
	}
}

// readNuttcpEnds reads text of nuttcp -v: the report of each of the two ends, the client first.
func readNuttcpEnds(text string) (File, error) {
	out := File{Program: "nuttcp"}
	var c account
	heads, first := "", 0 // the ends of the test so far, and its first line
	for n, l := range lines(text) {
		if strings.Contains(l, ": Error") {
			return out, faultf(n, "the test failed: %.80s", l)
		}
		if m := nutBegin.FindStringSubmatch(l); m != nil {
			if c.sent != nil && c.arrived != nil {
				heads = ""
			}
			if strings.Contains(heads, m[1]) {
				return out, faultf(first, cutOff)
			}
			if heads += m[1]; len(heads) == 1 {
				first = n
				t := Test{Flow: model.Flow{Engine: bulk.Name, Direction: model.To}}
				if m[1] == "r" {
					t.Flow.Direction = model.From
				}
				out.Tests, c = append(out.Tests, t), account{direction: t.Flow.Direction, at: model.Near}
			}
		}
		if m := nutEnd.FindStringSubmatch(l); m != nil && !strings.Contains(heads, m[1]) {
			return out, faultf(n, "a result without the line that begins its test")
		}
		if len(out.Tests) == 0 {
			continue
		}
		t := &out.Tests[len(out.Tests)-1]
		if m := nutFar.FindStringSubmatch(l); m != nil && t.Far == "" {
			t.Far = m[1]
		}
		if m := nutSocket.FindStringSubmatch(l); m != nil {
			streams, err := number(n, m[1])
			if err != nil {
				return out, err
			}
			if t.Flow.Streams = int(streams); m[2] == "udp" {
				t.Flow.Engine = udp.Name
			}
		}
		if m := nutResent.FindStringSubmatch(l); m != nil {
			resent, err := number(n, m[1])
			if err != nil {
				return out, err
			}
			t.add(t.Flow.Direction, model.Retransmits, resent)
		}
		if m := nutLoss.FindStringSubmatch(l); m != nil && strings.HasPrefix(l, "nuttcp-r:") {
			lost, err := numbers(n, m[1], m[2])
			if err != nil {
				return out, err
			}
			t.add(t.Flow.Direction, model.LossRatio, lost[0]/math.Max(1, lost[1]))
		}
		m := nutEnd.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		v, err := numbers(n, m[2:]...)
		if err != nil {
			return out, err
		}
		end := &c.sent
		if m[1] == "r" {
			end = &c.arrived
		}
		if *end != nil {
			return out, faultf(n, "a second summary of the same end; the first is in line %d", (*end).line)
		}
		*end = &amount{line: n, to: v[1], bytes: v[0] * (1 << 20), rate: v[2] * 1e6}
		if c.sent != nil && c.arrived != nil {
			before := t.Values // of the first end
			t.Values = nil
			if err := c.settle(t); err != nil {
				return out, faultf(n, "%w", err)
			}
			t.Values = append(t.Values, before...)
		}
	}
	if c.sent == nil || c.arrived == nil {
		return out, faultf(first, cutOff)
	}
	return out, nil
}

var (
	nutBegin  = regex.New(`(?m)^nuttcp-([tr]): v[0-9.]+: socket`)
	nutSocket = regex.New(`buflen=[0-9]+, nstream=([0-9]{1,4}), port=[0-9]+ (tcp|udp)`)
	nutResent = regex.New(`^nuttcp-t: retrans = ([0-9]+)$`)
	nutFar    = regex.New(`^nuttcp-[tr]: .*(?:->|accept from) (\S+)$`)
	nutEnd    = regex.New(`(?m)^nuttcp-([tr]): +([0-9.,]+) MB in +([0-9.,]+) real seconds = +[0-9.,]+ KB/sec = +([0-9.,]+) Mbps`)
	nutLoss   = regex.New(`([0-9]+) / +([0-9]+) drop/pkt`)
	nutRetr   = regex.New(`([0-9]+) retrans`)
)

// nutRow returns megabytes, seconds and Mbit/s of a line in either form, and the rest of the
// line.
func nutRow(n int, l string) ([]float64, string, error) {
	if m := nutLine.FindStringSubmatch(l); m != nil {
		v, err := numbers(n, m[1:4]...)
		return v, m[4], err
	}
	if !strings.HasPrefix(l, "megabytes=") {
		return nil, "", nil
	}
	kv := pairs(strings.Fields(l))
	v, err := numbers(n, kv["megabytes"], cmp.Or(kv["real_seconds"], kv["real_sec"]), kv["rate_Mbps"])
	rest := ""
	if kv["tx_cpu"] != "" {
		rest = "%TX"
	}
	if kv["rx_cpu"] != "" {
		rest += " %RX"
	}
	if kv["retrans"] != "" {
		rest += " " + kv["retrans"] + " retrans"
	}
	if kv["drop"] != "" {
		rest += " " + kv["drop"] + " / " + kv["pkt"] + " drop/pkt"
	}
	return v, rest, err
}

// pairs parses KEY=VALUE words.
func pairs(words []string) map[string]string {
	out := map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			out[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return out
}
