package sweep

import (
	"cmp"
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Kind says what is odd about a stretch of neighbouring sizes.
type Kind string

// The kinds of feature.
const (
	Cliff Kind = "cliff" // slower than a smaller size, and so are all larger ones
	Notch Kind = "notch" // slower than a smaller size; larger ones recover
	Slow  Kind = "slow"  // a message takes longer than a larger one does
	Stall Kind = "stall" // nothing came back
)

// State says what is known of a feature.
type State string

// The states. A candidate was found among many sizes, and nothing was measured
// to confirm it.
const (
	Candidate    State = "candidate"
	IsConfirmed  State = "confirmed"
	NotConfirmed State = "not confirmed"
	Open         State = "open" // measured again, too few times to say
)

// Feature is one odd stretch of the curve, found by statistics.md section 9.
type Feature struct {
	Kind      Kind        `json:"kind"`
	State     State       `json:"state"`
	Reference units.Bytes `json:"reference"` // size that From is compared with; 0 where there is none
	From      units.Bytes `json:"from"`      // first and last size of the stretch
	To        units.Bytes `json:"to"`
	// Fall is the share of the goodput at From that is missing, for Slow the
	// share that a message takes longer, and for Stall the share of passes in
	// which it stalled. Low and High bound it; of a candidate only Low.
	Fall float64     `json:"fall"`
	Low  model.Bound `json:"low"`
	High model.Bound `json:"high"`
	// Passes is how many passes Fall is from: those of the second experiment,
	// where there was one.
	Passes int   `json:"passes"`
	Logs   []Log `json:"logs,omitempty"` // said meanwhile; Size is the first
}

// find names the candidates.
func (c *Curve) find(t table) {
	c.stalls(t)
	rows, sizes := t.rates()
	if left := c.Passes - len(rows); left > 0 {
		what := "are not complete: drops are not looked for in them"
		if left == 1 {
			what = "is not complete: drops are not looked for in it"
		}
		c.warn("%d of %d passes %s", left, c.Passes, what)
	}
	if len(rows) < stats.DropSweeps {
		passes := "complete passes"
		if len(rows) == 1 {
			passes = "complete pass"
		}
		c.warn("%d %s cannot tell a drop from chance: it takes %d", len(rows), passes, stats.DropSweeps)
		return
	}
	if len(sizes) < 2 {
		c.warn("fewer than two sizes without a stall: no drop can be told")
		return
	}
	c.drops(rows, sizes)
	c.slow(rows, sizes)
	slices.SortStableFunc(c.Features, func(a, b Feature) int { return cmp.Compare(a.From, b.From) })
	c.join(sizes)
}

// join makes one feature of neighbours: those of which no more than one size lies
// between. What limits at a size limits at the next ones too, and a single size
// that is not surely slower is chance.
func (c *Curve) join(sizes []units.Bytes) {
	place := func(n units.Bytes) int { i, _ := slices.BinarySearch(sizes, n); return i }
	var out []Feature
	for _, f := range c.Features {
		if len(out) == 0 || f.Kind == Stall || out[len(out)-1].Kind == Stall || place(f.From)-place(out[len(out)-1].To) > 2 {
			out = append(out, f)
			continue
		}
		switch last := &out[len(out)-1]; {
		case last.Kind == Slow && f.Kind == Slow: // what counts is measured at the end
			f.From = last.From
			*last = f
		case last.Kind == Slow: // a drop says more
			*last = f
		default:
			last.To = max(last.To, f.To)
			if f.Kind == Cliff {
				last.Kind = Cliff
			}
		}
	}
	c.Features = out
}

// rates returns the log rates of the complete passes, at the sizes that have
// one in all of those. A pass is complete when it has a time or a stall at every
// size.
func (t *table) rates() (rows [][]float64, sizes []units.Bytes) {
	var complete []int
	for i := range t.trials {
		whole := true
		for j := range t.sizes {
			whole = whole && (len(t.trials[i][j]) > 0 || t.stalled[i][j])
		}
		if whole {
			complete = append(complete, i)
		}
	}
	rows = make([][]float64, len(complete))
	for j, size := range t.sizes {
		column := make([]float64, 0, len(complete))
		for _, i := range complete {
			if seconds, ok := t.number(i, j); ok {
				column = append(column, math.Log(float64(size)*8/seconds))
			}
		}
		if len(column) < len(complete) || len(complete) == 0 {
			continue
		}
		sizes = append(sizes, size)
		for r := range rows {
			rows[r] = append(rows[r], column[r])
		}
	}
	return rows, sizes
}

// stalls adds the stretches of sizes that stalled.
func (c *Curve) stalls(t table) {
	working := units.Bytes(0) // the last size below that did not stall
	inside := false
	for _, s := range c.Sizes {
		switch {
		case s.Stalled == 0:
			working, inside = s.Size, false
			continue
		case !inside:
			c.Features = append(c.Features, Feature{
				Kind: Stall, State: Candidate, Reference: working, From: s.Size, Passes: len(t.trials),
				Fall: float64(s.Stalled) / float64(len(t.trials)), Low: model.Bound(math.NaN()), High: model.Bound(math.NaN()),
			})
		}
		inside = true
		c.Features[len(c.Features)-1].To = s.Size
	}
}

// drops adds cliffs and notches.
func (c *Curve) drops(rows [][]float64, sizes []units.Bytes) {
	found := stats.Drops(rows, stats.DropLeast, stats.DefaultConfidence)
	c.Warnings = append(c.Warnings, found.Warnings...)
	for _, f := range found.Features {
		kind := Notch
		// Beyond the last size with a time there may be some that stall.
		if f.Kind == stats.Cliff {
			kind = Cliff
		}
		c.Features = append(c.Features, Feature{
			Kind: kind, State: Candidate, Reference: sizes[f.Reference], From: sizes[f.From], To: sizes[f.To],
			Fall: -math.Expm1(-f.Fall), Low: model.Bound(-math.Expm1(-f.Least)), High: model.Bound(math.NaN()), Passes: found.Sweeps,
		})
	}
}

// slow adds the stretches that take longer than a larger size. It is the same
// rule, on times instead of rates and from the large sizes down. What is part
// of a drop already is left out.
func (c *Curve) slow(rows [][]float64, sizes []units.Bytes) {
	down := slices.Clone(sizes)
	slices.Reverse(down)
	speeds := make([][]float64, len(rows)) // log of messages per second
	for i, row := range rows {
		for j, rate := range row {
			speeds[i] = append(speeds[i], rate-math.Log(float64(sizes[j])*8))
		}
		slices.Reverse(speeds[i])
	}
	found := stats.Drops(speeds, stats.DropLeast, stats.DefaultConfidence)
	for _, f := range found.Features {
		from, to := down[f.To], down[f.From]
		if slices.ContainsFunc(c.Features, func(d Feature) bool { return d.Kind != Stall && d.From <= to && from <= d.To }) {
			continue
		}
		// What counts is measured at To, the size next to the faster ones.
		c.Features = append(c.Features, Feature{
			Kind: Slow, State: Candidate, Reference: down[f.Reference], From: from, To: to,
			Fall: math.Expm1(f.Fall), Low: model.Bound(math.Expm1(f.Least)), High: model.Bound(math.NaN()), Passes: found.Sweeps,
		})
	}
}

// at is the size of f that is measured: the one next to its reference.
func (f Feature) at() units.Bytes {
	if f.Kind == Slow {
		return f.To
	}
	return f.From
}
