package importer

import (
	"cmp"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// perfHead is the line above the numbers of a program of perftest, perfTitle the first words
// of its output, and perfFailed an error (src/perftest_communication.c and src/send_bw.c).
var (
	perfHead   = regex.New(`^ *#bytes +#iterations +(.*)$`)
	perfTitle  = regex.New(`^ {8,}\S.* Test *$`)
	perfFailed = regex.New(`^ *(Couldn't |Unable to |Failed |Completion with error)`)
)

// perftestBegins returns what knows the first line of a test of perftest.
func perftestBegins() func(line string) bool {
	const rows, title, head, failed = 0, 1, 2, 3
	last := rows // what was the last one of these
	return func(l string) bool {
		before := last
		switch {
		case perfTitle.MatchString(l), strings.HasPrefix(l, "{"):
			last = title
			return true
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

// isPerfRow reports whether a line of these fields is a row of a table.
func isPerfRow(f []string) bool { return len(f) >= 4 && strings.Trim(f[0], "0123456789") == "" }

func isPerftest(text string) bool {
	return strings.Contains(text, "#bytes") && strings.Contains(text, "#iterations") || strings.Contains(text, "test_info") && strings.Contains(text, "MsgSize")
}

// perfRates is what its units of rates are worth, bit/s.
var perfRates = map[string]float64{"[MB/sec]": 8 << 20, "[MiB/sec]": 8 << 20, "[Gb/sec]": 1e9}

// readPerftest reads the table of ib_send_bw and its like: the average rate by message
// size, or latencies, one way.
func readPerftest(text string, _ Options) (File, error) {
	out := File{Program: "perftest"}
	if strings.Contains(text, "test_info") {
		return readPerftestJSON(text)
	}
	var bits float64
	var latency, columns bool // columns are known of the rows that follow
	open := 0                 // the line that begins a test without rows
	for n, l := range lines(text) {
		f, m := strings.Fields(l), perfHead.FindStringSubmatch(l)
		switch {
		case perfFailed.MatchString(l):
			return out, faultf(n, "the test failed: %.80s", strings.TrimSpace(l))
		case open > 0 && (perfTitle.MatchString(l) || m != nil && columns):
			return out, faultf(open, cutOff)
		case perfTitle.MatchString(l):
			open, columns = n, false
		case m != nil:
			bits, latency, columns = 0, strings.Contains(m[1], "t_typical"), true
			open = cmp.Or(open, n)
			for unit, f := range perfRates {
				if strings.Contains(m[1], "BW average"+unit) {
					bits = f
				}
			}
			if bits == 0 && !latency {
				return out, faultf(n, "neither rates nor latencies: %.60q", m[1])
			}
			out.Tests = append(out.Tests, Test{Flow: model.Flow{Engine: sizes.NetPIPE, Direction: model.To}})
		case strings.Trim(l, "-") == "":
			columns = false
		case isPerfRow(f) && columns:
			open = 0
			if err := perfRow(&out.Tests[len(out.Tests)-1], n, f, bits, latency); err != nil {
				return out, err
			}
		case isPerfRow(f) && len(out.Tests) > 0:
			return out, faultf(n, "a row without the line above it that names its columns")
		}
	}
	if open > 0 {
		return out, faultf(open, cutOff)
	}
	return out, nil
}

// perfRow adds a row of fields f to t.
func perfRow(t *Test, n int, f []string, bits float64, latency bool) error {
	v, err := numbers(n, f...)
	if err != nil {
		return err
	}
	if !latency { // size, iterations, peak, average
		if v[3] <= 0 {
			return faultf(n, "a rate of 0")
		}
		t.Points = append(t.Points, model.Point{Size: units.Bytes(v[0]), Rounds: int64(v[1]), Trials: []time.Duration{seconds(v[0] * 8 / (v[3] * bits))}})
		t.Flow.Points = len(t.Points)
		return nil
	}
	if len(v) < 6 {
		return faultf(n, "a row of latencies has 6 numbers at least")
	}
	t.Points = append(t.Points, model.Point{Size: units.Bytes(v[0]), Rounds: int64(v[1]), Trials: []time.Duration{seconds(v[4] / 1e6)}})
	t.Flow.Points = len(t.Points)
	if len(t.Points) == 1 { // of the smallest message: what requests take there and back
		t.quantile(model.To, model.LatencyP50, 0.5, 2*v[4]/1e6, v[1], 0)
		if len(v) > 7 {
			t.quantile(model.To, model.LatencyP99, 0.99, 2*v[7]/1e6, v[1], 0)
		}
	}
	return nil
}

// perfPair is a line of what perftest calls JSON (--out_json): until version 4.5 its keys
// and most of its values have no quotes, and a comma follows the last one.
var perfPair = regex.New(`^\s*"?([A-Za-z][A-Za-z0-9_. -]*?)"?\s*:\s*"?([^",]+?)"?\s*,?\s*$`)

// readPerftestJSON reads the latencies of perftest's JSON, one document or several. Its rates
// have no unit in it, so they are refused.
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

// perfDocument is the test of a document, which ends in line n.
func perfDocument(kv map[string]string, n int) (Test, error) {
	t := Test{Flow: model.Flow{Engine: sizes.NetPIPE, Direction: model.To}}
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
	return t, perfRow(&t, n, f, 0, true)
}
