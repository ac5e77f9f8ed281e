package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/control/agent"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/facts"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/origin"
	table "linerate/internal/host/knob/route"
	"linerate/internal/host/manager"
	"linerate/internal/host/purge"
	"linerate/internal/host/watch"
	"linerate/internal/host/watchdog"
)

func (a *console) agentCommand() *cobra.Command {
	var o agentOptions
	c := &cobra.Command{
		Use: "agent", Short: "measure and change this host for a controller on stdin and stdout",
		Long: `agent serves one session on its stdin and stdout. It is started by a controller:
linerate test 'exec:10.0.0.2 ip netns exec b linerate agent'. What it changes is
undone when the session ends, however it ends; what an agent before it left
changed when it was killed is undone at the start.`,
		Example: `  linerate test 'exec:10.0.0.2 ip netns exec b linerate agent'`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, ok := a.raw.Out.(*os.File)
			if ok && a.OutTerminal {
				return withHint(usagef("agent speaks a protocol on stdin and stdout, not to people"), "see linerate agent --help")
			}
			if !ok {
				return errors.New("agent needs its own stdout")
			}
			in, ok := a.In.(*os.File)
			if !ok {
				return errors.New("agent needs its own stdin")
			}
			conn, done := wire.Join(in, out)
			defer a.removeSelf(o.remove)
			err := a.serveAgent(cmd.Context(), conn, o)
			_ = conn.Close()
			_ = in.Close()
			select {
			case <-done:
			case <-time.After(time.Second): // a reader that never reads what we say last
			}
			return err
		},
	}
	c.Flags().StringVar(&o.state, "state", "", "directory of the journal (default: $LINERATE_STATE, else the system's)")
	c.Flags().StringVar(&o.link, "interface", "", "interface that link settings act on (default: the one that leads to the other end)")
	c.Flags().Float64Var(&o.rate, "link-rate", 0, "rate of that link in bit/s, where the system does not know it")
	a.bindAtBoot(c.Flags())
	c.Flags().BoolVar(&o.acknowledge, "acknowledge", false, "you have seen what is left of a damaged journal here; see linerate undo")
	c.Flags().StringVar(&o.remove, "remove", "", "at the end, remove this program with its directory DIR")
	return c
}

// agentOptions are what an agent is told of its host. The zero value leaves
// everything to be found out.
type agentOptions struct {
	state, link string
	rate        float64 // bit/s
	remove      string  // directory of this program, which goes with it
	acknowledge bool    // that the journal was damaged
}

// serveAgent is the agent of this machine on conn.
func (a *console) serveAgent(ctx context.Context, conn net.Conn, o agentOptions) error {
	a.acknowledgeFor(o)
	h := a.newHostKnobs(o.state, o.link)
	if o.rate > 0 {
		h.rate = fact.Known(units.BitRate(o.rate), "command line")
	}
	// What a killed agent left behind goes back before anything is read or changed.
	// Who comes to confirm what another agent has applied does not wait for it.
	defer h.beginRecovery(ctx)()
	a.sweepUp(o.state)
	return agent.Serve(ctx, conn, agent.Config{
		Version: a.Version, Engines: a.instruments(o.state, true), Facts: h.facts, Knobs: h, Keeper: h, Files: h.files(), Origins: h.origins,
		Recovered: h.recoveredChanges, LinkRate: h.linkRate, Purge: purge.TCPMetrics, Watch: h.watch,
	})
}

// hostKnobs joins this machine's knobs to an agent. Reading needs no process;
// the watchdog is started by the first change.
type hostKnobs struct {
	version string
	index   *knob.Index // of the catalogue; nil builds it at each reading
	command []string
	state   string
	boot    watchdog.Config   // what of it is the same for all hosts
	after   func(step string) // of tests; see watchdog.Config.After

	recovery  chan struct{}  // closed when recovery has ended; nil without one
	recovered []model.Change // valid after recovery
	tell      func(error)    // what is wrong with an undo, on stderr

	mu    sync.Mutex
	link  string // interface of the data path
	route string // destination of the route to the peer, see hostknob.Host
	rate  fact.Of[units.BitRate]
	dog   *watchdog.Client
}

