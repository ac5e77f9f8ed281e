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
	"linerate/internal/rescue"
)

// What a run's error may wrap. The run itself says the same in State, Reason
// and LostContact.
var (
	// ErrInvalid says that the run was done, or begun, and does not count
	// (statistics.md 1, rule 5). Another try may succeed.
	ErrInvalid = errors.New("run is invalid")
	// ErrContact says that a host went away. The sessions are of no more use.
	ErrContact = session.ErrLost
	// ErrGreedy says that a host sent more than its run can have. The session with
	// it is over, and another would end no better.
	ErrGreedy = session.ErrGreedy
	// ErrStuck says that a host that answers did not end its run when it was told
	// to. Another try would cost as long, and end no better.
	ErrStuck = errors.New("a run does not end")
)

const (
	// slack is how much longer than the run is expected to take the hosts keep
	// the setting without hearing anything.
	slack = 30 * time.Second
	// openingTime is what opening connections is expected to take at most, on hosts that
	// are waited for as usual.
	openingTime = 30 * time.Second
	// keepAlive is how often the deadline moves where one is not enough.
	keepAlive = 10 * time.Second
	// overtime is how much longer than planned an end may take to say that it
	// is complete, before the run is stopped.
	overtime = 15 * time.Second
)

// Spec is one run.
type Spec struct {
	Number, Block, Position, Attempt int // as in model.Run
	// Setting is applied: assignments with a host to it, those without to Flow.
	Setting model.Setting
	// Held are the assignments of Setting that all runs of its group share, which is those
	// around it that have the same. They are applied before its first run only.
	Held []model.Assignment
	// Hold, where it is not 0, says that another run of the group begins after at most
	// that long: where this one is valid its setting stays, until the next run, which
	// must assign the same settings of hosts, or Release. A group has no hooks, and its
	// settings no commands: those could not be taken back one by one.
	Hold time.Duration
	// Hooks are commands that stand around the run, whatever its setting: each host runs
	// its own when the setting holds, and takes it back before the setting. One that
	// fails makes the run invalid.
	Hooks  []model.Assignment
	Flow   model.Flow    // before the setting's own flow knobs
	Settle time.Duration // between applying and measuring
	// Tentative is set where a setting that a host does not take, since it lacks the
	// right, say, makes the run invalid: it is one idea of several. Else that error is
	// none that another run could mend.
	Tentative bool
	// EqualLoad says that Flow is held to the goodput of the block's baseline: where the run
	// is valid its state is model.RunEqualLoad.
	EqualLoad bool
	// Connector opens the data connections; the other end accepts them. "" is that of
	// the runner's Path.
	Connector model.Host
}

// Runner does runs on two agents, one at a time.
type Runner struct {
	ends [2]*session.Client // near, far
	busy sync.RWMutex       // held for reading by those who only knock
	runs *atomic.Uint64     // numbers on the wire, unique in a session
	now  func() time.Time
	// kinds judge the runs; of others the payload does.
	kinds traffic.Kinds
	held  *held // nil for nothing

	// Path is how data connections are made. NearHost, where given, is the address of
	// the near end as the far one sees it. Both are set before the first run.
	Path     model.DataPath
	NearHost string
}

// New returns a runner for the sessions with the two ends, which stay the
// caller's to close. now is the clock of the runs' Started and Ended; kinds judge
// them.
func New(near, far *session.Client, now func() time.Time, kinds traffic.Kinds) *Runner {
	return &Runner{ends: [2]*session.Client{near, far}, now: now, kinds: kinds, runs: new(atomic.Uint64)}
}

// Between returns a runner for two ends of which either may be an end of r too, or of another
// runner that r returned: the runs of all of them have different numbers. Runners that share
// an end take turns, and no run of one may be held for the other.
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
	inForce []model.Assignment // what a run before it has applied, for the group
	more    float64            // how much longer than usual hosts are waited for; below 1 is usual
	mu      sync.Mutex
	run     model.Run
	changes []model.Change
}

