package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/plot"
)

// shown returns the run of direction w to draw: from the last block, with the baseline.
func (b *builder) shown(w model.Direction) (model.Run, bool) {
	for _, r := range slices.Backward(b.runs) {
		if slices.Contains(r.Flow.Direction.Parts(), w) && (b.s.Plan.Baseline == "" || r.Setting == b.s.Plan.Baseline) && len(b.samples.Of(r.Number)) > 0 {
			return r, true
		}
	}
	return model.Run{}, false
}

// series returns metric m of run r in direction w as reported by host h, in order of time, each
// value at the middle of its interval.
func (b *builder) series(r model.Run, h model.Host, w model.Direction, m model.Metric) []model.Sample {
	var out []model.Sample
	for _, x := range b.samples.Of(r.Number) {
		if x.Host == h && x.Direction == w && x.Metric == m && x.Of == "" {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(x, y model.Sample) int { return cmp.Compare(x.Start, y.Start) })
	return out
}

func line(name string, samples []model.Sample) plot.Line {
	l := plot.Line{Name: name, Dots: len(samples) <= 60}
	for _, x := range samples {
		l.X, l.Y = append(l.X, (x.Start+x.Length/2).Seconds()), append(l.Y, x.Value)
	}
	return l
}

// rate draws goodput and round trip of one run in each direction over time.
func (b *builder) rate() (plot.Figure, bool) {
	clock := plot.Axis{Name: "time of the run", Unit: plot.Seconds, Zero: true}
	rates := plot.Lines{X: clock, Y: plot.Axis{Name: "goodput", Unit: plot.BitRate, Zero: true}}
	trips := plot.Lines{Y: plot.Axis{Name: "round trip", Unit: plot.Seconds, Zero: true}, Tall: 150}
	var said []string
	timed := false
	for _, w := range b.directions() {
		r, ok := b.shown(w)
		if !ok {
			continue
		}
		got := b.series(r, w.Receiver(), w, model.Goodput)
		if len(got) < 2 {
			continue
		}
		rates.Lines = append(rates.Lines, line(b.label(w), got))
		said = append(said, b.label(w)+" "+b.moved(r, w)+b.stalls(&rates, w, got))
		trip := plot.Line{} // nothing drawn, so that the lines of both panels have the same style
		if seen := b.series(r, w.Sender(), w, model.RTT); len(seen) > 1 {
			trip, timed = line(b.label(w), seen), true
		}
		trips.Lines = append(trips.Lines, trip)
	}
	if len(rates.Lines) == 0 {
		return plot.Figure{}, false
	}
	b.ceilings(&rates)
	f := plot.Figure{Name: "rate", Title: "Goodput over time", Sentence: sentence(said...)}
	if timed {
		f.Title, rates.Below = "Goodput and round trip over time", &trips
	}
	f.Panels = []plot.Panel{rates}
	return f, true
}

// moved describes the rate of run r in direction w, and its share of the ceiling.
func (b *builder) moved(r model.Run, w model.Direction) string {
	v, ok := r.Value(w, model.Goodput)
	if !ok {
		return "carried nothing that counts"
	}
	text := "carried " + units.BitRate(v).String()
	if i := slices.IndexFunc(b.d.Lines, func(l report.Line) bool {
		most, ok := l.Ceiling.Get()
		return ok && l.Direction == w && v <= float64(most)
	}); i >= 0 {
		most, _ := b.d.Lines[i].Ceiling.Get()
		text += fmt.Sprintf(", %s of what the path can carry", report.Percent(v/float64(most)))
	}
	if len(b.runs) > len(b.directions()) {
		text += fmt.Sprintf(" (run %d, with the settings as they were)", r.Number)
	}
	return text
}

// ceilings draws the path's ceilings; one line if both directions agree.
func (b *builder) ceilings(l *plot.Lines) {
	for _, x := range b.d.Lines {
		v, ok := x.Ceiling.Get()
		if !ok || slices.ContainsFunc(l.Rules, func(r plot.Rule) bool { return r.At == float64(v) }) {
			continue
		}
		l.Rules = append(l.Rules, plot.Rule{At: float64(v), Name: "the links allow " + v.String()})
	}
}

// stalls marks the stalls of the run, and describes them.
func (b *builder) stalls(l *plot.Lines, w model.Direction, got []model.Sample) string {
	var window []stats.RunInterval
	for _, x := range got {
		if !x.Omitted {
			window = append(window, stats.RunInterval{Start: x.Start, Length: x.Length, Value: x.Value})
		}
	}
	found := stats.Stalls(window)
	for _, i := range found.At {
		x := window[i]
		l.Bands = append(l.Bands, plot.Band{From: x.Start.Seconds(), To: (x.Start + x.Length).Seconds(), Name: b.label(w) + " stood still"})
	}
	if found.Count == 0 {
		return ""
	}
	return fmt.Sprintf(" and stood still %s, at most for %s", times(found.Count), units.FormatDuration(found.Longest.Round(time.Millisecond)))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// quantiles returns the quantiles at which a distribution is drawn: evenly spaced, with more of
// them near the end, where details matter.
func quantiles() []float64 {
	var q []float64
	for i := 1; i < 100; i++ {
		q = append(q, float64(i)/100)
	}
	return append(q, .992, .995, .997, .999)
}

// latency draws the share of the answers that arrived within a time.
func (b *builder) latency() (plot.Figure, bool) {
	l := plot.Lines{X: plot.Axis{Name: "answered within", Unit: plot.Seconds, Log: true}, Y: plot.Axis{Name: "share of the answers", Unit: plot.Share, Zero: true}}
	var said []string
	for _, m := range b.d.Latencies {
		one := plot.Line{Name: report.LatencyName(m)}
		if m.Times == nil {
			continue
		}
		for _, q := range quantiles() {
			if v, ok := m.Times.Percentile(q, uint64(max(0, m.Lost))).Get(); ok && v > 0 {
				one.X, one.Y = append(one.X, v.Seconds()), append(one.Y, q)
			}
		}
		if len(one.X) < 2 {
			continue
		}
		l.Lines = append(l.Lines, one)
		said = append(said, one.Name+": "+m.Within("half"))
	}
	return plot.Figure{Name: "latency", Title: "Latency", Sentence: sentence(said...), Panels: []plot.Panel{l}}, len(l.Lines) > 0
}

// mostColumns is the most intervals in a map of cores; more are merged.
const mostColumns = 60

// cores draws the load of each core of both hosts over the time of one run.
func (b *builder) cores() (plot.Figure, bool) {
	f := plot.Figure{Name: "cores", Title: "Processor cores over time"}
	var said []string
	for _, w := range b.directions() {
		r, ok := b.shown(w)
		if !ok {
			continue
		}
		for _, h := range []model.Host{w.Sender(), w.Receiver()} {
			heat, busiest := b.heat(r, h)
			if len(heat.Rows) == 0 || len(heat.Columns) < 2 {
				continue
			}
			role := "sending"
			if h == w.Receiver() {
				role = "receiving"
			}
			name := b.d.Header.Of(h)
			heat.Name = fmt.Sprintf("%s, %s; seconds of the run", name, role)
			f.Panels = append(f.Panels, heat)
			said = append(said, fmt.Sprintf("on %s, %s, %s was at most %.0f %% busy", name, role, busiest.name, 100*busiest.share))
		}
	}
	f.Sentence = sentence(said...)
	return f, len(f.Panels) > 0
}

type core struct {
	name  string
	share float64 // busy, 0…1
}

func (b *builder) heat(r model.Run, h model.Host) (plot.Heat, core) {
	type key struct {
		of string
		at int
	}
	sums, counts := map[key]float64{}, map[key]int{}
	rows, last := map[string]bool{}, time.Duration(0)
	var mine []model.Sample
	for _, x := range b.samples.Of(r.Number) {
		if x.Host == h && x.Metric == "cpu_busy" && strings.HasPrefix(x.Of, "cpu") {
			mine, last, rows[x.Of] = append(mine, x), max(last, x.Start), true
		}
	}
	step := max(time.Second, (last / mostColumns).Round(time.Second))
	for _, x := range mine {
		k := key{x.Of, int(x.Start / step)}
		sums[k], counts[k] = sums[k]+x.Value, counts[k]+1
	}
	heat, busiest := plot.Heat{Unit: plot.Share, Low: 0, High: 1}, core{}
	for of := range rows {
		heat.Rows = append(heat.Rows, of)
	}
	slices.SortFunc(heat.Rows, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	for at := 0; time.Duration(at)*step <= last && len(rows) > 0; at++ {
		heat.Columns = append(heat.Columns, fmt.Sprint(int((time.Duration(at) * step).Seconds())))
	}
	for _, of := range heat.Rows {
		row := make([]float64, len(heat.Columns))
		for at := range row {
			row[at] = math.NaN()
			if n := counts[key{of, at}]; n > 0 {
				row[at] = min(1, math.Round(100*sums[key{of, at}]/float64(n))/100) // a clock may report slightly more than the whole time
				if row[at] >= busiest.share {
					busiest = core{of, row[at]}
				}
			}
		}
		heat.Cells = append(heat.Cells, row)
	}
	return heat, busiest
}