func (a *console) newHostKnobs(state, link string) *hostKnobs {
	a.tellJournal(state)
	boot := watchdog.Config{AtBoot: a.boot.wanted, Root: a.Root, Talk: a.bootTalk("")}
	return &hostKnobs{index: knob.NewIndex(), tell: a.tellUndo, version: a.Version, command: append(append([]string{}, a.Self...), "watchdog"), state: state, link: link, boot: boot, after: a.AfterStep}
}

func (h *hostKnobs) config() watchdog.Config {
	h.mu.Lock()
	defer h.mu.Unlock()
	return watchdog.Config{Dir: h.state, Version: h.version, Host: h.host(), Command: h.command, AtBoot: h.boot.AtBoot, Root: h.boot.Root, Talk: h.boot.Talk, After: h.after}
}

// host is this machine as knobs see it, for a caller that holds mu.
func (h *hostKnobs) host() hostknob.Host {
	return hostknob.Host{Interface: h.link, Route: h.route, Index: h.index}
}

// beginRecovery puts back what a dead watchdog left, while the caller goes on.
// The function returned ends it.
func (h *hostKnobs) beginRecovery(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	h.recovery = make(chan struct{})
	go func() {
		defer close(h.recovery)
		changes, err := watchdog.Recover(ctx, h.config())
		h.recovered = changes
		if err != nil && ctx.Err() == nil {
			h.tell(err) // the watchdog tries again when something is to be changed
		}
	}()
	return func() {
		cancel()
		<-h.recovery
	}
}

// awaitRecovery waits for the end of what beginRecovery began.
func (h *hostKnobs) awaitRecovery(ctx context.Context) error {
	if h.recovery == nil {
		return nil
	}
	select {
	case <-h.recovery:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the recovery of this host: %w", ctx.Err())
	}
}

// recoveredChanges implements agent.Config.Recovered.
func (h *hostKnobs) recoveredChanges(ctx context.Context) ([]model.Change, error) {
	if err := h.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	return h.recovered, nil
}

// facts reads the host and notes the interface that leads to the peer.
func (h *hostKnobs) facts(ctx context.Context, peer string) (model.HostFacts, error) {
	if err := h.awaitRecovery(ctx); err != nil {
		return model.HostFacts{}, err
	}
	f := facts.Read(ctx, "", peer, h.version)
	h.mu.Lock()
	if h.link == "" {
		h.link = f.Interface.Or("")
	}
	if h.route == "" {
		h.route = routeOf(ctx, f.Route, h.link)
	}
	if !h.rate.IsKnown() {
		h.rate = f.LinkRate
	}
	host := h.host()
	h.mu.Unlock()
	f.Knobs = host.Read(ctx, hostKnobIDs()...)
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

// origins implements agent.Config.Origins: permanent files, and those of the
// programs that come after them.
func (h *hostKnobs) origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	h.mu.Lock()
	link := h.link
	h.mu.Unlock()
	machine := manager.Here()
	claims, err := machine.Claims(ctx, link, ids)
	if err != nil {
		return nil, err
	}
	return manager.Merge(origin.Find(machine.Root, machine.System, link, ids), claims), nil
}

// watch samples the host's counters until stop is called.
func (h *hostKnobs) watch(ctx context.Context, host model.Host, interval time.Duration, emit func([]model.Sample)) (stop func() []model.Counter, err error) {
	h.mu.Lock()
	link := h.link
	h.mu.Unlock()
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

// linkRate is what facts found, or what the lab told.
func (h *hostKnobs) linkRate() fact.Of[units.BitRate] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rate
}

