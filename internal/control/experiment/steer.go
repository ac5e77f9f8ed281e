package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/search"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Steer decides block by block what is measured next, if the plan cannot know that beforehand.
type Steer interface {
	// Next returns the next block, from all runs so far. Its error ends the experiment.
	Next(ctx context.Context, runs []model.Run) (Steered, error)
}

// Steered is one block: each setting is measured once, in random order.
type Steered struct {
	Settings  []model.Setting // none if the experiment is over
	Direction model.Direction
	Flow      model.Flow // the plan's if it has no engine
	// Omit and Duration are the length of its runs; if Duration is 0, the plan's are used.
	Omit, Duration time.Duration
	Reason         string // why it is over
}

// steered runs the blocks that the plan's steer asks for. It leaves invalid runs for the steer
// to judge.
func (e *experiment) steered(ctx context.Context) error {
	for block := 1 + lastBlock(e.out.Runs); ; block++ {
		next, err := e.Steer.Next(ctx, e.out.Runs)
		switch {
		case err != nil:
			return err
		case len(next.Settings) == 0:
			e.out.Reason = next.Reason
			return nil
		}
		if e.out.Reason = e.overBudget(); e.out.Reason != "" {
			return nil
		}
		if err := e.steeredBlock(ctx, block, next); err != nil {
			return err
		}
	}
}

func (e *experiment) steeredBlock(ctx context.Context, block int, next Steered) error {
	flow := e.Plan.Flow
	if next.Flow.Engine != "" {
		flow = next.Flow
	}
	flow.Direction = next.Direction
	if next.Duration > 0 {
		flow.Omit, flow.Duration = next.Omit, next.Duration
	}
	n := len(next.Settings)
	if n > 1 {
		e.Observe(e.event(Event{Kind: BlockStarted, Block: block, RunsInBlock: n}))
	}
	rng := rand.New(rand.NewPCG(e.Plan.Seed, uint64(block)))
	for i, at := range rng.Perm(n) {
		run, err := e.run(ctx, runner.Spec{
			Number: len(e.out.Runs) + 1, Block: block, Attempt: 1, Position: i + 1, Setting: next.Settings[at], Flow: flow, Settle: e.Plan.Settle, Tentative: true,
		}, n)
		if err != nil {
			return err
		}
		if err := e.recover(ctx, run); err != nil {
			return err
		}
		if err := e.rest(ctx, block, false); err != nil {
			return err
		}
	}
	return e.equalLoad(ctx, runner.Spec{Block: block, Attempt: 1, Flow: flow, Tentative: true}, next.Settings, next.Settings[0].Name, nil)
}

// lastBlock returns the highest block number of runs, 0 without any.
func lastBlock(runs []model.Run) int {
	last := 0
	for _, r := range runs {
		last = max(last, r.Block)
	}
	return last
}

// RateSetting returns the setting for a search's runs at one rate.
func RateSetting(rate units.BitRate) model.Setting {
	return model.Setting{
		Name:        rate.String(),
		Assignments: []model.Assignment{{Knob: "rate", Value: strconv.FormatFloat(float64(rate), 'f', -1, 64)}},
	}
}

// rates steers a search for the highest rate: run by run, each at the rate that follows from
// those before it.
type rates struct{ model.Plan }

// Next implements Steer.
func (p rates) Next(_ context.Context, runs []model.Run) (Steered, error) {
	invalid := 0
	for i := len(runs) - 1; i >= 0 && runs[i].State == model.RunInvalid; i-- {
		invalid++
	}
	if invalid > stats.BlockRepeats {
		return Steered{}, fmt.Errorf("%d runs in sequence are invalid; the last one: %s", invalid, runs[len(runs)-1].Reason)
	}
	d := p.Directions[0]
	rate, more := search.Next(*p.Search, search.Trials(runs, d))
	if !more {
		return Steered{Reason: "the search is complete"}, nil
	}
	return Steered{Settings: []model.Setting{RateSetting(rate)}, Direction: d}, nil
}
