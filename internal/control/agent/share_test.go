package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
	"linerate/internal/panics"
)

// patient is an engine whose runs last until stopped.
type patient struct{}

func (patient) Name() string              { return "patient" }
func (patient) Kind() traffic.Kind        { return traffic.Kind{Name: "patient", Demand: demand} }
func (patient) Validate(model.Flow) error { return nil }
func (patient) Prepare(context.Context, engine.Env, model.Flow) (engine.Test, error) {
	return &patience{engine.NewLife()}, nil
}

// demand returns the demand of a sweep, or of requests, depending on f's parameters.
func demand(f model.Flow) traffic.Demand {
	if f.Points > 0 {
		return sizes.Kind().Of(f)
	}
	return requests.Kind().Of(f)
}

type patience struct{ *engine.Life }

func (p *patience) Run(ctx context.Context, _ func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := p.Begin(ctx)
	if err != nil {
		return model.EndReport{}, err
	}
	defer end(&err)
	select {
	case <-p.Stopping():
		return model.EndReport{Host: model.Far, Warnings: []string{"stopped"}}, nil
	case <-ctx.Done():
		return model.EndReport{}, ctx.Err()
	}
}

func (p *patience) Close() error { return p.End(func() error { return nil }) }

// conduct prepares f, starts it and returns its report.
func conduct(t *testing.T, s *session.Client, n uint64, f model.Flow) (report model.EndReport, err error) {
	t.Helper()
	if _, err := s.Prepare(t.Context(), session.Preparation{Run: n, Flow: f}); err != nil {
		return report, err
	}
	err = s.Run(t.Context(), n, func(e session.Event) {
		switch e.Kind {
		case session.Ready:
			must.OK(t, s.Start(t.Context(), n))
		case session.Result:
			report = e.Report
		case session.Samples, session.Measured:
		}
	})
	return report, err
}

// granted returns an agent whose controllers get s.
func granted(s *budget.Share) agent.Config {
	c := agenttest.Config(nil)
	c.Engines = append(c.Engines, patient{})
	c.Admit = func(context.Context, session.Hello, *agent.Config) (agent.Grant, error) {
		return agent.Grant{Share: s}, nil
	}
	return c
}

// TestMaxTimeOfWhatHasNoDuration: a sweep and a copy end after the longest time of a run,
// whether or not the controller stops them.
func TestMaxTimeOfWhatHasNoDuration(t *testing.T) {
	c := granted(nil)
	c.Limits.MaxTime = 100 * time.Millisecond
	s, _, _ := far(t, c)
	for i, f := range []model.Flow{
		{Engine: "patient", Direction: model.To, Params: traffic.Write(sizes.Params{Sizes: make([]units.Bytes, 1000)})},
		{Engine: "patient", Direction: model.To, Params: traffic.Write(files.Params{Mode: files.Memory})},
		{Engine: "patient", Direction: model.To, Bytes: 1 << 40},
	} {
		r := must.Get(conduct(t, s, uint64(i+1), f))(t)
		must.True(t, len(r.Warnings) != 0 && r.Warnings[0] == "stopped", "%+v: %+v", f, r)
	}
}

// TestShareIsGivenBack: a run returns its share when it has ended, or was refused, failed or
// never started.
func TestShareIsGivenBack(t *testing.T) {
	b := budget.New(budget.Config{Keyed: budget.Part{Session: budget.Limits{Memory: 64 << 20, Descriptors: 100, UDP: 1e6}}})
	c := granted(must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), "key"))(t))
	c.Limits.MaxTime = time.Minute
	c.Prepare = 200 * time.Millisecond
	c.Engines = append(c.Engines, agenttest.Refusing{})
	s, _, _ := far(t, c)
	used := func() int64 { return b.Usage().Kinds[budget.Memory].Used() }
	f := model.Flow{Engine: "patient", Direction: model.To, Duration: time.Second, Interval: time.Second}
	for name, change := range map[string]func(f *model.Flow){
		"blocks":    func(f *model.Flow) { f.Block, f.Streams = 1<<20, 60 },
		"both ways": func(f *model.Flow) { f.Block, f.Streams, f.Direction = 1<<20, 35, model.Both },
		"streams":   func(f *model.Flow) { f.Block, f.Streams = 1, 90 },
		"a sweep":   func(f *model.Flow) { *f = sizes.With(*f, sizes.Params{Sizes: []units.Bytes{1, 64 << 20}}) },
		"answers":   func(f *model.Flow) { f.Params = traffic.Write(requests.Params{Reply: 60 << 20}) },
	} {
		bad := f
		change(&bad)
		_, err := conduct(t, s, 1, bad)
		must.True(t, errors.Is(err, session.ErrRefused) && strings.Contains(err.Error(), "this server gives"), "%s: %v", name, err)
		must.Equal(t, used(), 0, "%s bytes are held", name)
	}
	must.Get(s.Prepare(t.Context(), session.Preparation{Run: 2, Flow: f}))(t)
	must.True(t, used() != 0, "a prepared run holds nothing")
	must.Until(t, "a prepared run to give its part back", func() bool { return used() == 0 })
}

