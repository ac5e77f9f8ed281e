package sweep

import (
	"cmp"
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Kind is the kind of irregularity of a stretch of neighbouring sizes.
type Kind string

// The kinds of feature.
const (
	Cliff Kind = "cliff" // slower than a smaller size, and so are all larger ones
	Notch Kind = "notch" // slower than a smaller size; larger ones recover
	Slow  Kind = "slow"  // a message takes longer than a larger one
	Stall Kind = "stall" // no answer
)

// State is the state of evidence for a feature.
type State string

// The states. A candidate was found among many sizes, without a second measurement.
const (
	Candidate    State = "candidate"
	IsConfirmed  State = "confirmed"
	NotConfirmed State = "not confirmed"
	Open         State = "open" // measured again, but not often enough
)

// Feature is one odd stretch of the curve, found by statistics.md section 9.
type Feature struct {
	Kind      Kind        `json:"kind"`
	State     State       `json:"state"`
	Reference units.Bytes `json:"reference"` // size that From is compared with; 0 if there is none
	From      units.Bytes `json:"from"`      // first and last size of the stretch
	To        units.Bytes `json:"to"`
	// Fall is the missing share of the goodput at From, for Slow the relative increase of a
	// message's time, and for Stall the share of passes that stalled. Low and High bound it; a
	// candidate has only Low.
	Fall float64     `json:"fall"`
	Low  model.Bound `json:"low"`
	High model.Bound `json:"high"`
	// Passes is the number of passes behind Fall: those of the second experiment, if there was
	// one.
	Passes int   `json:"passes"`
	Logs   []Log `json:"logs,omitempty"` // kernel messages meanwhile; Size is the first
}

// find adds the candidates.
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
		c.warn("fewer than two sizes without a stall: no drop can be seen")
		return
	}
	c.drops(rows, sizes)
	c.slow(rows, sizes)
	slices.SortStableFunc(c.Features, func(a, b Feature) int { return cmp.Compare(a.From, b.From) })
	c.join(sizes)
}

// join merges neighbouring features with at most one size between them. A limit at one size
// also affects the next ones, and a single size that is not provably slower is chance.
func (c *Curve) join(sizes []units.Bytes) {
	place := func(n units.Bytes) int { i, _ := slices.BinarySearch(sizes, n); return i }
	var out []Feature
	for _, f := range c.Features {
		if len(out) == 0 || f.Kind == Stall || out[len(out)-1].Kind == Stall || place(f.From)-place(out[len(out)-1].To) > 2 {
			out = append(out, f)
			continue
		}
		switch last := &out[len(out)-1]; {
		case last.Kind == Slow && f.Kind == Slow: // the effect is measured at the end
			f.From = last.From
			*last = f
		case last.Kind == Slow: // a drop is more specific
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

// rates returns the log rates of the complete passes, at the sizes that have one in all of
// those. A pass is complete if it has a time or a stall at every size.
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
		// Sizes that stall may follow the last size with a time.
		if f.Kind == stats.Cliff {
			kind = Cliff
		}
		c.Features = append(c.Features, Feature{
			Kind: kind, State: Candidate, Reference: sizes[f.Reference], From: sizes[f.From], To: sizes[f.To],
			Fall: -math.Expm1(-f.Fall), Low: model.Bound(-math.Expm1(-f.Least)), High: model.Bound(math.NaN()), Passes: found.Sweeps,
		})
	}
}

// slow adds the stretches that take longer than a larger size. It applies the same rule to
// times instead of rates, from the large sizes down. It skips stretches that belong to a drop.
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
		// The effect is measured at To, the size next to the faster ones.
		c.Features = append(c.Features, Feature{
			Kind: Slow, State: Candidate, Reference: down[f.Reference], From: from, To: to,
			Fall: math.Expm1(f.Fall), Low: model.Bound(math.Expm1(f.Least)), High: model.Bound(math.NaN()), Passes: found.Sweeps,
		})
	}
}

// at returns the measured size of f: the one next to its reference.
func (f Feature) at() units.Bytes {
	if f.Kind == Slow {
		return f.To
	}
	return f.From
}
