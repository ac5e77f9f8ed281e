package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/control/experiment"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/pipe"
	"linerate/internal/control/wire/stdio"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab"
)

// ends are the open sessions with both hosts.
type ends struct {
	app               *console
	nearText, farText string
	near, far         *session.Client // far is nil for a foreign peer
	runner            experiment.Runner
	hosts             []model.HostFacts
	wireRate          fact.Of[units.BitRate]
	warnings          []string
	lab               *lab.Lab
	foreign           *target // the far end, where it is no agent

	dial  func(context.Context, model.Host) (wire.Peer, error)
	after []func() // in reverse order, after the sessions have ended
}

// parsePair parses the texts of both ends; an empty near end is this machine.
func parsePair(nearText, farText string) (near, far target, err error) {
	if far, err = parseTarget(farText); err != nil {
		return near, far, err
	}
	if nearText == "" || nearText == app.ThisMachine {
		return target{kind: targetHere, text: app.ThisMachine}, far, nil
	}
	if far.kind == targetLab {
		return near, far, withHint(usagef("a lab has both ends of its own"), "leave out --from")
	}
	if near, err = parseTarget(nearText); err != nil {
		return near, far, err
	}
	if near.kind == targetLab {
		return near, far, usagef("a lab is written as the far HOST alone")
	}
	if near.kind == targetForeign || far.kind == targetForeign {
		return near, far, withHint(usagef("%s has no agent to be steered from elsewhere", far), "leave out --from, or start linerate on that host")
	}
	return near, far, nil
}

// open opens both ends and reads their facts.
func (a *console) open(ctx context.Context, near, far target) (*ends, error) {
	if err := errors.Join(a.sshFlagsFit(near, far), a.atBootFits(near, far)); err != nil {
		return nil, err
	}
	e := &ends{app: a, nearText: near.text, farText: far.text}
	switch far.kind {
	case targetLab:
		if err := e.startLab(ctx, far.lab); err != nil {
			return nil, err
		}
		e.nearText = far.text
	case targetForeign:
		e.foreign = &far
		e.dial = func(ctx context.Context, _ model.Host) (wire.Peer, error) { return a.dialTarget(ctx, near) }
	default:
		e.dial = func(ctx context.Context, h model.Host) (wire.Peer, error) {
			if h == model.Near {
				return a.dialTarget(ctx, near)
			}
			return a.dialTarget(ctx, far)
		}
	}
	if err := e.connect(ctx); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *ends) startLab(ctx context.Context, spec lab.Spec) error {
	l, state, err := e.app.startLab(ctx, spec)
	if err != nil {
		return err
	}
	e.lab = l
	e.after = append(e.after, func() {
		_ = l.Close()
		_ = os.RemoveAll(state)
	})
	rate := min(spec.AB.Rate, spec.BA.Rate)
	if rate > 0 {
		e.wireRate = fact.Known(rate, "the lab's wire")
	} else {
		e.wireRate = fact.Unknown[units.BitRate]("the lab's wire has no rate limit")
	}
	e.dial = func(ctx context.Context, h model.Host) (wire.Peer, error) {
		argv := append(append([]string{}, e.app.Self...), "agent", "--state", labState(state, h), "--interface", labInterface)
		if r, ok := e.wireRate.Get(); ok {
			argv = append(argv, fmt.Sprintf("--link-rate=%.0f", float64(r)))
		}
		conn, err := l.Dial(ctx, h, argv)
		if err != nil {
			return wire.Peer{}, err
		}
		return wire.Peer{Control: conn, Name: "lab host " + string(h), DataHost: l.Addr(h).String()}, nil
	}
	return nil
}

// dialTarget makes the way to one real host.
func (a *console) dialTarget(ctx context.Context, t target) (wire.Peer, error) {
	switch t.kind {
	case targetHere:
		return pipe.Start(ctx, app.ThisMachine, "127.0.0.1", func(ctx context.Context, c net.Conn) error {
			return here.Serve(ctx, a.world(), c, a.hereOptions("", ""))
		}), nil
	case targetExec:
		return stdio.Start(ctx, t.argv, stdio.Options{Name: t.addr, DataHost: t.addr, Stderr: here.Lines(a.world(), t.addr)})
	case targetSSH:
		return a.dialSSH(ctx, t)
	case targetServe:
		p, err := tls.Dial(ctx, t.link)
		if err != nil {
			err = app.WithKind(app.Unreachable, plainDial(t.link.Addr, err))
			if errors.Is(err, tls.ErrPin) {
				return p, err // it says itself what is wrong
			}
			return p, withHint(err, "is linerate serve running there? use the join link that it prints")
		}
		if t.warning != "" {
			p.Warnings = append(p.Warnings, t.warning)
		}
		return p, nil
	case targetLab, targetForeign:
	}
	return wire.Peer{}, fmt.Errorf("no way to %s", t)
}

