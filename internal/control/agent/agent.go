// Package agent measures and changes one host for one controller.
//
// An agent lives as long as its session. However the session ends (the controller hangs up,
// a cable is cut, the protocol breaks), the agent closes the test and undoes the knobs, so
// that the host is as it was.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
)

// Knobs changes settings of the host. Calls do not overlap. An agent without Knobs only
// measures.
type Knobs interface {
	// Apply changes all knobs or none, and undoes them by itself after within.
	Apply(ctx context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error)
	// Verify fails unless every applied knob reads back as it was set.
	Verify(ctx context.Context) error
	// Extend moves the deadline to d from now.
	Extend(ctx context.Context, d time.Duration) error
	// Undo restores what was changed; without a change it does nothing.
	Undo(ctx context.Context) ([]model.Change, error)
	// Read returns current values and omits knobs that do not exist.
	Read(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error)
	// Close ends the owner of the knobs.
	Close() error
}

// Keeper keeps changes after the session that made them.
type Keeper interface {
	// Pending returns the transaction that Knobs has applied, "" for none.
	Pending() string
	// Confirm keeps what another agent's Knobs applied on this host. It wraps
	// session.ErrState if that was already undone.
	Confirm(ctx context.Context, transaction string) error
	// Revert undoes what was confirmed on this host: one transaction, or with "" all of them.
	Revert(ctx context.Context, transaction string) ([]model.Change, error)
}

// Config configures an agent. Version and Engines are required.
type Config struct {
	Version string // linerate's
	Engines []engine.Engine
	// Facts reads the host; peer is the address of the other end's data path, or
	// "". nil: unknown.
	Facts func(ctx context.Context, peer string) (model.HostFacts, error)
	// Catalogue is the catalogue of settings.
	Catalogue *knob.Index
	// Knobs changes the host. If it is nil the agent only measures, and NoKnobs, if set, is
	// the sentence that says why.
	Knobs   Knobs
	NoKnobs string
	// Rights, if set, returns why this process may not change settings, or nil if it may.
	Rights func() error
	// Commands lets the controller run commands of its own on this host, with the rights of
	// Knobs, which it needs. Set it only for a controller that could run them anyway, or if
	// the owner of the host allowed it.
	Commands bool
	// Recovered, if set, waits until changes left by an earlier session are undone, and
	// returns them.
	Recovered func(ctx context.Context) ([]model.Change, error)
	// Keeper, if set, keeps changes. It needs Knobs.
	Keeper Keeper
	// Origins, if set, returns which permanent files set knobs.
	Origins func(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error)
	// Files, if set, keeps settings across a restart. It needs Knobs.
	Files *Files
	// ByHand, if set, returns an agent with more rights that replaces Keeper, Origins and
	// Files for manual changes. It needs Knobs, which belong to that same agent.
	ByHand func(ctx context.Context) (session.Settings, error)
	// LinkRate, if set, returns the rate of the link towards the peer, if it is known after
	// a call of Facts.
	LinkRate func() fact.Of[units.BitRate]
	// Purge, if set, makes the host forget what TCP learnt in earlier runs. The agent calls
	// it before it opens the connections of a run; its error is a warning of the run.
	Purge func(ctx context.Context) error
	// Watch, if set, samples the host's counters during each run. It emits samples until
	// the caller calls stop, which returns how far the counters moved.
	Watch func(ctx context.Context, h model.Host, interval time.Duration, emit func([]model.Sample)) (stop func() []model.Counter, err error)
	// Runs, if set, is called when a run's traffic begins. The agent calls the returned
	// function with the outcome: this end's report, if there is one.
	Runs func(f model.Flow) (ended func(report model.EndReport, err error))
	// Sampled, if set, receives this end's samples of a run that Runs was called for, as
	// intervals end. It must neither block nor keep the samples.
	Sampled func([]model.Sample)
	// Admit, if set, decides whether to accept a controller and what it gets. It may change
	// c, which belongs to this session: permissions depend on the controller. Its error goes
	// to the controller; it should wrap session.ErrRefused or session.ErrBusy.
	Admit  func(ctx context.Context, h session.Hello, c *Config) (Grant, error)
	Limits Limits
	// Discreet limits what the controller learns to public facts: see
	// model.HostFacts.Public and discreet.go.
	Discreet bool
	// MayConnect, if set, returns an error for an address, host:port, that the controller
	// may not have data connections opened to.
	MayConnect func(addr string) error
	// Data accepts data connections; nil opens a port for each run.
	Data     data.Source
	Timeouts session.Timeouts
	// Prepare limits how long the connections of a run may take to open, and how long a
	// prepared run waits for its start. Default 30 s. A known controller may ask for more,
	// see session.Preparation.
	Prepare time.Duration
	// Undo limits how long undoing a confirmed change may take. Default knob.MaxUndoTime:
	// only the host knows how long it needs. For changes of this session the controller sets
	// the limit, see session.Terms.
	Undo time.Duration
}

