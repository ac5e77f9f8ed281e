// Package local makes an agent of this machine: it connects the knobs, facts, files and
// engines of the machine that this process runs on to a session.
package local

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
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/counters"
	"linerate/internal/host/facts"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	table "linerate/internal/host/knob/route"
	"linerate/internal/host/manager"
	"linerate/internal/host/path"
	"linerate/internal/host/purge"
	"linerate/internal/host/watchdog"
)

// Options are what an agent cannot find out about its host. With the zero value it finds out
// everything.
type Options struct {
	State       string        // directory of the journal; "" is the system's
	Link        string        // interface that settings of a link act on; "" is the one that leads to the peer
	Rate        units.BitRate // of that link, if the system does not know it; 0 for unknown
	Commands    bool          // the controller may run its own commands here, see agent.Config
	AtBoot      bool          // a boot job undoes what is still open at the next start of the machine
	Acknowledge bool          // the user has seen that the journal was damaged
}

// Machine gives an agent this machine's knobs. Reading needs no extra process; the first
// change starts the watchdog. It implements agent.Knobs and agent.Keeper.
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

// Catalogue returns the index of the settings.
func (m *Machine) Catalogue() *knob.Index { return m.env.Catalogue }

// Serve runs the agent of this machine on conn until the session ends. It undoes what a
// killed agent left before it reads or changes anything; a session that only confirms another
// agent's change does not wait for that.
func Serve(ctx context.Context, env app.Env, conn net.Conn, o Options) error {
	acknowledge(env, o)
	TellJournal(env, o.State)
	m := New(env, o)
	defer m.BeginRecovery(ctx)()
	SweepUp(env, o.State)
	c := m.Agent()
	c.Engines, c.LinkRate, c.Purge, c.Watch = Engines(env.Engines, o.State, true), m.LinkRate, purge.TCPMetrics, m.Watch
	c.Commands = o.Commands
	if err := agent.Serve(ctx, conn, c); !errors.Is(err, session.ErrVersion) { // the controller has been told of it
		return err
	}
	return nil
}

// Agent returns the configuration of an agent without engines, which reads this machine and
// changes its settings.
func (m *Machine) Agent() agent.Config {
	return agent.Config{
		Version: m.env.Version, Catalogue: m.env.Catalogue, Facts: m.Facts, Knobs: m, Rights: hostknob.Rights, Keeper: m, Files: m.files(), Origins: m.Origins, Recovered: m.Recovered,
	}
}

// Dial returns a function that connects to an agent of this machine in this process. address
// is the address of its data path.
func Dial(env app.Env, o Options, address string) func(context.Context) (wire.Peer, error) {
	return func(ctx context.Context) (wire.Peer, error) {
		return wire.Pipe(ctx, app.ThisMachine, address, func(ctx context.Context, c net.Conn) error { return Serve(ctx, env, c, o) }), nil
	}
}

// routeProbe is an address to look up the default route with; nothing is sent to it
// (TEST-NET-1, RFC 5737).
const (
	routeProbe  = "192.0.2.1"
	routeProbe6 = "2001:db8::1" // the same for a host with only IPv6: RFC 3849
)

// WayOut is Facts for an unknown peer: with the interface and gateway of the default route.
func (m *Machine) WayOut(ctx context.Context) (model.HostFacts, error) {
	f, err := m.Facts(ctx, routeProbe)
	if err == nil && !f.Interface.IsKnown() {
		return m.Facts(ctx, routeProbe6)
	}
	return f, err
}

// Open opens a session with this machine alone, which the caller closes, and reports the
// changes that an earlier agent had left.
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
		h.Facts.Route = nil // the default route is by another interface
	}
	if o.Link != "" {
		h.Facts.Interface = fact.Known(o.Link, "the name given") // not that of the default route
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

// config returns the configuration of a watchdog for this machine.
func (m *Machine) config() watchdog.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return watchdog.Config{
		Dir: m.o.State, Version: m.env.Version, Host: m.host(), Command: append(slices.Clone(m.env.Self), "watchdog"),
		AtBoot: m.o.AtBoot, Root: m.env.Root, Talk: m.talk, After: m.env.AfterStep, Keeps: m.keeps,
	}
}

// host returns this machine as package knob sees it. The caller holds mu.
func (m *Machine) host() hostknob.Host {
	return hostknob.Host{Interface: m.link, Route: m.route, Index: m.env.Catalogue}
}

// BeginRecovery starts to undo, in the background, what a dead watchdog left. The returned
// function ends it.
func (m *Machine) BeginRecovery(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	m.recovery = make(chan struct{})
	go func() {
		defer close(m.recovery)
		changes, err := watchdog.Recover(ctx, m.config())
		m.found = changes
		// The watchdog tries again at the next change. If another linerate is at work, the
		// user learnt it during the wait.
		if err != nil && ctx.Err() == nil && !errors.Is(err, journal.ErrLocked) {
			Tell(m.env, err)
		}
	}()
	return func() {
		cancel()
		<-m.recovery
	}
}

// awaitCards is how long the boot job waits for a card that a change is about: one on USB or
// behind firmware appears some seconds after the others.
const awaitCards = 20 * time.Second

// RecoverAtStart is RecoverNow for the boot job: it waits for cards that have yet to appear.
func (m *Machine) RecoverAtStart(ctx context.Context) ([]model.Change, error) {
	c := m.config()
	c.Await = awaitCards
	return watchdog.Recover(ctx, c)
}

// RecoverNow undoes unconfirmed changes that a dead watchdog left.
func (m *Machine) RecoverNow(ctx context.Context) ([]model.Change, error) {
	return watchdog.Recover(ctx, m.config())
}

// awaitRecovery waits for the recovery that BeginRecovery started.
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
	case !f.LinkRate.IsKnown(): // the system does not know it, and the user does
		f.LinkRate = m.rate
	}
	host := m.host()
	m.mu.Unlock()
	f.Knobs = host.Read(ctx, KnobIDs(m.env.Catalogue)...)
	f.Path = path.Read(f)
	return f, nil
}

// routeOf returns the destination of the route to the peer by link, or "" if it is not known:
// settings of routes are then not available.
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

// Origins implements agent.Config.Origins: permanent files, and those of the programs that
// run after them.
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
	w, err := counters.Open(link)
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

// LinkRate returns the link rate that facts found, or that the lab set.
func (m *Machine) LinkRate() fact.Of[units.BitRate] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rate
}

// client returns the watchdog, and starts it if needed. A new watchdog first does what the
// recovery could not, for example because another process held the journal.
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

// busy marks an error of a locked journal as session.ErrBusy for the controller.
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

// expired returns err as session.ErrExpired if the deadline has passed.
func expired(err error) error {
	if errors.Is(err, watchdog.ErrExpired) {
		return fmt.Errorf("%w: the changes were undone", session.ErrExpired)
	}
	return err
}

// Undo implements agent.Knobs. If the watchdog has died, it undoes what the journal says.
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
		return changes, nil // the deadline undid it already
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

// Revert implements agent.Keeper: it undoes confirmed changes, of one transaction or all, and
// those that a dead watchdog left.
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