// plainDial says in words what a server that is not linerate's does to a
// handshake: it says nothing, or hangs up.
func plainDial(addr string, err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("connect to %s: no answer in time", addr)
	case errors.Is(err, io.EOF), ok && op.Op == "read":
		return fmt.Errorf("connect to %s: what answers there hung up", addr)
	}
	return err
}

// connect opens the sessions and reads the facts.
func (e *ends) connect(ctx context.Context) error {
	hosts := []model.Host{model.Near, model.Far}
	if e.foreign != nil {
		hosts = hosts[:1]
	}
	for _, h := range hosts {
		peer, err := e.dial(ctx, h)
		if err != nil {
			return err
		}
		e.warn(peer.Warnings)
		c, err := session.Open(ctx, peer, session.Options{Host: h, Version: e.app.Version})
		if err != nil {
			return app.WithKind(app.Unreachable, err)
		}
		if h == model.Near {
			e.near = c
		} else {
			e.far = c
		}
	}
	if e.foreign != nil {
		return e.meetForeign(ctx)
	}
	e.hosts = nil
	for _, c := range []*session.Client{e.near, e.far} {
		peer := e.far.DataHost()
		if c == e.far {
			// What the near end found out on its way to the far one: the address
			// that it was given may be no more than "this machine".
			peer = cmp.Or(e.hosts[0].Address, e.near.DataHost())
		}
		f, err := c.Facts(ctx, peer)
		if err != nil {
			return err
		}
		e.hosts = append(e.hosts, f)
		e.tellRecovered(ctx, c)
	}
	if e.lab == nil {
		e.wireRate = hostRates(e.hosts)
	} else {
		e.labRates()
	}
	e.runner = runner.New(e.near, e.far, e.app.Now)
	return nil
}

// labRates notes what the lab's wire carries in each direction.
func (e *ends) labRates() {
	wire := e.lab.Spec()
	for i, rate := range []units.BitRate{wire.AB.Rate, wire.BA.Rate} {
		if rate > 0 {
			e.hosts[i].PathRate = fact.Known(rate, "the lab's wire")
		}
	}
}

// meetForeign reads the facts of this end; the other one tells none.
func (e *ends) meetForeign(ctx context.Context) error {
	host, _, err := net.SplitHostPort(e.foreign.addr)
	if err != nil {
		return err
	}
	facts, err := e.near.Facts(ctx, host)
	if err != nil {
		return err
	}
	silent := "an " + e.foreign.foreign.program + " does not tell"
	e.hosts = []model.HostFacts{facts, {
		Host: model.Far, Name: host, Address: host,
		Kernel: fact.Unknown[string](silent), Interface: fact.Unknown[string](silent), MTU: fact.Unknown[int](silent),
		LinkRate: fact.Unknown[units.BitRate](silent), Congestion: fact.Unknown[string](silent), Qdisc: fact.Unknown[string](silent),
	}}
	e.tellRecovered(ctx, e.near)
	e.wireRate = hostRates(e.hosts)
	newPeer := e.foreign.peer
	if newPeer == nil {
		newPeer = func(link fact.Of[units.BitRate]) (runner.Peer, error) {
			return e.app.foreignPeer(*e.foreign, trafficFlags{}, link)
		}
	}
	peer, err := newPeer(facts.LinkRate)
	if err != nil {
		return err
	}
	e.runner = &runner.Alone{Peer: peer, Name: e.foreign.text, Now: e.app.Now}
	return nil
}

// tellRecovered says what an agent put back when it started.
func (e *ends) tellRecovered(ctx context.Context, c *session.Client) {
	changes, err := c.Recovered(ctx)
	if err != nil {
		return // it matters to nobody who measures
	}
	e.warnings = append(e.warnings, e.app.tellChanges(c.Name(), changes)...)
}

// tellChanges says what an agent put back when it started, and returns the lines.
func (a *console) tellChanges(name string, changes []model.Change) []string {
	var lines []string
	for _, ch := range changes {
		line := fmt.Sprintf("%s: %s was left changed by a session that was cut short: %s", name, ch.Knob, ch.State)
		if ch.Detail != "" {
			line += " (" + ch.Detail + ")"
		}
		a.talk("%s", line)
		lines = append(lines, line)
	}
	return lines
}

