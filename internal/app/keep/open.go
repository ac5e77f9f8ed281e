package keep

import (
	"context"
	"errors"
	"fmt"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// Open opens the hosts of a keep: the host that named describes, with both also this machine;
// or, if named is "", this machine alone. shut closes the sessions.
func Open(ctx context.Context, env app.Env, o *target.Opener, own local.Options, named string, both bool) (hosts []*app.Host, shut func(), err error) {
	if named == "" {
		return openHere(ctx, env, own)
	}
	near, far, err := target.Pair("", named, env)
	if err == nil {
		err = HasFiles(far)
	}
	if err != nil {
		return nil, nil, err
	}
	e, err := o.Open(ctx, near, far)
	if err != nil {
		return nil, nil, err
	}
	return Of(e, both), e.Close, nil
}

// Of returns the hosts of ends that are already open.
func Of(e *target.Ends, both bool) []*app.Host {
	out := []*app.Host{e.Host(model.Far)}
	if both {
		out = append(out, e.Host(model.Near))
	}
	return out
}

// OpenAlone opens one host, as Open does; it does not need the other end of a pair.
func OpenAlone(ctx context.Context, env app.Env, o *target.Opener, own local.Options, named string) (host *app.Host, shut func(), err error) {
	if named == "" {
		hosts, shut, err := openHere(ctx, env, own)
		if err != nil {
			return nil, nil, err
		}
		return hosts[0], shut, nil
	}
	t, err := target.Parse(named, env)
	if err == nil {
		err = HasFiles(t)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := o.Alone(ctx, t, model.Far)
	if err != nil {
		return nil, nil, err
	}
	return &app.Host{Side: model.Far, Name: model.EndName(t.Text), Client: c}, func() { env.HangUp(c) }, nil
}

func openHere(ctx context.Context, env app.Env, own local.Options) (hosts []*app.Host, shut func(), err error) {
	h, err := local.Open(ctx, env, own)
	if err != nil {
		return nil, nil, err
	}
	return []*app.Host{h}, func() { env.HangUp(h.Client) }, nil
}

// HasFiles refuses hosts on which nothing can be kept.
func HasFiles(t target.Target) error {
	switch t.Kind {
	case target.Lab:
		return fault.New(fault.Unsupported, errors.New("a lab ends with its command, and its files are those of this machine: nothing can be kept in it"),
			"find out what helps on hosts of your own: linerate tune HOST")
	case target.Foreign:
		return fault.WithKind(fault.Unsupported, fmt.Errorf("%s has no settings that linerate could keep", t))
	case target.Here, target.Exec, target.SSH, target.Serve:
	}
	return nil
}
