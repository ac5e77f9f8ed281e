// Package wiretest is the conformance suite of transports: a session behaves the same over each
// of them.
package wiretest

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/model"
	"linerate/internal/measure/tcpbulk"
)

// Transport reaches an agent that was started with agenttest.Config.
type Transport struct {
	// Dial starts an agent for the far end and returns the peer.
	Dial func(t *testing.T) wire.Peer
	// Tunes says that the agent has the knobs of agenttest.Values.
	Tunes bool
	// Strange says that the agent reports only public facts.
	Strange bool
}

// Open opens a session with peer and closes it at the end of the test.
func Open(t testing.TB, peer wire.Peer, h model.Host) *session.Client {
	t.Helper()
	c, err := session.Open(t.Context(), peer, session.Options{Host: h, Version: agenttest.Version, Timeouts: agenttest.Timeouts()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_, _ = c.Close(ctx) // a test that breaks its session expects an error here
	})
	return c
}

// Near opens a session with an agent in this process.
func Near(t *testing.T, c agent.Config) *session.Client {
	t.Helper()
	return Open(t, wire.Pipe(t.Context(), "near", "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
		return agent.Serve(ctx, conn, c)
	}), model.Near)
}

// Flow returns a short run.
func Flow(d model.Direction) model.Flow {
	return model.Flow{
		Engine: agenttest.EngineName, Direction: d, Streams: 2, Duration: 400 * time.Millisecond,
		Omit: 30 * time.Millisecond, Interval: 30 * time.Millisecond,
	}
}

// Run runs the suite.
func Run(t *testing.T, tr Transport) {
	t.Run("looks", func(t *testing.T) { agenttest.NoLeaks(t); looks(t, tr) })
	t.Run("tunes", func(t *testing.T) { agenttest.NoLeaks(t); tunes(t, tr) })
	t.Run("measures", func(t *testing.T) { agenttest.NoLeaks(t); measures(t, tr) })
	t.Run("refuses", func(t *testing.T) { agenttest.NoLeaks(t); refuses(t, tr) })
	t.Run("closes", func(t *testing.T) { agenttest.NoLeaks(t); closes(t, tr) })
}

func looks(t *testing.T, tr Transport) {
	c := Open(t, tr.Dial(t), model.Far)
	if c.Version() != agenttest.Version || (c.NoSettings() == "") != tr.Tunes {
		t.Errorf("version %q, no settings %q", c.Version(), c.NoSettings())
	}
	f, err := c.Facts(t.Context(), "192.0.2.7")
	if err != nil {
		t.Fatal(err)
	}
	name, why := "test", "not asked"
	if tr.Strange {
		name, why = "", "not reported without a key"
	}
	if f.Host != model.Far || f.Name != name || f.Address != "192.0.2.7" || f.MTU.Or(0) != 1500 || f.Kernel.Reason() != why {
		t.Errorf("facts %+v", f)
	}
	if cs, err := c.Recovered(t.Context()); err != nil || len(cs) != 1 || cs[0].State != model.ChangeUndone || cs[0].Host != model.Far {
		t.Errorf("recovered %+v, %v", cs, err)
	}
}

