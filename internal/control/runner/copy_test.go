package runner_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/filecopy"
	"linerate/internal/must"
)

// TestCopies runs every setting of a copy session over the real protocol, in both directions,
// including the parts that only the sender does.
func TestCopies(t *testing.T) {
	agenttest.NoLeaks(t)
	folder, state := t.TempDir(), t.TempDir()
	open := func(h model.Host) *session.Client {
		c := agenttest.Config(agenttest.NewKnobs(h, agenttest.Values()))
		c.Engines = []engine.Engine{filecopy.New(state, filecopy.Options{NamedPaths: true})}
		return wiretest.Open(t, wire.Pipe(t.Context(), "host "+string(h), "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
			return agent.Serve(ctx, conn, c)
		}), h)
	}
	r := runner.New(open(model.Near), open(model.Far), time.Now, traffic.Kinds{files.Kind()})
	p := must.Get(bottleneck.Plan(bottleneck.PlanOptions{
		Source: folder, Sink: folder, Blocks: 2, Directions: []model.Direction{model.To, model.From},
		Flow: model.Flow{Engine: filecopy.Name, Direction: model.To, Bytes: 2 << 20, Params: traffic.Write(files.Params{Sync: true})},
	}))(t)
	for _, d := range p.Directions {
		in := bottleneck.Input{Rates: map[string]bottleneck.Rates{}}
		for b, order := range p.Order {
			for i, name := range order {
				set, _ := p.Setting(name)
				flow := p.Flow
				flow.Direction = d
				run, _, err := r.Run(t.Context(), runner.Spec{Number: 1, Block: b + 1, Position: i + 1, Attempt: 1, Setting: set, Flow: flow}, nil)
				must.Need(t, err == nil && run.State == model.RunValid, "%s %s: %v, %+v", name, d, err, run)
				rate, ok := run.Value(d, model.Goodput)
				must.True(t, ok && rate > 0, "%s %s: no goodput in %+v", name, d, run.Values)
				if in.Rates[name] == nil {
					in.Rates[name] = bottleneck.Rates{}
				}
				in.Rates[name][b+1] = rate
				for _, w := range run.Warnings {
					must.True(t, !strings.Contains(w, "stopped"), "%s %s: %s", name, d, w)
				}
			}
		}
		limits := bottleneck.Limits(in)
		must.Equal(t, len(limits), 4, "%s: %+v", d, limits)
		for _, l := range limits {
			must.True(t, l.Verdict != bottleneck.NotMeasured && l.Blocks == 2, "%s: %+v", d, l)
		}
	}
	for _, dir := range []string{folder, state} {
		must.Len(t, must.Get(os.ReadDir(dir))(t), 0, "left behind")
	}
}

// bouncing are knobs that take 10 s each to write, like drivers that reset their link.
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

// TestUndoOfWhatBounces: eight settings whose drivers reset the link take 80 s to undo.
// Controller and agents wait that long.
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
			p := wire.Pipe(t.Context(), "host "+string(h), "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
				// No run begins without an engine: this test is about the settings.
				return agent.Serve(ctx, conn, agent.Config{Version: "test", Engines: []engine.Engine{}, Knobs: bouncing{k}})
			})
			return must.Get(session.Open(t.Context(), p, session.Options{Host: h, Version: "test"}))(t), k
		}
		near, _ := open(model.Near)
		far, knobs := open(model.Far)
		_, changes, err := runner.New(near, far, time.Now, nil).Run(t.Context(), runner.Spec{Setting: s, Flow: model.Flow{Engine: "tcp", Streams: 1, Duration: time.Second}}, nil)
		<-time.After(10 * time.Minute) // lets abandoned goroutines end: waiting for a mutex would stop this clock
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

