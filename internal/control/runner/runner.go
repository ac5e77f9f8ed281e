// Package runner does one run on two hosts and leaves them as they were.
//
//  1. The setting is applied on both hosts, or on none, and read back.
//  2. After the settling time both ends open their connections.
//  3. When both are ready, the receiver is started, then the sender. Samples go
//     to the caller as they come.
//  4. When the receiver is complete the sender is stopped; with both directions
//     at once, both are stopped when both have measured.
//  5. The setting is read back again, then undone, also when anything before
//     failed or the caller gave up. Between two runs of a group it stays.
//
// The agents undo by themselves when contact is lost or time runs out; the
// runner only does it sooner and with a report.
package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/panics"
)

// Errors that a run's error may wrap. The run itself has the same in State, Reason and
// LostContact.
var (
	// ErrInvalid reports that the run was begun or done, but does not count (statistics.md 1,
	// rule 5). Another attempt may succeed.
	ErrInvalid = errors.New("run is invalid")
	// ErrContact reports that a host went away. The sessions are of no more use.
	ErrContact = session.ErrLost
	// ErrGreedy reports that a host sent more than its run allows. The session with it is over,
	// and another one would end the same way.
	ErrGreedy = session.ErrGreedy
	// ErrStuck reports that a host answers but did not end its run when asked to. Another
	// attempt would take as long and end the same way.
	ErrStuck = errors.New("a run does not end")
)

const (
	// slack is how long beyond the expected end of a run the hosts keep the setting without
	// any contact.
	slack = 30 * time.Second
	// openingTime is how long opening connections takes at most, on hosts with the usual
	// patience.
	openingTime = 30 * time.Second
	// keepAlive is how often the deadline is extended if one is not enough.
	keepAlive = 10 * time.Second
	// overtime is how long beyond the plan an end may take to complete before the run is
	// stopped.
	overtime = 15 * time.Second
)

// Spec is one run.
type Spec struct {
	Number, Block, Position, Attempt int // as in model.Run
	// Setting is applied: assignments with a host on that host, the others to Flow.
	Setting model.Setting
	// Held are the assignments of Setting that all runs of its group share: the runs around
	// it with the same assignments. They are applied before the group's first run only.
	Held []model.Assignment
	// Hold, if not 0, says that another run of the group begins within that time. If this run
	// is valid its setting stays until the next run, which must assign the same settings of
	// hosts, or until Release. A group has no hooks, and its settings have no commands: those
	// cannot be undone one by one.
	Hold time.Duration
	// Hooks are commands around the run, whatever its setting: each host runs its own while
	// the setting is in force, and undoes it before the setting. A failed hook makes the run
	// invalid.
	Hooks  []model.Assignment
	Flow   model.Flow    // before the setting's own flow knobs
	Settle time.Duration // between applying and measuring
	// Tentative makes a run invalid if a host does not accept its setting, for example for
	// lack of rights: it is one idea of several. Otherwise that error means that further
	// attempts cannot succeed either.
	Tentative bool
	// EqualLoad says that Flow is limited to the goodput of the block's baseline: a valid run
	// gets the state model.RunEqualLoad.
	EqualLoad bool
	// Connector opens the data connections; the other end accepts them. "" uses the runner's
	// Path.
	Connector model.Host
}

// Runner does runs on two agents, one at a time.
type Runner struct {
	ends [2]*session.Client // near, far
	busy sync.RWMutex       // read-locked by Knock
	runs *atomic.Uint64     // numbers on the wire, unique in a session
	now  func() time.Time
	// kinds judge the runs; runs of any other kind are judged by their payload.
	kinds traffic.Kinds
	held  *held // nil if nothing is held

	// Path says how data connections are made. NearHost, if set, is the near end's address as
	// the far end sees it. Both are set before the first run.
	Path     model.DataPath
	NearHost string
}

// New returns a runner for the sessions with the two ends, which the caller closes. now is the
// clock for the runs' Started and Ended; kinds judge the runs.
func New(near, far *session.Client, now func() time.Time, kinds traffic.Kinds) *Runner {
	return &Runner{ends: [2]*session.Client{near, far}, now: now, kinds: kinds, runs: new(atomic.Uint64)}
}

// Between returns a runner for two ends, which may also be ends of r or of another runner from
// r: their runs all have different numbers. Runners that share an end take turns, and none may
// hold a setting for the next run meanwhile.
func (r *Runner) Between(near, far *session.Client) *Runner {
	other := New(near, far, r.now, r.kinds)
	other.runs = r.runs
	return other
}

// attempt is one run in progress.
type attempt struct {
	*Runner
	spec    Spec
	flow    model.Flow // with the setting's flow knobs
	emit    func(model.Host, []model.Sample)
	wire    uint64             // number on the wire
	inForce []model.Assignment // applied by an earlier run of the group
	more    float64            // how much longer than usual to wait for the hosts; below 1 is usual
	mu      sync.Mutex
	run     model.Run
	changes []model.Change
}