// client returns the watchdog, starting it where needed. It begins with what the
// recovery could not do, because somebody else held the journal, say.
func (h *hostKnobs) client(ctx context.Context) (*watchdog.Client, error) {
	if err := h.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	cfg := h.config()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dog != nil {
		return h.dog, nil
	}
	dog, err := watchdog.Start(ctx, cfg)
	if err != nil {
		return nil, busy(err)
	}
	h.dog = dog
	return dog, nil
}

// busy has a controller know that another one changes this host.
func busy(err error) error {
	if errors.Is(err, journal.ErrLocked) {
		return fmt.Errorf("%w: %w", session.ErrBusy, err)
	}
	return err
}

// Apply implements agent.Knobs.
func (h *hostKnobs) Apply(ctx context.Context, as []model.Assignment, deadline time.Time) ([]model.Change, error) {
	dog, err := h.client(ctx)
	if err != nil {
		return nil, err
	}
	return dog.Apply(ctx, as, time.Until(deadline))
}

// Verify implements agent.Knobs.
func (h *hostKnobs) Verify(ctx context.Context) error {
	dog, err := h.client(ctx)
	if err != nil {
		return err
	}
	wrong, err := dog.Verify(ctx)
	if err != nil || len(wrong) == 0 {
		return err
	}
	m := wrong[0]
	if m.Reason != "" {
		return fmt.Errorf("%s (%s) cannot be read back: %s", m.Knob, m.Native, m.Reason)
	}
	return fmt.Errorf("%s (%s) reads back as %q instead of %q", m.Knob, m.Native, m.Got, m.Want)
}

// Extend implements agent.Knobs.
func (h *hostKnobs) Extend(ctx context.Context, d time.Duration) error {
	dog, err := h.client(ctx)
	if err != nil {
		return err
	}
	return dog.Extend(ctx, d)
}

// Undo implements agent.Knobs. A watchdog that died is replaced by what the
// journal says.
func (h *hostKnobs) Undo(ctx context.Context) ([]model.Change, error) {
	cfg := h.config()
	h.mu.Lock()
	dog := h.dog
	h.mu.Unlock()
	if dog == nil {
		return nil, nil
	}
	changes, err := dog.Undo(ctx)
	failed := func(c model.Change) bool { return c.State == model.ChangeFailed }
	if errors.Is(err, watchdog.ErrExpired) && !slices.ContainsFunc(changes, failed) {
		return changes, nil // the deadline did what was asked
	}
	if !errors.Is(err, watchdog.ErrGone) {
		return changes, err
	}
	left, err := watchdog.Recover(ctx, cfg)
	if err == nil {
		h.mu.Lock()
		h.dog = nil
		h.mu.Unlock()
	}
	return append(changes, left...), err
}

// Read implements agent.Knobs.
func (h *hostKnobs) Read(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error) {
	if err := h.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	host := h.host()
	h.mu.Unlock()
	return host.Read(ctx, ids...), nil
}

// Close implements agent.Knobs.
func (h *hostKnobs) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dog == nil {
		return nil
	}
	dog := h.dog
	h.dog = nil
	return dog.Close()
}

// Pending implements agent.Keeper.
func (h *hostKnobs) Pending() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dog == nil {
		return ""
	}
	return h.dog.Transaction()
}

// Confirm implements agent.Keeper.
func (h *hostKnobs) Confirm(ctx context.Context, transaction string) error {
	err := watchdog.Confirm(ctx, h.config(), transaction)
	if errors.Is(err, watchdog.ErrNotPending) {
		return fmt.Errorf("%w: %w", session.ErrState, err)
	}
	return err
}

// Revert implements agent.Keeper: it undoes what was confirmed, one transaction or
// all, and what a dead watchdog left.
func (h *hostKnobs) Revert(ctx context.Context, transaction string) ([]model.Change, error) {
	if err := h.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	if transaction != "" {
		return watchdog.RevertOne(ctx, h.config(), transaction)
	}
	changes, err := watchdog.Revert(ctx, h.config())
	if err == nil {
		err = journalFault(h.state)
	}
	return changes, err
}
