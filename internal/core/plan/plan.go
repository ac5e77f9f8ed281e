// Package plan decides, before the first run, the order of an experiment's runs.
//
//  1. New validates the user's request, and reports every fault at once.
//  2. It adds what the design needs: a null twin of the baseline, or baseline
//     pairs at the start, so that the session can check itself.
//  3. It draws the order: randomised complete blocks (Fisher 1935) or, on request,
//     incomplete ones with a balanced random subset of the candidates (Yates 1936).
//
// The plan holds the seed and the whole order, so that an interrupted session continues
// unchanged at the next block. The rules are those of statistics.md sections 2, 6.3 and 8.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Null says how a plan checks that its session can be trusted.
type Null string

// The checks.
const (
	NullAuto Null = ""     // a twin for three or more settings, baseline pairs for two
	NullTwin Null = "twin" // a twin in any case
	NullNone Null = "none" // none; the session cannot notice that it is misled
)

// TwinSuffix follows the baseline's name in the name of its null twin.
const TwinSuffix = " (twin)"

// Request is the user's part of a plan: everything but its order and what follows from that.
// The zero value of every field but Settings, Flow.Engine, Flow.Direction and the flow's length
// works: see withDefaults.
type Request struct {
	// In Plan, Baseline "" is the first setting, and no Directions means Flow.Direction alone.
	// The settings that assign Factor must differ in nothing else, and the values of Held must
	// have equally many settings. MaxBlocks is the number of block differences that each
	// candidate gets (fixed) or gets at most (sequential); incomplete blocks round it up to
	// balance. Nil Guards means the defaults for the traffic, an empty list means no guards. A
	// negative Settle means no wait.
	model.Plan
	Null Null
}

// orderStream is the PCG stream of the order, distinct from other uses of the seed.
const orderStream = 0x6f72646572 // "order"

// New returns the complete plan of an experiment, or every fault of o, joined.
//
// It adds a null twin of the baseline to three or more settings, and four blocks of two
// baseline runs at the start of a comparison of two settings or with a held knob. A single
// setting is measured without comparison, in fixed mode only.
func New(o Request) (model.Plan, error) {
	o = withDefaults(o)
	levels, err := validate(o)
	if err != nil {
		return model.Plan{}, err
	}
	p := o.Plan
	p.Settings, p.Directions, p.Levels = slices.Clone(o.Settings), slices.Clone(o.Directions), levels
	if len(o.Watched) > 0 {
		p.WatchBlocks = min(stats.WatchBlocks, o.MaxBlocks)
	}
	switch {
	case o.hasTwin():
		base, _ := p.Setting(o.Baseline)
		p.Twin = o.Baseline + TwinSuffix
		p.Settings = append(p.Settings, model.Setting{Name: p.Twin, Assignments: base.Assignments})
	case o.Null == NullAuto && (len(o.Settings) == 2 || o.Held != ""):
		p.NullBlocks = stats.NullBlocks
	}
	rng := rand.New(rand.NewPCG(o.Seed, orderStream))
	for range p.NullBlocks {
		p.Order = append(p.Order, []string{p.Baseline, p.Baseline})
	}
	p.Order = append(p.Order, blocks(p, o.MaxBlocks, rng)...)
	p.MaxBlocks = len(p.Order) - p.NullBlocks
	return p, nil
}

// blocks returns the order of blocks in which each candidate of p gets n differences.
func blocks(p model.Plan, n int, rng *rand.Rand) [][]string {
	if p.Incomplete && n > 0 {
		return subsetBlocks(p, n, rng)
	}
	out := make([][]string, n)
	for i := range out {
		if p.Held != "" {
			out[i] = groupedBlock(p, rng)
		} else {
			out[i] = shuffled(names(p.Settings), rng)
		}
	}
	return out
}

// MaxBlocks is the most blocks that a plan may have.
const MaxBlocks = 10000

// extendStream is the PCG stream of the order of blocks added to a plan.
const extendStream = 0x6d6f7265 // "more"

