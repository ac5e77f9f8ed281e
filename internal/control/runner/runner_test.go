package runner_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/must"
)

// bed is two agents in this process, over the real protocol.
type bed struct {
	*runner.Runner
	near, far *agenttest.Knobs
	cut       func() // breaks the far connection
	hang      func() // makes it stop moving bytes
	left      [2]chan struct{}
}

// cable is a connection that can be cut, or stop moving bytes.
type cable struct {
	net.Conn
	ice, end chan struct{}
	freeze   sync.Once
	close    sync.Once
}

func (c *cable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.stuck() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *cable) Write(b []byte) (int, error) {
	if c.stuck() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *cable) stuck() bool {
	select {
	case <-c.ice:
		<-c.end
		return true
	default:
		return false
	}
}

func (c *cable) Close() error {
	c.close.Do(func() { close(c.end) })
	return c.Conn.Close()
}

func newBed(t *testing.T) *bed {
	t.Helper()
	agenttest.NoLeaks(t)
	b := &bed{near: agenttest.NewKnobs(model.Near, agenttest.Values()), far: agenttest.NewKnobs(model.Far, agenttest.Values())}
	open := func(i int, h model.Host, k *agenttest.Knobs) (*session.Client, *cable) {
		b.left[i] = make(chan struct{})
		p := wire.Pipe(t.Context(), "host "+string(h), "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
			defer close(b.left[i])
			return agent.Serve(ctx, conn, agenttest.Config(k))
		})
		c := &cable{Conn: p.Control, ice: make(chan struct{}), end: make(chan struct{})}
		p.Control = c
		return wiretest.Open(t, p, h), c
	}
	near, _ := open(0, model.Near, b.near)
	far, line := open(1, model.Far, b.far)
	b.cut = func() { _ = line.Close() }
	b.hang = func() { line.freeze.Do(func() { close(line.ice) }) }
	b.Runner = runner.New(near, far, time.Now, nil)
	return b
}

func setting() model.Setting {
	return model.Setting{Name: "big", Assignments: []model.Assignment{
		{Host: model.Near, Knob: "tcp.recv_buffer_max", Value: "9000"},
		{Host: model.Far, Knob: "link.mtu", Value: "9000"},
		{Knob: "streams", Value: "3"},
	}}
}

func (b *bed) untouched(t *testing.T) {
	t.Helper()
	for id, v := range agenttest.Values() {
		n, f := b.near.Value(id), b.far.Value(id)
		must.True(t, n == v && f == v, "%s is %s on near and %s on far, was %s", id, n, f, v)
	}
}

func TestRunAppliesMeasuresAndUndoes(t *testing.T) {
	b := newBed(t)
	spec := runner.Spec{Number: 4, Block: 2, Position: 1, Attempt: 1, Setting: setting(), Flow: wiretest.Flow(model.To)}
	run, changes, err := b.Run(t.Context(), spec, nil)
	must.Do(t, err)
	must.True(t, run.State == model.RunValid && run.Number == 4 && run.Block == 2 && run.Setting == "big" && run.Flow.Streams == 3 && run.Ended.After(run.Started), "%+v", run)
	must.Equal(t, len(changes), 2, "%+v", changes)
	for _, c := range changes {
		must.True(t, c.State == model.ChangeUndone && c.Run == 4 && c.New == "9000", "%+v", c)
	}
	for _, k := range []*agenttest.Knobs{b.near, b.far} {
		must.Same(t, k.Calls(), []string{"apply", "verify", "verify", "undo"}, "%s", k.Host)
		d := k.Withins()[0]
		must.True(t, d >= 30*time.Second && d <= 3*time.Minute, "%s: deadline %v", k.Host, d)
	}
	for _, h := range []model.Host{model.Near, model.Far} {
		_, ok := run.Value(run.Flow.Direction, runner.CPUMetric(h))
		must.True(t, ok, "no CPU of %s in %+v", h, run.Values)
	}
	b.untouched(t)
}

func TestApplyFailsOnOneSide(t *testing.T) {
	b := newBed(t)
	b.far.FailApply = errors.New("no such value")
	run, changes, err := b.Run(t.Context(), runner.Spec{Setting: setting(), Flow: wiretest.Flow(model.To)}, nil)
	must.True(t, err != nil && !errors.Is(err, runner.ErrInvalid) && strings.Contains(err.Error(), "host far: no such value"), "error %v", err)
	must.True(t, run.State == model.RunInvalid && !run.LostContact && len(run.Ends) == 0, "%+v", run)
	for _, c := range changes {
		must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
	}
	b.untouched(t)
}

func TestKnobThatDoesNotHold(t *testing.T) {
	for n, when := range []string{"before the run", "after the run"} {
		b := newBed(t)
		b.near.FailVerify = n + 1
		run, _, err := b.Run(t.Context(), runner.Spec{Setting: setting(), Flow: wiretest.Flow(model.To)}, nil)
		must.True(t, errors.Is(err, runner.ErrInvalid) && run.State == model.RunInvalid && strings.Contains(run.Reason, when), "%s: %v, %+v", when, err, run)
		must.Equal(t, len(run.Ends) == 2, n == 1, "%s: %d reports", when, len(run.Ends))
		b.untouched(t)
	}
}

func TestUnknownFlowKnob(t *testing.T) {
	b := newBed(t)
	s := model.Setting{Name: "odd", Assignments: []model.Assignment{{Host: model.Far, Knob: "link.mtu", Value: "9000"}, {Knob: "colour", Value: "1"}}}
	_, _, err := b.Run(t.Context(), runner.Spec{Setting: s, Flow: wiretest.Flow(model.To)}, nil)
	must.True(t, err != nil && strings.Contains(err.Error(), "colour"), "error %v", err)
	must.Len(t, b.far.Calls(), 0, "calls")
}

