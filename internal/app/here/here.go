// Package here is this machine as an agent: it joins the knobs, facts, files and
// engines of the machine that this process runs on to a session.
package here

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/agent"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/pipe"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/facts"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	table "linerate/internal/host/knob/route"
	"linerate/internal/host/manager"
	"linerate/internal/host/path"
	"linerate/internal/host/purge"
	"linerate/internal/host/watch"
	"linerate/internal/host/watchdog"
)

// Options are what an agent is told of its host. The zero value leaves everything
// to be found out.
type Options struct {
	State       string        // directory of the journal; "" is the system's
	Link        string        // interface that settings of a link act on; "" is the one that leads to the peer
	Rate        units.BitRate // of that link, where the system does not know it; 0 for unknown
	Commands    bool          // the controller may have commands of its own run here, see agent.Config
	AtBoot      bool          // a job at the next start of the machine puts back what is open then
	Acknowledge bool          // a person has seen that the journal was damaged
}

// Machine joins this machine's knobs to an agent. Reading needs no process; the
// watchdog is started by the first change. It is an agent.Knobs and an agent.Keeper.
type Machine struct {
	env  app.Env
	o    Options
	talk io.Writer // of the watchdog, see app.HostSaid

	recovery chan struct{}  // closed when recovery has ended; nil without one
	found    []model.Change // by the recovery; valid after it

	mu       sync.Mutex
	link     string // interface of the data path
	route    string // destination of the route to the peer, see knob.Host
	rate     fact.Of[units.BitRate]
	watchdog *watchdog.Client
}

// New returns this machine.
func New(env app.Env, o Options) *Machine {
	m := &Machine{env: env, o: o, link: o.Link, talk: Lines(env, "")}
	if o.Rate > 0 {
		m.rate = fact.Known(o.Rate, "command line")
	}
	return m
}

// Catalogue is that of the settings.
func (m *Machine) Catalogue() *knob.Index { return m.env.Catalogue }

// Serve is the agent of this machine on conn, until that ends. What a killed agent
// left behind goes back before anything is read or changed; who comes to confirm
// what another agent has applied does not wait for it.
func Serve(ctx context.Context, env app.Env, conn net.Conn, o Options) error {
	acknowledge(env, o)
	TellJournal(env, o.State)
	m := New(env, o)
	defer m.BeginRecovery(ctx)()
	SweepUp(env, o.State)
	c := m.Agent()
	c.Engines, c.LinkRate, c.Purge, c.Watch = Engines(env.Engines, o.State, true), m.LinkRate, purge.TCPMetrics, m.Watch
	c.Commands = o.Commands
	if err := agent.Serve(ctx, conn, c); !errors.Is(err, session.ErrVersion) { // which the controller has been told
		return err
	}
	return nil
}

// Agent is an agent that reads this machine and changes its settings, and has no
// engines.
func (m *Machine) Agent() agent.Config {
	return agent.Config{
		Version: m.env.Version, Catalogue: m.env.Catalogue, Facts: m.Facts, Knobs: m, Rights: hostknob.Rights, Keeper: m, Files: m.files(), Origins: m.Origins, Recovered: m.Recovered,
	}
}

// Dial returns the way to this machine, an agent in this process. peer is the
// address of its data path.
func Dial(env app.Env, o Options, address string) func(context.Context) (wire.Peer, error) {
	return func(ctx context.Context) (wire.Peer, error) {
		return pipe.Start(ctx, app.ThisMachine, address, func(ctx context.Context, c net.Conn) error { return Serve(ctx, env, c, o) }), nil
	}
}

// routeProbe is an address by which the way out is asked for, and to which
// nothing is sent: TEST-NET-1 of RFC 5737.
const (
	routeProbe  = "192.0.2.1"
	routeProbe6 = "2001:db8::1" // the same where there is only IPv6: RFC 3849
)

// WayOut is Facts where no peer is known: with the interface and the route that lead
// out, by the default route.
func (m *Machine) WayOut(ctx context.Context) (model.HostFacts, error) {
	f, err := m.Facts(ctx, routeProbe)
	if err == nil && !f.Interface.IsKnown() {
		return m.Facts(ctx, routeProbe6)
	}
	return f, err
}

