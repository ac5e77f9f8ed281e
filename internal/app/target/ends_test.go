package target_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/target"
	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// open opens two hosts of this process.
func open(t *testing.T, b *apptest.Bed, p *apptest.Person) (*target.Ends, error) {
	t.Helper()
	return target.Connect(t.Context(), apptest.Env(p), "near", "far", b.Dial)
}

// TestConnect reads both hosts, each with the address under which the other one sees it, and
// reports what their agents rolled back.
func TestConnect(t *testing.T) {
	b, p := apptest.NewBed(t), &apptest.Person{}
	rates := map[model.Host]units.BitRate{model.Near: 1e9, model.Far: 1e8}
	b.Configure = func(h model.Host, _ int, c *agent.Config) {
		read := c.Facts
		c.Facts = func(ctx context.Context, peer string) (model.HostFacts, error) {
			f, err := read(ctx, peer)
			f.LinkRate = fact.Known(rates[h], "test")
			return f, err
		}
	}
	e := must.Get(open(t, b, p))(t)
	defer e.Close()
	rate, ok := e.WireRate.Get()
	must.True(t, ok && rate == 1e8 && strings.Contains(e.WireRate.Source(), "of the far host"), "the slowest link: %v", e.WireRate)
	must.True(t, len(e.Hosts) == 2 && e.Hosts[0].Host == model.Near && e.Hosts[1].Host == model.Far && e.Foreign() == "", "%+v", e.Hosts)
	for _, h := range []model.Host{model.Near, model.Far} {
		one := e.Host(h)
		must.True(t, one.Side == h && one.Client == e.Client(h) && one.Peer == "127.0.0.1", "%s: %+v", h, one)
		fresh := must.Get(apptest.Env(p).Again(t.Context(), one))(t)
		apptest.Env(p).HangUp(fresh)
	}
	told := apptest.Events[app.Recovered](p)
	must.True(t, len(told) == 2 && told[0].Change.Knob == "link.mtu" && len(e.Warnings) == 2 && e.Warnings[0] == told[0].String() && strings.Contains(e.Warnings[0], "cut short"), "told %+v, warnings %q", told, e.Warnings)
}

// TestOpenFails: a failure at one end closes the session with the other.
func TestOpenFails(t *testing.T) {
	refused := fault.New(fault.Unreachable, errors.New("refused"), "start it")
	for name, c := range map[string]struct {
		dialing   func(model.Host, int) error
		configure func(model.Host, int, *agent.Config)
		says      string
		kind      fault.Kind
		near, far int // connections made
	}{
		"near": {dialing: at(model.Near, refused), says: "refused", kind: fault.Unreachable, near: 1},
		"far":  {dialing: at(model.Far, refused), says: "refused", kind: fault.Unreachable, near: 1, far: 1},
		"facts": {configure: func(h model.Host, _ int, c *agent.Config) {
			if h == model.Far {
				c.Facts = func(context.Context, string) (model.HostFacts, error) {
					return model.HostFacts{}, errors.New("no /proc here")
				}
			}
		}, says: "no /proc here", kind: fault.Failed, near: 1, far: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := apptest.NewBed(t), &apptest.Person{}
			b.Dialing, b.Configure = c.dialing, c.configure
			_, err := open(t, b, p)
			must.True(t, err != nil && strings.Contains(err.Error(), c.says) && fault.KindOf(err) == c.kind && (c.kind != fault.Unreachable || fault.HintOf(err) == "start it"), "kind %d, hint %q: %v", fault.KindOf(err), fault.HintOf(err), err)
			must.True(t, b.Dials(model.Near) == c.near && b.Dials(model.Far) == c.far, "%d and %d ways", b.Dials(model.Near), b.Dials(model.Far))
			b.Untouched() // waits for the agents: the open session was closed
		})
	}
}

func at(which model.Host, err error) func(model.Host, int) error {
	return func(h model.Host, _ int) error {
		if h == which {
			return err
		}
		return nil
	}
}

// TestReopen opens new sessions after one was lost.
func TestReopen(t *testing.T) {
	b, p := apptest.NewBed(t), &apptest.Person{}
	e := must.Get(open(t, b, p))(t)
	defer e.Close()
	b.Cut(model.Far)
	_, err := e.Far.ReadKnobs(t.Context(), []model.KnobID{"link.mtu"})
	must.Need(t, errors.Is(err, session.ErrLost), "after the cut: %v", err)
	must.Do(t, e.Reopen(t.Context()))
	v := must.Get(e.Far.ReadKnobs(t.Context(), []model.KnobID{"link.mtu"}))(t)
	must.True(t, v["link.mtu"].Or("") == "1500", "over the new session: %v", v)
	must.Len(t, apptest.Events[app.Trouble](p), 0, "that a host was lost is reported as trouble")
}

// TestRealHosts: the errors for unreachable hosts, for each way to name them.
func TestRealHosts(t *testing.T) {
	agenttest.NoLeaks(t)
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	closed := l.Addr().String()
	_ = l.Close()
	const pin = "uP2W8hvl0QyUPsbPpt7JYhtjzyVTAmKDCJOIOCmeqzk"
	for text, c := range map[string]struct {
		kind       fault.Kind
		says, hint string
	}{
		"exec:127.0.0.1 false": {kind: fault.Unreachable},
		"linerate://" + pin + ".c2VjcmV0IG9mIHRoZSB0ZXN0IGFuZCBub3RoaW5nIGVsc2U@" + closed: {kind: fault.Unreachable, says: "refused", hint: "is linerate serve running there?"},
		"lab:far.nonsense=1": {kind: fault.Usage, says: "nonsense"},
	} {
		env := apptest.Env(&apptest.Person{})
		near, far, err := target.Pair("", text, env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		e, err := target.New(env, target.Options{}).Open(t.Context(), near, far)
		if err == nil {
			e.Close()
		}
		must.True(t, err != nil && fault.KindOf(err) == c.kind && strings.Contains(err.Error(), c.says) && strings.Contains(fault.HintOf(err), c.hint) && !strings.Contains(err.Error(), "c2Vjcm"), "%s: kind %d, hint %q: %v", text, fault.KindOf(err), fault.HintOf(err), err)
	}
}

// TestOptionsFit refuses options that apply to none of the hosts.
func TestOptionsFit(t *testing.T) {
	env := apptest.Env(&apptest.Person{})
	for name, c := range map[string]struct {
		o         target.Options
		far, says string
	}{
		"sudo":        {target.Options{Sudo: true}, "exec:127.0.0.1 linerate agent", "reached over ssh"},
		"lab":         {target.Options{AtBoot: true}, "lab:lan", "no next start"},
		"at boot":     {target.Options{AtBoot: true}, "exec:127.0.0.1 linerate agent", "whose command is your own"},
		"acknowledge": {target.Options{Acknowledge: true}, "exec:127.0.0.1 linerate agent --at-boot", "--acknowledge does not reach"},
	} {
		near, far, err := target.Pair("", c.far, env)
		must.Do(t, err)
		_, err = target.New(env, c.o).Open(t.Context(), near, far)
		must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), c.says), "%s: %v", name, err)
		if far.Kind == target.Exec {
			_, err := target.New(env, c.o).Alone(t.Context(), far, model.Far)
			must.True(t, fault.KindOf(err) == fault.Usage, "%s, alone: %v", name, err)
		}
	}
}
