package importer

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// perfHead matches the line above the numbers of a perftest program, perfTitle the first words
// of its output, perfEach the line above the table of one end that --report-both adds, and
// perfFailed an error (src/perftest_communication.c and src/send_bw.c).
var (
	perfHead   = regex.New(`^ *#bytes +#iterations +(.*)$`)
	perfTitle  = regex.New(`^ {8,}\S.* Test *$`)
	perfEach   = regex.New(`^ (?:Local|Remote) results: *$`)
	perfFailed = regex.New(`^ *(Couldn't |Unable to |Failed |Completion with error)`)
)

// perftestBegins returns a function that recognises the first line of a perftest test.
func perftestBegins() func(line string) bool {
	const rows, title, head, failed = 0, 1, 2, 3
	last := rows // the last one of these
	return func(l string) bool {
		before := last
		switch {
		case perfTitle.MatchString(l), strings.HasPrefix(l, "{"):
			last = title
			return true
		case perfEach.MatchString(l): // the test goes on
			last = title
		case perfHead.MatchString(l):
			last = head
			return before != title
		case perfFailed.MatchString(l):
			last = failed
			return before == rows
		case l == "}", isPerfRow(strings.Fields(l)):
			last = rows
		}
		return false
	}
}

// isPerfRow reports whether a line with these fields is a row of a table.
func isPerfRow(f []string) bool { return len(f) >= 4 && strings.Trim(f[0], "0123456789") == "" }

func isPerftest(text string) bool {
	return strings.Contains(text, "#bytes") && strings.Contains(text, "#iterations") || strings.Contains(text, "test_info") && strings.Contains(text, "MsgSize")
}

// perfRates converts rate units to bit/s.
var perfRates = map[string]float64{"[MB/sec]": 8 << 20, "[MiB/sec]": 8 << 20, "[Gb/sec]": 1e9}

// readPerftest reads the table of ib_send_bw and its siblings: the average rate by message
// size, or latencies, one way.
func readPerftest(text string, _ Options) (File, error) {
	out := File{Program: "perftest"}
	if strings.Contains(text, "test_info") {
		return readPerftestJSON(text)
	}
	var c *perfColumns   // of the following rows
	open, title := 0, "" // the line that begins a test without rows, and its title
	var ends []float64   // rates of the two ends, of --report-both; nil outside
	whole := func() {
		if ends != nil && len(ends) < 2 && len(out.Tests) > 0 {
			out.Tests[len(out.Tests)-1].note("the results of both ends are not whole: the test was cut off")
		}
		ends = nil
	}
	for n, l := range lines(text) {
		f, m := strings.Fields(l), perfHead.FindStringSubmatch(l)
		switch {
		case perfFailed.MatchString(l):
			return out, faultf(n, "the test failed: %.80s", strings.TrimSpace(l))
		case open > 0 && (perfTitle.MatchString(l) || m != nil && c != nil):
			return out, faultf(open, cutOff)
		case perfEach.MatchString(l) && len(out.Tests) > 0:
			if c = nil; ends == nil {
				ends = []float64{}
			}
		case ends != nil && isPerfRow(f) && c != nil && c.bits > 0:
			v, err := numbers(n, f...)
			if err != nil {
				return out, err
			}
			if ends = append(ends, v[3]*c.bits); len(ends) == 2 {
				out.Tests[len(out.Tests)-1].bothEnds(n, ends)
			}
		case perfTitle.MatchString(l):
			whole()
			open, title, c = n, l, nil
		case m != nil:
			if c = (&perfColumns{}); ends == nil {
				open = cmp.Or(open, n)
			}
			for unit, f := range perfRates {
				if strings.Contains(m[1], "BW average"+unit) {
					c.bits = f
				}
			}
			if c.bits == 0 && !strings.Contains(m[1], "t_typical") {
				return out, faultf(n, "neither rates nor latencies: %.60q", m[1])
			}
			if ends == nil {
				out.Tests = append(out.Tests, c.test(title))
				title = ""
			}
		case strings.Trim(l, "-") == "":
			c = nil
		case isPerfRow(f) && c != nil:
			open = 0
			if err := c.row(&out.Tests[len(out.Tests)-1], n, f); err != nil {
				return out, err
			}
		case isPerfRow(f) && len(out.Tests) > 0:
			return out, faultf(n, "a row without the line above it that names its columns")
		}
	}
	if open > 0 {
		return out, faultf(open, cutOff)
	}
	whole()
	return out, nil
}