// Open opens a session with this machine alone. The caller hangs up. What an agent
// before it had left is told.
func Open(ctx context.Context, env app.Env, o Options) (*app.Host, error) {
	to := ""
	if o.Link != "" {
		if err := LinkExists(o.Link); err != nil {
			return nil, err
		}
		to = routeProbe
	}
	h := &app.Host{Side: model.Near, Dial: Dial(env, o, "")}
	var err error
	if h.Client, err = env.Again(ctx, h); err != nil {
		return nil, err
	}
	if h.Facts, err = h.Client.Facts(ctx, to); err != nil {
		env.HangUp(h.Client)
		return nil, err
	}
	if h.Facts.Route != nil && h.Facts.Route.Interface.Or("") != o.Link {
		h.Facts.Route = nil // the way out is by another interface
	}
	if o.Link != "" {
		h.Facts.Interface = fact.Known(o.Link, "the name given") // and not that of the way out
	}
	if h.Name = h.Facts.Name; h.Name == "" {
		h.Name = app.ThisMachine
	}
	if changes, err := h.Client.Recovered(ctx); err == nil {
		for _, c := range changes {
			env.Observe(app.Recovered{Host: h.Client.Name(), Change: c})
		}
	}
	return h, nil
}

// config is what a watchdog of this machine is told.
func (m *Machine) config() watchdog.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return watchdog.Config{
		Dir: m.o.State, Version: m.env.Version, Host: m.host(), Command: append(slices.Clone(m.env.Self), "watchdog"),
		AtBoot: m.o.AtBoot, Root: m.env.Root, Talk: m.talk, After: m.env.AfterStep, Keeps: m.keeps,
	}
}

// host is this machine as knobs see it, for a caller that holds mu.
func (m *Machine) host() hostknob.Host {
	return hostknob.Host{Interface: m.link, Route: m.route, Index: m.env.Catalogue}
}

// BeginRecovery puts back what a dead watchdog left, while the caller goes on.
// The function returned ends it.
func (m *Machine) BeginRecovery(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	m.recovery = make(chan struct{})
	go func() {
		defer close(m.recovery)
		changes, err := watchdog.Recover(ctx, m.config())
		m.found = changes
		// The watchdog tries again when something is to be changed. That another linerate is
		// at work was told while it was waited for.
		if err != nil && ctx.Err() == nil && !errors.Is(err, journal.ErrLocked) {
			Tell(m.env, err)
		}
	}()
	return func() {
		cancel()
		<-m.recovery
	}
}

// awaitCards is how long the job at the start of the machine waits for a card that a
// change is about: one on USB or behind firmware comes some seconds after the others.
const awaitCards = 20 * time.Second

// RecoverAtStart is RecoverNow for the job at the start of the machine: cards that changes
// are about may have to come yet.
func (m *Machine) RecoverAtStart(ctx context.Context) ([]model.Change, error) {
	c := m.config()
	c.Await = awaitCards
	return watchdog.Recover(ctx, c)
}

// RecoverNow puts back what nobody confirmed and a dead watchdog left.
func (m *Machine) RecoverNow(ctx context.Context) ([]model.Change, error) {
	return watchdog.Recover(ctx, m.config())
}

// awaitRecovery waits for the end of what BeginRecovery began.
func (m *Machine) awaitRecovery(ctx context.Context) error {
	if m.recovery == nil {
		return nil
	}
	select {
	case <-m.recovery:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the recovery of this host: %w", ctx.Err())
	}
}

// Recovered implements agent.Config.Recovered.
func (m *Machine) Recovered(ctx context.Context) ([]model.Change, error) {
	if err := m.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	return m.found, nil
}

// Facts reads the host and notes the interface that leads to the peer.
func (m *Machine) Facts(ctx context.Context, peer string) (model.HostFacts, error) {
	if err := m.awaitRecovery(ctx); err != nil {
		return model.HostFacts{}, err
	}
	f := facts.Read(ctx, m.env.Catalogue, "", peer, m.env.Version)
	m.mu.Lock()
	if m.link == "" {
		m.link = f.Interface.Or("")
	}
	if m.route == "" {
		m.route = routeOf(ctx, f.Route, m.link)
	}
	switch {
	case !m.rate.IsKnown():
		m.rate = f.LinkRate
	case !f.LinkRate.IsKnown(): // the system does not know it, and a person does
		f.LinkRate = m.rate
	}
	host := m.host()
	m.mu.Unlock()
	f.Knobs = host.Read(ctx, KnobIDs(m.env.Catalogue)...)
	f.Path = path.Read(f)
	return f, nil
}

// routeOf returns the destination of the route to the peer by link, "" where it
// is not known: settings of routes are not available then.
func routeOf(ctx context.Context, r *model.Route, link string) string {
	if r == nil {
		return ""
	}
	peer, err := netip.ParseAddr(r.Peer)
	if err != nil {
		return ""
	}
	destination, device, err := table.Towards(ctx, peer)
	if err != nil || device != link {
		return ""
	}
	return destination
}

// Origins implements agent.Config.Origins: permanent files, and those of the
// programs that come after them.
func (m *Machine) Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	m.mu.Lock()
	link := m.link
	m.mu.Unlock()
	return manager.Here(m.env.Catalogue).Lines(ctx, link, ids)
}