// Grant is what an admitted controller gets.
type Grant struct {
	// Share is its part of the server's budget; nil is unlimited. The function that opened
	// it closes it, after Serve has returned.
	Share *budget.Share
	// Over, if not nil, is closed when the controller loses its right to the session. The
	// agent then sends the reason, ends its runs at once and its session soon after.
	Over <-chan struct{}
}

// Default times; see Config.
const (
	defaultPrepare = 30 * time.Second
	defaultUndo    = knob.MaxUndoTime
)

// Serve runs the agent on conn until conn or ctx ends. It returns when nothing of the session
// is left on the host; an error names what is left, or wraps session.ErrVersion if the
// controller speaks another protocol and was refused.
func Serve(ctx context.Context, conn net.Conn, c Config) error {
	if c.Data == nil {
		c.Data = data.Ephemeral{}
	}
	if c.Prepare <= 0 {
		c.Prepare = defaultPrepare
	}
	if c.Undo <= 0 {
		c.Undo = defaultUndo
	}
	base, cancel := context.WithCancel(ctx)
	defer cancel()
	life, end := context.WithCancel(ctx)
	defer end()
	a := &agent{Config: c, base: base, end: end}
	err := session.Serve(life, conn, c.Version, a, c.Timeouts)
	cancel()
	return errors.Join(err, a.finish(context.WithoutCancel(ctx)))
}

// agent is the service of one session.
type agent struct {
	Config
	base context.Context // of runs, which outlive the call that began them
	end  func()          // of the session
	// Written by Hello, before any other call.
	host  model.Host
	grant Grant

	mu   sync.Mutex
	runs []*run // prepared (several only to see whether their connections open), or one that has started
	over error  // why no more runs are accepted

	knobs   sync.Mutex // one call of Knobs at a time
	changed bool       // Apply was called and not undone
	held    []model.KnobID
	undoing time.Duration // limit of undoing the changes
}

// Hello accepts or refuses the controller.
func (a *agent) Hello(ctx context.Context, h session.Hello) (session.Welcome, error) {
	if a.Admit != nil {
		grant, err := a.Admit(ctx, h, &a.Config)
		if err != nil {
			return session.Welcome{}, err
		}
		a.grant = grant
		a.live(a.end)
	}
	a.host = h.Host
	w := session.Welcome{Charge: a.chargeMemory}
	switch {
	case a.Knobs == nil:
		w.NoSettings = a.noKnobs()
	case a.Rights != nil:
		if err := a.Rights(); err != nil {
			w.NoSettings = err.Error()
		}
	}
	return w, nil
}

// Facts returns the host's facts.
func (a *agent) Facts(ctx context.Context, peer string) (model.HostFacts, error) {
	if a.Config.Facts == nil {
		return model.HostFacts{}, fmt.Errorf("this agent reads no facts: %w", errors.ErrUnsupported)
	}
	a.mu.Lock()
	over := a.over
	a.mu.Unlock()
	if over != nil {
		return model.HostFacts{}, over
	}
	f, err := a.Config.Facts(ctx, peer)
	f.Host, f.Version = a.host, a.Version
	if a.Discreet {
		f = f.Public()
	}
	return f, a.tell(err)
}