// TestPatientControllers: a prepared run waits for its start as long as a known controller asks,
// but for an anonymous one no longer than usual.
func TestPatientControllers(t *testing.T) {
	memory := budget.Part{Session: budget.Limits{Memory: 64 << 20}}
	b := budget.New(budget.Config{Keyed: memory, Anonymous: memory})
	f := model.Flow{Engine: "patient", Direction: model.To, Duration: time.Second, Interval: time.Second}
	used := func() int64 { return b.Usage().Kinds[budget.Memory].Used() }
	// prepare leaves a prepared run waiting for its start, and returns its memory.
	prepare := func(key string) (s *session.Client, part int64) {
		c := granted(must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), key))(t))
		c.Limits.MaxTime = time.Minute
		c.Prepare = 300 * time.Millisecond
		s, _, _ = far(t, c)
		before := used()
		must.Get(s.Prepare(t.Context(), session.Preparation{Run: 1, Flow: f, Within: time.Minute}))(t)
		return s, used() - before
	}
	known, part := prepare("key")
	prepare("") // later, so that when it is dropped the other one's default time is over, too
	must.Until(t, "a client without a key gets no more than usual", func() bool { return used() <= part })
	must.True(t, used() == part && part != 0, "%d bytes are held, %d by the run of a known controller", used(), part)
	must.OK(t, known.Stop(t.Context(), 1))
}

// TestTimeIsSpent ends a run when its source has had its time, and refuses others.
func TestTimeIsSpent(t *testing.T) {
	b := budget.New(budget.Config{Keyed: budget.Part{Source: budget.Limits{Time: 500 * time.Millisecond}}})
	s, _, _ := far(t, granted(must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), "key"))(t)))
	f := model.Flow{Engine: "patient", Direction: model.To, Duration: time.Hour, Interval: time.Second}
	for n := range uint64(2) {
		_, err := conduct(t, s, n+1, f)
		must.True(t, errors.Is(err, session.ErrRefused) && strings.Contains(err.Error(), "this server measures for 500 ms for one address within 24 h, and has"), "run %d: %v", n+1, err)
	}
}

// TestRunWithoutAWord: a run with nothing to send for longer than an event may wait for its
// reader goes on. Such runs were once dropped.
func TestRunWithoutAWord(t *testing.T) {
	c := granted(nil)
	c.Limits.MaxTime = 2 * agenttest.Timeouts().Send
	s, _, _ := far(t, c)
	r, err := conduct(t, s, 1, model.Flow{Engine: "patient", Direction: model.To, Params: traffic.Write(files.Params{Mode: files.Memory})})
	must.True(t, err == nil && len(r.Warnings) != 0, "%+v, %v", r, err)
}

// broken is an engine with a bug in a goroutine of its own, in one of several ways.
type broken struct {
	patient
	way string
}

func (b broken) Name() string { return b.way }
func (b broken) Prepare(context.Context, engine.Env, model.Flow) (engine.Test, error) {
	return &breaking{engine.NewLife(), b.way}, nil
}

type breaking struct {
	*engine.Life
	way string
}

func (b *breaking) Close() error { return b.End(func() error { return nil }) }

func (b *breaking) Run(ctx context.Context, _ func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := b.Begin(ctx)
	if err != nil {
		return report, err
	}
	defer end(&err)
	bug := func() {
		var none []int
		_ = none[len(b.way)]
	}
	switch b.way {
	case "fails":
		go panics.From(b.Fail, bug)()
		<-ctx.Done() // like a run whose worker is gone
	case "waits":
		var all panics.Group
		all.Go(bug)
		all.Wait()
	case "tells":
		told := make(chan error)
		go func() { told <- panics.Call(func() error { bug(); return nil }) }()
		return report, <-told
	}
	return report, nil
}

// TestBugInAGoroutineOfAnEngine: the bug costs the run, which reports it, and nothing else: the
// session and the process go on.
func TestBugInAGoroutineOfAnEngine(t *testing.T) {
	c := agenttest.Config(nil)
	ways := []string{"fails", "waits", "tells"}
	for _, way := range ways {
		c.Engines = append(c.Engines, broken{way: way})
	}
	s, _, _ := far(t, c)
	for i, way := range ways {
		_, err := conduct(t, s, uint64(2*i+1), model.Flow{Engine: way, Direction: model.To, Duration: time.Second})
		must.True(t, err != nil && strings.Contains(err.Error(), ": runtime error: index out of range") && strings.Contains(err.Error(), "share_test.go"), "%s: %v", way, err)
		must.Dof(t, must.Err(s.Recovered(t.Context())), "%s: the session is gone", way)
	}
}

// keeper is a Keeper that knows one transaction.
type keeper struct {
	asked  []string
	broken error // returned by Revert, which first undoes one change
}

