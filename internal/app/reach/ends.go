package reach

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
	NearText, FarText string          // as they are stored
	Near, Far         *session.Client // Far is nil for a foreign peer
	Runner            experiment.Runner
	Idle              idle              // looks at the near end alone, where the far one is a foreign peer
	Hosts             []model.HostFacts // near, far
	WireRate          fact.Of[units.BitRate]
	Warnings          []string // what was told of the way there, and of what was put back
	InLab             bool     // both hosts are virtual

	// Others are far ends beside this one.
	Others []*Ends

	// Dial makes another way to a host.
	Dial func(context.Context, model.Host) (wire.Peer, error)

	env app.Env
	// beside is who opened the session with the near end, where these are not they: a host
	// takes settings from one session at a time.
	beside *Ends
	lost   error // of an end among several: why it is out of reach, nil where it is not
	// path is how data connections are made; nearHere says that the near end is this
	// process, whose address the far end's facts tell.
	path     model.DataPath
	contract Contract
	nearHere bool
	overSSH  bool
	proven   []string // protocols whose way was found to be open
	// pathRates are what the lab's wire carries from each host; unknown is unlimited.
	pathRates [2]fact.Of[units.BitRate]
	foreign   *Target  // the far end, where it is no agent
	after     []func() // in reverse order, after the sessions have ended
}

// idle is a runner of single runs.
type idle interface {
	Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error)
}

// Open opens both ends and reads their facts. The caller calls Close.
func (o *Opener) Open(ctx context.Context, near, far Target) (*Ends, error) {
	return o.open(ctx, near, far, nil)
}

// open is Open; beside, where given, has the session with the near end.
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
		if near.Kind != Here { // whose address it is, and not this machine's
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

// noAgent gives an error of the way to an agent that a command of the user's should
// have started, and that has no hint yet, one with how such a command is written.
func noAgent(err error, ends ...Target) error {
	for _, t := range ends {
		if t.Kind == Exec && errors.Is(err, session.ErrLost) && fault.HintOf(err) == "" {
			return fault.WithHint(err, "is %q a linerate agent? write exec:%s ... linerate agent", strings.Join(t.Argv, " "), t.Addr)
		}
	}
	return err
}

// Connect opens both ends by ways of the caller's own. The texts are what is stored
// of them. The caller calls Close.
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

// Foreign returns what is at the far end where that is no agent, "" where it is
// one.
func (e *Ends) Foreign() string {
	if e.foreign == nil {
		return ""
	}
	return e.foreign.String()
}

// Names are what people call the ends.
func (e *Ends) Names() model.Names {
	s := model.Session{Near: e.NearText, Far: e.FarText, Hosts: e.Hosts}
	return s.Names()
}

// Client returns the session with a host, nil where there is none.
func (e *Ends) Client(h model.Host) *session.Client {
	if h == model.Far {
		return e.Far
	}
	return e.Near
}

// Host is an open end for a use case that changes it.
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
			// What the near end found out on its way to the far one: the address
			// that it was given may be no more than "this machine".
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

// nearPeer is the peer of the near end, with the interface that was asked for.
func (e *Ends) nearPeer(host string) string {
	if e.path.Device == "" || host == "" {
		return host
	}
	host, _, _ = strings.Cut(host, "%")
	return host + "%" + e.path.Device
}

// Fit returns f as a foreign far end carries it, or why it does not; f itself for any other.
func (e *Ends) Fit(f model.Flow) (model.Flow, error) {
	if e.foreign == nil {
		return f, nil
	}
	return e.foreign.Fit(e.env, f, nil)
}

// meetForeign reads the facts of this end; the other one tells none.
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
	silent := e.foreign.Program.Server + " does not tell"
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

// tellRecovered tells what an agent put back when it started, and keeps it as a
// warning.
func (e *Ends) tellRecovered(ctx context.Context, c *session.Client) {
	changes, err := c.Recovered(ctx)
	if err != nil {
		return // it matters to nobody who measures
	}
	for _, ch := range changes {
		r := app.Recovered{Host: c.Name(), Change: ch}
		e.env.Observe(r)
		e.Warnings = append(e.Warnings, r.String())
	}
}

// warn tells what a person should know of the way to a host, once.
func (e *Ends) warn(warnings []string) {
	for _, w := range warnings {
		if !slices.Contains(e.Warnings, w) {
			e.env.Observe(app.Warning{Text: w})
			e.Warnings = append(e.Warnings, w)
		}
	}
}

// hangUp ends both sessions.
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

// Rehearse has the hosts take a setting once and put it back (runner.Runner.Rehearse). A far
// end that is no linerate has no settings.
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

// Close ends the sessions and what was started for them.
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

// hostRates returns the slowest link that is known of on the path.
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
