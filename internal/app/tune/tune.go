// Package tune is the closed loop of two hosts: diagnose, try what could help, keep what
// does, and prove the result against the start in fresh blocks. Package core/tune decides;
// this one measures, asks and records.
//
// A search is a session of its own, and so is its confirmation, which is an experiment like
// any other: only its verdict is reported as the gain, and linerate keep uses it. Nothing
// that the search tries outlives its run.
package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Request says what to tune.
type Request struct {
	// Request has the flow of every run: without a length, measurements decide how long runs
	// are, and an Omit of 0 means one that suits the round trip. No Directions means both.
	// Budget is for the search alone, Data also for the confirmation, and Watched for the
	// confirmation alone.
	plan.Request
	Only     []string // settings that may be tried, as KNOB, near.KNOB or far.KNOB; empty means all
	Never    []string // settings that may not
	Risky    bool     // try settings that can cut a connection without asking
	Thorough bool     // screen once the settings that no finding names, if the others leave something to gain
	Quick    bool     // look for no smaller values, and keep races short
	DryRun   bool     // stop after the first diagnosis, and report what would be tried
	Title    string
	Command  []string // without secrets
}

// Outcome is how a search ended.
type Outcome struct {
	Search       model.Session
	Record       tune.Record
	Confirmation *model.Session // nil if there was nothing to confirm, or the search did not get there
}

// confirmBlocks is the most blocks of a confirmation (p): the search would not have passed a
// gain that needs more.
const confirmBlocks = 12

// quickRace is the most blocks of a race if time is short.
const quickRace = 5

// Run searches for better settings and confirms what it found. With an error the outcome
// holds the results so far, and the search can be resumed.
func Run(ctx context.Context, env app.Env, e *target.Ends, st trial.Store, r Request) (Outcome, error) {
	if len(r.Directions) == 0 {
		r.Directions = []model.Direction{model.To, model.From}
	}
	fixed, err := unsettable(e)
	if err != nil {
		return Outcome{}, err
	}
	current := []model.Setting{{Name: tune.Baseline}}
	early := r
	early.Flow = pilot(r.Flow, 0, r.Quick)
	if _, err := early.plan(current, r.Seed); err != nil { // before any wait
		return Outcome{}, err
	}
	if err := trial.Calm(ctx, env, e); err != nil {
		return Outcome{}, err
	}
	env.Calm = 0
	rtt, err := trial.Probe(ctx, e, r.Flow)
	if err != nil {
		return Outcome{}, err
	}
	adapt := r.Flow.Duration == 0 && r.Flow.Bytes == 0
	if adapt {
		r.Flow = pilot(r.Flow, rtt.Or(0), r.Quick)
	}
	if r.Flow.Omit == 0 && r.Flow.Bytes == 0 {
		r.Flow.Omit = stats.DefaultOmit(rtt.Or(0))
	}
	p, err := r.plan(current, r.Seed)
	if err != nil {
		return Outcome{}, err
	}
	p.Order = nil // the findings decide the order
	if err := trial.Takes(env, p); err != nil {
		return Outcome{}, err
	}
	t := trial.New(env, e, st, model.KindTune, r.Title, r.Command, p)
	for _, why := range fixed {
		t.Session.Warnings = append(t.Session.Warnings, why)
		env.Observe(app.Warning{Text: why})
	}
	o := r.options(p)
	o.Adapt, o.RTT = adapt, rtt.Or(0)
	return search(ctx, env, e, st, r, t, tune.Record{Options: o})
}

// unsettable says for each host whose settings cannot be tried why not. It returns an error
// if the search could change neither host.
func unsettable(e *target.Ends) ([]string, error) {
	var out []string
	var last error
	for _, h := range []model.Host{model.Near, model.Far} {
		c := e.Client(h)
		if c == nil {
			out = append(out, fmt.Sprintf("%s: its settings are not tried: with %s only those of the test can be", h, e.Foreign()))
		} else if why := c.NoSettings(); why != "" {
			out = append(out, fmt.Sprintf("%s: its settings are not tried: %s", c.Name(), why))
			last = app.MayTune(c, "nothing can be set")
		}
	}
	if len(out) < 2 {
		return out, nil
	}
	return nil, fault.New(fault.Unsupported, fmt.Errorf("tune can set nothing on either host\n%s", strings.Join(out, "\n")),
		"%s\nlinerate check says what limits the path, without any right", fault.HintOf(last))
}

// Resume continues a search that was cut short, with its own plan.
func Resume(ctx context.Context, env app.Env, e *target.Ends, st trial.Store, s model.Session, r Request) (Outcome, error) {
	rec, ok, err := tune.Read(&s)
	if err != nil || !ok {
		return Outcome{}, fault.Usagef("session %s is no search for settings", s.ID)
	}
	t, err := trial.Resume(env, e, st, s)
	if err != nil {
		return Outcome{}, err
	}
	r.Flow, r.Directions, r.Objective, r.Guards, r.Margin = s.Plan.Flow, s.Plan.Directions, s.Plan.Objective, s.Plan.Guards, s.Plan.Margin
	r.Thorough = rec.Options.Thorough
	r.Data = s.Plan.Data
	r.Settle, r.Seed, r.Title, r.Command = s.Plan.Settle, s.Plan.Seed, s.Title, s.Command
	return search(ctx, env, e, st, r, t, rec)
}

