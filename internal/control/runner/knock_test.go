package runner_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/pipe"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// TestKnock opens what a run would open, from either end, and leaves nothing that the
// next run would find in its way.
func TestKnock(t *testing.T) {
	b := newBed(t)
	for _, from := range []model.Host{model.Near, model.Far} {
		must.OK(t, b.Knock(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To), Connector: from}, 10*time.Second), "from %s", from)
	}
	flow := wiretest.Flow(model.To)
	flow.Duration = time.Second // something arrives in it on a busy machine, too
	run, _, err := b.Run(t.Context(), runner.Spec{Number: 1, Setting: setting(), Flow: flow}, nil)
	must.True(t, err == nil && run.State == model.RunValid, "the run after it: %s, %v", run.State, err)
	b.untouched(t)
	trip := must.Get(b.RoundTrip(t.Context()))(t)
	must.True(t, trip > 0, "%v", trip)
}

// TestKnockAtAClosedDoor: the error distinguishes a server that refuses data connections
// from a port without a listener.
func TestKnockAtAClosedDoor(t *testing.T) {
	silent := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = silent.Close() }() // connects, and never answers
	for name, addr := range map[string]string{"refused": "127.0.0.1:1", "silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			agenttest.NoLeaks(t)
			p := pipe.Start(t.Context(), "host far", "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
				return agent.Serve(ctx, conn, agenttest.Config(nil))
			})
			p.Forwarded = &wire.Forwarding{Addr: addr, Port: free(t)}
			r := runner.New(wiretest.Near(t, agenttest.Config(nil)), wiretest.Open(t, p, model.Far), time.Now, nil)
			err := r.Knock(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To)}, 300*time.Millisecond)
			closed, ok := errors.AsType[*runner.Closed](err)
			must.True(t, ok && (closed.Why != nil) == (name == "refused") && closed.Acceptor == "host far", "%v", err)
			must.OK(t, r.Knock(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To), Connector: model.Far}, time.Minute), "from the other end")
		})
	}
}

// free is a port that nobody has at the moment.
func free(t *testing.T) int {
	t.Helper()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// TestDataPort: the accepting end takes a port of those that were named and no other,
// at whichever end that is, and says so where it has none.
func TestDataPort(t *testing.T) {
	b := newBed(t)
	busy := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", ":0"))(t)
	defer func() { _ = busy.Close() }()
	port := busy.Addr().(*net.TCPAddr).Port
	for _, from := range []model.Host{model.Near, model.Far} {
		b.Path = model.DataPath{ConnectFrom: from, Ports: model.Ports{First: port, Last: port}}
		err := b.Knock(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To)}, 5*time.Second)
		must.Say(t, err, strconv.Itoa(port), "from %s to a port that is in use", from)
	}
	_ = busy.Close()
	b.Path = model.DataPath{Ports: model.Ports{First: port, Last: port}}
	run, _, err := b.Run(t.Context(), runner.Spec{Number: 1, Flow: wiretest.Flow(model.To)}, nil)
	must.True(t, err == nil, "%s, %v", run.Reason, err)
}

// deaf opens ports as it likes.
type deaf struct{ data.Shared }

// Open implements data.Source.
func (deaf) Open(ctx context.Context, token data.Token, ahead int, o engine.SocketOptions) (data.Port, error) {
	return data.Ephemeral{}.Open(ctx, token, ahead, o)
}

// TestPortOutsideRange: an agent that accepts connections at another port than the
// ones that it was given is not measured.
func TestPortOutsideRange(t *testing.T) {
	agenttest.NoLeaks(t)
	p := pipe.Start(t.Context(), "host far", "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
		c := agenttest.Config(nil)
		c.Data = deaf{}
		return agent.Serve(ctx, conn, c)
	})
	r := runner.New(wiretest.Near(t, agenttest.Config(nil)), wiretest.Open(t, p, model.Far), time.Now, nil)
	r.Path.Ports = model.Ports{First: 1, Last: 1}
	err := r.Knock(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To)}, 5*time.Second)
	must.True(t, errors.Is(err, session.ErrInvalid) && strings.Contains(err.Error(), "instead of"), "%v", err)
	must.True(t, !errors.Is(err, session.ErrLost), "the session is lost")
}
