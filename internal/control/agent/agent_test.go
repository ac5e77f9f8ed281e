package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/must"
)

// far opens a session with an agent in this process; ended is closed when the agent is gone.
func far(t *testing.T, c agent.Config) (s *session.Client, cut func() error, ended <-chan struct{}) {
	t.Helper()
	agenttest.NoLeaks(t)
	done := make(chan struct{})
	p := wire.Pipe(t.Context(), "far", "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
		defer close(done)
		return agent.Serve(ctx, conn, c)
	})
	return wiretest.Open(t, p, model.Far), p.Control.Close, done
}

func dialPort(t *testing.T, port int) (net.Conn, error) {
	t.Helper()
	var d net.Dialer
	return d.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func TestConnectionEndsSessionInOrder(t *testing.T) {
	k := agenttest.NewKnobs(model.Far, agenttest.Values())
	s, cut, ended := far(t, agenttest.Config(k))
	ctx := t.Context()
	must.Get(s.Apply(ctx, []model.Assignment{{Host: model.Far, Knob: "link.mtu", Value: "9000"}}, time.Minute))(t)
	token := [32]byte{1}
	port, err := s.Prepare(ctx, session.Preparation{Run: 1, Flow: wiretest.Flow(model.To), Token: token})
	must.Need(t, err == nil && port != 0, "port %d, %v", port, err)
	conn, _, err := data.Dial(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), token, 0, engine.SocketOptions{})
	must.Do(t, err)
	defer func() { _ = conn.Close() }()
	_ = cut()
	must.Wait(t, "the agent to end", ended)
	_, err = conn.Read(make([]byte, 1))
	must.True(t, err != nil && !errors.Is(err, context.DeadlineExceeded), "the data connection lives: %v", err)
	if c, err := dialPort(t, port); err == nil {
		_ = c.Close()
		t.Error("the port is still open")
	}
	got := k.Calls()
	must.True(t, slices.Equal(got, []string{"apply", "undo", "close"}) && k.Value("link.mtu") == "1500", "calls %v, mtu %s", got, k.Value("link.mtu"))
}

func TestFailedApplyIsUndoneAtTheEnd(t *testing.T) {
	k := agenttest.NewKnobs(model.Far, agenttest.Values())
	k.FailApply = errors.New("half way")
	s, cut, ended := far(t, agenttest.Config(k))
	must.Need(t, must.Err(s.Apply(t.Context(), []model.Assignment{{Host: model.Far, Knob: "link.mtu", Value: "9000"}}, time.Minute)) != nil, "no error")
	_ = cut()
	must.Wait(t, "the agent to end", ended)
	must.Equal(t, k.Value("link.mtu"), "1500", "mtu left at")
}

// TestCommandsAreRefused unless the owner of the host allowed them: the settings sent with one
// are not applied either.
func TestCommandsAreRefused(t *testing.T) {
	as := []model.Assignment{
		{Host: model.Far, Knob: "link.mtu", Value: "9000"},
		{Host: model.Far, Knob: "cmd:shaper", Value: model.On, Command: model.Command{Run: "exit 1", Undo: "exit 1", Limit: time.Second}},
	}
	for _, allowed := range []bool{false, true} {
		k := agenttest.NewKnobs(model.Far, agenttest.Values())
		c := agenttest.Config(k)
		c.Commands = allowed
		s, cut, ended := far(t, c)
		_, err := s.Apply(t.Context(), as, time.Minute)
		refused := errors.Is(err, session.ErrRefused)
		must.True(t, refused != allowed && (!refused || strings.Contains(err.Error(), "--allow-commands")), "allowed %t: %v", allowed, err)
		must.Equal(t, slices.Contains(k.Calls(), "apply"), allowed, "allowed %t: calls %v", allowed, k.Calls())
		_ = cut()
		must.Wait(t, "the agent to end", ended)
	}
}

func TestWrongTokenGetsNotAByte(t *testing.T) {
	s, _, _ := far(t, agenttest.Config(nil))
	port := must.Get(s.Prepare(t.Context(), session.Preparation{Run: 1, Flow: wiretest.Flow(model.From), Token: [32]byte{1}}))(t)
	conn := must.Get(dialPort(t, port))(t)
	defer func() { _ = conn.Close() }()
	must.Get(io.WriteString(conn, "lr-data1"+strings.Repeat("\x02", 32)+"\x00\x00\x00\x00"))(t)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := conn.Read(make([]byte, 1))
	must.True(t, n == 0 && err != nil && !strings.Contains(err.Error(), "timeout"), "%d bytes, %v", n, err)
}

func TestOneRunAtATime(t *testing.T) {
	s, _, _ := far(t, agenttest.Config(nil))
	ctx := t.Context()
	p := session.Preparation{Run: 1, Flow: wiretest.Flow(model.To), Token: [32]byte{1}}
	must.Get(s.Prepare(ctx, p))(t)
	must.Is(t, s.Start(ctx, 1), session.ErrState, "start before ready")
	time.AfterFunc(50*time.Millisecond, func() { _ = s.Stop(ctx, 1) })
	p.Run = 2 // waits for the first to end
	must.OK(t, must.Err(s.Prepare(ctx, p)), "after stop")
}

