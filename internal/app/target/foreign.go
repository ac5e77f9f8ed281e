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
	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/measure/program"
)

// foreignScheme finds the program that s names as the scheme of an address.
func foreignScheme(s string, known program.List) (program.Program, bool) {
	scheme, _, found := strings.Cut(s, "://")
	if !found {
		return program.Program{}, false
	}
	i := slices.IndexFunc(known, func(p program.Program) bool { return p.Of() == scheme && p.New != nil })
	if i < 0 {
		return program.Program{}, false
	}
	return known[i], true
}

// parseForeign parses iperf3://HOST[:PORT] and the like.
func parseForeign(s string, p program.Program) (Target, error) {
	u, err := plain.ParseURL(s)
	if err != nil || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		_, rest, _ := strings.Cut(s, "://")
		return Target{}, fault.WithHint(fault.Usagef("%q is not the address of %s", rest, p.Server),
			"write it like %s://10.0.0.2 or %s://nas:%s", p.Of(), p.Of(), p.Listens())
	}
	if err := checkPort(s, cmp.Or(u.Port(), p.Port)); err != nil {
		return Target{}, fault.WithHint(err, "without one, %s://HOST means port %s", p.Of(), p.Port)
	}
	return Target{Kind: Foreign, Text: s, Program: p, Addr: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), p.Port))}, nil
}

// Fit makes the client of a foreign target with the given flags, nil for those of the last
// call, and returns f as its program carries it, or why it cannot. For other targets it
// returns f unchanged.
func (t *Target) Fit(env app.Env, f model.Flow, given program.Values) (_ model.Flow, err error) {
	if t.Kind != Foreign {
		return f, nil
	}
	if given != nil {
		t.given = given
	}
	if f, err = t.Program.Fit(f, t.given); err == nil {
		t.client, err = t.Program.New(t.Addr, t.given, env.Getenv)
	}
	if err != nil {
		named := func(text string) string { return strings.ReplaceAll(text, "HOST", t.String()) }
		return f, &fault.Error{Kind: fault.KindOf(err), Err: errors.New(named(err.Error())), Hint: named(fault.HintOf(err))}
	}
	return f, nil
}

// Listening returns why a foreign program at the far end cannot be reached over TCP. The program
// sees nothing of it. It is nil for other far ends, and for UDP.
func (e *Ends) Listening(ctx context.Context) error {
	t := e.foreign
	if t == nil || t.Program.Networks != nil && (!slices.Contains(t.Program.Networks, "tcp") || t.given.On("udp")) {
		return nil
	}
	waiting, _, end := e.env.Patience(ctx, model.Far)
	if err := end(t.Program.Open(waiting, t.Addr, e.path.Egress)); err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	return nil
}

// foreignPeer measures with a foreign target from a host.
type foreignPeer struct {
	env    app.Env
	client program.Client
	near   program.Near
}

// foreignPeer returns a peer that measures with t from the host with those facts.
func (t *Target) foreignPeer(env app.Env, facts model.HostFacts, path model.DataPath) (runner.Peer, error) {
	client := t.client
	if client == nil {
		var err error
		if client, err = t.Program.New(t.Addr, nil, env.Getenv); err != nil {
			return nil, err
		}
	}
	return foreignPeer{env, client, program.Near{LinkRate: facts.LinkRate, Egress: path.Egress, Said: func(line string) { env.Observe(app.ServerSaid{Line: line}) }}}, nil
}

// Run implements runner.Peer.
func (p foreignPeer) Run(ctx context.Context, f model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	waiting, met, end := p.env.Patience(ctx, model.Far)
	here := p.near
	here.Met = met
	near, far, err = p.client.Run(waiting, f, here, func(s []model.Sample) {
		met()
		emit(s)
	})
	return near, far, end(err)
}