// Extend returns p with more blocks appended, so that each candidate gets most differences. The
// evidence of a sequential plan is valid at any time, so more blocks may follow whatever the
// first ones showed (statistics.md section 5.5); a fixed plan is judged once and cannot be
// extended. The time budget was for the planned blocks and ends; the data budget is for the
// whole session.
func Extend(p model.Plan, most int) (model.Plan, error) {
	now := Comparisons(p)
	switch {
	case p.Mode != model.Sequential:
		return p, errors.New("its number of blocks was given beforehand, and it is judged once, at their end: more of them would be a second look")
	case most < now || most > MaxBlocks:
		return p, fmt.Errorf("%d is not between the %d blocks that it has and %d", most, now, MaxBlocks)
	}
	rng := rand.New(rand.NewPCG(p.Seed, extendStream+uint64(len(p.Order))))
	p.Order, p.Budget = slices.Clone(p.Order), 0
	p.Order = append(p.Order, blocks(p, most-now, rng)...)
	p.MaxBlocks = len(p.Order) - p.NullBlocks
	return p, nil
}

func (o Request) hasTwin() bool {
	return o.Null == NullTwin || o.Null == NullAuto && len(o.Settings) >= 3 && o.Held == ""
}

func withDefaults(o Request) Request {
	if o.Baseline == "" && len(o.Settings) > 0 {
		o.Baseline = o.Settings[0].Name
	}
	if len(o.Directions) == 0 {
		o.Directions = []model.Direction{o.Flow.Direction}
	}
	o.Mode = cmp.Or(o.Mode, model.Sequential)
	if o.MaxBlocks == 0 && o.Mode == model.Sequential {
		o.MaxBlocks = stats.DefaultMaxBlocks
	}
	if o.Objective == "" {
		o.Objective = metric.Objective(o.Flow)
	}
	if o.Guards == nil {
		o.Guards = metric.Guards(o.Flow, o.Objective, model.Engines(o.Settings)...)
	}
	o.Margin = cmp.Or(o.Margin, stats.DefaultMargin)
	o.Tolerance = cmp.Or(o.Tolerance, stats.DefaultTolerance)
	o.Confidence = cmp.Or(o.Confidence, stats.DefaultConfidence)
	switch {
	case o.Settle == 0:
		o.Settle = stats.DefaultSettle
	case o.Settle < 0:
		o.Settle = 0
	}
	return o
}

// Candidates returns the settings of p that are compared with the baseline, in order: all but
// the baseline and its twin.
func Candidates(p model.Plan) []string {
	var out []string
	for _, s := range p.Settings {
		if s.Name != p.Baseline && s.Name != p.Twin {
			out = append(out, s.Name)
		}
	}
	return out
}

// Comparisons returns the most block differences that p plans for any candidate, and 0 without
// candidates. It is MaxBlocks unless blocks hold subsets.
func Comparisons(p model.Plan) int {
	count, most := map[string]int{}, 0
	for _, block := range p.Order[min(p.NullBlocks, len(p.Order)):] {
		for _, name := range block {
			if name != p.Baseline && name != p.Twin {
				count[name]++
				most = max(most, count[name])
			}
		}
	}
	return most
}

func names(settings []model.Setting) []string {
	out := make([]string, len(settings))
	for i, s := range settings {
		out[i] = s.Name
	}
	return out
}

// shuffled permutes s in place, uniformly (Fisher and Yates), and returns it.
func shuffled[T any](s []T, rng *rand.Rand) []T {
	for i := len(s) - 1; i > 0; i-- {
		j := rng.IntN(i + 1)
		s[i], s[j] = s[j], s[i]
	}
	return s
}

// subsetBlocks gives each candidate the same number of blocks, at least n, by dealing from
// shuffled decks of all candidates. The end of one deck and the start of the next may share a
// block; cards already in the block then wait.
func subsetBlocks(p model.Plan, n int, rng *rand.Rand) [][]string {
	candidates := Candidates(p)
	for n*len(candidates)%stats.SubsetSize != 0 {
		n++
	}
	var deck []string
	order := make([][]string, n*len(candidates)/stats.SubsetSize)
	for b := range order {
		block := []string{p.Baseline}
		if p.Twin != "" {
			block = append(block, p.Twin)
		}
		for range stats.SubsetSize {
			i := firstNew(deck, block)
			if i == len(deck) {
				deck = append(deck, shuffled(append([]string(nil), candidates...), rng)...)
				i = firstNew(deck, block)
			}
			block = append(block, deck[i])
			deck = append(deck[:i], deck[i+1:]...)
		}
		order[b] = shuffled(block, rng)
	}
	return order
}

// firstNew returns the index of the first card of deck that is not in block, len(deck) if there
// is none.
func firstNew(deck, block []string) int {
	for i, card := range deck {
		if !slices.Contains(block, card) {
			return i
		}
	}
	return len(deck)
}
