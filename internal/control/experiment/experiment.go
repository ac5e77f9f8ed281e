// Package experiment carries out a plan, run after run, until its question is
// decided, its blocks or its time are spent, or it is interrupted.
//
// Run works block by block: it applies every setting that is still undecided and measures it
// once per direction, in the stored random order. An invalid run ends its block, which is
// repeated at the end (statistics.md 1, rule 5). What the plan holds over a group of runs stays
// in force between them. After each complete block package analysis decides whether to go on.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/core/analysis"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// Runner does one run on the two hosts and then restores them, except for what the run holds
// for the next one; Release undoes that, if there is anything.
type Runner interface {
	Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error)
	Release(ctx context.Context) ([]model.Change, error)
}

// Config configures an experiment. Plan, Runner, Record and Now are required.
type Config struct {
	Plan model.Plan
	Past []model.Run // of an interrupted session that is resumed
	// Steer, if set, decides what is measured instead of the plan's order.
	Steer Steer
	// Beside is the time of a test besides its traffic; 0 is plan.Beside.
	Beside time.Duration
	// Runner does the runs. Reconnect, if set, returns a new one after contact with a host
	// was lost.
	Runner    Runner
	Reconnect func(ctx context.Context) (Runner, error)
	// Patience is how long Reconnect is retried until the host answers, as a link may need time
	// to come back. It is tried at least once.
	Patience time.Duration
	// Record stores a run that ended, valid or not. Its error ends the experiment: results that
	// cannot be stored are useless.
	Record func(ctx context.Context, r model.Run, s []model.Sample, c []model.Change) error
	// Left, if set, stores the plan that goes on without a far end, after that was unreachable
	// for as many attempts as a block gets. Its error ends the experiment.
	Left func(ctx context.Context, p model.Plan, end, why string) error
	// Released, if set, stores the outcome of changes that were held for a run that never came.
	// Its error is one of the experiment.
	Released func(ctx context.Context, c []model.Change) error
	// Between, if set, is called before each run, while the hosts hold nothing of the previous
	// one. It may wait: that time counts towards no budget. Its error ends the experiment.
	Between func(ctx context.Context) error
	// Observe, if set, receives events, from one goroutine at a time.
	Observe func(Event)
	Now     func() time.Time
}

// Outcome is the outcome of an experiment.
type Outcome struct {
	Runs    []model.Run // past and new
	Changes []model.Change
	Result  analysis.Result
	State   model.SessionState
	Reason  string
}

// experiment is the state of a running experiment.
type experiment struct {
	Config
	out      Outcome
	pending  []int       // blocks to do, in order
	failures map[int]int // attempts of a block that had an invalid run
	attempts map[int]int // all attempts of a block
	started  time.Time
	spent    time.Duration  // by finished runs
	done     int            // finished runs
	began    time.Time      // start of the current run, else zero
	busy     int            // consecutive runs for which a host was busy
	holds    bool           // the hosts hold something for the next run
	givenUp  int            // blocks that were invalid in every attempt
	lost     map[string]int // consecutive runs lost with a far end
	left     []string       // far ends that left the plan
	test     int            // index of the plan's current test
	seen     *analysis.Result
	seenRuns int // number of runs that seen covers
}

// Run carries out the plan. The error says why it could not go on; the outcome holds everything
// up to then, and State says whether it may be resumed. When ctx ends, the runner restores the
// hosts before Run returns.
func Run(ctx context.Context, c Config) (Outcome, error) {
	e := &experiment{Config: c, failures: map[int]int{}, attempts: map[int]int{}, lost: map[string]int{}, started: c.Now()}
	if e.Observe == nil {
		e.Observe = func(Event) {}
	}
	e.out.Runs = slices.Clone(c.Past)
	e.takeUp()
	if e.Steer == nil && c.Plan.Search != nil {
		e.Steer = rates{c.Plan}
	}
	loop := e.loop
	switch {
	case e.Steer != nil:
		loop = e.steered
	case len(c.Plan.Tests) > 0:
		loop = e.tests
	}
	err := loop(ctx)
	if _, sweeps := sizes.Of(c.Plan.Flow); sweeps && err == nil {
		err = e.confirm(ctx)
	}
	e.out.Result = e.look()
	e.out.State = model.SessionDone
	switch {
	case errors.Is(err, context.Canceled):
		e.out.State, e.out.Reason = model.SessionInterrupted, "interrupted by the user"
	case err != nil:
		e.out.State, e.out.Reason = model.SessionInterrupted, err.Error()
	}
	if e.failed(err) {
		e.out.State = model.SessionFailed
	}
	return e.out, err
}

// failed reports whether there were runs, none of them counts, and neither the user nor a lost
// host is the cause: further runs would fail the same way.
func (e *experiment) failed(err error) bool {
	for _, r := range e.out.Runs {
		if r.State != model.RunInvalid || err != nil && r.LostContact {
			return false
		}
	}
	return len(e.out.Runs) > 0 && !errors.Is(err, context.Canceled)
}