func (*keeper) Pending() string { return "one" }

func (k *keeper) Confirm(_ context.Context, id string) error {
	k.asked = append(k.asked, id)
	if id != "one" {
		return fmt.Errorf("%s: %w", id, session.ErrState)
	}
	return nil
}

func (k *keeper) Revert(_ context.Context, id string) ([]model.Change, error) {
	k.asked = append(k.asked, "revert"+id)
	return []model.Change{{Knob: "link.mtu", Old: "1500", New: "9000", State: model.ChangeUndone}}, k.broken
}

func TestKeeping(t *testing.T) {
	c := agenttest.Config(agenttest.NewKnobs(model.Far, agenttest.Values()))
	k := &keeper{}
	c.Keeper = k
	c.Origins = func(_ context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
		return map[model.KnobID]model.FileLine{ids[0]: {File: "/etc/x", Number: 3, Text: "9"}}, nil
	}
	s, _, _ := far(t, c)
	ctx := t.Context()
	must.Equal(t, must.Get(s.Pending(ctx))(t), "", "before Apply")
	must.Get(s.Apply(ctx, []model.Assignment{{Host: model.Far, Knob: "link.mtu", Value: "9000"}}, time.Minute))(t)
	must.Equal(t, must.Get(s.Pending(ctx))(t), "one", "after Apply")
	must.OK(t, s.Confirm(ctx, "one"))
	must.Is(t, s.Confirm(ctx, "two"), session.ErrState, "Confirm of what is gone")
	for _, id := range []string{"", strings.Repeat("x", 200), "a\x00"} {
		must.Is(t, s.Confirm(ctx, id), session.ErrInvalid, "Confirm of %.5q", id)
		if id == "" {
			continue // all of it
		}
		must.Is(t, must.Err(s.Revert(ctx, id)), session.ErrInvalid, "Revert of %.5q", id)
	}
	if changes, err := s.Revert(ctx, ""); len(changes) != 1 || changes[0].Host != model.Far || changes[0].Knob != "link.mtu" || err != nil {
		t.Errorf("Revert = %+v, %v", changes, err)
	}
	k.broken = errors.New("the journal's disk is full")
	changes, err := s.Revert(ctx, "one")
	must.True(t, len(changes) == 1 && err != nil && strings.HasSuffix(err.Error(), k.broken.Error()),
		"Revert that ends half way = %+v, %v: want what was undone, and why not all", changes, err)
	must.Equal(t, strings.Join(k.asked, " "), "one two revert revertone", "the keeper was asked %q", k.asked)
	found, err := s.Origins(ctx, []model.KnobID{"tcp.sack"})
	must.True(t, len(found) == 1 && found["tcp.sack"] == (model.FileLine{File: "/etc/x", Number: 3, Text: "9"}) && err == nil, "Origins = %+v, %v", found, err)
}

func TestProbe(t *testing.T) {
	s, _, _ := far(t, agenttest.Config(agenttest.NewKnobs(model.Far, agenttest.Values())))
	ctx := t.Context()
	got := must.Get(s.Probe(ctx, []string{"127.0.0.1", "127.0.0.1:1"}, time.Second, 0))(t)
	must.True(t, len(got) == 3 && got[0].OK && got[1].OK && got[1].Full && !got[2].OK && got[2].Target == "127.0.0.1:1", "Probe = %+v", got)
	for _, bad := range [][]string{nil, {"a b"}, {"gopher://x"}, make([]string, 17)} {
		must.Is(t, must.Err(s.Probe(ctx, bad, time.Second, 0)), session.ErrInvalid, "Probe of %q", bad)
	}
	must.Is(t, must.Err(s.Probe(ctx, []string{"127.0.0.1"}, time.Hour, 0)), session.ErrInvalid, "Probe for an hour")
}

// TestOnlyMeasuring: a controller that may only measure can neither keep settings nor make this
// host contact others.
func TestOnlyMeasuring(t *testing.T) {
	c := agenttest.Config(nil)
	c.Keeper = &keeper{}
	s, _, _ := far(t, c)
	ctx := t.Context()
	_, pending := s.Pending(ctx)
	_, revert := s.Revert(ctx, "")
	_, probe := s.Probe(ctx, []string{"127.0.0.1"}, time.Second, 0)
	for name, err := range map[string]error{"pending": pending, "confirm": s.Confirm(ctx, "one"), "revert": revert, "probe": probe} {
		must.Is(t, err, session.ErrRefused, "%s", name)
	}
	must.Is(t, must.Err(s.Origins(ctx, []model.KnobID{"tcp.sack"})), errors.ErrUnsupported, "origins")
	s2, _, _ := far(t, agenttest.Config(agenttest.NewKnobs(model.Far, agenttest.Values())))
	must.Is(t, s2.Confirm(ctx, "one"), errors.ErrUnsupported, "without a keeper")
}
