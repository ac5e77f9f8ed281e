// Package agent measures and changes one host for one controller.
//
// An agent lives as long as its session. Whatever ends the connection, a
// controller that hangs up, a cut cable or a broken protocol, leaves the host
// as it was: the test is closed, the knobs are undone.
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

// Knobs changes settings of the host. The calls do not overlap. An agent without
// any measures only.
type Knobs interface {
	// Apply changes knobs, all or none, and undoes them by itself after so long.
	Apply(ctx context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error)
	// Verify fails unless every applied knob reads back as it was set.
	Verify(ctx context.Context) error
	// Extend moves the deadline to d from now.
	Extend(ctx context.Context, d time.Duration) error
	// Undo puts back what was changed; without a change it does nothing.
	Undo(ctx context.Context) ([]model.Change, error)
	// Read reads current values; what does not exist is left out.
	Read(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error)
	// Close ends the owner of the knobs.
	Close() error
}

// Keeper keeps changes of settings beyond the session that made them.
type Keeper interface {
	// Pending names what Knobs has applied, "" for nothing.
	Pending() string
	// Confirm keeps what the Knobs of another agent on this host has applied. It
	// wraps session.ErrState when that went back before.
	Confirm(ctx context.Context, transaction string) error
	// Revert undoes what was confirmed on this host: one transaction, or with "" all
	// that ever was.
	Revert(ctx context.Context, transaction string) ([]model.Change, error)
}

// Config is what an agent can do. Version and Engines are required.
type Config struct {
	Version string // linerate's
	Engines []engine.Engine
	// Facts reads the host; peer is the address of the other end's data path, or
	// "". nil: unknown.
	Facts func(ctx context.Context, peer string) (model.HostFacts, error)
	// Catalogue is that of the settings.
	Catalogue *knob.Index
	// Knobs changes the host. nil: this agent measures only, and NoKnobs, where
	// given, is the sentence that says why.
	Knobs   Knobs
	NoKnobs string
	// Rights, if set, returns why this process has not the right to change settings, nil
	// where it has.
	Rights func() error
	// Commands lets the controller have commands of its own run on this host, with the
	// rights of Knobs, which it needs. Only for a controller that could run them anyway,
	// or where the owner of the host said so.
	Commands bool
	// Recovered, where given, waits until what a session before left is put back,
	// and tells what that was.
	Recovered func(ctx context.Context) ([]model.Change, error)
	// Keeper, where given, keeps changes. It needs Knobs.
	Keeper Keeper
	// Origins, where given, tells which permanent files set knobs.
	Origins func(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error)
	// Files, where given, keeps settings over a restart. It needs Knobs.
	Files *Files
	// ByHand, where given, returns what does by hand what Keeper, Origins and Files would:
	// an agent with more rights. It needs Knobs, which are of the same agent.
	ByHand func(ctx context.Context) (session.Settings, error)
	// LinkRate, where given, is the rate of the link that leads to the peer, as
	// far as it is known after Facts was called.
	LinkRate func() fact.Of[units.BitRate]
	// Purge, where given, makes the host forget what TCP learnt from earlier
	// runs. It is called before the connections of each run are opened; its
	// error is a warning of the run, not the end of it.
	Purge func(ctx context.Context) error
	// Watch, where given, samples the host's counters beside each run: it emits
	// until stop is called, which returns how far they moved.
	Watch func(ctx context.Context, h model.Host, interval time.Duration, emit func([]model.Sample)) (stop func() []model.Counter, err error)
	// Runs, where given, is told of each run whose traffic begins; ended, which it
	// returns, of how that went: the report is that of this end, as far as there is one.
	Runs func(f model.Flow) (ended func(report model.EndReport, err error))
	// Sampled, where given, is told what this end sees of a run that Runs was told of, as
	// intervals end. It must neither wait nor keep the samples.
	Sampled func([]model.Sample)
	// Admit, where given, decides on a controller, and what it gets. It may change
	// c, which is this session's own: what a controller may depends on who it is.
	// Its error is what the controller reads; it should wrap session.ErrRefused or
	// session.ErrBusy.
	Admit  func(ctx context.Context, h session.Hello, c *Config) (Grant, error)
	Limits Limits
	// Discreet tells the controller only what everybody may know: see
	// model.HostFacts.Public and discreet.go.
	Discreet bool
	// MayConnect, where given, refuses addresses, host:port, that the controller
	// wants data connections to go to.
	MayConnect func(addr string) error
	// Data is where data connections are accepted; nil is a port of its own for
	// each run.
	Data     data.Source
	Timeouts session.Timeouts
	// Prepare is how long the connections of a run may take to open, and a run
	// that is ready to be started. Default 30 s. A controller that is known may ask for
	// more, see session.Preparation.
	Prepare time.Duration
	// Undo is how long taking back what was confirmed may take. Default
	// knob.MaxUndoTime: how much that is only the host knows. For what this session
	// applied its controller says it, see session.Terms.
	Undo time.Duration
}

