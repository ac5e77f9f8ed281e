package change

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

// Open opens and reads the hosts of a change: the host that named describes, with both also
// this machine; or, if named is "", this machine alone. shut closes their sessions.
func Open(ctx context.Context, env app.Env, o *target.Opener, own local.Options, named string, both bool) (h Hosts, shut func(), err error) {
	if named == "" {
		near, err := local.Open(ctx, env, own)
		return Hosts{Near: near, Link: own.Link, State: own.State}, func() { env.HangUp(near.Client) }, err
	}
	near, far, err := target.Pair("", named, env)
	if err != nil {
		return h, nil, err
	}
	if far.Kind == target.Foreign {
		return h, nil, fault.WithKind(fault.Unsupported, fmt.Errorf("%s has no settings that linerate could change", far))
	}
	if both && far.Kind != target.Lab && own.State != "" {
		return h, nil, fault.Usagef("--state is for changes of this machine alone: with --both set LINERATE_STATE")
	}
	e, err := o.Open(ctx, near, far)
	if err != nil {
		return h, nil, err
	}
	h = Of(e, named, both)
	h.State = own.State
	return h, func() {
		h.Settle(e)
		e.Close()
	}, nil
}

// Of returns the hosts of ends that are already open; named is the far one as the user named
// it. The caller calls Settle after the change.
func Of(e *target.Ends, named string, both bool) Hosts {
	h := Hosts{Near: e.Host(model.Near), Far: e.Host(model.Far), Both: both}
	if !e.InLab {
		h.Named = target.Redact(named)
	}
	return h
}

// Settle stores the sessions that the hosts have after a change in e.
func (h Hosts) Settle(e *target.Ends) { e.Near, e.Far = h.Near.Client, h.Far.Client }

// UndoAt undoes everything that was ever confirmed on the host that named describes, and
// reports what its agent rolled back when it started.
func UndoAt(ctx context.Context, env app.Env, o *target.Opener, named string) ([]model.Change, error) {
	t, err := target.Parse(named, env)
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case target.Lab:
		return nil, fault.Usagef("a lab ends with its command: there is nothing to undo in it")
	case target.Foreign:
		return nil, fault.Usagef("%s changes no settings: there is nothing that it could undo", t)
	case target.Here, target.Exec, target.SSH, target.Serve:
	}
	c, err := o.Alone(ctx, t, model.Far)
	if err != nil {
		return nil, err
	}
	changes, err := c.Recovered(ctx)
	var kept []model.Change
	if err == nil {
		kept, err = c.Revert(ctx, "")
		if err != nil && fault.KindOf(err) == fault.Failed {
			err = fault.WithKind(fault.NotUndone, err) // what the host holds is unknown
		}
	}
	_, cerr := c.Close(ctx)
	return append(changes, kept...), errors.Join(err, cerr)
}
