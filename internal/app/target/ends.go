package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/control/experiment"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Ends are the open sessions with both hosts.
type Ends struct {
	NearText, FarText string          // as stored
	Near, Far         *session.Client // Far is nil for a foreign peer
	Runner            experiment.Runner
	Idle              idle              // measures the near end alone, if the far one is a foreign peer
	Hosts             []model.HostFacts // near, far
	WireRate          fact.Of[units.BitRate]
	Warnings          []string // about the connections, and about changes that were rolled back
	InLab             bool     // both hosts are virtual

	// Others are further far ends.
	Others []*Ends

	// Dial opens another connection to a host.
	Dial func(context.Context, model.Host) (wire.Peer, error)

	env app.Env
	// beside are the Ends that own the session with the near end, if these do not: a host
	// accepts settings from one session at a time.
	beside *Ends
	lost   error // for an end among several: why it is out of reach, nil if it is not
	// path says how data connections are made; nearHere means that the near end is this
	// process, whose address is in the far end's facts.
	path     model.DataPath
	contract Contract
	nearHere bool
	overSSH  bool
	proven   []string // protocols that were found open
	// pathRates are the rates of the lab's wire from each host; unknown means unlimited.
	pathRates [2]fact.Of[units.BitRate]
	foreign   *Target  // the far end, if it is not an agent
	after     []func() // run in reverse order, after the sessions have ended
}

// idle is a runner of single runs.
type idle interface {
	Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error)
}

// Open opens both ends and reads their facts. The caller calls Close.
func (o *Opener) Open(ctx context.Context, near, far Target) (*Ends, error) {
	return o.open(ctx, near, far, nil)
}

// open is Open; beside, if not nil, owns the session with the near end.
func (o *Opener) open(ctx context.Context, near, far Target, beside *Ends) (*Ends, error) {
	if err := errors.Join(o.fits(near, far), fitsPath(o.o.Path, near, far)); err != nil {
		return nil, err
	}
	e := &Ends{env: o.env, beside: beside, NearText: near.Text, FarText: far.Text, path: o.o.Path, contract: o.remembered(near, far), nearHere: near.Kind == Here && far.Kind != Here, overSSH: far.Kind == SSH}
	switch far.Kind {
	case Lab:
		if err := e.startLab(ctx, far.Spec, o.o.Commands); err != nil {
			return nil, err
		}
		e.NearText = far.Text
	case Foreign:
		e.foreign = &far
		e.Dial = func(ctx context.Context, _ model.Host) (wire.Peer, error) { return o.Dial(ctx, near) }
	default:
		from := o.o.Path.Egress
		if near.Kind != Here { // the address is that host's, not this machine's
			from = model.Egress{}
		}
		e.Dial = func(ctx context.Context, h model.Host) (wire.Peer, error) {
			if h == model.Near {
				return o.Dial(ctx, near)
			}
			return o.dial(ctx, far, from)
		}
	}
	e, err := e.opened(ctx)
	return e, noAgent(err, near, far)
}

// noAgent adds a hint to an error of a user's command that should have started an agent,
// unless the error has one: how to write such a command.
func noAgent(err error, ends ...Target) error {
	for _, t := range ends {
		if t.Kind == Exec && errors.Is(err, session.ErrLost) && fault.HintOf(err) == "" {
			return fault.WithHint(err, "is %q a linerate agent? write exec:%s ... linerate agent", strings.Join(t.Argv, " "), t.Addr)
		}
	}
	return err
}

// Connect opens both ends over the caller's own connections. near and far are the names to
// store. The caller calls Close.
func Connect(ctx context.Context, env app.Env, near, far string, dial func(context.Context, model.Host) (wire.Peer, error)) (*Ends, error) {
	e := &Ends{env: env, NearText: near, FarText: far, Dial: dial}
	return e.opened(ctx)
}