// TestKnock opens what a run would open, from either end, and leaves nothing behind that would
// disturb the next run.
func TestKnock(t *testing.T) {
	b := newBed(t)
	for _, from := range []model.Host{model.Near, model.Far} {
		must.OK(t, b.Knock(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To), Connector: from}, 10*time.Second), "from %s", from)
	}
	flow := wiretest.Flow(model.To)
	flow.Duration = time.Second // long enough that something arrives on a busy machine, too
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
	defer func() { _ = silent.Close() }() // accepts connections, and never answers
	for name, addr := range map[string]string{"refused": "127.0.0.1:1", "silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			agenttest.NoLeaks(t)
			p := wire.Pipe(t.Context(), "host far", "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
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

// free returns an unused port.
func free(t *testing.T) int {
	t.Helper()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// TestDataPort: the accepting end, whichever it is, uses one of the named ports and no other,
// and reports an error if none is free.
func TestDataPort(t *testing.T) {
	b := newBed(t)
	busy := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", ":0"))(t)
	defer func() { _ = busy.Close() }()
	port := busy.Addr().(*net.TCPAddr).Port
	for _, from := range []model.Host{model.Near, model.Far} {
		b.Path = model.DataPath{ConnectFrom: from, Ports: model.Ports{First: port, Last: port}}
		must.Say(t, b.Knock(t.Context(), runner.Spec{Flow: wiretest.Flow(model.To)}, 5*time.Second), strconv.Itoa(port), "from %s to a port that is in use", from)
	}
	_ = busy.Close()
	b.Path = model.DataPath{Ports: model.Ports{First: port, Last: port}}
	run, _, err := b.Run(t.Context(), runner.Spec{Number: 1, Flow: wiretest.Flow(model.To)}, nil)
	must.True(t, err == nil, "%s, %v", run.Reason, err)
}

// deaf opens any port, whatever was asked for.
type deaf struct{ data.Shared }

// Open implements data.Source.
func (deaf) Open(ctx context.Context, token data.Token, ahead int, o engine.SocketOptions) (data.Port, error) {
	return data.Ephemeral{}.Open(ctx, token, ahead, o)
}

// TestPortOutsideRange: an agent that accepts connections on a port outside the given range is
// not measured.
func TestPortOutsideRange(t *testing.T) {
	agenttest.NoLeaks(t)
	p := wire.Pipe(t.Context(), "host far", "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
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

// member returns a run of a group that shares an MTU of both hosts and changes a buffer of the
// near one; another run follows if hold is not 0.
func member(number int, buffer string, hold time.Duration) runner.Spec {
	mtu := []model.Assignment{{Host: model.Near, Knob: "link.mtu", Value: "9000"}, {Host: model.Far, Knob: "link.mtu", Value: "9000"}}
	return runner.Spec{Number: number, Flow: wiretest.Flow(model.To), Held: mtu, Hold: hold, Setting: model.Setting{
		Name: buffer, Assignments: append(slices.Clone(mtu), model.Assignment{Host: model.Near, Knob: "tcp.recv_buffer_max", Value: buffer})}}
}

// demand checks what both hosts hold of a group.
func (b *bed) demand(t *testing.T, mtu, buffer string) {
	t.Helper()
	n, f, v := b.near.Value("link.mtu"), b.far.Value("link.mtu"), b.near.Value("tcp.recv_buffer_max")
	must.True(t, n == mtu && f == mtu && v == buffer, "MTU %s and %s, buffer %s; want %s and %s", n, f, v, mtu, buffer)
}

// What a group shares is applied before its first run and undone after its last one; in between
// only the rest is applied and undone, and the deadline moves on both hosts.
func TestGroupIsHeldFromFirstToLastRun(t *testing.T) {
	b := newBed(t)
	for i, buffer := range []string{"2000", "3000", "4000"} {
		hold := time.Minute
		if i == 2 {
			hold = 0
		}
		run, changes, err := b.Run(t.Context(), member(i+1, buffer, hold), nil)
		must.Need(t, err == nil && run.State == model.RunValid, "run %d: %+v, %v", i+1, run, err)
		if i < 2 {
			b.demand(t, "9000", buffer)
			must.Equal(t, len(changes), 0, "run %d tells of changes that hold still: %+v", i+1, changes)
			continue
		}
		must.Equal(t, len(changes), 3, "%+v", changes)
		for _, c := range changes {
			must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
		}
	}
	b.untouched(t)
	rest := []string{"verify", "verify", "extend"}
	near := slices.Concat([]string{"apply"}, rest, []string{"apply"}, rest, []string{"apply", "verify", "verify", "undo"})
	far := slices.Concat([]string{"apply"}, rest, []string{"extend"}, rest, []string{"extend", "verify", "verify", "undo"})
	must.Same(t, b.near.Calls(), near, "near")
	must.Same(t, b.far.Calls(), far, "far")
}

// A group that ends early is undone by Release, even if the caller has given up, and by a run of
// another group before it begins.
func TestGroupThatEndsEarly(t *testing.T) {
	b := newBed(t)
	run := func(s runner.Spec) []model.Change {
		t.Helper()
		r, changes, err := b.Run(t.Context(), s, nil)
		must.Need(t, err == nil && r.State == model.RunValid, "%+v, %v", r, err)
		return changes
	}
	run(member(1, "2000", time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	changes := must.Get(b.Release(ctx))(t)
	must.Equal(t, len(changes), 3, "%+v", changes)
	b.untouched(t)
	must.Len(t, must.Get(b.Release(t.Context()))(t), 0, "nothing is held")

	run(member(2, "2000", time.Minute))
	changes = run(runner.Spec{Number: 3, Setting: setting(), Flow: wiretest.Flow(model.To)})
	must.True(t, len(changes) == 3 && !slices.ContainsFunc(changes, func(c model.Change) bool { return c.State != model.ChangeUndone }), "%+v", changes)
	b.untouched(t)
}

// Whatever fails in a group, the hosts are restored when its run has ended.
func TestGroupIsUndoneWhateverFails(t *testing.T) {
	cancelled := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Millisecond, cancel)
		return ctx, cancel
	}
	background := func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }
	for name, c := range map[string]struct {
		fail  func(b *bed)
		begin func() (context.Context, context.CancelFunc)
		flow  time.Duration
		want  error
	}{
		"a value is refused":    {func(b *bed) { b.near.FailApply = errors.New("no such value") }, background, 0, runner.ErrInvalid},
		"a knob does not hold":  {func(b *bed) { b.far.FailVerify = 3 }, background, 0, runner.ErrInvalid},
		"the user presses keys": {func(*bed) {}, cancelled, time.Hour, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			_, _, err := b.Run(t.Context(), member(1, "2000", time.Minute), nil)
			must.Need(t, err == nil, "%v", err)
			c.fail(b)
			s := member(2, "3000", time.Minute)
			s.Flow.Duration = max(s.Flow.Duration, c.flow)
			ctx, cancel := c.begin()
			defer cancel()
			if _, changes, err := b.Run(ctx, s, nil); !errors.Is(err, c.want) || slices.ContainsFunc(changes, func(c model.Change) bool { return c.State != model.ChangeUndone }) {
				t.Errorf("%+v, %v", changes, err)
			}
			b.untouched(t)
			b.near.FailApply = nil
			_, _, err = b.Run(t.Context(), member(3, "3000", 0), nil) // and a new group may begin
			must.OK(t, err)
			b.untouched(t)
		})
	}
}

// A host that is lost while it holds a group undoes by itself, and so does the other.
func TestHostLostInAGroup(t *testing.T) {
	b := newBed(t)
	_, _, err := b.Run(t.Context(), member(1, "2000", time.Minute), nil)
	must.Do(t, err)
	b.cut()
	run, _, err := b.Run(t.Context(), member(2, "3000", time.Minute), nil)
	must.True(t, errors.Is(err, runner.ErrContact) && run.LostContact, "%+v, %v", run, err)
	<-b.left[1]
	b.untouched(t)
	calls := b.far.Calls()
	must.True(t, slices.Contains(calls, "undo"), "far: %v", calls)
}