func tunes(t *testing.T, tr Transport) {
	c := Open(t, tr.Dial(t), model.Far)
	ctx := t.Context()
	as := []model.Assignment{{Host: model.Far, Knob: "link.mtu", Value: "9000"}}
	applied, err := c.Apply(ctx, as, time.Minute)
	if !tr.Tunes {
		if !errors.Is(err, session.ErrRefused) {
			t.Fatalf("applying on an agent that only measures: %v", err)
		}
		if cs, err := c.Undo(ctx); err != nil || len(cs) != 0 {
			t.Errorf("undo without knobs: %v, %v", cs, err)
		}
		return
	}
	if err != nil || len(applied) != 1 || applied[0].Old != "1500" || applied[0].State != model.ChangeApplied {
		t.Fatalf("apply: %+v, %v", applied, err)
	}
	m, err := c.ReadKnobs(ctx, []model.KnobID{"link.mtu", "tcp.sack", "none"})
	if err != nil || len(m) != 2 || m["link.mtu"].Or("") != "9000" {
		t.Errorf("read knobs: %v, %v", m, err)
	}
	if err := c.Verify(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Extend(ctx, time.Minute); err != nil {
		t.Error(err)
	}
	undone, err := c.Undo(ctx)
	if err != nil || len(undone) != 1 || undone[0].State != model.ChangeUndone {
		t.Errorf("undo: %+v, %v", undone, err)
	}
	if undone, err = c.Undo(ctx); err != nil || len(undone) != 0 {
		t.Errorf("undo again: %+v, %v", undone, err)
	}
}

func measures(t *testing.T, tr Transport) {
	near, far := Near(t, agenttest.Config(nil)), Open(t, tr.Dial(t), model.Far)
	r := runner.New(near, far, time.Now, nil)
	for _, name := range []string{agenttest.EngineName, tcpbulk.Name} {
		for _, d := range []model.Direction{model.To, model.From, model.Both} {
			flow := Flow(d)
			flow.Engine = name
			measure(t, r, flow)
		}
		counted := Flow(model.To)
		counted.Engine, counted.Duration, counted.Omit, counted.Bytes, counted.Streams = name, 0, 0, 1<<20, 1
		run, _, err := r.Run(t.Context(), runner.Spec{Number: 9, Flow: counted}, nil)
		if err != nil || run.Ends[1].Flows[0].Bytes < 1<<20 {
			t.Errorf("%s: counted run: %+v, %v", name, run, err)
		}
	}
}

func measure(t *testing.T, r *runner.Runner, flow model.Flow) {
	t.Helper()
	at := flow.Engine + " " + string(flow.Direction)
	seen := map[model.Host]int{}
	run, _, err := r.Run(t.Context(), runner.Spec{Number: 1, Flow: flow},
		func(h model.Host, s []model.Sample) { seen[h] += len(s) })
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if run.State != model.RunValid || len(run.Ends) != 2 || run.Ends[0].Host != model.Near || run.Ends[1].Host != model.Far {
		t.Errorf("%s: %+v", at, run)
	}
	for _, part := range flow.Direction.Parts() {
		if v, ok := run.Value(part, model.Goodput); !ok || v <= 0 {
			t.Errorf("%s: goodput %v of %s", at, v, part)
		}
		if seen[part.Receiver()] == 0 {
			t.Errorf("%s: no samples from %s", at, part.Receiver())
		}
	}
}

func refuses(t *testing.T, tr Transport) {
	c := Open(t, tr.Dial(t), model.Far)
	ctx := t.Context()
	flow := Flow(model.To)
	flow.Engine = "none"
	if _, err := c.Prepare(ctx, session.Preparation{Run: 1, Flow: flow}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("unknown engine: %v", err)
	}
	flow = Flow(model.To)
	flow.Streams = 33
	if _, err := c.Prepare(ctx, session.Preparation{Run: 1, Flow: flow}); !errors.Is(err, session.ErrInvalid) && !errors.Is(err, session.ErrRefused) {
		t.Errorf("flow that the engine refuses: %v", err)
	}
	flow.Streams = session.MaxStreams + 1
	if _, err := c.Prepare(ctx, session.Preparation{Run: 1, Flow: flow}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("flow out of bounds: %v", err)
	}
	if err := c.Start(ctx, 7); !errors.Is(err, session.ErrState) {
		t.Errorf("start of nothing: %v", err)
	}
	if err := c.Stop(ctx, 7); err != nil {
		t.Errorf("stop of nothing: %v", err)
	}
	if err := c.Run(ctx, 7, func(session.Event) {}); !errors.Is(err, session.ErrState) {
		t.Errorf("run of nothing: %v", err)
	}
	flow.Engine = "refusing"
	flow.Streams = 1
	if _, err := c.Prepare(ctx, session.Preparation{Run: 2, Flow: flow}); err == nil {
		t.Error("a failed preparation is no error")
	}
	if _, err := c.Prepare(ctx, session.Preparation{Run: 3, Flow: Flow(model.To)}); err != nil {
		t.Errorf("preparation after a failed one: %v", err)
	}
}

func closes(t *testing.T, tr Transport) {
	c := Open(t, tr.Dial(t), model.Far)
	ctx := t.Context()
	if tr.Tunes {
		if _, err := c.Apply(ctx, []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "0"}}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	first, err := c.Close(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Tunes && (len(first) != 1 || first[0].State != model.ChangeUndone) {
		t.Errorf("close did not undo: %+v", first)
	}
	again, err := c.Close(ctx)
	if err != nil || !slices.Equal(first, again) {
		t.Errorf("close again: %+v, %v", again, err)
	}
	if _, err := c.Facts(ctx, ""); !errors.Is(err, session.ErrLost) {
		t.Errorf("call after close: %v", err)
	}
}