func TestPreparedRunIsDroppedUnstarted(t *testing.T) {
	c := agenttest.Config(nil)
	c.Prepare = 100 * time.Millisecond
	s, _, _ := far(t, c)
	port := must.Get(s.Prepare(t.Context(), session.Preparation{Run: 1, Flow: wiretest.Flow(model.To), Token: [32]byte{1}}))(t)
	must.Until(t, "the port closes", func() bool {
		conn, err := dialPort(t, port)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	must.OK(t, must.Err(s.Prepare(t.Context(), session.Preparation{Run: 2, Flow: wiretest.Flow(model.To), Token: [32]byte{2}})), "the next one")
}

func TestLimits(t *testing.T) {
	c := agenttest.Config(nil)
	c.Limits = agent.Limits{MaxTime: time.Second, MaxStreams: 4, MaxBlock: 1000}
	c.MayConnect = func(string) error { return session.ErrRefused }
	s, _, _ := far(t, c)
	for name, change := range map[string]func(p *session.Preparation){
		"time":    func(p *session.Preparation) { p.Flow.Omit = time.Second },
		"streams": func(p *session.Preparation) { p.Flow.Streams = 5 },
		"block":   func(p *session.Preparation) { p.Flow.Block = 1001 },
		"address": func(p *session.Preparation) { p.Connect = "192.0.2.1:1" },
	} {
		p := session.Preparation{Run: 1, Flow: wiretest.Flow(model.To)}
		change(&p)
		must.Is(t, must.Err(s.Prepare(t.Context(), p)), session.ErrRefused, "%s", name)
	}
	c.Limits, c.Engines = agent.Limits{MaxTCP: 1e6}, append(c.Engines, tcpbulk.New())
	s, _, _ = far(t, c)
	for i, rate := range []units.BitRate{0, 1e6 + 1, 1e6} { // 0 is as fast as possible
		f, _ := bulk.Paced(model.Flow{Engine: bulk.Name, Direction: model.From, Duration: time.Second}, rate)
		err := must.Err(s.Prepare(t.Context(), session.Preparation{Run: uint64(i + 1), Flow: f}))
		must.Equal(t, errors.Is(err, session.ErrRefused), rate != 1e6, "a rate of %v is refused: %v", rate, err)
	}
}

// TestPurgeBeforeEveryRun: a failed purge is one warning, the same for each run, and no error.
func TestPurgeBeforeEveryRun(t *testing.T) {
	const unpurged = "what TCP remembers of earlier runs was not purged: "
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"purged":      {nil, nil},
		"no rights":   {fmt.Errorf("purge: %w", fs.ErrPermission), []string{unpurged + "needs root"}},
		"no such way": {fmt.Errorf("purge: %w", errors.ErrUnsupported), []string{unpurged + "not possible on " + runtime.GOOS}},
		"other":       {errors.New("no buffers"), []string{unpurged + "no buffers"}},
	} {
		t.Run(name, func(t *testing.T) {
			var purges atomic.Int64
			config := agenttest.Config(nil)
			config.Purge = func(context.Context) error {
				purges.Add(1)
				return c.err
			}
			s, _, _ := far(t, config)
			for n := uint64(1); n <= 2; n++ {
				token := [32]byte{byte(n)}
				flow := wiretest.Flow(model.To)
				flow.Streams = 1
				port := must.Get(s.Prepare(t.Context(), session.Preparation{Run: n, Flow: flow, Token: token}))(t)
				if got := purges.Load(); got != int64(n) {
					t.Errorf("%d purges when run %d may be connected to", got, n)
				}
				conn, _, err := data.Dial(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), token, 0, engine.SocketOptions{})
				must.Do(t, err)
				defer conn.Close()
				var got []string
				err = s.Run(t.Context(), n, func(e session.Event) {
					got = append(got, e.Warnings...)
					if e.Kind == session.Ready {
						if err := s.Stop(t.Context(), n); err != nil { // it has shown what this test checks
							t.Error(err)
						}
					}
				})
				must.True(t, err != nil && slices.Equal(got, c.want), "run %d: error %v, warnings %q, want %q", n, err, got, c.want)
			}
		})
	}
}

// flood is an engine that emits samples as fast as it can.
type flood struct{ agenttest.Engine }

func (flood) Prepare(context.Context, engine.Env, model.Flow) (engine.Test, error) {
	return &floodTest{stopped: make(chan struct{})}, nil
}

type floodTest struct{ stopped chan struct{} }

func (f *floodTest) Run(ctx context.Context, emit func([]model.Sample)) (model.EndReport, error) {
	for ctx.Err() == nil {
		emit([]model.Sample{{Metric: "m"}})
	}
	return model.EndReport{}, ctx.Err()
}

func (f *floodTest) Measured() <-chan struct{} { return f.stopped }
func (f *floodTest) Stop()                     {}
func (f *floodTest) Close() error              { return nil }

func TestControllerThatReadsTooSlowly(t *testing.T) {
	c := agenttest.Config(nil)
	c.Engines = []engine.Engine{flood{}}
	s, _, _ := far(t, c)
	ctx := t.Context()
	port, err := s.Prepare(ctx, session.Preparation{Run: 1, Flow: wiretest.Flow(model.To)})
	must.Need(t, err == nil && port == 0, "port %d, %v", port, err)
	err = s.Run(ctx, 1, func(e session.Event) {
		if e.Kind == session.Ready {
			must.OK(t, s.Start(ctx, 1))
		}
	})
	must.Say(t, err, "does not read the samples", "error")
	must.OK(t, must.Err(s.Facts(ctx, "")), "the session did not survive")
}
