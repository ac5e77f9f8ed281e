package sweep

import (
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Confirm returns the sizes, ascending and each once, that a second experiment has to measure
// to confirm the candidates: the two sizes of each. It is nil if there is nothing to confirm.
func Confirm(candidates []Feature) []units.Bytes {
	var sizes []units.Bytes
	for _, f := range candidates {
		sizes = append(sizes, f.at())
		if f.Reference > 0 {
			sizes = append(sizes, f.Reference)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// ConfirmPasses returns how many passes of the second experiment suffice to confirm so many
// candidates, if each is much larger than the noise: half as many again as the least with which
// a decision is possible.
func ConfirmPasses(candidates int) int {
	if candidates == 0 {
		return 0
	}
	// Evidence is at most 2ⁿ (statistics.md section 5.1).
	least := math.Ceil(math.Log2(threshold(candidates)))
	return int(math.Ceil(1.5 * least))
}

// threshold is the evidence that confirms one of so many candidates (statistics.md sections 5.3
// and 6.1).
func threshold(candidates int) float64 {
	return 2 * float64(candidates) / (1 - stats.DefaultConfidence)
}

// Confirmed returns the candidates with the results of the second experiment's passes. The
// evidence may be inspected after each pass: a confirmed candidate stays confirmed. A drop is
// confirmed if its size is provably slower, and on average by stats.DropLeast or more; a stall,
// which is not random, if it happened again.
func Confirmed(candidates []Feature, passes []Pass) []Feature {
	out := slices.Clone(candidates)
	if len(passes) == 0 {
		return out
	}
	t := tabulate(passes)
	for i := range out {
		if out[i].Kind == Stall {
			t.confirmStall(&out[i])
			continue
		}
		t.confirmDrop(&out[i], len(candidates))
	}
	return out
}

// confirmStall counts how often f stalled again.
func (t *table) confirmStall(f *Feature) {
	j, found := slices.BinarySearch(t.sizes, f.at())
	if !found {
		return
	}
	stalled, seen := 0, 0
	for i := range t.trials {
		if t.stalled[i][j] {
			stalled++
		}
		if t.stalled[i][j] || len(t.trials[i][j]) > 0 {
			seen++
		}
	}
	f.Passes, f.Fall, f.State = seen, float64(stalled)/float64(seen), NotConfirmed
	if stalled > 0 {
		f.State = IsConfirmed
	}
}

// confirmDrop compares the two sizes of f, pass by pass.
func (t *table) confirmDrop(f *Feature, candidates int) {
	j, found := slices.BinarySearch(t.sizes, f.at())
	ref, also := slices.BinarySearch(t.sizes, f.Reference)
	if !found || !also {
		return
	}
	e := stats.NewEvidence(-math.Log1p(-stats.DropLeast), (1-stats.DefaultConfidence)/float64(candidates))
	var all []float64
	confirmed := false
	for i := range t.trials {
		slow, ok := t.number(i, j)
		fast, known := t.number(i, ref)
		if !ok || !known {
			continue
		}
		// The log ratio of the reference's goodput to that of f or, for Slow, of the time of f
		// to the reference's.
		d := math.Log(slow / fast)
		if f.Kind != Slow {
			d += math.Log(float64(f.Reference) / float64(f.at()))
		}
		e.Add(d)
		all = append(all, d)
		// A confirmed drop stays confirmed.
		confirmed = confirmed || e.Max().Up >= math.Log(threshold(candidates)) && stats.Mean(all) >= -math.Log1p(-stats.DropLeast)
	}
	if len(all) == 0 {
		return
	}
	share := func(v float64) float64 {
		switch {
		case math.IsInf(v, 0):
			return v // unbounded so far
		case f.Kind == Slow:
			return math.Expm1(v)
		}
		return -math.Expm1(-v)
	}
	within := e.Interval(0)
	f.Passes, f.Fall, f.Low, f.High = len(all), share(stats.Mean(all)), model.Bound(share(within.Low)), model.Bound(share(within.High))
	switch {
	case confirmed:
		f.State = IsConfirmed
	case len(all) < ConfirmPasses(candidates):
		f.State = Open
	default:
		f.State = NotConfirmed
	}
}
