package change

import (
	"errors"
	"strings"
	"testing"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// mtus are the MTUs of both hosts, the near one first.
func (p *pair) mtus() string {
	p.t.Helper()
	var all []string
	for _, h := range []*app.Host{p.hosts.Near, p.hosts.Far} {
		values, err := h.Client.ReadKnobs(p.t.Context(), []model.KnobID{mtuKnob})
		if errors.Is(err, session.ErrLost) {
			p.t.Fatal(err)
		}
		all = append(all, values[mtuKnob].Or("?"))
	}
	return strings.Join(all, " ")
}

// TestProvenMTU: a new MTU that passes is kept, with the proof.
func TestProvenMTU(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rate=1gbit,rtt=1ms,mtu=9000", true)
	p.Answer = yes
	r := must.Get(p.do(t.Context(), minute, model.Assignment{Knob: mtuKnob, Value: "4000"}))(t)
	must.Need(t, r.Outcome == Confirmed && len(r.Paths) == 2 && len(r.Transfers) == 2, "%+v", r)
	for _, w := range r.Paths {
		must.True(t, w.Passes == 4000 && w.Exact, "%+v", w)
	}
	for _, transfer := range r.Transfers {
		must.True(t, transfer.OK && (transfer.Goodput != 0 || strings.Contains(transfer.Detail, "kept arriving")), "%+v", transfer)
	}
	must.Equal(t, p.mtus(), "4000 4000")
	w := apptest.Told[app.Watching](p.Person)
	must.True(t, len(w) == 2 && w[0].Risky, "told %+v", w)
}

// TestBlackHole: larger packets vanish on the way, and the MTU goes back with what
// passes.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rate=1gbit,rtt=1ms,pathmtu=1500", true)
	p.Answer = yes
	r, err := p.do(t.Context(), minute, model.Assignment{Knob: mtuKnob, Value: "4000"})
	must.Need(t, err != nil && r.Outcome == Undone && len(p.Asked()) == 0, "%+v, %v", r, err)
	must.True(t, len(r.Paths) == 2 && r.Paths[0].Passes == 1500 && !r.Paths[0].Told && strings.Contains(fault.HintOf(err), "link.mtu=1500 fits"),
		"%+v, hint %q", r.Paths, fault.HintOf(err))
	must.Equal(t, p.mtus(), "1500 1500")
}

// TestLargerOnOneSide changes one end's MTU: the other end is told to be smaller,
// and what is larger does not arrive.
func TestLargerOnOneSide(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rate=1gbit,rtt=1ms", false)
	p.Answer = yes
	r, err := p.do(t.Context(), minute, model.Assignment{Knob: mtuKnob, Value: "4000"})
	must.Len(t, apptest.Told[app.OtherMTU](p.Person), 1, "told")
	must.True(t, err != nil && r.Outcome == Undone && strings.Contains(fault.HintOf(err), "--both changes both ends") && p.mtus() == "1500 1500", "%+v, %v, hint %q, %s", r, err, fault.HintOf(err), p.mtus())
}

// TestWorkAroundWithoutARouter: beyond nobody there is nothing to go around, and
// the first cause is told with why.
func TestWorkAroundWithoutARouter(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rate=1gbit,rtt=1ms", true)
	c, _ := planned(p.hosts.Near, p.hosts.Far, model.Assignment{Knob: "tcp.sack", Value: "0"})
	c.Env, c.hosts.State = p.env, p.hosts.State
	c.Request = Request{Around: true, Within: minute}
	c.outcome = Undone
	c.lost = []lostCanary{{end: c.ends[0]}}
	c.lost[0].path.Host, c.lost[0].path.Address, c.lost[0].path.Passes = "a", p.lab.Addr(model.Near).String(), 1400
	must.Need(t, c.canGoAround(), "not tried")
	old := p.hosts.Far.Client
	p.Answer = yes
	err := c.goAround(t.Context(), errors.New("the first cause"))
	must.True(t, p.hosts.Far.Client != old, "the host got no new session")
	switch {
	case err == nil && c.outcome == Confirmed: // probing helps where the kernel has it
		got := apptest.Told[app.Around](p.Person)
		must.True(t, len(got) == 1 && got[0].Setting.Knob == probingKnob && p.sysctl(model.Far, "tcp_mtu_probing") == "1", "told %+v", got)
	case err == nil || !strings.Contains(err.Error(), "the first cause; no work-around: "):
		t.Errorf("%s, %v", c.outcome, err)
	}
	must.True(t, !c.canGoAround(), "tried twice")
}
