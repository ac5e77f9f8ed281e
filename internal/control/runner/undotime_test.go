package runner_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/pipe"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// bouncing are knobs of which each takes 10 s to write, as drivers do that reset
// their link.
type bouncing struct{ *agenttest.Knobs }

func (b bouncing) wait(ctx context.Context, n int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(n) * 10 * time.Second):
		return nil
	}
}

func (b bouncing) Apply(ctx context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error) {
	if err := b.wait(ctx, len(as)); err != nil {
		return nil, err
	}
	return b.Knobs.Apply(ctx, as, within)
}

func (b bouncing) Undo(ctx context.Context) ([]model.Change, error) {
	if err := b.wait(ctx, 8); err != nil {
		return nil, err
	}
	return b.Knobs.Undo(ctx)
}

// TestUndoOfWhatBounces: eight settings whose drivers reset the link take 80 s to
// put back. Controller and agents wait for as long.
func TestUndoOfWhatBounces(t *testing.T) {
	ids := []model.KnobID{
		"link.mtu", "nic.ring.rx", "nic.ring.tx", "nic.queues.combined", "nic.queues.rx", "nic.queues.tx", "nic.coalesce.rx_delay", "nic.rss",
	}
	synctest.Test(t, func(t *testing.T) {
		values := map[model.KnobID]string{}
		s := model.Setting{Name: "all"}
		for _, id := range ids {
			values[id] = "1"
			s.Assignments = append(s.Assignments, model.Assignment{Host: model.Far, Knob: id, Value: "2"})
		}
		open := func(h model.Host) (*session.Client, *agenttest.Knobs) {
			k := agenttest.NewKnobs(h, values)
			p := pipe.Start(t.Context(), "host "+string(h), "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
				// Without an engine no run begins: it is the settings that are watched.
				return agent.Serve(ctx, conn, agent.Config{Version: "test", Engines: []engine.Engine{}, Knobs: bouncing{k}})
			})
			c := must.Get(session.Open(t.Context(), p, session.Options{Host: h, Version: "test"}))(t)
			return c, k
		}
		near, _ := open(model.Near)
		far, knobs := open(model.Far)
		_, changes, err := runner.New(near, far, time.Now, nil).Run(t.Context(), runner.Spec{Setting: s, Flow: model.Flow{Engine: "tcp", Streams: 1, Duration: time.Second}}, nil)
		<-time.After(10 * time.Minute) // whoever was given up on ends: to wait for a mutex stops this clock
		must.Fail(t, err, "a run without an engine")
		must.True(t, len(changes) == len(ids), "%d changes: %v", len(changes), err)
		for _, c := range changes {
			must.True(t, c.State == model.ChangeUndone, "%s is %s: %v", c.Knob, c.State, err)
		}
		for _, id := range ids {
			must.Equal(t, knobs.Value(id), "1", "%s", id)
		}
		for _, c := range []*session.Client{near, far} {
			must.OK(t, must.Err(c.Close(t.Context())))
		}
	})
}