func TestRunCancelledAtAnyMoment(t *testing.T) {
	for _, at := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 120 * time.Millisecond} {
		b := newBed(t)
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(at, cancel)
		flow := wiretest.Flow(model.Both)
		flow.Duration = time.Hour
		run, _, err := b.Run(ctx, runner.Spec{Setting: setting(), Flow: flow, Settle: 5 * time.Millisecond}, nil)
		timer.Stop()
		cancel()
		must.True(t, errors.Is(err, context.Canceled) && run.State == model.RunInterrupted && !run.LostContact, "after %v: %v, %+v", at, err, run)
		b.untouched(t)
		// And the hosts are ready for another run.
		run, _, err = b.Run(t.Context(), runner.Spec{Setting: setting(), Flow: wiretest.Flow(model.From)}, nil)
		must.True(t, err == nil, "after %v, the next run: %v, %+v", at, err, run)
	}
}

func lost(t *testing.T, lose func(b *bed), engine string, d model.Direction) {
	t.Helper()
	b := newBed(t)
	flow := wiretest.Flow(d)
	flow.Engine = engine
	flow.Duration = time.Hour
	var once sync.Once
	run, _, err := b.Run(t.Context(), runner.Spec{Number: 1, Setting: setting(), Flow: flow},
		func(model.Host, []model.Sample) { once.Do(func() { lose(b) }) })
	must.True(t, errors.Is(err, runner.ErrContact) && strings.Contains(err.Error(), "host far") && !strings.Contains(err.Error(), "on host near: contact"), "error %v", err)
	must.True(t, run.State == model.RunInvalid && run.LostContact && run.Reason != "", "%+v", run)
	must.Equal(t, b.near.Value("tcp.recv_buffer_max"), "1000", "near still has")
	must.Wait(t, "the far agent to end by itself", b.left[1])
	b.untouched(t)
	calls := b.far.Calls()
	must.True(t, slices.Contains(calls, "undo") && calls[len(calls)-1] == "close", "far: %v", calls)
}

func TestHostCutOff(t *testing.T) {
	for _, engine := range []string{agenttest.EngineName, tcpbulk.Name} {
		for _, d := range []model.Direction{model.To, model.From, model.Both} {
			t.Run(engine+" "+string(d), func(t *testing.T) { lost(t, func(b *bed) { b.cut() }, engine, d) })
		}
	}
}

func TestHostHangs(t *testing.T) { lost(t, func(b *bed) { b.hang() }, tcpbulk.Name, model.To) }

func TestDataPortOutOfReach(t *testing.T) {
	agenttest.NoLeaks(t)
	k := agenttest.NewKnobs(model.Far, agenttest.Values())
	c := agenttest.Config(k)
	var lc net.ListenConfig
	l := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close() // no listener is left
	p := wire.Pipe(t.Context(), "host far", "127.0.0.1", func(ctx context.Context, conn net.Conn) error { return agent.Serve(ctx, conn, c) })
	p.DataPort = port
	far := wiretest.Open(t, p, model.Far)
	near := wiretest.Near(t, agenttest.Config(nil))
	run, _, err := runner.New(near, far, time.Now, nil).Run(t.Context(), runner.Spec{
		Flow: wiretest.Flow(model.To), Setting: model.Setting{Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "0"}}},
	}, nil)
	must.True(t, errors.Is(err, runner.ErrInvalid) && !run.LostContact && strings.Contains(err.Error(), "open data connection"), "%v, %+v", err, run)
	must.Equal(t, k.Value("tcp.sack"), "1", "knob left at")
}

// TestRefusedIdea: a setting that a host refuses ends an experiment, but costs a search for
// settings only that run.
func TestRefusedIdea(t *testing.T) {
	b := newBed(t)
	nothing := model.Setting{Name: "idea", Assignments: []model.Assignment{{Host: model.Far, Knob: "no.such", Value: "1"}}}
	run, _, err := b.Run(t.Context(), runner.Spec{Setting: nothing, Flow: wiretest.Flow(model.To)}, nil)
	must.True(t, err != nil && !errors.Is(err, runner.ErrInvalid) && run.State == model.RunInvalid, "alone: %v, %+v", err, run)
	run, _, err = b.Run(t.Context(), runner.Spec{Setting: nothing, Flow: wiretest.Flow(model.To), Tentative: true}, nil)
	must.True(t, errors.Is(err, runner.ErrInvalid) && run.State == model.RunInvalid && run.Reason != "", "as an idea: %v, %+v", err, run)
	b.untouched(t)
}

func TestUnknownDataAddress(t *testing.T) {
	agenttest.NoLeaks(t)
	far := wiretest.Open(t, wire.Pipe(t.Context(), "host far", "", func(ctx context.Context, conn net.Conn) error {
		return agent.Serve(ctx, conn, agenttest.Config(nil))
	}), model.Far)
	r := runner.New(wiretest.Near(t, agenttest.Config(nil)), far, time.Now, nil)
	_, _, err := r.Run(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To)}, nil)
	must.True(t, err != nil && strings.Contains(err.Error(), "host far"), "error %v", err)
	_, _, err = r.Run(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To), Connector: model.Far}, nil)
	must.OK(t, err, "the other way round")
}

func TestEngineThatFails(t *testing.T) {
	b := newBed(t)
	flow := wiretest.Flow(model.To)
	flow.Engine = "refusing"
	run, _, err := b.Run(t.Context(), runner.Spec{Setting: setting(), Flow: flow}, nil)
	must.True(t, err != nil && strings.Contains(err.Error(), agenttest.ErrRefused.Error()) && run.State == model.RunInvalid, "%v, %+v", err, run)
	b.untouched(t)
}
