package importer

import (
	"regexp"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// perfHead is the line above the numbers of a program of perftest.
var perfHead = regexp.MustCompile(`^ *#bytes +#iterations +(.*)$`)

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
	var latency bool
	for n, l := range lines(text) {
		if m := perfHead.FindStringSubmatch(l); m != nil {
			bits, latency = 0, strings.Contains(m[1], "t_typical")
			for unit, f := range perfRates {
				if strings.Contains(m[1], "BW average"+unit) {
					bits = f
				}
			}
			if bits == 0 && !latency {
				return out, faultf(n, "neither rates nor latencies: %.60q", m[1])
			}
			out.Tests = append(out.Tests, Test{Flow: model.Flow{Engine: sizes.NetPIPE, Direction: model.To}})
			continue
		}
		f := strings.Fields(l)
		if len(out.Tests) == 0 || len(f) < 4 || strings.Trim(f[0], "0123456789") != "" {
			continue
		}
		if err := perfRow(&out.Tests[len(out.Tests)-1], n, f, bits, latency); err != nil {
			return out, err
		}
	}
	for _, t := range out.Tests {
		if len(t.Points) == 0 && len(t.Values) == 0 {
			return out, faultf(0, "a table has no rows: the test was cut off")
		}
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
var perfPair = regexp.MustCompile(`^\s*"?([A-Za-z][A-Za-z0-9_. -]*?)"?\s*:\s*"?([^",]+?)"?\s*,?\s*$`)

// readPerftestJSON reads the latencies of perftest's JSON. Its rates have no unit in it, so
// they are refused.
func readPerftestJSON(text string) (File, error) {
	out := File{Program: "perftest"}
	kv := map[string]string{}
	last := 0
	for n, l := range lines(text) {
		if m := perfPair.FindStringSubmatch(l); m != nil {
			if _, again := kv[m[1]]; again {
				return out, faultf(n, "%s is there twice: the file holds several tests, or a line is doubled", m[1])
			}
			kv[m[1]] = m[2]
		}
		last = n
	}
	if kv["BW_average"] != "" {
		return out, faultf(0, "the file does not say the unit of BW_average: import the table that perftest prints")
	}
	var f []string
	for _, key := range []string{"MsgSize", "n_iterations", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "percentile_99", "percentile_99.9"} {
		if kv[key] == "" {
			return out, faultf(last, "the file ends without %s: the test was cut off", key)
		}
		f = append(f, kv[key])
	}
	t := Test{Flow: model.Flow{Engine: sizes.NetPIPE, Direction: model.To}}
	if err := perfRow(&t, last, f, 0, true); err != nil {
		return out, err
	}
	out.Tests = append(out.Tests, t)
	return out, nil
}
