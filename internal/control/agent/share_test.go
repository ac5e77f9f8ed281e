package agent_test

import (
	"context"
	"errors"
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
)

// patient is an engine whose runs last until they are stopped.
type patient struct{}

func (patient) Name() string              { return "patient" }
func (patient) Kind() traffic.Kind        { return traffic.Kind{Name: "patient", Demand: demand} }
func (patient) Validate(model.Flow) error { return nil }
func (patient) Prepare(context.Context, engine.Env, model.Flow) (engine.Test, error) {
	return &patience{engine.NewLife()}, nil
}

// demand is that of a sweep, or of requests: what f's parameters are of.
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

// granted is an agent whose controllers get s.
func granted(s *budget.Share) agent.Config {
	c := agenttest.Config(nil)
	c.Engines = append(c.Engines, patient{})
	c.Admit = func(context.Context, session.Hello, *agent.Config) (agent.Grant, error) {
		return agent.Grant{Share: s}, nil
	}
	return c
}

// TestMaxTimeOfWhatHasNoDuration: a sweep and a copy end when the time of a run is
// over, whether the controller stops them or not.
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

// TestShareIsGivenBack: what a run holds is back when it ended, and when it was
// refused, failed or never started.
func TestShareIsGivenBack(t *testing.T) {
	b := budget.New(budget.Config{Keyed: budget.Part{Session: budget.Limits{Memory: 64 << 20, Descriptors: 100, UDP: 1e6}}})
	share := must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), "key"))(t)
	c := granted(share)
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
		n := used()
		must.True(t, n == 0, "%s: %d bytes are held", name, n)
	}
	must.Get(s.Prepare(t.Context(), session.Preparation{Run: 2, Flow: f}))(t)
	must.True(t, used() != 0, "a prepared run holds nothing")
	for deadline := time.After(time.Minute); used() != 0; {
		select {
		case <-deadline:
			t.Fatal("a run that nobody started holds its part")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestPatientControllers: a run that waits for its start stands as long as a known
// controller says that slow hosts may take, and a stranger's no longer than usual.
func TestPatientControllers(t *testing.T) {
	memory := budget.Part{Session: budget.Limits{Memory: 64 << 20}}
	b := budget.New(budget.Config{Keyed: memory, Anonymous: memory})
	f := model.Flow{Engine: "patient", Direction: model.To, Duration: time.Second, Interval: time.Second}
	used := func() int64 { return b.Usage().Kinds[budget.Memory].Used() }
	// prepare has a run wait for its start, and returns what its part of the memory is.
	prepare := func(key string) (s *session.Client, part int64) {
		share := must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), key))(t)
		c := granted(share)
		c.Limits.MaxTime = time.Minute
		c.Prepare = 300 * time.Millisecond
		s, _, _ = far(t, c)
		before := used()
		must.Get(s.Prepare(t.Context(), session.Preparation{Run: 1, Flow: f, Within: time.Minute}))(t)
		return s, used() - before
	}
	known, part := prepare("key")
	prepare("") // later, so that when it is dropped the other one's usual time is over, too
	agenttest.Eventually(t, "a client without a key gets no more than usual", func() bool { return used() <= part })
	must.True(t, used() == part && part != 0, "%d bytes are held, %d by the run of a known controller", used(), part)
	must.OK(t, known.Stop(t.Context(), 1))
}

// TestTimeIsSpent ends a run when its source has had its time, and refuses others.
func TestTimeIsSpent(t *testing.T) {
	b := budget.New(budget.Config{Keyed: budget.Part{Source: budget.Limits{Time: 500 * time.Millisecond}}})
	share := must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), "key"))(t)
	s, _, _ := far(t, granted(share))
	f := model.Flow{Engine: "patient", Direction: model.To, Duration: time.Hour, Interval: time.Second}
	for n := range uint64(2) {
		_, err := conduct(t, s, n+1, f)
		must.True(t, errors.Is(err, session.ErrRefused) && strings.Contains(err.Error(), "this server measures for 500 ms for one address within 24 h, and has"), "run %d: %v", n+1, err)
	}
}

// TestRunWithoutAWord has nothing to tell for longer than an event may wait for
// its reader: such a run was once given up.
func TestRunWithoutAWord(t *testing.T) {
	c := granted(nil)
	c.Limits.MaxTime = 2 * agenttest.Timeouts().Send
	s, _, _ := far(t, c)
	r, err := conduct(t, s, 1, model.Flow{Engine: "patient", Direction: model.To, Params: traffic.Write(files.Params{Mode: files.Memory})})
	must.True(t, err == nil && len(r.Warnings) != 0, "%+v, %v", r, err)
}
