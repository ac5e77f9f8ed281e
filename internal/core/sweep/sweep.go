// Package sweep turns several passes over message sizes into one curve, and finds where it
// falls.
//
//  1. Each pass gives one number per size: the median of its trials. The pass is
//     the sample, as everywhere: trials of one pass depend on each other.
//  2. Pool describes each size over all passes and trials, and lists candidates:
//     drops by statistics.md section 9, sizes that stalled, and sizes that take
//     longer than larger ones.
//  3. Confirm lists the sizes that a second experiment has to measure again, and
//     Confirmed evaluates it. Only its result is reliable: a search through many
//     sizes also finds chance.
package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// ConfirmSetting is the name of the setting under which a session stores the passes of the
// second experiment.
const ConfirmSetting = "confirm"

// Pass is one run over message sizes.
type Pass struct {
	Points []model.Point // those with trials or a stall, in any order
	Logs   []Log         // of either host
}

// Log is the kernel messages of one host during a size.
type Log struct {
	Host  model.Host  `json:"host"`
	Size  units.Bytes `json:"size"`
	Lines []string    `json:"lines"`
}

// Size describes one message size over all passes and trials.
type Size struct {
	Size    units.Bytes   `json:"size"`
	Passes  int           `json:"passes"` // that have a time for it
	Trials  int           `json:"trials"`
	Min     time.Duration `json:"min_ns"` // of one message one way
	Low     time.Duration `json:"low_ns"` // lower quartile
	Median  time.Duration `json:"median_ns"`
	High    time.Duration `json:"high_ns"` // upper quartile
	Max     time.Duration `json:"max_ns"`
	Goodput units.BitRate `json:"goodput"` // at the median time; 0 without a time
	Stalled int           `json:"stalled"` // passes in which it stalled
	Spikes  int           `json:"spikes"`  // trials far above the others (statistics.md section 10.2)
}

// Curve is the result of the passes of one direction.
type Curve struct {
	Passes   int       `json:"passes"`
	Sizes    []Size    `json:"sizes"` // ascending
	Features []Feature `json:"features"`
	Logs     []Log     `json:"logs"` // by size, then host; equal ones once
	// Best is the size with the greatest goodput, and Half the size at which half of that is
	// reached (Hockney's n½), linearly interpolated between sizes; 0 if there is none.
	Best     units.Bytes `json:"best"`
	Half     units.Bytes `json:"half"`
	Warnings []string    `json:"warnings"`
}

// Passes returns the passes in direction d among runs, all of which must count: those that
// survey all sizes, and those of the second experiment.
func Passes(runs []model.Run, d model.Direction) (survey, confirm []Pass) {
	for _, r := range runs {
		if _, ok := sizes.Of(r.Flow); !ok || r.Flow.Direction != d {
			continue
		}
		p := passOf(r)
		if r.Setting == ConfirmSetting {
			confirm = append(confirm, p)
		} else {
			survey = append(survey, p)
		}
	}
	return survey, confirm
}

func passOf(r model.Run) Pass {
	var p Pass
	for _, e := range r.Ends {
		for _, point := range e.Points {
			if len(point.Trials) > 0 || point.Stalled {
				p.Points = append(p.Points, point)
			}
			if len(point.Log) > 0 {
				p.Logs = append(p.Logs, Log{Host: e.Host, Size: point.Size, Lines: point.Log})
			}
		}
	}
	return p
}

// Pool returns the curve of survey. It never fails: results that the passes do not support are
// absent, with a warning.
func Pool(survey []Pass) Curve {
	c := Curve{Passes: len(survey), Sizes: []Size{}, Features: []Feature{}, Logs: logs(survey), Warnings: []string{}}
	t := tabulate(survey)
	for j, size := range t.sizes {
		c.Sizes = append(c.Sizes, t.describe(j, size))
	}
	c.Best, c.Half = knee(c.Sizes)
	c.find(t)
	for i := range c.Features {
		c.Features[i].Logs = c.logsFrom(c.Features[i].From, c.Features[i].To)
	}
	return c
}

// table holds the passes by size.
type table struct {
	sizes   []units.Bytes
	trials  [][][]time.Duration // per pass and size
	stalled [][]bool            // per pass and size
}