// Run does one run. emit receives every batch of samples, from one goroutine at a time. The
// returned run is complete: its State is never RunPlanned. The changes hold the outcome of
// every knob that was touched.
//
// The error is nil for a valid run. It wraps ErrInvalid or ErrContact (and then names the host)
// if the run is invalid, and the context's error if ctx ended; any other error means that this
// setting cannot be measured on these hosts at all. In every case the hosts are restored, as
// far as they can be reached.
// reached.
func (r *Runner) Run(ctx context.Context, s Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	r.busy.Lock()
	defer r.busy.Unlock()
	a := &attempt{Runner: r, spec: s, emit: emit, wire: r.runs.Add(1), run: model.Run{
		Number: s.Number, Block: s.Block, Position: s.Position, Attempt: s.Attempt,
		Setting: s.Setting.Name, Flow: s.Flow, Started: r.now(), State: model.RunPlanned,
	}}
	for _, c := range r.ends {
		a.more = max(a.more, c.Patience())
	}
	err := a.do(ctx)
	a.finish(ctx, err)
	return a.run, a.changes, err
}

// Rehearse applies a setting of the hosts, reads it back and undoes it, without traffic: it
// shows whether the hosts accept it before hours are spent on measuring. Changes and errors are
// those of Run, except that a host's refusal is returned as it is.
func (r *Runner) Rehearse(ctx context.Context, s model.Setting) ([]model.Change, error) {
	r.busy.Lock()
	defer r.busy.Unlock()
	a := &attempt{Runner: r, spec: Spec{Setting: s}, wire: r.runs.Add(1)}
	err := a.apply(ctx)
	if err == nil {
		err = a.verify(ctx, "when it was tried")
	}
	err = a.undo(ctx, err)
	return a.changes, err
}

// do does the run and undoes its changes.
func (a *attempt) do(ctx context.Context) (err error) {
	if a.flow, err = knob.WithSetting(a.spec.Flow, a.spec.Setting, a.kinds...); err != nil {
		return err
	}
	a.run.Flow = a.flow
	connect, err := a.dataAddress()
	if err != nil {
		return err
	}
	if err := a.goesOn(ctx); err != nil {
		return err
	}
	if err := a.apply(ctx); err != nil {
		if (a.spec.Tentative || a.inForce != nil) && !errors.Is(err, ErrContact) && ctx.Err() == nil {
			err = invalid("%w", err)
		}
		return a.undo(ctx, err)
	}
	err = a.underSetting(ctx, connect)
	if err == nil && a.spec.Hold > 0 {
		if err = a.hold(ctx); err == nil {
			return nil
		}
	}
	return a.undo(ctx, err)
}

// underSetting does the part of the run during which the setting is in force.
func (a *attempt) underSetting(ctx context.Context, connect address) error {
	if err := a.verify(ctx, "before the run"); err != nil {
		return err
	}
	stop := a.keepSetting(ctx)
	defer stop()
	if err := wait(ctx, a.spec.Settle); err != nil {
		return err
	}
	if err := a.measure(ctx, connect); err != nil {
		return err
	}
	if err := a.verify(ctx, "after the run"); err != nil {
		return err
	}
	return a.judge()
}

// finish stores in the run how it ended.
func (a *attempt) finish(ctx context.Context, err error) {
	a.run.Ended = a.now()
	switch {
	case err == nil:
		a.run.State = model.RunValid
	case ctx.Err() != nil:
		a.run.State, a.run.Reason = model.RunInterrupted, "interrupted"
		return
	default:
		a.run.State, a.run.Reason = model.RunInvalid, err.Error()
		a.run.LostContact = errors.Is(err, ErrContact) && !errors.Is(err, ErrGreedy)
	}
	if a.spec.EqualLoad {
		a.run.State = model.RunEqualLoad
		if err != nil {
			a.run.Values = nil // a failed one has no values, and breaks no block
		}
	}
}

// invalid returns an error that wraps ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// touched returns the clients of the hosts that the setting or a hook changes.
func (a *attempt) touched() []*session.Client {
	var out []*session.Client
	for _, c := range a.ends {
		if len(of(c.Host(), a.spec.Setting.Assignments)) > 0 || len(of(c.Host(), a.spec.Hooks)) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// of returns the assignments for host h.
func of(h model.Host, all []model.Assignment) []model.Assignment {
	return slices.DeleteFunc(slices.Clone(all), func(as model.Assignment) bool { return as.Host != h })
}

// each calls f for every client concurrently and joins the errors.
func each(clients []*session.Client, f func(c *session.Client) error) error {
	errs := make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() { errs[i] = panics.Call(func() error { return f(c) }) })
	}
	all.Wait()
	return join(errs...)
}

