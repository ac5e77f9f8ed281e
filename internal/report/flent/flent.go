// Package flent renders a session as a data file of Flent 2 (https://flent.org,
// file format version 4), which its plots and its summaries read.
//
// A file of Flent is one test. Of an experiment it holds the last block of the runs with
// the settings as they were, one run after the other on one clock; of a check, the last
// run of its first test in each direction.
package flent

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/report"
)

// ErrNothing says that a session has nothing that Flent could show: no goodput over
// time of TCP or UDP.
var ErrNothing = errors.New("no goodput over time, which is what a file of Flent holds")

// file is the format. Its fields are those that flent/resultset.py reads.
type file struct {
	Version  int                   `json:"version"`
	Metadata metadata              `json:"metadata"`
	X        []float64             `json:"x_values"` // seconds since T0
	Results  map[string][]*float64 `json:"results"`  // one value for each x, null where there is none
	Raw      map[string][]raw      `json:"raw_values"`
}

type metadata struct {
	Name        string  `json:"NAME"` // of the test that Flent knows
	Title       string  `json:"TITLE"`
	Host        string  `json:"HOST"`
	LocalHost   string  `json:"LOCAL_HOST"`
	Time        string  `json:"TIME"`
	T0          string  `json:"T0"`
	Length      float64 `json:"LENGTH"`
	TotalLength float64 `json:"TOTAL_LENGTH"`
	Step        float64 `json:"STEP_SIZE"`
	Note        string  `json:"NOTE"`
	Filename    string  `json:"DATA_FILENAME"`
	Version     string  `json:"FLENT_VERSION"`
}

// raw is a sample as it was taken.
type raw struct {
	T        float64  `json:"t"`                 // seconds since the epoch
	Duration float64  `json:"dur"`               // seconds
	Value    float64  `json:"val"`               // Mbit/s
	RTT      *float64 `json:"tcp_rtt,omitempty"` // ms, of the flow itself
}

// written is the version of Flent whose files these are like.
const written = "2.1.1"

// Render writes s, of which d is the report, with its samples. It
// wraps ErrNothing where there is nothing to write.
func Render(w io.Writer, s model.Session, d report.Document, samples model.Samples) error {
	f, err := fileOf(s, d, samples)
	if err != nil {
		return fmt.Errorf("session %s: %w", s.ID, err)
	}
	return json.NewEncoder(w).Encode(f)
}

// RenderPacked is Render through gzip, as Flent itself writes.
func RenderPacked(w io.Writer, s model.Session, d report.Document, samples model.Samples) error {
	z := gzip.NewWriter(w)
	if err := Render(z, s, d, samples); err != nil {
		return err
	}
	return z.Close()
}

// point is a sample on the clock of the file.
type point struct {
	series string
	at     time.Duration // of its middle, since T0
	length time.Duration
	mbit   float64
	rtt    *float64
}

func fileOf(s model.Session, d report.Document, samples model.Samples) (file, error) {
	runs := shown(s)
	if len(runs) == 0 {
		return file{}, ErrNothing
	}
	began := runs[0].Started
	for _, r := range runs {
		if r.Started.Before(began) {
			began = r.Started
		}
	}
	var points []point
	step := time.Duration(math.MaxInt64)
	for _, r := range runs {
		for _, p := range pointsOf(r, samples.Of(r.Number), began) {
			points = append(points, p)
			step = min(step, max(p.length.Round(10*time.Millisecond), 10*time.Millisecond))
		}
	}
	if len(points) == 0 {
		return file{}, ErrNothing
	}
	slices.SortStableFunc(points, func(a, b point) int { return int(a.at - b.at) })
	last := points[len(points)-1]
	f := file{Version: 4, Results: map[string][]*float64{}, Raw: map[string][]raw{}, Metadata: metadata{
		Title: title(d), Host: plain.Line(d.Header.Far), LocalHost: plain.Line(d.Header.Near),
		Time: stamp(s.Created), T0: stamp(began), Length: runs[0].Flow.Length().Seconds(), TotalLength: (last.at + last.length/2).Seconds(),
		Step: step.Seconds(), Filename: "linerate-" + s.ID + ".flent.gz", Version: written,
		Note: fmt.Sprintf("linerate %s, session %s: %d of %d runs, %s. Upload is to %s, download from it.",
			plain.Line(s.Version), s.ID, len(runs), len(s.Runs), which(s), plain.Line(d.Header.Far)),
	}}
	f.place(points, began, step)
	f.Metadata.Name = test(f.Results)
	return f, nil
}