// plan returns the plan for settings: one for the search, two for the confirmation.
func (r Request) plan(settings []model.Setting, seed uint64) (model.Plan, error) {
	o := r.Request
	o.Settings, o.Baseline, o.Seed, o.Budget = settings, tune.Baseline, seed, 0
	o.Flow.Direction = r.Directions[0]
	if len(settings) == 1 {
		o.Mode, o.MaxBlocks, o.Watched = model.FixedBlocks, 1, nil
	} else {
		// A guard that stays undecided longer is reported as undecided. Four pairs cannot
		// show that the baseline is like itself, and the search has measured the noise
		// (statistics.md 5.4).
		o.MaxBlocks, o.Null = confirmBlocks, plan.NullNone
	}
	p, err := plan.New(o)
	return p, fault.WithKind(fault.Usage, err)
}

// options returns the options of the machine.
func (r Request) options(p model.Plan) tune.Options {
	o := tune.Options{
		Margin: stats.LogMargin(p.Margin), Objective: p.Decides(), Guards: p.Guards, NoPlateau: r.Quick, Thorough: r.Thorough, Seed: p.Seed,
	}
	if r.Quick {
		o.RaceBlocks = quickRace
	}
	return o
}

// search carries out a search, from the state of its record.
func search(ctx context.Context, env app.Env, e *target.Ends, st trial.Store, r Request, t *trial.Trial, rec tune.Record) (Outcome, error) {
	s := &steer{env: env, ends: e, store: st, request: r, trial: t, machine: tune.Replay(rec, t.Session.Runs), inputs: rec.Inputs, refused: map[string]string{}}
	t.Steer = s
	var out Outcome
	if least := s.cost(s.suspects()).Least(len(r.Directions)); r.Budget > 0 && r.Budget < least && !r.DryRun {
		return out, fault.Usagef("--budget: %s is too short for a look, one comparison and the proof, which take about %s", units.FormatDuration(r.Budget), units.FormatDuration(least.Round(time.Second)))
	}
	var err error
	if t.Session.Tuning, err = s.record().Text(); err != nil { // what is killed before the first look goes on, too
		return out, err
	}
	out.Search, err = t.Run(ctx)
	out.Record = s.record()
	if out.Search.State == model.SessionDone && out.Record.Reason == "" && !r.DryRun { // the payload was spent before the machine could count with it
		out.Record.Reason = tune.BudgetSpent
		return out, errors.Join(err, s.keep(ctx, &out))
	}
	winner, won := s.machine.Winner()
	if err != nil || !won || s.machine.Next().Kind != tune.KindConfirm {
		return out, err
	}
	if r, err = s.confirmation(ctx, r, winner, out.Search.Runs); err != nil {
		return out, err
	}
	if r.Data > 0 {
		r.Data = max(1, r.Data-plan.Payload(out.Search.Runs))
	}
	p, err := r.plan([]model.Setting{{Name: tune.Baseline}, winner}, r.Seed+1)
	if err != nil {
		return out, err
	}
	env.Calm = 0 // the proof follows at once
	c := trial.New(env, e, st, model.KindRun, r.Title, r.Command, p)
	out.Record.Confirmation = c.Session.ID
	if err := s.keep(ctx, &out); err != nil {
		return out, err
	}
	confirmed, err := c.Run(ctx)
	out.Confirmation = &confirmed
	return out, err
}

// keep stores the record of a search that has ended.
func (s *steer) keep(ctx context.Context, out *Outcome) error {
	var err error
	if out.Search.Tuning, err = out.Record.Text(); err == nil {
		err = s.store.UpdateSession(context.WithoutCancel(ctx), out.Search)
	}
	return fault.WithKind(fault.Store, err)
}

// steer connects the machine to the experiment.
type steer struct {
	env       app.Env
	ends      *target.Ends
	store     trial.Store
	request   Request
	trial     *trial.Trial
	machine   *tune.Machine
	inputs    []tune.Input
	issued    bool              // the last block of the runs is the answer to the machine's step
	failed    int               // blocks in a row in which the incumbent failed
	most      int               // limit on runs last given to the machine, 0 for none
	full      units.Bytes       // payload of a run that reaches the ceiling, if a look could tell
	announced time.Duration     // time left as last announced; 0 if not yet
	length    tune.Length       // of the runs of the present race, once its pilots are done
	raced     tune.Length       // of those of the last race whose pilots were done
	refused   map[string]string // why the hosts do not take a setting that was tried without traffic, "" if they do
}

// mostFailed is how often the incumbent may fail in a row.
const mostFailed = 1 + stats.BlockRepeats

