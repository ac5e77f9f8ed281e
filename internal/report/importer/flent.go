package importer

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/bulk"
)

func isFlent(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && strings.Contains(text, `"x_values"`) && strings.Contains(text, `"results"`)
}

// flentFile is what of a data file of flent counts.
type flentFile struct {
	Version  int                   `json:"version"`
	X        []float64             `json:"x_values"`
	Results  map[string][]*float64 `json:"results"`
	Metadata struct {
		Name  string  `json:"NAME"`
		Title string  `json:"TITLE"`
		Near  string  `json:"LOCAL_HOST"`
		Far   string  `json:"HOST"`
		Time  string  `json:"TIME"`
		Step  float64 `json:"STEP_SIZE"`
		Flent string  `json:"FLENT_VERSION"`
	} `json:"metadata"`
}

// readFlent reads a data file of flent: rates in Mbit/s and pings in ms, on one axis of
// time. Of the series of one direction the one that holds all of them counts.
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
	t.Started, _ = time.Parse("2006-01-02T15:04:05.999999Z", d.Metadata.Time) // of no file that has it otherwise
	var ways []model.Direction
	for _, w := range []model.Direction{model.To, model.From} {
		name := flentSeries(d.Results, map[model.Direction]string{model.To: "upload", model.From: "download"}[w])
		values, err := d.series(&t, name, w.Receiver(), w, model.Goodput, 1e6)
		if err != nil {
			return File{}, err
		}
		if len(values) > 0 {
			ways = append(ways, w)
			t.add(w, model.Goodput, stats.Mean(values))
		}
	}
	t.Flow.Direction = model.To
	switch {
	case len(ways) == 2:
		t.Flow.Direction = model.Both
	case len(ways) == 1:
		t.Flow.Direction = ways[0]
	}
	pings, err := d.series(&t, flentSeries(d.Results, "Ping"), model.Near, model.To, model.RTT, 1e-3)
	if err != nil {
		return File{}, err
	}
	if len(pings) > 0 {
		slices.Sort(pings)
		t.add(t.Flow.Direction.Parts()[0], model.LatencyP50, stats.Median(pings))
		t.add(t.Flow.Direction.Parts()[0], model.LatencyP99, pings[(len(pings)-1)*99/100])
	}
	if len(t.Values) == 0 {
		return File{}, faultf(0, "it has neither an upload, a download nor a ping")
	}
	if n := len(d.X); n > 0 {
		t.Flow.Duration = seconds(d.X[n-1] + d.Metadata.Step)
	}
	return File{Program: program, Tests: []Test{t}}, nil
}

// flentSeries returns the name of the series about what: the sum of all where there is
// one, then the mean or first.
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

// series adds the values of a series to the samples of t and returns those there are.
func (d *flentFile) series(t *Test, name string, h model.Host, w model.Direction, m model.Metric, unit float64) ([]float64, error) {
	all := d.Results[name]
	if len(all) > len(d.X) {
		return nil, faultf(0, "series %q has more values than the axis of time", name)
	}
	var out []float64
	for i, v := range all {
		if v == nil { // nothing was told in this step
			continue
		}
		out = append(out, *v*unit)
		t.Samples = append(t.Samples, model.Sample{Host: h, Direction: w, Metric: m, Start: seconds(d.X[i]), Length: seconds(d.Metadata.Step), Value: *v * unit})
	}
	return out, nil
}