func (e *Ends) opened(ctx context.Context) (*Ends, error) {
	if err := e.connect(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Foreign returns a description of the far end if it is not an agent, "" if it is one.
func (e *Ends) Foreign() string {
	if e.foreign == nil {
		return ""
	}
	return e.foreign.String()
}

// Names returns the display names of the ends.
func (e *Ends) Names() model.Names {
	s := model.Session{Near: e.NearText, Far: e.FarText, Hosts: e.Hosts}
	return s.Names()
}

// Client returns the session with a host, or nil if there is none.
func (e *Ends) Client(h model.Host) *session.Client {
	if h == model.Far {
		return e.Far
	}
	return e.Near
}

// Host returns an open end for a use case that changes it.
func (e *Ends) Host(side model.Host) *app.Host {
	h := &app.Host{Side: side, Name: e.Names().Of(side), Client: e.Near, Facts: e.Hosts[0], Dial: func(ctx context.Context) (wire.Peer, error) { return e.Dial(ctx, side) }}
	h.Peer = cmp.Or(e.Far.DataHost(), e.Hosts[1].Address)
	if side == model.Far {
		h.Client, h.Facts, h.Peer = e.Far, e.Hosts[1], e.Hosts[0].Address
	}
	return h
}

// connect opens the sessions and reads the facts.
func (e *Ends) connect(ctx context.Context) error {
	hosts := []model.Host{model.Near, model.Far}
	if e.foreign != nil {
		hosts = hosts[:1]
	}
	for _, h := range hosts {
		if e.beside != nil && h == model.Near {
			e.Near = e.beside.Near
			continue
		}
		c, err := e.env.OpenSession(ctx, h, func(ctx context.Context) (wire.Peer, error) {
			peer, err := e.Dial(ctx, h)
			if err == nil {
				e.warn(peer.Warnings)
			}
			return peer, err
		})
		if err != nil {
			return err
		}
		if h == model.Near {
			e.Near = c
		} else {
			e.Far = c
		}
	}
	if e.foreign != nil {
		return e.meetForeign(ctx)
	}
	e.Hosts = nil
	for _, c := range []*session.Client{e.Near, e.Far} {
		peer := e.Far.DataHost()
		if c == e.Far {
			// Use the address that the near end found on its path to the far one: the address
			// given for the near end may be no more than "this machine".
			peer = cmp.Or(e.Hosts[0].Address, e.Near.DataHost())
		}
		if c == e.Near {
			peer = e.nearPeer(peer)
		}
		f, err := c.Facts(ctx, peer)
		if err != nil {
			return err
		}
		if c == e.Near && e.path.Bind != "" {
			f.Address, _, _ = strings.Cut(e.path.Bind, "%")
		}
		e.Hosts = append(e.Hosts, f)
		e.tellRecovered(ctx, c)
	}
	if !e.InLab {
		e.WireRate = hostRates(e.Hosts)
	}
	for i, rate := range e.pathRates {
		if rate.IsKnown() {
			e.Hosts[i].PathRate = rate
		}
	}
	e.agreed(e.contract)
	e.Runner = e.newRunner()
	return nil
}

// nearPeer returns the peer of the near end, with the interface that the user asked for.
func (e *Ends) nearPeer(host string) string {
	if e.path.Device == "" || host == "" {
		return host
	}
	host, _, _ = strings.Cut(host, "%")
	return host + "%" + e.path.Device
}

// Fit returns f as a foreign far end carries it, or why it cannot; for an agent, f itself.
func (e *Ends) Fit(f model.Flow) (model.Flow, error) {
	if e.foreign == nil {
		return f, nil
	}
	return e.foreign.Fit(e.env, f, nil)
}

// meetForeign reads the facts of the near end; the far one has none.
func (e *Ends) meetForeign(ctx context.Context) error {
	host, _, err := net.SplitHostPort(e.foreign.Addr)
	if err != nil {
		return err
	}
	facts, err := e.Near.Facts(ctx, e.nearPeer(host))
	if err != nil {
		return err
	}
	e.Idle = Itself{e, model.Near}
	silent := e.foreign.Program.Server + " does not report it"
	e.Hosts = []model.HostFacts{facts, {
		Host: model.Far, Name: host, Address: host,
		Kernel: fact.Unknown[string](silent), Interface: fact.Unknown[string](silent), MTU: fact.Unknown[int](silent),
		LinkRate: fact.Unknown[units.BitRate](silent), Congestion: fact.Unknown[string](silent), Qdisc: fact.Unknown[string](silent),
	}}
	e.tellRecovered(ctx, e.Near)
	e.WireRate = hostRates(e.Hosts)
	e.agreed(e.contract)
	peer, err := e.foreign.foreignPeer(e.env, facts, e.path)
	if err != nil {
		return err
	}
	e.Runner = &runner.Alone{Peer: peer, Name: e.foreign.Text, Now: e.env.Now, Kinds: e.env.Kinds()}
	return nil
}

// tellRecovered reports the changes that an agent rolled back when it started, and stores
// them as warnings.
func (e *Ends) tellRecovered(ctx context.Context, c *session.Client) {
	changes, err := c.Recovered(ctx)
	if err != nil {
		return // a measurement does not depend on it
	}
	for _, ch := range changes {
		r := app.Recovered{Host: c.Name(), Change: ch}
		e.env.Observe(r)
		e.Warnings = append(e.Warnings, r.String())
	}
}

// warn reports warnings about the connection to a host, each once.
func (e *Ends) warn(warnings []string) {
	for _, w := range warnings {
		if !slices.Contains(e.Warnings, w) {
			e.env.Observe(app.Warning{Text: w})
			e.Warnings = append(e.Warnings, w)
		}
	}
}

// hangUp closes both sessions.
func (e *Ends) hangUp() []error {
	ctx := context.Background() // each session knows how long its undo may take
	var errs []error
	for _, c := range []*session.Client{e.Far, e.Near} {
		if c == nil || c == e.Near && e.beside != nil {
			continue
		}
		if _, err := c.Close(ctx); err != nil && !errors.Is(err, session.ErrLost) {
			errs = append(errs, err)
		}
	}
	e.Near, e.Far = nil, nil
	return errs
}

// Rehearse has the hosts apply a setting once and undo it (runner.Runner.Rehearse). A foreign
// far end has no settings.
func (e *Ends) Rehearse(ctx context.Context, s model.Setting) ([]model.Change, error) {
	if r, ok := e.Runner.(*runner.Runner); ok {
		return r.Rehearse(ctx, s)
	}
	return nil, nil
}

// Reopen makes new sessions after contact was lost.
func (e *Ends) Reopen(ctx context.Context) error {
	if len(e.Others) > 0 {
		return e.reopenLost(ctx)
	}
	_ = e.hangUp()
	return e.connect(ctx)
}

// Close closes the sessions and ends what was started for them.
func (e *Ends) Close() {
	for _, o := range e.Others {
		o.Close()
	}
	e.Others = nil
	for _, err := range e.hangUp() {
		e.env.Observe(app.Trouble{Err: err})
	}
	for _, f := range slices.Backward(e.after) {
		f()
	}
	e.after = nil
}

// hostRates returns the rate of the slowest known link on the path.
func hostRates(hosts []model.HostFacts) fact.Of[units.BitRate] {
	best := fact.Unknown[units.BitRate]("neither host knows the rate of its link")
	for _, h := range hosts {
		if r, ok := h.LinkRate.Get(); ok {
			if b, known := best.Get(); !known || r < b {
				best = fact.Known(r, fmt.Sprintf("%s of the %s host", h.LinkRate.Source(), h.Host))
			}
		}
	}
	return best
}