// Next implements experiment.Steer.
func (s *steer) Next(ctx context.Context, runs []model.Run) (trial.Block, error) {
	if len(runs) == 0 && !s.request.DryRun {
		s.env.Observe(app.Searched{Step: s.machine.Next(), Record: s.record(), Left: s.left()})
	}
	if s.issued {
		s.issued = false
		if err := s.answer(ctx, runs); err != nil {
			return trial.Block{}, err
		}
	}
	for {
		if err := s.ration(ctx, runs); err != nil {
			return trial.Block{}, err
		}
		step := s.machine.Next()
		switch step.Kind {
		case tune.KindLook:
			d, missing, err := s.unseen(step.Settings[0], runs)
			if err != nil || missing {
				return trial.Block{Settings: step.Settings, Direction: d}, err
			}
			look, again, err := s.glances(ctx, step.Settings[0], runs)
			if err != nil {
				return trial.Block{}, err
			}
			if again != "" {
				return trial.Block{Settings: step.Settings, Direction: again}, nil
			}
			err = s.ration(ctx, runs) // the look may show how large runs become
			if err == nil {
				err = s.tell(ctx, tune.Input{Look: &look}, runs)
			}
			if err != nil {
				return trial.Block{}, err
			}
			if s.request.DryRun {
				return trial.Block{Reason: "nothing was tried: a dry run"}, nil
			}
		case tune.KindAsk:
			yes, err := s.ask(ctx, step)
			if err == nil {
				err = s.tell(ctx, tune.Input{Answer: &yes}, runs)
			}
			if err != nil {
				return trial.Block{}, err
			}
		case tune.KindRace, tune.KindScreen, tune.KindTrim, tune.KindPlateau:
			l, err := s.fit(ctx, step, runs)
			if err != nil {
				return trial.Block{}, err
			}
			s.issued = true
			return trial.Block{Settings: step.Settings, Direction: step.Direction, Omit: l.Omit, Duration: l.Duration}, nil
		case tune.KindConfirm, tune.KindEnd:
			return trial.Block{Reason: step.Reason}, nil
		}
	}
}

// answer gives the machine the block that was just measured. A block that was cut short when
// the program ended is measured again.
func (s *steer) answer(ctx context.Context, runs []model.Run) error {
	block := runs[len(runs)-1].Block
	readings, complete := s.machine.Readings(block, runs)
	if !complete {
		return nil
	}
	incumbent := s.machine.Next().Settings[0].Name
	if s.failed++; readings[incumbent].Failed == "" || s.machine.Next().Kind == tune.KindScreen { // a screen has no incumbent
		s.failed = 0
	}
	if s.failed >= mostFailed {
		return fmt.Errorf("%d runs in sequence of what is compared with are invalid; the last one: %s", s.failed, readings[incumbent].Failed)
	}
	return s.tell(ctx, tune.Input{Block: block}, runs)
}

// tell gives the machine one input and stores it before reporting progress.
func (s *steer) tell(ctx context.Context, in tune.Input, runs []model.Run) error {
	s.machine.Take(in, runs)
	s.inputs = append(s.inputs, in)
	rec := s.record()
	text, err := rec.Text()
	if err != nil {
		return err
	}
	s.trial.Session.Tuning = text
	if err := s.store.UpdateSession(context.WithoutCancel(ctx), s.trial.Session); err != nil {
		return fault.WithKind(fault.Store, err)
	}
	if !s.request.DryRun { // a dry run begins nothing
		s.env.Observe(app.Searched{Step: s.machine.Next(), Record: rec, Left: s.left()})
	}
	return nil
}

func (s *steer) record() tune.Record { return s.machine.Record(s.inputs) }

// unseen returns a direction in which the incumbent has no valid run yet.
func (s *steer) unseen(incumbent model.Setting, runs []model.Run) (model.Direction, bool, error) {
	for _, d := range s.request.Directions {
		failed := 0
		var last string
		if slices.ContainsFunc(runs, func(r model.Run) bool {
			if r.Setting != incumbent.Name || r.Flow.Direction != d {
				return false
			}
			if r.State == model.RunInvalid {
				failed, last = failed+1, r.Reason
			}
			return r.State == model.RunValid
		}) {
			continue
		}
		if failed >= mostFailed {
			return d, true, s.hopeless(d, runs, fmt.Sprintf("%d runs of the hosts as they are are invalid; the last one: %s", failed, last))
		}
		return d, true, nil
	}
	return "", false, nil
}

// ask asks the user whether a setting that can cut a connection may be tried. Without an
// answer it is not.
func (s *steer) ask(ctx context.Context, step tune.Step) (bool, error) {
	if s.request.Risky {
		return true, nil
	}
	a, err := s.env.Ask(ctx, app.Question{Kind: app.TryRisky, What: step.Settings[0].Name, Why: step.Reason})
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	return err == nil && a.Yes, nil
}

// reached returns the share of the ceiling that a run reached.
func reached(ceiling fact.Of[units.BitRate], goodput float64) fact.Of[float64] {
	c, ok := ceiling.Get()
	if !ok {
		return fact.Unknown[float64](ceiling.Reason())
	}
	return fact.Known(goodput/float64(c), "goodput over the ceiling")
}
