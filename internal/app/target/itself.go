package target

import (
	"context"

	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/model"
)

// Itself measures from a host to itself, over a second session with it for each run.
type Itself struct {
	Ends *Ends
	Host model.Host
}

// Run does one run, as runner.Runner does.
func (i Itself) Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	e, other := i.Ends, model.Far
	if i.Host == model.Far {
		other = model.Near
	}
	c, err := e.env.OpenRole(ctx, i.Host, other, func(ctx context.Context) (wire.Peer, error) { return e.Dial(ctx, i.Host) })
	if err != nil {
		return model.Run{}, nil, err
	}
	defer e.env.HangUp(c)
	ends := [2]*session.Client{e.Client(i.Host), c}
	if i.Host == model.Far {
		ends[0], ends[1] = ends[1], ends[0]
	}
	return runner.New(ends[0], ends[1], e.env.Now, e.env.Kinds()).Run(ctx, s, emit)
}
