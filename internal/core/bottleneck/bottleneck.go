// Package bottleneck finds the part of a file copy that limits it, by comparing the copy with
// its parts measured alone.
//
// Where parts overlap, a copy is as fast as the slowest of them:
//
//	rate = min(r1, r2, …)
//
// Where they take turns, the times per byte add up:
//
//	rate = 1 / (1/r1 + 1/r2 + …)
//
// A bus that every byte crosses twice, once for the disk and once for the network card, looks
// like taking turns too, although nothing waits its turn. All comparisons are made inside
// blocks, as ratios; if the spread of the runs is too large, the verdict is "cannot tell".
package bottleneck

import (
	"cmp"
	"math"
	"slices"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Verdict says how a copy's rate relates to that of its parts.
type Verdict string

// The verdicts.
const (
	OnePart     Verdict = "one part"    // as fast as its slowest part alone
	SeveralOf   Verdict = "several"     // the same, and which part is slowest cannot be told
	Turns       Verdict = "turns"       // as slow as if the parts took turns
	Partly      Verdict = "partly"      // between the two
	Unexplained Verdict = "unexplained" // slower than the parts explain
	Faster      Verdict = "faster"      // faster than its slowest part alone
	CannotTell  Verdict = "cannot tell" // the runs vary too much, or are too few
	NotMeasured Verdict = "not measured"
)

// agreement is the ratio of two rates from which they count as the same: diagnosis.md section
// 2.5 calls a disk the limit below 0.9 of the network's rate.
const agreement = 0.9

// explained is the least share of a copy's time that its slowest part must account for,
// whatever the runs' spread leaves open, to be named as its limit (proposed: the remainder is
// then too small for anything else to be the limit).
const explained = 0.75

// fullCore is the share of one core from which that core limits a process that copies in one
// thread (proposed; diagnosis.md section 2.5 has 95 %).
const fullCore = 0.95

// leastBlocks is the least number of complete blocks that give an interval.
const leastBlocks = 2

// Rates are the goodputs in bit/s of one setting, by number of block.
type Rates map[int]float64

// Input holds the measurements of one direction.
type Input struct {
	Rates map[string]Rates // by name of setting
	// CPU is the processor time of the copying process per second, 1 is one
	// core, by setting and host: a median.
	CPU map[string]map[model.Host]float64
	// Ceiling is the payload rate that the link can carry, if known.
	Ceiling fact.Of[units.BitRate]
	// Confidence of all comparisons; 0 is 0.95.
	Confidence float64
}

// Part is one part of a copy, measured alone.
type Part struct {
	Name string        `json:"name"` // a setting
	Rate units.BitRate `json:"rate"` // median over the complete blocks
	// Share is its share of the time of a byte, 0…1, if the parts took turns.
	Share float64 `json:"share"`
}

// Limit is what holds one copy back.
type Limit struct {
	Copy    string        `json:"copy"` // a setting
	Verdict Verdict       `json:"verdict"`
	Rate    units.BitRate `json:"rate"`              // of the copy, median over its runs; 0 if not measured
	Parts   []Part        `json:"parts,omitempty"`   // slowest first; Parts[0] limits, with SeveralOf together with Tied
	Tied    []string      `json:"tied,omitempty"`    // parts that are not distinguishable from the slowest
	Overlap units.BitRate `json:"overlap,omitempty"` // rate predicted for parts that overlap
	InTurn  units.BitRate `json:"in_turn,omitempty"` // rate predicted for parts that take turns
	// Low and High are the copy's rate over Overlap: the ends of the interval or, with verdict
	// CannotTell, the lowest and highest of any block.
	Low      float64          `json:"low"`
	High     float64          `json:"high"`
	Blocks   int              `json:"blocks"`              // complete ones
	Missing  []string         `json:"missing,omitempty"`   // what was not measured
	FullCore model.Host       `json:"full_core,omitempty"` // the end that used a whole core in the copy
	Link     fact.Of[float64] `json:"link"`                // rate of the network alone over the link's ceiling
}

// partsOf returns the parts of a copy. Files in memory are written and read like memory itself.
func partsOf(name string) []string {
	switch name {
	case MemoryToMemory:
		return []string{Network, Memory}
	case MemoryToDisk:
		return []string{Network, Write}
	case DiskToMemory:
		return []string{Read, Network}
	case DiskToDisk:
		return []string{Read, Network, Write}
	default:
		return nil
	}
}

// Limits returns the limit of each measured copy, in the order of the constants.
func Limits(in Input) []Limit {
	in.Confidence = cmp.Or(in.Confidence, stats.DefaultConfidence)
	var out []Limit
	for _, name := range []string{MemoryToMemory, MemoryToDisk, DiskToMemory, DiskToDisk} {
		if len(in.Rates[name]) > 0 {
			out = append(out, in.limit(name))
		}
	}
	return out
}

// limit analyses one copy.
func (in Input) limit(name string) Limit {
	l := Limit{Copy: name, Rate: median(in.Rates[name]), Link: in.link(), FullCore: in.fullCore(name)}
	var parts []string
	for _, p := range partsOf(name) {
		if len(in.Rates[p]) == 0 {
			l.Missing = append(l.Missing, p)
			continue
		}
		parts = append(parts, p)
	}
	if len(l.Missing) > 0 {
		l.Verdict = NotMeasured
		return l
	}
	rows := in.rows(name, parts)
	if l.Blocks = len(rows); l.Blocks == 0 {
		l.Verdict = CannotTell
		return l
	}
	order := l.describe(parts, rows)
	if l.Blocks < leastBlocks {
		l.Verdict = CannotTell
		return l
	}
	l.decide(rows, order, in.Confidence)
	return l
}

// row is one complete block in logarithms: the copy and each part.
type row struct {
	copy  float64
	parts []float64
}

// inTurn returns the logarithm of the rate of parts that take turns.
func (r row) inTurn() float64 {
	sum := 0.0
	for _, p := range r.parts {
		sum += math.Exp(-p)
	}
	return -math.Log(sum)
}

// rows returns the blocks that hold the copy and all its parts, in order.
func (in Input) rows(name string, parts []string) []row {
	var blocks []int
	for b := range in.Rates[name] {
		blocks = append(blocks, b)
	}
	slices.Sort(blocks)
	var out []row
	for _, b := range blocks {
		r := row{copy: math.Log(in.Rates[name][b])}
		for _, p := range parts {
			if rate := in.Rates[p][b]; rate > 0 {
				r.parts = append(r.parts, math.Log(rate))
			}
		}
		if len(r.parts) == len(parts) && !math.IsInf(r.copy, 0) && !math.IsNaN(r.copy) {
			out = append(out, r)
		}
	}
	return out
}

// describe fills in the parts, slowest first, and the two predictions. It
// returns the order as indices.
func (l *Limit) describe(parts []string, rows []row) []int {
	mean := make([]float64, len(parts))
	order := make([]int, len(parts))
	for i := range parts {
		order[i] = i
		mean[i] = stats.Mean(column(rows, i))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
	turn := row{parts: mean}.inTurn()
	for _, i := range order {
		l.Parts = append(l.Parts, Part{
			Name: parts[i], Rate: units.BitRate(math.Exp(stats.Median(column(rows, i)))), Share: math.Exp(turn - mean[i]),
		})
	}
	l.Overlap, l.InTurn = units.BitRate(math.Exp(mean[order[0]])), units.BitRate(math.Exp(turn))
	return order
}

// decide chooses the verdict.
func (l *Limit) decide(rows []row, order []int, confidence float64) {
	slowest := order[0]
	ratio := interval(rows, confidence, func(r row) float64 { return r.copy - r.parts[slowest] })
	l.Low, l.High = math.Exp(ratio.Low), math.Exp(ratio.High)
	for k, i := range order[1:] {
		gap := interval(rows, confidence, func(r row) float64 { return r.parts[slowest] - r.parts[i] })
		if gap.High >= 0 {
			l.Tied = append(l.Tied, l.Parts[k+1].Name)
		}
	}
	near, wide := -math.Log(agreement), -math.Log(explained)
	switch {
	case ratio.Low > near:
		l.Verdict = Faster
	case ratio.High >= -near && ratio.Low >= -wide && ratio.High <= wide:
		l.Verdict = OnePart
		if len(l.Tied) > 0 {
			l.Verdict = SeveralOf
		}
	case ratio.High < -near:
		l.Verdict = slower(interval(rows, confidence, func(r row) float64 { return r.copy - r.inTurn() }), near)
	default:
		l.Verdict = CannotTell
	}
	if l.Verdict == CannotTell { // an interval of so few blocks is arbitrary
		l.Low, l.High = math.Inf(1), 0
		for _, r := range rows {
			ratio := math.Exp(r.copy - r.parts[slowest])
			l.Low, l.High = min(l.Low, ratio), max(l.High, ratio)
		}
	}
}

// slower returns the verdict on a copy that is slower than its slowest part; turn is its ratio
// to parts that take turns.
func slower(turn stats.Interval, near float64) Verdict {
	switch {
	case turn.High < -near:
		return Unexplained
	case turn.Low > near:
		return Partly
	case turn.Low >= -near && turn.High <= near:
		return Turns
	default:
		return CannotTell
	}
}

// interval returns Student's interval for the mean of f over the blocks: with so few blocks no
// other exists (statistics.md section 4.3).
func interval(rows []row, confidence float64, f func(row) float64) stats.Interval {
	d := make([]float64, len(rows))
	for i, r := range rows {
		d[i] = f(r)
	}
	return stats.TInterval(d, confidence).Interval
}

func column(rows []row, i int) []float64 {
	out := make([]float64, len(rows))
	for k, r := range rows {
		out[k] = r.parts[i]
	}
	return out
}

// median returns the median rate.
func median(r Rates) units.BitRate {
	var all []float64
	for _, v := range r {
		all = append(all, v)
	}
	return units.BitRate(stats.Median(all))
}

// link returns the share of the link that the network alone used.
func (in Input) link() fact.Of[float64] {
	c, known := in.Ceiling.Get()
	switch {
	case !known:
		return fact.Unknown[float64](in.Ceiling.Reason())
	case len(in.Rates[Network]) == 0 || c <= 0:
		return fact.Unknown[float64]("the network alone was not measured")
	}
	return fact.Known(float64(median(in.Rates[Network]))/float64(c), "measured rate and ceiling")
}

// fullCore returns the end that used a whole core in the copy, "" if neither did.
func (in Input) fullCore(name string) model.Host {
	for _, h := range []model.Host{model.Near, model.Far} {
		if in.CPU[name][h] >= fullCore {
			return h
		}
	}
	return ""
}