// Run does one run. emit is told every batch of samples, from one goroutine at
// a time. The run that it returns is complete in the sense that State is never
// RunPlanned; the changes say what became of every knob that was touched.
//
// The error is nil for a valid run. It wraps ErrInvalid or ErrContact (and then
// names the host) where a run is invalid, and the context's error where ctx
// ended; anything else means that this setting cannot be measured on these
// hosts at all. The hosts are undone in every case, as far as they can be
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

// Rehearse applies a setting of the hosts, reads it back and takes it back, without
// traffic: whether they take it is known before hours are measured. The changes are those
// of Run, and so are the errors, but that one of a host that does not take it is its own.
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

// do does everything, and undoes what it did.
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

// underSetting does what happens while the setting holds.
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

// finish says in the run how it ended.
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
			a.run.Values = nil // one that failed says nothing, and breaks no block
		}
	}
}

// invalid makes an error that wraps ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// touched are the clients of the hosts that the setting or a hook changes.
func (a *attempt) touched() []*session.Client {
	var out []*session.Client
	for _, c := range a.ends {
		if len(of(c.Host(), a.spec.Setting.Assignments)) > 0 || len(of(c.Host(), a.spec.Hooks)) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// of returns the assignments to host h.
func of(h model.Host, all []model.Assignment) []model.Assignment {
	return slices.DeleteFunc(slices.Clone(all), func(as model.Assignment) bool { return as.Host != h })
}

// each calls f for every client at the same time and joins the errors.
func each(clients []*session.Client, f func(c *session.Client) error) error {
	errs := make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() { errs[i] = rescue.Call(func() error { return f(c) }) })
	}
	all.Wait()
	return join(errs...)
}

// patience is usual, or longer where the hosts are slow ones, for which people wait.
func (a *attempt) patience(usual time.Duration) time.Duration {
	return time.Duration(float64(usual) * max(1, a.more))
}

// deadline is how long the hosts are told to keep the setting, and whether that
// is enough for the whole run: the length of a flow with a byte count is not
// known, and a deadline has an upper bound.
func (a *attempt) deadline() (within time.Duration, enough bool) {
	within = a.spec.Settle + a.patience(openingTime) + a.flow.Length() + a.patience(overtime) + a.patience(slack)
	for _, as := range slices.Concat(a.spec.Setting.Assignments, a.spec.Hooks) {
		within += as.Command.Limit
	}
	return min(within, session.MaxDuration), a.flow.Duration > 0 && within <= session.MaxDuration
}

// apply changes both hosts. When it fails on one of them, undo puts both back.
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
	err = each(a.touched(), func(c *session.Client) error { return apply(c, of(c.Host(), a.spec.Hooks)) }) // when both hosts are as they are to be measured
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrContact) || errors.Is(err, session.ErrRefused) {
		return err
	}
	return invalid("the hook before the run failed: %w", err)
}

// record keeps what became of knobs: the last word on each counts.
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

// keepSetting moves the deadline of a run that may last longer, until the
// returned function is called.
func (a *attempt) keepSetting(ctx context.Context) (stop func()) {
	within, enough := a.deadline()
	if enough || len(a.touched()) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	// Where it fails the hosts undo at their deadline, which verify sees too.
	keeping.Go(rescue.From(func(error) {}, func() {
		for wait(ctx, keepAlive) == nil {
			// A host that cannot be told undoes, which verify sees afterwards.
			_ = each(a.touched(), func(c *session.Client) error { return c.Extend(ctx, within) })
		}
	}))
	return func() {
		cancel()
		keeping.Wait()
	}
}

// undo puts both hosts back, also when ctx has ended, and returns what went
// wrong before together with what went wrong now. It takes as long as the sessions
// give the settings, by their number and kind. A host that is out of reach undoes
// by itself.
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

// join is errors.Join in one line.
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

// token is the secret of a run's data connections.
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
