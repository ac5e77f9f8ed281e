package format

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/report"
)

// ErrNoFlent reports that a session has nothing that Flent could show: no goodput over time of
// TCP or UDP.
var ErrNoFlent = errors.New("no goodput over time, which is what a file of Flent holds")

// The format is an object of "version", "metadata", "x_values" (seconds since T0), "results"
// (by series one value per x, null if missing) and "raw_values" (by series the unprocessed
// samples): the fields that flent/resultset.py reads.

type metadata struct {
	Name        string  `json:"NAME"` // of the test in Flent
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

// raw is an unprocessed sample.
type raw struct {
	T        float64  `json:"t"`                 // seconds since the epoch
	Duration float64  `json:"dur"`               // seconds
	Value    float64  `json:"val"`               // Mbit/s
	RTT      *float64 `json:"tcp_rtt,omitempty"` // ms, of the flow itself
}

// written is the Flent version whose format these files follow.
const written = "2.1.1"

// Flent renders a session as a data file of Flent 2 (https://flent.org, file format
// version 4), for Flent's plots and summaries.
//
// A Flent file is one test. For an experiment it holds the last block's runs of the baseline,
// one run after the other on one clock; for a check, the last run of its first test in each
// direction.
//
// It writes session s with report d and its samples. The error wraps ErrNoFlent if there is
// nothing to write; then it writes nothing.
func Flent(w io.Writer, s model.Session, d report.Document, samples model.Samples) error {
	f, err := fileOf(s, d, samples)
	if err != nil {
		return fmt.Errorf("session %s: %w", s.ID, err)
	}
	p := flentPrinter{out: bufio.NewWriter(w)}
	p.text(`{"version":4,"metadata":`)
	p.value(f.metadata)
	p.text(`,"x_values":`)
	p.list(f.times())
	p.text(`,"results":`)
	p.object(f.series, f.means)
	p.text(`,"raw_values":`)
	p.object(f.series, f.raw)
	p.text("}\n")
	return cmp.Or(p.err, p.out.Flush())
}

// flentPrinter writes JSON. Flush returns the errors of out.
type flentPrinter struct {
	out *bufio.Writer
	err error // of a value that JSON cannot hold
}

func (p *flentPrinter) text(s string) { _, _ = p.out.WriteString(s) }

func (p *flentPrinter) value(v any) {
	text, err := json.Marshal(v)
	p.err = cmp.Or(p.err, err)
	_, _ = p.out.Write(text)
}

func (p *flentPrinter) list(all iter.Seq[any]) {
	between := "["
	for v := range all {
		p.text(between)
		p.value(v)
		between = ","
	}
	p.text("]")
}

// object writes an object whose values are lists of at least one element.
func (p *flentPrinter) object(keys []string, list func(key string) iter.Seq[any]) {
	between := "{"
	for _, k := range keys {
		p.text(between)
		p.value(k)
		p.text(":")
		p.list(list(k))
		between = ","
	}
	p.text("}")
}

// FlentPacked is Render through gzip, like Flent's own files.
func FlentPacked(w io.Writer, s model.Session, d report.Document, samples model.Samples) error {
	z := gzip.NewWriter(w)
	if err := Flent(z, s, d, samples); err != nil {
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

// file is the content of a Flent file.
type file struct {
	metadata    metadata
	runs        []model.Run // in the order of time
	samples     model.Samples
	series      []string      // at least one, in the order of their names
	first, last time.Duration // points, since T0
	step        time.Duration // of the grid that all series share
}

func fileOf(s model.Session, d report.Document, samples model.Samples) (file, error) {
	f := file{runs: shown(s), samples: samples, first: math.MaxInt64, step: math.MaxInt64}
	if len(f.runs) == 0 {
		return file{}, ErrNoFlent
	}
	length := f.runs[0].Flow.Length()
	slices.SortStableFunc(f.runs, func(a, b model.Run) int { return a.Started.Compare(b.Started) })
	total := time.Duration(0)
	for p := range f.points() {
		f.first, f.last, total = min(f.first, p.at), max(f.last, p.at), max(total, p.at+p.length/2)
		f.step = min(f.step, max(p.length.Round(10*time.Millisecond), 10*time.Millisecond))
		if !slices.Contains(f.series, p.series) {
			f.series = append(f.series, p.series)
		}
	}
	if len(f.series) == 0 {
		return file{}, ErrNoFlent
	}
	slices.Sort(f.series)
	f.metadata = metadata{
		Name: test(f.series), Title: title(d), Host: plain.Line(d.Header.Far), LocalHost: plain.Line(d.Header.Near),
		Time: flentStamp(s.Created), T0: flentStamp(f.runs[0].Started), Length: length.Seconds(), TotalLength: total.Seconds(),
		Step: f.step.Seconds(), Filename: "linerate-" + s.ID + ".flent.gz", Version: written,
		Note: fmt.Sprintf("linerate %s, session %s: %d of %d runs, %s. Upload is to %s, download from it.",
			plain.Line(s.Version), s.ID, len(f.runs), len(s.Runs), which(s), plain.Line(d.Header.Far)),
	}
	return f, nil
}

// points yields the points of all runs. It reads the samples of one run at a time.
func (f *file) points() iter.Seq[point] {
	return func(yield func(point) bool) {
		for _, r := range f.runs {
			for _, p := range pointsOf(r, f.samples.Of(r.Number), f.runs[0].Started) {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// cell returns the index of a time on the grid.
func (f *file) cell(at time.Duration) int { return int((at - f.first + f.step/2) / f.step) }

// times yields the times of the grid.
func (f *file) times() iter.Seq[any] {
	return func(yield func(any) bool) {
		for i := range f.cell(f.last) + 1 {
			if !yield(math.Round((f.first+time.Duration(i)*f.step).Seconds()*1e6) / 1e6) {
				return
			}
		}
	}
}

// means yields the values of a series on the grid. Two points in one cell, as at the end of a
// run within a step, are averaged; the raw values stay unprocessed.
func (f *file) means(series string) iter.Seq[any] {
	type sum struct {
		total float64
		n     int
	}
	sums := make([]sum, f.cell(f.last)+1)
	for p := range f.points() {
		if c := &sums[f.cell(p.at)]; p.series == series {
			c.total, c.n = c.total+p.mbit, c.n+1
		}
	}
	return func(yield func(any) bool) {
		for _, c := range sums {
			var mean any
			if c.n > 0 {
				mean = c.total / float64(c.n)
			}
			if !yield(mean) {
				return
			}
		}
	}
}

// raw yields the samples of a series.
func (f *file) raw(series string) iter.Seq[any] {
	return func(yield func(any) bool) {
		for p := range f.points() {
			if p.series == series && !yield(raw{T: float64(f.runs[0].Started.Add(p.at).UnixMicro()) / 1e6, Duration: p.length.Seconds(), Value: p.mbit, RTT: p.rtt}) {
				return
			}
		}
	}
}

// shown returns the counted runs of the last block with the baseline.
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

// eachDirection returns the last run in each direction of the first test of runs.
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

// pointsOf returns the goodputs of one run in the order of time, each with the sender's round
// trip in the same step.
func pointsOf(r model.Run, samples []model.Sample, began time.Time) []point {
	protocol := "TCP"
	if slices.ContainsFunc(samples, func(x model.Sample) bool { return x.Metric == model.Datagrams }) {
		protocol = "UDP"
	}
	rtts := map[model.Direction][]model.Sample{} // by the middle of their step
	for _, x := range samples {
		if x.Metric == model.RTT && x.Of == "" && x.Host == x.Direction.Sender() {
			rtts[x.Direction] = append(rtts[x.Direction], x)
		}
	}
	middle := func(x model.Sample) time.Duration { return x.Start + x.Length/2 }
	for _, all := range rtts {
		slices.SortStableFunc(all, func(a, b model.Sample) int { return cmp.Compare(middle(a), middle(b)) })
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
		p := point{series: protocol + way, at: r.Started.Sub(began) + middle(x), length: x.Length, mbit: x.Value / 1e6}
		all := rtts[x.Direction]
		behind, _ := slices.BinarySearchFunc(all, x.Start+x.Length, func(y model.Sample, end time.Duration) int { return cmp.Compare(middle(y), end) })
		if behind > 0 && middle(all[behind-1]) >= x.Start {
			p.rtt = new(1000 * all[behind-1].Value)
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	return out
}

// which says which runs of s the file holds.
func which(s model.Session) string {
	if len(s.Plan.Tests) > 0 {
		return "the first test of the check in each direction"
	}
	return "those of the last block with the settings as they were"
}

// test returns the Flent test that has these series, so that Flent can plot them.
func test(series []string) string {
	switch {
	case slices.ContainsFunc(series, func(s string) bool { return strings.HasPrefix(s, "UDP") }):
		return "udp_flood"
	case !slices.Contains(series, "TCP upload"):
		return "tcp_download"
	case !slices.Contains(series, "TCP download"):
		return "tcp_upload"
	}
	return "tcp_bidirectional"
}

func title(d report.Document) string { return plain.Line(d.Header.Near + " to " + d.Header.Far) }

// flentStamp formats a time for Flent.
func flentStamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
