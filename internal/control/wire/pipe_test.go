package wire_test

import (
	"context"
	"net"
	"testing"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
)

func TestConformance(t *testing.T) {
	wiretest.Run(t, wiretest.Transport{Tunes: true, Dial: func(t *testing.T) wire.Peer {
		c := agenttest.Config(agenttest.NewKnobs(model.Far, agenttest.Values()))
		return wire.Pipe(t.Context(), "far", "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
			return agent.Serve(ctx, conn, c)
		})
	}})
}