// Grant is what an admitted controller gets.
type Grant struct {
	// Share is its part of the server's budget; nil is no bound. Whoever opened it
	// closes it, after Serve has returned.
	Share *budget.Share
	// Over, if not nil, is closed when the controller loses its right to the session. The
	// agent tells it why, ends its runs at once and its session soon after.
	Over <-chan struct{}
}

// Default times; see Config.
const (
	defaultPrepare = 30 * time.Second
	defaultUndo    = knob.MaxUndoTime
)

// Serve is the agent on conn, until conn or ctx ends. It returns when nothing of
// the session is left on the host; an error says what is, or wraps session.ErrVersion where the
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
	runs []*run // prepared, several for no more than to see whether their connections open; or one that has started
	over error  // why there are no more runs

	knobs   sync.Mutex // one call of Knobs at a time
	changed bool       // Apply was called and not undone
	held    []model.KnobID
	undoing time.Duration // how long taking them back may take
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

// Facts reads the host.
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

// Recovered tells what was put back at the start.
func (a *agent) Recovered(ctx context.Context) ([]model.Change, error) {
	if a.Config.Recovered == nil {
		return nil, nil
	}
	return a.Config.Recovered(ctx)
}

// withKnobs does f while no other call uses the knobs.
func (a *agent) withKnobs(f func(k Knobs) error) error {
	if err := a.mayTune(); err != nil {
		return err
	}
	a.knobs.Lock()
	defer a.knobs.Unlock()
	return f(a.Knobs)
}

// mayTune refuses where this agent measures only.
func (a *agent) mayTune() error {
	if a.Knobs != nil {
		return nil
	}
	return fmt.Errorf("%w: %s", session.ErrRefused, a.noKnobs())
}

// noKnobs is why this agent measures only.
func (a *agent) noKnobs() string {
	return cmp.Or(a.NoKnobs, "this agent measures only: it changes no settings")
}

// mayRun refuses commands where the owner of this host did not allow them.
func (a *agent) mayRun(as []model.Assignment) error {
	if i := slices.IndexFunc(as, model.Assignment.IsCommand); i >= 0 && !a.Commands {
		return fmt.Errorf("%w: %s: this host runs no commands of its controller, unless its owner starts linerate agent, or serve --allow-tune, with --allow-commands",
			session.ErrRefused, as[i].Knob)
	}
	return nil
}

// ReadKnobs reads some knobs.
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
		a.changed = true // before the first write, so that a failure half way is undone too
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

// Verify compares knobs with what was set.
func (a *agent) Verify(ctx context.Context) error {
	return a.withKnobs(func(k Knobs) error { return k.Verify(ctx) })
}

// Extend moves the deadline.
func (a *agent) Extend(ctx context.Context, d time.Duration) error {
	return a.withKnobs(func(k Knobs) error { return k.Extend(ctx, d) })
}

// Undo puts back what Apply changed. It is not cut short by a controller that
// hangs up.
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

// undo is Undo for a caller that holds the knobs.
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

// Close ends what the session did to the host.
func (a *agent) Close(ctx context.Context) ([]model.Change, error) {
	for _, r := range a.current() {
		a.drop(r)
	}
	return a.Undo(ctx)
}

// finish leaves the host as it was, after the last call has returned.
func (a *agent) finish(ctx context.Context) error {
	_, err := a.Close(ctx)
	if a.Knobs != nil {
		err = errors.Join(err, a.Knobs.Close())
	}
	return err
}
