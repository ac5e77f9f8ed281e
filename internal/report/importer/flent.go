package importer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

func isFlent(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && strings.Contains(text, `"x_values"`) && strings.Contains(text, `"results"`)
}

// flentFile has the fields of a flent data file that are used.
type flentFile struct {
	Version int                   `json:"version"`
	X       []float64             `json:"x_values"`
	Results map[string][]*float64 `json:"results"`
	Raw     map[string][]struct {
		Value *float64 `json:"val"` // Mbit/s; an entry with only a time has neither this nor dur
		At    *float64 `json:"t"`   // s, at the end
		Took  *float64 `json:"dur"` // s
		Seq   *float64 `json:"seq"` // of a ping
	} `json:"raw_values"`
	Metadata struct {
		Name  string  `json:"NAME"`
		Title string  `json:"TITLE"`
		Near  string  `json:"LOCAL_HOST"`
		Far   string  `json:"HOST"`
		Time  string  `json:"TIME"`
		Step  float64 `json:"STEP_SIZE"`
		Flent string  `json:"FLENT_VERSION"`

		Series map[string]struct {
			Mean  *float64 `json:"MEAN_VALUE"` // as the program of the stream has it
			Units string   `json:"UNITS"`
		} `json:"SERIES_META"`
	} `json:"metadata"`
}

// readFlent reads a data file of flent: rates in Mbit/s and pings in ms, on one time axis. The
// rate of a direction is the bytes of its streams over the time, by the raw values if the file
// has them, because the series on the axis have gaps where a stream is slower than a step.
// Without raw values it is the series with the sum of all, or the sum of the series.
func readFlent(text string, _ Options) (File, error) {
	var d flentFile
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return File{}, faultf(1+strings.Count(text, "\n"), "no JSON of flent, or cut off: %w", err)
	}
	program := "flent"
	if d.Metadata.Flent != "" {
		program += " " + d.Metadata.Flent
	}
	t := Test{Near: d.Metadata.Near, Far: d.Metadata.Far, Setting: d.Metadata.Title, Flow: model.Flow{Engine: bulk.Name}}
	t.Started, _ = time.Parse("2006-01-02T15:04:05.999999Z", d.Metadata.Time) // fails for files with another time format
	var ways []model.Direction
	for _, w := range []model.Direction{model.To, model.From} {
		rate, err := d.rate(&t, map[model.Direction]string{model.To: "upload", model.From: "download"}[w], w)
		if err != nil {
			return File{}, err
		}
		if rate > 0 {
			ways = append(ways, w)
			t.add(w, model.Goodput, rate)
		}
	}
	t.Flow.Direction = model.To
	switch {
	case len(ways) == 2:
		t.Flow.Direction = model.Both
	case len(ways) == 1:
		t.Flow.Direction = ways[0]
	}
	ping := flentSeries(d.Results, "Ping")
	pings, err := d.series(&t, ping, model.Near, model.To, model.RTT, 1e-3)
	if err != nil {
		return File{}, err
	}
	if len(pings) > 0 {
		slices.Sort(pings)
		w, answers := t.Flow.Direction.Parts()[0], float64(len(pings))
		lost := d.lost(&t, ping)
		d.gaps(&t, ping, len(pings))
		t.quantile(w, model.LatencyP50, 0.5, stats.Median(pings), answers, lost)
		t.quantile(w, model.LatencyP99, 0.99, pings[(len(pings)-1)*99/100], answers, lost)
	}
	if len(t.Values) == 0 {
		return File{}, faultf(0, "it has neither an upload, a download nor a ping")
	}
	if n := len(d.X); n > 0 {
		t.Flow.Duration = seconds(d.X[n-1] + d.Metadata.Step)
	}
	return File{Program: program, Tests: []Test{t}}, nil
}

// rate returns the total rate of the streams of a direction, whose names contain what, in
// bit/s; 0 if there are none. It adds the samples of their sum to t.
func (d *flentFile) rate(t *Test, what string, w model.Direction) (float64, error) {
	var names []string
	sum := ""
	for _, name := range slices.Sorted(maps.Keys(d.Results)) {
		switch low := strings.ToLower(name); {
		case !strings.Contains(low, what), strings.HasSuffix(low, "avg"), flentStatistic.MatchString(name):
		case strings.HasSuffix(low, "sum"), strings.HasSuffix(low, "totals"):
			sum = name
		default:
			names = append(names, name)
		}
	}
	if sum == "" && len(names) == 1 {
		sum = names[0]
	}
	values, err := d.series(t, sum, w.Receiver(), w, model.Goodput, 1e6)
	if err != nil {
		return 0, err
	}
	if raw, err := d.raw(t, what); raw > 0 || err != nil {
		d.reconcile(t, names, raw)
		return raw, err
	}
	if sum == "" {
		all := 0.0
		for _, name := range names {
			v, err := d.series(&Test{}, name, w.Receiver(), w, model.Goodput, 1e6)
			if err != nil {
				return 0, err
			}
			if len(v) > 0 {
				all += stats.Mean(v)
			}
			d.gaps(t, name, len(v))
		}
		return all, nil
	}
	d.gaps(t, sum, len(values))
	if len(values) == 0 {
		return 0, nil
	}
	return stats.Mean(values), nil
}

// flentStatistic matches the name of a series about the sockets of a stream, such as "TCP
// upload::tcp_cwnd"; "TCP upload::2" is a stream.
var flentStatistic = regex.New(`::[^:]*[^0-9:][^:]*$`)