// closeTime bounds how long ending the sessions may take: undoing included.
const closeTime = 30 * time.Second

// hangUp ends both sessions.
func (e *ends) hangUp() []error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	var errs []error
	for _, c := range []*session.Client{e.far, e.near} {
		if c == nil {
			continue
		}
		if _, err := c.Close(ctx); err != nil && !errors.Is(err, session.ErrLost) {
			errs = append(errs, err)
		}
	}
	e.near, e.far = nil, nil
	return errs
}

// reopen makes new sessions after contact was lost.
func (e *ends) reopen(ctx context.Context) error {
	_ = e.hangUp()
	return e.connect(ctx)
}

// close ends the sessions and what was started for them.
func (e *ends) close() {
	for _, err := range e.hangUp() {
		e.app.talk("linerate: %v", err)
	}
	for _, v := range slices.Backward(e.after) {
		v()
	}
	e.after = nil
}

// fit completes a plan with what is known of the path by now.
func (e *ends) fit(p *model.Plan, given func(string) bool) {
	s := p.Search
	if s == nil || given("rate") {
		return
	}
	if rate, ok := e.wireRate.Get(); ok {
		search := *s // payload can only be less than the link's rate
		search.High = max(search.Low, rate)
		p.Search = &search
	}
}

// probed is what a short run says of the path before anything is planned.
type probed struct {
	rtt fact.Of[time.Duration]
}

// probeTime is long enough for a few round trips of most paths.
const probeTime = 300 * time.Millisecond

// probe makes a short run: it shows early whether data connections work, and
// how long the round trip is.
func (e *ends) probe(ctx context.Context, flow model.Flow) (probed, error) {
	flow.Direction, flow.Duration, flow.Bytes, flow.Omit, flow.Interval = model.To, probeTime, 0, 0, probeTime/2
	flow.Streams = 1
	run, _, err := e.runner.Run(ctx, runner.Spec{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: model.Setting{Name: "probe"}, Flow: flow,
	}, func(model.Host, []model.Sample) {})
	p := probed{rtt: fact.Unknown[time.Duration]("no TCP_INFO on " + e.hosts[0].OS)}
	for _, end := range run.Ends {
		for _, f := range end.Flows {
			if f.TCP != nil && f.TCP.RTTMin.IsKnown() {
				p.rtt = f.TCP.RTTMin
			}
		}
	}
	if err != nil && !errors.Is(err, runner.ErrInvalid) {
		return p, err
	}
	return p, nil
}

// mayTune fails early where the plan changes a host that may not be changed.
func (a *console) mayTune(e *ends, p model.Plan) error {
	for _, s := range p.Settings {
		for _, as := range s.Assignments {
			c := e.near
			if as.Host == model.Far {
				c = e.far
			}
			if as.Host != "" && e.foreign != nil {
				return withHint(app.WithKind(app.Unsupported, fmt.Errorf("%s: with %s only settings of the flow can be tried", as.Knob, e.foreign)),
					"start linerate serve or a linerate agent on that host")
			}
			if as.Host == "" || c.CanTune() {
				continue
			}
			return withHint(app.WithKind(app.Unsupported, fmt.Errorf("%s measures only: %s cannot be set there", c.Name(), as.Knob)),
				"settings of the flow (window, mss, streams, block, nodelay) need no rights there;\n"+
					"to change that host, use a key with the right tune and serve --allow-tune there,\n"+
					"or start its agent by a command: exec:ADDRESS COMMAND...")
		}
	}
	return nil
}

// newSession returns the session of a plan on e, not yet stored.
func (a *console) newSession(kind model.Kind, title string, e *ends, p model.Plan) model.Session {
	now := a.Now()
	return model.Session{
		ID: newSessionID(now), Kind: kind, Title: title, Command: redactAll(os.Args), Near: e.nearText, Far: e.farText,
		Version: a.Version, Created: now.Round(0), State: model.SessionRunning, Plan: p, Hosts: e.hosts,
		WireRate: e.wireRate, Warnings: e.warnings,
	}
}

// host is an open end for a use case.
func (e *ends) host(side model.Host) *app.Host {
	h := &app.Host{Side: side, Client: e.near, Facts: e.hosts[0], Dial: func(ctx context.Context) (wire.Peer, error) { return e.dial(ctx, side) }}
	h.Peer = cmp.Or(e.far.DataHost(), e.hosts[1].Address)
	if side == model.Far {
		h.Client, h.Facts, h.Peer = e.far, e.hosts[1], e.hosts[0].Address
	}
	return h
}