// patience returns usual, or longer for hosts that are known to be slow.
func (a *attempt) patience(usual time.Duration) time.Duration {
	return time.Duration(float64(usual) * max(1, a.more))
}

// deadline returns how long the hosts shall keep the setting, and whether that is enough for
// the whole run: the length of a flow with a byte count is unknown, and a deadline has an upper
// bound.
func (a *attempt) deadline() (within time.Duration, enough bool) {
	within = a.spec.Settle + a.patience(openingTime) + a.flow.Length() + a.patience(overtime) + a.patience(slack)
	for _, as := range slices.Concat(a.spec.Setting.Assignments, a.spec.Hooks) {
		within += as.Command.Limit
	}
	return min(within, session.MaxDuration), a.flow.Duration > 0 && within <= session.MaxDuration
}

// apply changes both hosts. If one fails, undo restores both.
func (a *attempt) apply(ctx context.Context) error {
	within, _ := a.deadline()
	apply := func(c *session.Client, mine []model.Assignment) error {
		if len(mine) == 0 {
			return nil
		}
		changes, err := c.Apply(ctx, mine, within)
		a.record(changes)
		return err
	}
	err := each(a.touched(), func(c *session.Client) error {
		mine := a.mine(c)
		if len(mine) == 0 && a.inForce != nil {
			return c.Extend(ctx, within) // as Apply does
		}
		return apply(c, mine)
	})
	if err != nil {
		return err
	}
	err = each(a.touched(), func(c *session.Client) error { return apply(c, of(c.Host(), a.spec.Hooks)) }) // after both hosts have their setting
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrContact) || errors.Is(err, session.ErrRefused) {
		return err
	}
	return invalid("the hook before the run failed: %w", err)
}

// record stores the outcome of knobs: the last one for each counts.
func (a *attempt) record(changes []model.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		c.Run = a.spec.Number
		i := slices.IndexFunc(a.changes, func(o model.Change) bool {
			return o.Host == c.Host && o.Knob == c.Knob && o.Native == c.Native
		})
		if i < 0 {
			a.changes = append(a.changes, c)
			continue
		}
		a.changes[i] = c
	}
}

func (a *attempt) warn(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := fmt.Sprintf(format, args...); !slices.Contains(a.run.Warnings, w) {
		a.run.Warnings = append(a.run.Warnings, w)
	}
}

// verify reads the setting back.
func (a *attempt) verify(ctx context.Context, when string) error {
	err := each(a.touched(), func(c *session.Client) error { return c.Verify(ctx) })
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrContact) {
		return err
	}
	return invalid("a knob did not read back as set %s: %w", when, err)
}

// keepSetting extends the deadline of a run that may last longer, until the returned function is
// called.
func (a *attempt) keepSetting(ctx context.Context) (stop func()) {
	within, enough := a.deadline()
	if enough || len(a.touched()) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	// If this fails the hosts undo at their deadline, which verify detects.
	keeping.Go(panics.From(func(error) {}, func() {
		for wait(ctx, keepAlive) == nil {
			// A host that is out of reach undoes the setting, which verify detects later.
			_ = each(a.touched(), func(c *session.Client) error { return c.Extend(ctx, within) })
		}
	}))
	return func() {
		cancel()
		keeping.Wait()
	}
}

// undo restores both hosts, even if ctx has ended, and joins its errors with before. It takes
// as long as the sessions allow for the settings, by their number and kind. A host that is out
// of reach undoes by itself.
func (a *attempt) undo(ctx context.Context, before error) error {
	ctx = context.WithoutCancel(ctx)
	err := each(a.touched(), func(c *session.Client) error {
		changes, err := c.Undo(ctx)
		a.record(changes)
		if errors.Is(err, ErrContact) && (errors.Is(before, ErrContact) || errors.Is(before, ErrGreedy)) {
			a.warn("%s is out of reach: its agent undoes the setting by itself", c.Name())
			return nil
		}
		return err
	})
	for _, c := range a.changes {
		if c.State == model.ChangeForeign || c.State == model.ChangeFailed {
			a.warn("%s of %s was not put back (%s): %s", c.Knob, a.client(c.Host).Name(), c.State, c.Detail)
		}
	}
	return join(before, err)
}

// join is errors.Join with the messages in one line.
func join(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case all == nil:
			all = err
		case err != nil:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

func (a *attempt) client(h model.Host) *session.Client {
	if h == a.ends[0].Host() {
		return a.ends[0]
	}
	return a.ends[1]
}

// token returns the secret of a run's data connections.
func token() (t [session.TokenBytes]byte) {
	_, _ = rand.Read(t[:]) // never fails (crypto/rand since Go 1.24)
	return t
}

// wait waits for d, or returns the context's error.
func wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
