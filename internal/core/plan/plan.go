// Package plan decides, before the first run, what an experiment runs when.
//
//  1. New validates what the user asked for, every fault at once.
//  2. It adds what the design needs: a null twin of the baseline, or baseline
//     pairs at the start, so that the session can distrust itself.
//  3. It draws the order: randomised complete blocks (Fisher 1935), or, if asked to,
//     incomplete ones with a balanced random subset of the candidates (Yates 1936).
//
// The plan holds the seed and the whole order, so that an interrupted session
// continues as if nothing had happened, at the next block. The rules are those
// of statistics.md sections 2, 6.3 and 8.
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

// Null says how a plan checks that the session can be trusted.
type Null string

// The checks.
const (
	NullAuto Null = ""     // a twin for three and more settings, baseline pairs for two
	NullTwin Null = "twin" // a twin in any case
	NullNone Null = "none" // none; the session can then not notice that it fools itself
)

// TwinSuffix follows the baseline's name in the name of its null twin.
const TwinSuffix = " (twin)"

// Request is what the user decides: of a plan all but its order and what follows from
// that. The zero value of every field but Settings, Flow.Engine, Flow.Direction and the
// flow's length works: see withDefaults.
type Request struct {
	// Of Plan: Baseline "" is the first setting, and no Directions are Flow.Direction alone.
	// The settings that assign Factor must differ in nothing else, and those of Held share
	// its values equally. MaxBlocks is the number of block differences that each candidate
	// gets (fixed) or gets at most (sequential); incomplete blocks round it up to what
	// balances. Nil Guards are those that suit the traffic, an empty list means no guards. A
	// negative Settle means no wait.
	model.Plan
	Null Null
}

// orderStream is the PCG stream of the order, apart from other uses of a seed.
const orderStream = 0x6f72646572 // "order"

// New returns the complete plan of an experiment, or every fault of o, joined.
//
// It adds a null twin of the baseline where there are three or more settings,
// and four blocks of two baseline runs at the start where there are two. A
// single setting is measured without comparison, in fixed mode only. Where a knob is held
// the pairs stand for the twin.
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

// MaxBlocks is the most blocks that a plan is extended to.
const MaxBlocks = 10000

// extendStream is the PCG stream of the order of blocks that are added to a plan.
const extendStream = 0x6d6f7265 // "more"

// Extend returns p with the order of more blocks behind its own, so that each
// candidate gets that many differences. The evidence of a sequential plan holds
// whenever it is looked at, so that more blocks may follow whatever the first ones
// showed (statistics.md section 5.5); a fixed plan is judged once, and has no such
// continuation. The budget of time was for the blocks that were planned, and ends; that of
// data is for the session, whatever it lasts.
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

// Candidates returns the settings of p that are compared with the baseline, in
// order: all but the baseline and its twin.
func Candidates(p model.Plan) []string {
	var out []string
	for _, s := range p.Settings {
		if s.Name != p.Baseline && s.Name != p.Twin {
			out = append(out, s.Name)
		}
	}
	return out
}

// Comparisons returns the most block differences that p plans for any candidate
// and 0 without candidates. It is MaxBlocks unless blocks hold subsets.
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

// subsetBlocks gives each candidate at least n blocks, all the same number, by
// dealing from shuffled decks of all candidates. A deck's end may meet the next
// deck's start in one block; cards already in the block then wait.
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

// firstNew returns the index of the first card of deck that is not in block,
// len(deck) where there is none.
func firstNew(deck, block []string) int {
	for i, card := range deck {
		if !slices.Contains(block, card) {
			return i
		}
	}
	return len(deck)
}
