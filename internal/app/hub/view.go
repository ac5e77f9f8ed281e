package hub

import (
	"context"
	"errors"
	"fmt"

	"linerate/internal/app/target"
	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/fault"
)

// View is what people see of a hub, on any machine.
type View struct{ client wirefleet.Client }

// mostStatus is the largest answer of a hub, in MiB.
const mostStatus = 16

// NewView returns the view of the hub of a view link.
func NewView(t target.Target) (*View, error) {
	if t.Kind != target.Serve || t.Link.Pin == "" {
		return nil, fault.WithHint(fault.Usagef("--hub: %s is no link of a hub", t), "use the view link, or @FILE")
	}
	return &View{wirefleet.Client{HTTP: tls.Web(t.Link, tls.Identity{}, nil), Token: t.Link.Secret}}, nil
}

func (v *View) get(ctx context.Context, path string, into any) error {
	err := v.client.Call(ctx, path, nil, into, mostStatus)
	if errors.Is(err, wirefleet.ErrDenied) {
		return fault.WithKind(fault.Usage, err)
	}
	return fault.New(fault.Unreachable, err, "is linerate hub running there?")
}

// Operate asks the hub for an operation; the link has to be an operator's.
func (v *View) Operate(ctx context.Context, o fleet.Operation) (out fleet.Operated, err error) {
	err = v.client.Call(ctx, "/fleet/v1/operate", o, &out, 1)
	if errors.Is(err, wirefleet.ErrDenied) || errors.Is(err, wirefleet.ErrCannot) || errors.Is(err, wirefleet.ErrInvalid) {
		return out, fault.WithKind(fault.Usage, err)
	}
	return out, fault.New(fault.Unreachable, err, "is linerate hub running there?")
}

// Status returns the state of the fleet.
func (v *View) Status(ctx context.Context) (s fleet.Status, err error) {
	err = v.get(ctx, "/fleet/v1/status", &s)
	return s, err
}

// Path returns the history of the path between two hosts, of which low has the lower number.
func (v *View) Path(ctx context.Context, low, high int64) (h series.History, err error) {
	err = v.get(ctx, fmt.Sprintf("/fleet/v1/path?low=%d&high=%d", low, high), &h)
	return h, err
}