// reconcile notes if raw values are missing: raw is their rate, of the streams called names.
func (d *flentFile) reconcile(t *Test, names []string, raw float64) {
	mean, all := 0.0, true
	for _, name := range names {
		values := slices.ContainsFunc(d.Results[name], func(v *float64) bool { return v != nil })
		if values && d.span(name) <= 0 {
			t.note(fmt.Sprintf("series %q has values, and no raw values: they are not in the rate", name))
		}
		meta := d.Metadata.Series[name]
		if all = all && meta.Mean != nil && meta.Units == "Mbits/s"; all {
			mean += *meta.Mean * 1e6
		}
	}
	// The programs begin a moment before their first value, and end a moment after the last one.
	if all && mean > 0 && math.Abs(mean-raw) > 0.1*mean {
		t.note(fmt.Sprintf("the raw values are %s, and the streams say %s of themselves", units.BitRate(raw), units.BitRate(mean)))
	}
	longest := 0.0
	for _, name := range names {
		longest = max(longest, d.span(name))
	}
	for _, name := range names {
		if span := d.span(name); span > 0 && span < 0.75*longest {
			t.note(fmt.Sprintf("the raw values of %q are of %.4g s, and those of the longest stream of %.4g s", name, span, longest))
		}
	}
}

// span returns the time in seconds from the begin of the first raw value of a stream to the end
// of the last one, -Inf if there are none.
func (d *flentFile) span(name string) float64 {
	begin, end := math.Inf(1), math.Inf(-1)
	for _, v := range d.Raw[name] {
		if v.Value != nil && v.Took != nil && v.At != nil {
			begin, end = min(begin, *v.At-*v.Took), max(end, *v.At)
		}
	}
	return end - begin
}

// lost returns how many numbers are missing in the raw values of series name, and notes it.
func (d *flentFile) lost(t *Test, name string) float64 {
	first, last, n := math.Inf(1), math.Inf(-1), 0.0
	for _, v := range d.Raw[name] {
		if v.Seq != nil {
			first, last = min(first, *v.Seq), max(last, *v.Seq)
			if v.Value != nil { // irtt writes lost ones without a value
				n++
			}
		}
	}
	if n == 0 || last-first+1 <= n {
		return 0
	}
	t.note(fmt.Sprintf("answered %.0f of %.0f pings: the percentiles are of those that were answered", n, last-first+1))
	return last - first + 1 - n
}

// gaps notes if a series has fewer values than the time axis.
func (d *flentFile) gaps(t *Test, name string, values int) {
	if values > 0 && float64(values) < 0.95*float64(len(d.X)) {
		t.note(fmt.Sprintf("series %q has a value in %d of %d steps: what is said of it is of those steps", name, values, len(d.X)))
	}
}

// raw returns the rate by the raw values of a direction in bit/s: the bits of all streams over
// the time from the begin of the first to the end of the last value. It returns 0 if there are
// none.
func (d *flentFile) raw(t *Test, what string) (float64, error) {
	all, first, last := 0.0, math.Inf(1), math.Inf(-1)
	for _, name := range slices.Sorted(maps.Keys(d.Raw)) {
		values := d.Raw[name]
		if low := strings.ToLower(name); !strings.Contains(low, what) || strings.HasSuffix(low, "avg") || strings.HasSuffix(low, "sum") || strings.HasSuffix(low, "totals") || flentStatistic.MatchString(name) {
			continue
		}
		begin, end, covered := math.Inf(1), math.Inf(-1), 0.0
		for i, v := range values {
			if (v.Value == nil) != (v.Took == nil) || v.At == nil {
				return 0, faultf(0, "raw value %d of %q lacks its time, length or value", i+1, name)
			}
			if v.Value == nil || *v.Took <= 0 {
				continue
			}
			all += *v.Value * 1e6 * *v.Took
			covered += *v.Took
			begin, end = min(begin, *v.At-*v.Took), max(end, *v.At)
		}
		// In files of netperf the values follow each other within a few milliseconds.
		if span := end - begin; span > 0 && math.Abs(covered/span-1) > rawSlack {
			t.note(fmt.Sprintf("the raw values of %q cover %.4g s of %.4g s: one is missing or there twice", name, covered, span))
		}
		first, last = min(first, begin), max(last, end)
	}
	if last <= first {
		return 0, nil
	}
	return all / (last - first), nil
}

// rawSlack is how far raw values may deviate from covering the time from their first to their
// last; published files deviate by 0.0002.
const rawSlack = 0.01

// flentSeries returns the name of the series about what: the sum of all if there is one,
// otherwise the mean or the first.
func flentSeries(all map[string][]*float64, what string) string {
	var names []string
	for name := range all {
		if strings.Contains(strings.ToLower(name), strings.ToLower(what)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, best := range []string{"totals", "sum", "avg", "ICMP"} {
		for _, n := range names {
			if strings.Contains(n, best) {
				return n
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// series adds the values of a series to the samples of t and returns them.
func (d *flentFile) series(t *Test, name string, h model.Host, w model.Direction, m model.Metric, unit float64) ([]float64, error) {
	all := d.Results[name]
	if len(all) > len(d.X) {
		return nil, faultf(0, "series %q has more values than the axis of time", name)
	}
	var out []float64
	for i, v := range all {
		if v == nil { // no value in this step
			continue
		}
		out = append(out, *v*unit)
		t.Samples = append(t.Samples, model.Sample{Host: h, Direction: w, Metric: m, Start: seconds(d.X[i]), Length: seconds(d.Metadata.Step), Value: *v * unit})
	}
	return out, nil
}