// look analyses the runs so far, once per number of runs.
func (e *experiment) look() analysis.Result {
	if e.seen == nil || e.seenRuns != len(e.out.Runs) {
		r := analysis.Analyse(e.Plan, e.out.Runs)
		e.seen, e.seenRuns = &r, len(e.out.Runs)
	}
	return *e.seen
}

// takeUp finds the blocks that the past runs did not complete.
func (e *experiment) takeUp() {
	type try struct{ block, attempt int }
	invalid := map[try]bool{}
	for _, r := range e.out.Runs {
		e.attempts[r.Block] = max(e.attempts[r.Block], r.Attempt)
		if r.State == model.RunInvalid && !invalid[try{r.Block, r.Attempt}] {
			invalid[try{r.Block, r.Attempt}] = true
			e.failures[r.Block]++
		}
	}
	e.pending = analysis.OpenBlocks(e.Plan, e.out.Runs)
}

func (e *experiment) loop(ctx context.Context) error {
	result := e.look()
	for len(e.pending) > 0 {
		if result.Done {
			e.out.Reason = result.Reason
			return nil
		}
		if e.out.Reason = e.overBudget(); e.out.Reason != "" {
			return nil
		}
		block := e.pending[0]
		if e.out.Reason = e.alone(block, result); e.out.Reason != "" {
			return nil
		}
		e.pending = e.pending[1:]
		valid, err := e.block(ctx, block, result)
		if err != nil {
			return err
		}
		if !valid {
			e.failures[block]++
			if e.failures[block] <= stats.BlockRepeats && !e.dead(block) {
				e.pending = append(e.pending, block)
			} else {
				e.givenUp++
			}
			continue
		}
		result = e.look()
		e.Observe(e.event(Event{Kind: BlockEnded, Block: block, Result: &result}))
	}
	if e.givenUp > 0 && slices.ContainsFunc(e.out.Runs, isDead) {
		e.out.Reason = "nothing arrived in one direction"
	} else if e.givenUp > 0 {
		e.out.Reason = fmt.Sprintf("%d of %d blocks were given up after %d invalid attempts each",
			e.givenUp, len(e.Plan.Order), 1+stats.BlockRepeats)
	}
	if e.out.Reason == "" {
		e.out.Reason = "all planned blocks are done"
		if result.Done && result.Reason != "" {
			e.out.Reason = result.Reason
		}
	}
	return nil
}

// overBudget names the budget that is spent, "" for none. The data budget is for the whole
// session, including its resumed parts.
func (e *experiment) overBudget() string {
	if e.Plan.Budget > 0 && e.Now().Sub(e.started) >= e.Plan.Budget {
		return "the time budget is spent"
	}
	if sent := plan.Payload(e.out.Runs); e.Plan.Data > 0 && sent >= e.Plan.Data {
		return fmt.Sprintf("the data budget of %s is spent: %s were sent", e.Plan.Data, sent.Decimal())
	}
	return ""
}

// slot is one run of a block.
type slot struct {
	setting   model.Setting
	direction model.Direction
	group     int // of the block, from 1; 0 if nothing is held for another run
}

// slots returns the runs of a block in order: the undecided settings in their stored order, and
// for each its directions in an order drawn from the plan's seed.
func slots(p model.Plan, block int, leaving []string) ([]slot, error) {
	var out []slot
	for i, name := range p.Order[block-1] {
		if slices.Contains(leaving, name) {
			continue
		}
		s, ok := p.Setting(name)
		if !ok {
			return nil, fmt.Errorf("plan: order names an unknown setting %q", name)
		}
		d := slices.Clone(p.Ways(block))
		rng := rand.New(rand.NewPCG(p.Seed, uint64(block)<<16|uint64(i)))
		rng.Shuffle(len(d), func(i, j int) { d[i], d[j] = d[j], d[i] })
		for _, dir := range d {
			out = append(out, slot{setting: s, direction: dir, group: groupOf(p, block, i)})
		}
	}
	return out, nil
}

// block does all runs of a block. It reports whether all were valid.
func (e *experiment) block(ctx context.Context, block int, result analysis.Result) (valid bool, err error) {
	runs, err := slots(e.Plan, block, result.Leaving)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, e.release(ctx)) }() // however a group ends early
	e.attempts[block]++
	e.Observe(e.event(Event{Kind: BlockStarted, Block: block, RunsInBlock: len(runs)}))
	alone := len(e.Plan.Settings) == 1 // nothing is compared, so each direction counts by itself
	valid = true
	for i, s := range runs {
		flow := e.Plan.Flow
		flow.Direction = s.direction
		flow = inOrder(flow, e.Plan.Seed, block)
		run, err := e.run(ctx, runner.Spec{
			Number: len(e.out.Runs) + 1, Block: block, Attempt: e.attempts[block], Position: i + 1,
			Setting: s.setting, Hooks: e.Plan.Hooks, Flow: flow, Settle: e.Plan.Settle,
			Held: heldBy(e.Plan, s), Hold: e.holdAfter(runs, i),
		}, len(runs))
		if err != nil {
			return false, err
		}
		if valid = valid && run.State == model.RunValid; run.State != model.RunValid && (!alone || run.LostContact) {
			if err := e.recover(ctx, run); err != nil {
				return false, err
			}
			return false, e.missing(ctx, block, s.setting, run)
		}
		e.lost[s.setting.FarEnd()] = 0
		if err := e.rest(ctx, block, i+1 == len(runs)); err != nil {
			return false, err
		}
	}
	if !valid || block <= e.Plan.NullBlocks || e.Plan.Held != "" {
		return valid, nil
	}
	s := runner.Spec{Block: block, Attempt: e.attempts[block], Flow: e.Plan.Flow, Hooks: e.Plan.Hooks}
	return valid, e.equalLoad(ctx, s, e.Plan.Settings, e.Plan.Baseline, decided(result))
}

