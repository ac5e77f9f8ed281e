package agent

import (
	"context"
	"fmt"

	"linerate/internal/control/session"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// restrained returns open, which for a controller that may only measure sets no
// congestion control but one that every program of this host may choose: a server
// that runs as root would load a module of the kernel for somebody it does not
// know. What came over ssh may what its user may, and who may tune could set it
// for the whole host.
func (a *agent) restrained(open func(context.Context, int, engine.SocketOptions) (engine.Opened, error)) func(context.Context, int, engine.SocketOptions) (engine.Opened, error) {
	if a.Admit == nil || a.Knobs != nil {
		return open
	}
	return func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		if name := o.Congestion; name != "" && !sockio.AllowedCongestion(name) {
			return engine.Opened{}, fmt.Errorf("%w: congestion control %.32q is not one that every program of this server's host may choose: ask for another, or let this end receive",
				session.ErrRefused, name)
		}
		return open(ctx, n, o)
	}
}