// place puts the points on one grid, since all series of a file share their times.
// Where two meet, as where a run ends within a step, their mean stands; the raw values
// are as they were taken.
func (f *file) place(points []point, began time.Time, step time.Duration) {
	first := points[0].at
	cells := int((points[len(points)-1].at-first+step/2)/step) + 1
	for i := range cells {
		f.X = append(f.X, math.Round((first+time.Duration(i)*step).Seconds()*1e6)/1e6)
	}
	type sum struct {
		total float64
		n     int
	}
	sums := map[string][]sum{}
	for _, p := range points {
		if sums[p.series] == nil {
			sums[p.series] = make([]sum, cells)
		}
		i := int((p.at - first + step/2) / step)
		sums[p.series][i].total += p.mbit
		sums[p.series][i].n++
		at := began.Add(p.at)
		f.Raw[p.series] = append(f.Raw[p.series], raw{T: float64(at.UnixMicro()) / 1e6, Duration: p.length.Seconds(), Value: p.mbit, RTT: p.rtt})
	}
	for series, all := range sums {
		values := make([]*float64, cells)
		for i, c := range all {
			if c.n > 0 {
				values[i] = new(c.total / float64(c.n))
			}
		}
		f.Results[series] = values
	}
}

// shown are the counted runs of the last block with the settings as they were.
func shown(s model.Session) []model.Run {
	counted := report.Counted(s.Runs)
	if len(s.Plan.Tests) > 0 {
		return eachDirection(counted)
	}
	var out []model.Run
	last := 0
	for _, r := range counted {
		if s.Plan.Baseline != "" && s.Plan.Search == nil && r.Setting != s.Plan.Baseline {
			continue
		}
		if r.Block > last {
			out, last = nil, r.Block
		}
		if r.Block == last {
			out = append(out, r)
		}
	}
	return out
}

// eachDirection are the last runs of the first test of runs, one for each direction.
func eachDirection(runs []model.Run) []model.Run {
	var out []model.Run
	for _, r := range runs {
		if r.Setting != runs[0].Setting {
			continue
		}
		out = slices.DeleteFunc(out, func(o model.Run) bool { return o.Flow.Direction == r.Flow.Direction })
		out = append(out, r)
	}
	return out
}

// pointsOf are the goodputs of one run, each with the round trip that the sender saw in
// the same step.
func pointsOf(r model.Run, samples []model.Sample, began time.Time) []point {
	protocol := "TCP"
	if slices.ContainsFunc(samples, func(x model.Sample) bool { return x.Metric == model.Datagrams }) {
		protocol = "UDP"
	}
	var out []point
	for _, x := range samples {
		if x.Metric != model.Goodput || x.Of != "" || x.Omitted || x.Length <= 0 || x.Host != x.Direction.Receiver() {
			continue
		}
		way := " upload"
		if x.Direction == model.From {
			way = " download"
		}
		p := point{series: protocol + way, at: r.Started.Sub(began) + x.Start + x.Length/2, length: x.Length, mbit: x.Value / 1e6}
		for _, y := range samples {
			middle := y.Start + y.Length/2
			if y.Metric == model.RTT && y.Of == "" && y.Direction == x.Direction && y.Host == x.Direction.Sender() && x.Start <= middle && middle < x.Start+x.Length {
				p.rtt = new(1000 * y.Value)
			}
		}
		out = append(out, p)
	}
	return out
}

// which says which runs of s the file holds.
func which(s model.Session) string {
	if len(s.Plan.Tests) > 0 {
		return "the first test of the check in each direction"
	}
	return "those of the last block with the settings as they were"
}

// test is the test of Flent that has these series, so that it knows how to plot them.
func test(results map[string][]*float64) string {
	switch {
	case results["UDP upload"] != nil || results["UDP download"] != nil:
		return "udp_flood"
	case results["TCP upload"] == nil:
		return "tcp_download"
	case results["TCP download"] == nil:
		return "tcp_upload"
	}
	return "tcp_bidirectional"
}

func title(d report.Document) string { return plain.Line(d.Header.Near + " to " + d.Header.Far) }

// stamp is a time as Flent reads it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