func tabulate(passes []Pass) table {
	var t table
	for _, p := range passes {
		for _, point := range p.Points {
			t.sizes = append(t.sizes, point.Size)
		}
	}
	slices.Sort(t.sizes)
	t.sizes = slices.Compact(t.sizes)
	for _, p := range passes {
		trials, stalled := make([][]time.Duration, len(t.sizes)), make([]bool, len(t.sizes))
		for _, point := range p.Points {
			j, _ := slices.BinarySearch(t.sizes, point.Size)
			stalled[j] = stalled[j] || point.Stalled
			for _, d := range point.Trials {
				if d > 0 {
					trials[j] = append(trials[j], d)
				}
			}
		}
		t.trials, t.stalled = append(t.trials, trials), append(t.stalled, stalled)
	}
	return t
}

// describe summarises size j over all passes.
func (t *table) describe(j int, size units.Bytes) Size {
	s := Size{Size: size}
	var all []float64
	for i := range t.trials {
		if t.stalled[i][j] {
			s.Stalled++
		}
		if len(t.trials[i][j]) > 0 {
			s.Passes++
		}
		for _, d := range t.trials[i][j] {
			all = append(all, float64(d))
		}
	}
	if len(all) == 0 {
		return s
	}
	for _, z := range stats.Spikes(all).Z {
		if z > stats.SpikeBeyond {
			s.Spikes++
		}
	}
	slices.Sort(all)
	at := func(p float64) time.Duration { return time.Duration(math.Round(quantile(all, p))) }
	s.Trials = len(all)
	s.Min, s.Low, s.Median, s.High, s.Max = at(0), at(0.25), at(0.5), at(0.75), at(1)
	s.Goodput = goodput(size, s.Median)
	return s
}

// quantile returns the p-quantile of sorted, which must not be empty, linearly interpolated
// (type 7 of Hyndman and Fan, 1996).
func quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// goodput returns the rate of messages of that size, one after the other.
func goodput(size units.Bytes, t time.Duration) units.BitRate {
	return units.BitRate(float64(size) * 8 / t.Seconds())
}

// number returns the result of pass i for size j, the median of its trials in seconds, false if
// it has none.
func (t *table) number(i, j int) (float64, bool) {
	if len(t.trials[i][j]) == 0 || t.stalled[i][j] {
		return 0, false
	}
	seconds := make([]float64, 0, len(t.trials[i][j]))
	for _, d := range t.trials[i][j] {
		seconds = append(seconds, d.Seconds())
	}
	return stats.Median(seconds), true
}

// knee returns the size with the greatest goodput, and the size at which half of it is first
// reached.
func knee(sizes []Size) (best, half units.Bytes) {
	var top units.BitRate
	for _, s := range sizes {
		if s.Goodput > top {
			best, top = s.Size, s.Goodput
		}
	}
	var before Size
	for _, s := range sizes {
		if s.Goodput == 0 {
			continue
		}
		if s.Goodput >= top/2 {
			if before.Size == 0 {
				return best, s.Size
			}
			share := float64(top/2-before.Goodput) / float64(s.Goodput-before.Goodput)
			return best, before.Size + units.Bytes(math.Round(share*float64(s.Size-before.Size)))
		}
		before = s
	}
	return best, 0
}

// logs returns the kernel messages of all passes, by size, then host, the near one first,
// without duplicates of one size and host.
func logs(passes []Pass) []Log {
	type key struct {
		size units.Bytes
		host model.Host
	}
	at := map[key]int{}
	out := []Log{}
	for _, p := range passes {
		for _, l := range p.Logs {
			k := key{l.Size, l.Host}
			i, known := at[k]
			if !known {
				i = len(out)
				at[k] = i
				out = append(out, Log{Host: l.Host, Size: l.Size})
			}
			out[i].Lines = lists.Once(out[i].Lines, l.Lines...)
		}
	}
	slices.SortFunc(out, func(a, b Log) int { return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(b.Host, a.Host)) })
	return out
}

// logsFrom returns the messages for the sizes of one feature, joined by host.
func (c *Curve) logsFrom(from, to units.Bytes) []Log {
	var out []Log
	for _, l := range c.Logs {
		if l.Size < from || l.Size > to {
			continue
		}
		i := slices.IndexFunc(out, func(o Log) bool { return o.Host == l.Host })
		if i < 0 {
			out = append(out, Log{Host: l.Host, Size: l.Size, Lines: slices.Clone(l.Lines)})
			continue
		}
		out[i].Lines = lists.Once(out[i].Lines, l.Lines...)
	}
	return out
}

func (c *Curve) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}