// bothEnds compares the rates of the two ends in bit/s, the last of which is in line n, with the
// rate of the test in one direction.
func (t *Test) bothEnds(n int, ends []float64) {
	p := t.Points[len(t.Points)-1]
	both := 2 * float64(p.Size) * 8 / p.Trials[0].Seconds()
	text := fmt.Sprintf("line %d: of messages of %s this end sent %s and the other one %s", n, p.Size, units.BitRate(ends[0]), units.BitRate(ends[1]))
	switch {
	case differ(ends[0]+ends[1], both):
		t.note(text + ", and both together " + units.BitRate(both).String())
	case differ(ends[0], ends[1]):
		t.note(text + ": what counts is their mean")
	}
}

// perfColumns is the meaning of a table's numbers.
type perfColumns struct {
	bits  float64 // bit/s in one direction for a rate of 1; 0 for latencies
	trips float64 // latencies per round trip
}

// test returns an empty test for a title such as "RDMA_Read Bidirectional BW Test".
func (c *perfColumns) test(title string) Test {
	t := Test{Flow: model.Flow{Engine: sizes.NetPIPE, Direction: model.To}}
	reads := strings.Contains(title, "Read")
	if title == "" {
		t.note("the file does not name the test: it is taken as one that sends or writes, in one direction")
	}
	if c.bits == 0 { // print_report_lat, src/perftest_parameters.c: rtt_factor
		if c.trips = 2; reads || strings.Contains(title, "Atomic") {
			c.trips = 1
		}
		return t
	}
	own := sizes.Params{Sizes: []units.Bytes{}, Mode: sizes.Stream}
	if strings.Contains(title, "Bidirectional") { // print_report_bw of the same file: tsize
		own.Mode, c.bits = sizes.Both, c.bits/2
	}
	if reads {
		t.Flow.Direction = model.From
	}
	t.Flow = sizes.With(t.Flow, own)
	return t
}

// row adds a row of fields f to t.
func (c *perfColumns) row(t *Test, n int, f []string) error {
	v, err := numbers(n, f...)
	if err != nil {
		return err
	}
	took := 0.0 // of one message, one way
	switch {
	case c.bits > 0 && v[3] <= 0: // size, iterations, peak, average
		return faultf(n, "a rate of 0")
	case c.bits > 0:
		took = v[0] * 8 / (v[3] * c.bits)
	case len(v) < 6:
		return faultf(n, "a row of latencies has 6 numbers at least")
	default:
		took = v[4] / 1e6 * c.trips / 2
	}
	t.Points = append(t.Points, model.Point{Size: units.Bytes(v[0]), Rounds: int64(v[1]), Trials: []time.Duration{seconds(took)}})
	t.Flow.Points = len(t.Points)
	if c.bits == 0 && len(t.Points) == 1 { // the smallest message: the time of a request there and back
		t.quantile(model.To, model.LatencyP50, 0.5, c.trips*v[4]/1e6, v[1], 0)
		if len(v) > 7 {
			t.quantile(model.To, model.LatencyP99, 0.99, c.trips*v[7]/1e6, v[1], 0)
		}
	}
	return nil
}

// perfPair matches a line of perftest's JSON-like output (--out_json): until version 4.5 its
// keys and most of its values have no quotes, and a comma follows the last one.
var perfPair = regex.New(`^\s*"?([A-Za-z][A-Za-z0-9_. -]*?)"?\s*:\s*"?([^",]+?)"?\s*,?\s*$`)

// readPerftestJSON reads the latencies of perftest's JSON, one document or several. It rejects
// rates, because they lack a unit.
func readPerftestJSON(text string) (File, error) {
	out := File{Program: "perftest"}
	kv := map[string]string{}
	last := 0
	flush := func() error {
		if len(kv) == 0 {
			return nil
		}
		t, err := perfDocument(kv, last)
		out.Tests = append(out.Tests, t)
		clear(kv)
		return err
	}
	for n, l := range lines(text) {
		if strings.HasPrefix(l, "{") {
			if err := flush(); err != nil {
				return out, err
			}
		}
		if perfFailed.MatchString(l) {
			return out, faultf(n, "the test failed: %.80s", strings.TrimSpace(l))
		}
		if m := perfPair.FindStringSubmatch(l); m != nil {
			if _, again := kv[m[1]]; again {
				return out, faultf(n, "%s is there twice: two documents run into each other, or a line is doubled", m[1])
			}
			kv[m[1]] = m[2]
		}
		last = n
	}
	return out, flush()
}

// perfDocument returns the test of a document, which ends in line n.
func perfDocument(kv map[string]string, n int) (Test, error) {
	var c perfColumns
	t := c.test(kv["test"])
	if kv["BW_average"] != "" {
		return t, faultf(n, "the document that ends here does not say the unit of BW_average: import the table that perftest prints")
	}
	var f []string
	for _, key := range []string{"MsgSize", "n_iterations", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "percentile_99", "percentile_99.9"} {
		if kv[key] == "" {
			return t, faultf(n, "the document that ends here lacks %s: the test was cut off", key)
		}
		f = append(f, kv[key])
	}
	return t, c.row(&t, n, f)
}