// Watch samples the host's counters until stop is called.
func (m *Machine) Watch(ctx context.Context, host model.Host, interval time.Duration, emit func([]model.Sample)) (stop func() []model.Counter, err error) {
	m.mu.Lock()
	link := m.link
	m.mu.Unlock()
	w, err := watch.Open(link)
	if err != nil {
		return nil, err
	}
	end := w.Run(ctx, host, interval, time.Now(), emit)
	return func() []model.Counter {
		counters := end()
		_ = w.Close()
		return counters
	}, nil
}

// LinkRate is what facts found, or what the lab told.
func (m *Machine) LinkRate() fact.Of[units.BitRate] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rate
}

// client returns the watchdog, starting it where needed. It begins with what the
// recovery could not do, because somebody else held the journal, say.
func (m *Machine) client(ctx context.Context) (*watchdog.Client, error) {
	if err := m.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	cfg := m.config()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watchdog != nil {
		return m.watchdog, nil
	}
	w, err := watchdog.Start(ctx, cfg)
	if err != nil {
		return nil, busy(err)
	}
	m.watchdog = w
	return w, nil
}

// busy has a controller know that another one changes this host.
func busy(err error) error {
	if errors.Is(err, journal.ErrLocked) {
		return fmt.Errorf("%w: %w", session.ErrBusy, err)
	}
	return err
}

// Apply implements agent.Knobs.
func (m *Machine) Apply(ctx context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error) {
	w, err := m.client(ctx)
	if err != nil {
		return nil, err
	}
	return w.Apply(ctx, as, within)
}

// Verify implements agent.Knobs.
func (m *Machine) Verify(ctx context.Context) error {
	w, err := m.client(ctx)
	if err != nil {
		return err
	}
	wrong, err := w.Verify(ctx)
	if err != nil || len(wrong) == 0 {
		return expired(err)
	}
	bad := wrong[0]
	if bad.Reason != "" {
		return fmt.Errorf("%s (%s) cannot be read back: %s", bad.Knob, bad.Native, bad.Reason)
	}
	return fmt.Errorf("%s (%s) reads back as %q instead of %q", bad.Knob, bad.Native, bad.Got, bad.Want)
}

// Extend implements agent.Knobs.
func (m *Machine) Extend(ctx context.Context, d time.Duration) error {
	w, err := m.client(ctx)
	if err != nil {
		return err
	}
	return expired(w.Extend(ctx, d))
}

// expired returns err as sessions tell it where the deadline has passed.
func expired(err error) error {
	if errors.Is(err, watchdog.ErrExpired) {
		return fmt.Errorf("%w: the changes were undone", session.ErrExpired)
	}
	return err
}

// Undo implements agent.Knobs. A watchdog that died is replaced by what the
// journal says.
func (m *Machine) Undo(ctx context.Context) ([]model.Change, error) {
	cfg := m.config()
	m.mu.Lock()
	w := m.watchdog
	m.mu.Unlock()
	if w == nil {
		return nil, nil
	}
	changes, err := w.Undo(ctx)
	failed := func(c model.Change) bool { return c.State == model.ChangeFailed }
	if errors.Is(err, watchdog.ErrExpired) && !slices.ContainsFunc(changes, failed) {
		return changes, nil // the deadline did what was asked
	}
	if !errors.Is(err, watchdog.ErrGone) {
		return changes, err
	}
	left, err := watchdog.Recover(ctx, cfg)
	if err == nil {
		m.mu.Lock()
		m.watchdog = nil
		m.mu.Unlock()
	}
	return append(changes, left...), err
}

// Read implements agent.Knobs.
func (m *Machine) Read(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error) {
	if err := m.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	host := m.host()
	m.mu.Unlock()
	return host.Read(ctx, ids...), nil
}

// Close implements agent.Knobs.
func (m *Machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watchdog == nil {
		return nil
	}
	w := m.watchdog
	m.watchdog = nil
	return w.Close()
}

// Pending implements agent.Keeper.
func (m *Machine) Pending() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watchdog == nil {
		return ""
	}
	return m.watchdog.Transaction()
}

// Confirm implements agent.Keeper.
func (m *Machine) Confirm(ctx context.Context, transaction string) error {
	err := watchdog.Confirm(ctx, m.config(), transaction)
	if errors.Is(err, watchdog.ErrNotPending) {
		return fmt.Errorf("%w: %w", session.ErrState, err)
	}
	return err
}

// Revert implements agent.Keeper: it undoes what was confirmed, one transaction or
// all, and what a dead watchdog left.
func (m *Machine) Revert(ctx context.Context, transaction string) ([]model.Change, error) {
	if err := m.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	if transaction != "" {
		return watchdog.RevertOne(ctx, m.config(), transaction)
	}
	changes, err := watchdog.Revert(ctx, m.config())
	if err == nil {
		err = JournalFault(m.o.State)
	}
	return changes, err
}