// Recovered returns the changes that were undone at the start.
func (a *agent) Recovered(ctx context.Context) ([]model.Change, error) {
	if a.Config.Recovered == nil {
		return nil, nil
	}
	return a.Config.Recovered(ctx)
}

// withKnobs calls f while no other call uses the knobs.
func (a *agent) withKnobs(f func(k Knobs) error) error {
	if err := a.mayTune(); err != nil {
		return err
	}
	a.knobs.Lock()
	defer a.knobs.Unlock()
	return f(a.Knobs)
}

// mayTune returns an error if this agent only measures.
func (a *agent) mayTune() error {
	if a.Knobs != nil {
		return nil
	}
	return fmt.Errorf("%w: %s", session.ErrRefused, a.noKnobs())
}

// noKnobs returns why this agent only measures.
func (a *agent) noKnobs() string {
	return cmp.Or(a.NoKnobs, "this agent measures only: it changes no settings")
}

// mayRun returns an error for commands that the owner of this host did not allow.
func (a *agent) mayRun(as []model.Assignment) error {
	if i := slices.IndexFunc(as, model.Assignment.IsCommand); i >= 0 && !a.Commands {
		return fmt.Errorf("%w: %s: this host runs no commands of its controller, unless its owner starts linerate agent, or serve --allow-tune, with --allow-commands",
			session.ErrRefused, as[i].Knob)
	}
	return nil
}

// ReadKnobs returns the values of some knobs.
func (a *agent) ReadKnobs(ctx context.Context, ids []model.KnobID) (m map[model.KnobID]fact.Of[string], err error) {
	err = a.withKnobs(func(k Knobs) error {
		m, err = k.Read(ctx, ids)
		return err
	})
	return m, err
}

// Apply changes knobs.
func (a *agent) Apply(ctx context.Context, as []model.Assignment, t session.Terms) (cs []model.Change, err error) {
	err = a.withKnobs(func(k Knobs) error {
		if err := a.mayRun(as); err != nil {
			return err
		}
		a.changed = true // before the first write, so that a partial failure is undone too
		for _, c := range as {
			a.held = append(a.held, c.Knob)
		}
		if a.undoing = max(a.undoing, t.Undo); t.Undo == 0 {
			a.undoing = max(a.undoing, a.Catalogue.UndoTime(a.held...))
		}
		cs, err = k.Apply(ctx, as, t.Within)
		return err
	})
	return cs, err
}

// Verify compares knobs with their applied values.
func (a *agent) Verify(ctx context.Context) error {
	return a.withKnobs(func(k Knobs) error { return k.Verify(ctx) })
}

// Extend moves the deadline.
func (a *agent) Extend(ctx context.Context, d time.Duration) error {
	return a.withKnobs(func(k Knobs) error { return k.Extend(ctx, d) })
}

// Undo undoes Apply. A controller that hangs up does not interrupt it.
func (a *agent) Undo(ctx context.Context) (cs []model.Change, err error) {
	if a.Knobs == nil {
		return nil, nil
	}
	err = a.withKnobs(func(k Knobs) error {
		cs, err = a.undo(ctx, k)
		return err
	})
	return cs, err
}

// undo is Undo for a caller that holds a.knobs.
func (a *agent) undo(ctx context.Context, k Knobs) ([]model.Change, error) {
	if !a.changed {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.undoing)
	defer cancel()
	cs, err := k.Undo(ctx)
	if err != nil {
		return cs, fmt.Errorf("undo knobs: %w", err)
	}
	a.changed, a.held, a.undoing = false, nil, 0
	return cs, nil
}

// Close ends the runs and undoes the session's changes.
func (a *agent) Close(ctx context.Context) ([]model.Change, error) {
	for _, r := range a.current() {
		a.drop(r)
	}
	return a.Undo(ctx)
}

// finish restores the host, after the last call has returned.
func (a *agent) finish(ctx context.Context) error {
	_, err := a.Close(ctx)
	if a.Knobs != nil {
		err = errors.Join(err, a.Knobs.Close())
	}
	return err
}