// dead reports whether nothing arrived in a run of the last attempt at a block of a plan that
// compares nothing: that is a result, which another attempt would only repeat.
func (e *experiment) dead(block int) bool {
	return len(e.Plan.Settings) == 1 && slices.ContainsFunc(e.out.Runs, func(r model.Run) bool {
		return r.Block == block && r.Attempt == e.attempts[block] && isDead(r)
	})
}

// isDead reports whether nothing arrived in a direction of a run.
func isDead(r model.Run) bool {
	return slices.ContainsFunc(r.Flow.Direction.Parts(), func(d model.Direction) bool { return diagnose.Dead(r, d) })
}

// inOrder returns the flow of a block: for a sweep, with the sizes in that block's order.
func inOrder(f model.Flow, seed uint64, block int) model.Flow {
	s, sweeps := sizes.Of(f)
	if !sweeps {
		return f
	}
	s.Sizes = plan.SweepOrder(s.Sizes, seed, block)
	return sizes.With(f, s)
}

// run does one run and records it, even if it was interrupted.
func (e *experiment) run(ctx context.Context, s runner.Spec, inBlock int) (model.Run, error) {
	if err := e.between(ctx, s.Block); err != nil {
		return model.Run{}, err
	}
	at := Event{
		Block: s.Block, Position: s.Position, RunsInBlock: inBlock,
		Setting: s.Setting.Name, Direction: s.Flow.Direction,
	}
	started := at
	started.Kind = RunStarted
	e.Observe(e.event(started))
	begin := e.Now()
	e.began = begin
	var samples []model.Sample
	run, changes, err := e.Runner.Run(ctx, s, func(h model.Host, batch []model.Sample) {
		samples = append(samples, batch...)
		ev := at
		ev.Kind, ev.Host, ev.Samples = RunSampled, h, batch
		e.Observe(e.event(ev))
	})
	e.holds = err == nil && s.Hold > 0
	e.spent += e.Now().Sub(begin)
	e.began = time.Time{}
	e.done++
	if err != nil && run.State == model.RunPlanned {
		run.State, run.Reason = model.RunInvalid, err.Error()
	}
	if ctx.Err() != nil {
		run.State, run.Reason = model.RunInterrupted, "interrupted"
	}
	e.out.Changes = append(e.out.Changes, changes...)
	e.out.Runs = append(e.out.Runs, run)
	// Keep what was measured even if the user has just pressed Ctrl-C.
	if rerr := e.Record(context.WithoutCancel(ctx), run, samples, changes); rerr != nil {
		return run, fmt.Errorf("%w %d: %w", errRecord, run.Number, rerr)
	}
	if ctx.Err() != nil {
		return run, ctx.Err()
	}
	ended := at
	ended.Kind, ended.Run = RunEnded, &run
	e.Observe(e.event(ended))
	again := errors.Is(err, runner.ErrInvalid) || errors.Is(err, runner.ErrContact)
	if err != nil && (!again || errors.Is(err, runner.ErrGreedy) || errors.Is(err, runner.ErrStuck)) {
		return run, err
	}
	if e.busy++; !errors.Is(err, session.ErrBusy) {
		e.busy = 0
	}
	return run, nil
}

// errRecord reports that a run could not be stored.
var errRecord = errors.New("record run")

// The pause between two attempts to reach a lost host doubles up to longestPause.
const (
	reconnectPause = time.Second
	longestPause   = 8 * time.Second
)

// recover reconnects after an invalid run that lost its host. It retries until the host gives
// any answer or the patience is over.
func (e *experiment) recover(ctx context.Context, run model.Run) error {
	if !run.LostContact {
		return nil
	}
	if e.Reconnect == nil {
		return fmt.Errorf("run %d: %s", run.Number, run.Reason)
	}
	began := e.Now()
	for pause := reconnectPause; ; pause = min(2*pause, longestPause) {
		e.Observe(e.event(Event{Kind: Reconnecting, Block: run.Block}))
		r, err := e.Reconnect(ctx)
		if err == nil {
			e.Runner = r
			return nil
		}
		answered := errors.Is(err, session.ErrRefused) || errors.Is(err, session.ErrVersion) || errors.Is(err, fs.ErrPermission)
		tried := e.Now().Sub(began)
		if ctx.Err() != nil || answered || tried+pause > e.Patience {
			return fmt.Errorf("run %d: %s; tried for %s to reach the host again: %w", run.Number, run.Reason, units.FormatDuration(tried.Round(time.Second)), err)
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}
