package change

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/agent"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// minute is enough for every change that the user answers at once.
const minute = time.Minute

// TestKeptOnBoth: a change that the user keeps stays on both hosts after their sessions, and
// an undo on each removes it.
func TestKeptOnBoth(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = yes
	r, err := p.do(t.Context(), minute)
	must.Need(t, err == nil && r.Outcome == Confirmed && len(r.Hosts) == 2 && r.Hosts[0].Side == model.Far, "%+v, %v", r, err)
	for _, h := range r.Hosts {
		must.True(t, len(h.Changes) == 1 && h.Changes[0].State == model.ChangeApplied && h.Changes[0].Old == "1" && h.Changes[0].New == "0",
			"%s: %+v", h.Name, h.Changes)
	}
	must.True(t, len(p.Asked()) == 1 && p.Asked()[0].Kind == app.KeepChange && p.Asked()[0].Within == minute, "asked %+v", p.Asked())
	got := apptest.Events[app.Changed](p.Person)
	must.True(t, len(got) == 2 && got[0].Host == "far", "told %+v", got)
	entries, _ := os.ReadDir(p.hosts.State)
	must.True(t, len(entries) == 0, "a note is left: %v", entries)
	again, err := p.do(t.Context(), minute)
	must.True(t, err == nil && (again.Outcome == Undone || again.Outcome == Confirmed), "again, by facts that are old: %+v, %v", again, err)
	p.again()
	must.Equal(t, p.sacks(), "00", "after the sessions")
	for _, h := range []*app.Host{p.hosts.Near, p.hosts.Far} {
		changes, err := h.Client.Revert(t.Context(), "")
		must.True(t, err == nil && len(changes) != 0, "undo of %s: %+v, %v", h.Name, changes, err)
	}
	must.Equal(t, p.sacks(), "11", "after the undo")
}

// TestOneHostOfAPair changes HOST alone, and reports settings that both should have.
func TestOneHostOfAPair(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", false)
	p.Answer = yes
	r, err := p.do(t.Context(), minute, model.Assignment{Knob: "tcp.ecn", Value: "1"})
	must.True(t, err == nil && r.Outcome == Confirmed && len(r.Hosts) == 1 && strings.Contains(r.Reason, "linerate undo HOST") && p.sysctl(model.Far, "tcp_ecn") == "1", "%+v, %v", r, err)
}

// TestNotKept covers the ways in which a change ends without being kept.
func TestNotKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(context.Context, app.Question) (app.Answer, error)
		stop   bool // by the caller
		reason string
		fails  bool
	}{
		"declined": {answer: no, reason: "not confirmed"},
		"nobody":   {reason: "held for 5 s"},
		"silent":   {answer: silent, reason: "not confirmed within 5 s", fails: true},
		"stopped":  {answer: silent, stop: true, reason: "stopped by the user", fails: true},
		"no asking": {answer: func(context.Context, app.Question) (app.Answer, error) {
			return app.Answer{}, errors.New("the page is gone")
		}, reason: "the page is gone", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "lan", true)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			within := 5 * time.Second // every answer comes before that
			p.Answer = func(ctx context.Context, q app.Question) (app.Answer, error) {
				must.Equal(t, p.sacks(), "00", "while it is asked")
				if c.stop {
					stop()
				}
				return c.answer(ctx, q)
			}
			if c.answer == nil {
				p.Answer = nil
			}
			if c.stop || name == "declined" || name == "no asking" {
				within = minute
			}
			r, err := p.do(ctx, within)
			must.True(t, r.Outcome == Undone && r.Reason == c.reason && (err != nil) == c.fails, "%+v, %v", r, err)
			must.True(t, err == nil || strings.Contains(err.Error(), ": all settings are back") && fault.KindOf(err) == fault.Failed,
				"kind %d: %v", fault.KindOf(err), err)
			got := len(apptest.Events[app.Held](p.Person))
			must.True(t, (got == 1) == (c.answer == nil), "told %d times that nobody is there", got)
			must.Equal(t, p.sacks(), "11", "afterwards")
		})
	}
}

// TestRefusedBeforeAnythingIsWritten: all faults are reported at once, and no host is
// changed.
func TestRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = yes
	for says, c := range map[string]struct {
		kind   fault.Kind
		wanted []model.Assignment
	}{
		"far: ":    {fault.Usage, []model.Assignment{{Knob: "tcp.sack", Value: "0"}, {Knob: "tcp.recv_buffer_initial", Value: "134217728"}}},
		"near: ":   {fault.Unsupported, []model.Assignment{{Knob: "tcp.autotune_level", Value: "Disabled"}}},
		"link.mtu": {fault.Usage, []model.Assignment{{Knob: mtuKnob, Value: "65536"}}},
	} {
		r, err := p.do(t.Context(), minute, c.wanted...)
		must.True(t, r.Outcome == "" && fault.KindOf(err) == c.kind && strings.Contains(err.Error(), says), "%s: %+v, kind %d, %v", says, r, fault.KindOf(err), err)
	}
	r := must.Get(p.do(t.Context(), minute, model.Assignment{Knob: "tcp.sack", Value: "1"}))(t)
	must.Equal(t, r.Outcome, Nothing, "what holds already: %+v", r)
	must.True(t, len(p.Asked()) == 0 && p.sacks() == "11", "asked %+v, %s", p.Asked(), p.sacks())
}

// TestHostThatMeasuresOnly: a measure-only host gets no request to change anything.
func TestHostThatMeasuresOnly(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	env := app.Env{Version: "v0.0-test", Now: time.Now, Asker: r, Observer: r}
	h := &app.Host{Side: model.Near, Name: "desk", Dial: func(ctx context.Context) (wire.Peer, error) {
		return wire.Pipe(ctx, "desk", "", func(ctx context.Context, c net.Conn) error {
			return agent.Serve(ctx, c, agent.Config{Version: "v0.0-test"})
		}), nil
	}}
	var err error
	h.Client = must.Get(env.Again(t.Context(), h))(t)
	defer env.HangUp(h.Client)
	_, err = Do(t.Context(), env, Hosts{Near: h, State: t.TempDir()}, Request{Wanted: []model.Assignment{{Knob: "tcp.sack", Value: "0"}}, Within: minute})
	must.True(t, fault.KindOf(err) == fault.Unsupported && strings.Contains(err.Error(), "measures only") && fault.HintOf(err) != "", "%v", err)
}

// TestSecondHostIsBusy: if the second host refuses, the first one rolls back.
func TestSecondHostIsBusy(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = yes
	other := must.Get(p.env.Again(t.Context(), p.hosts.Near))(t)
	defer p.env.HangUp(other)
	must.Get(other.Apply(t.Context(), []model.Assignment{{Host: model.Near, Knob: "tcp.timestamps", Value: "0"}}, minute))(t)
	r, err := p.do(t.Context(), minute)
	must.True(t, r.Outcome == Undone && errors.Is(err, session.ErrBusy) && fault.KindOf(err) == fault.Unreachable && strings.Contains(fault.HintOf(err), "another linerate"), "%+v, kind %d, %v, hint %q", r, fault.KindOf(err), err, fault.HintOf(err))
	h := r.Hosts[0]
	must.True(t, len(h.Changes) == 1 && h.Changes[0].State == model.ChangeUndone, "the first host: %+v", h)
	must.True(t, p.sacks() == "11" && len(p.Asked()) == 0, "%s, asked %+v", p.sacks(), p.Asked())
}

// TestChangedMeanwhile: a host that no longer holds the change ends it, and another program's
// value stays.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", true)
	p.Answer = func(ctx context.Context, q app.Question) (app.Answer, error) {
		p.in(model.Far, "echo 0 > /proc/sys/net/ipv4/tcp_ecn")
		return silent(ctx, q)
	}
	before := p.sysctl(model.Near, "tcp_ecn")
	r, err := p.do(t.Context(), minute, model.Assignment{Knob: "tcp.sack", Value: "0"}, model.Assignment{Knob: "tcp.ecn", Value: "1"})
	must.True(t, r.Outcome == Undone && err != nil && strings.Contains(err.Error(), "tcp.ecn"), "%+v, %v", r, err)
	var foreign int
	for _, c := range r.Hosts[0].Changes {
		if c.State == model.ChangeForeign && c.Knob == "tcp.ecn" {
			foreign++
		}
	}
	if foreign != 1 || p.sacks() != "11" || p.sysctl(model.Far, "tcp_ecn") != "0" || p.sysctl(model.Near, "tcp_ecn") != before {
		t.Errorf("%+v; %s, tcp_ecn %s and %s", r.Hosts[0].Changes, p.sacks(), p.sysctl(model.Near, "tcp_ecn"), p.sysctl(model.Far, "tcp_ecn"))
	}
}

// TestCanaryDies: a canary that answered before and does not after rolls the change back
// before the user is asked.
func TestCanaryDies(t *testing.T) {
	t.Parallel()
	p := newPair(t, "lan", false)
	p.Answer = yes
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	gone := make(chan struct{})
	address := net.JoinHostPort(p.lab.Addr(model.Near).String(), "7777")
	go func() {
		defer close(gone)
		_ = p.lab.Command(ctx, model.Near, []string{p.env.Self[0], "listen", address}, nil, nil, os.Stderr)
	}()
	p.On = func(e app.Event) {
		if _, ok := e.(app.Changed); ok {
			kill()
			<-gone
		}
	}
	got := must.Get(p.hosts.Far.Client.Probe(t.Context(), []string{address}, 10*time.Second, 0))(t)
	must.Need(t, len(got) == 1 && got[0].OK, "nobody listens: %+v", got)
	r, err := Do(t.Context(), p.env, p.hosts, Request{Wanted: []model.Assignment{{Knob: "tcp.sack", Value: "0"}}, Within: minute, Canaries: []string{address, "192.0.2.9:1"}})
	must.True(t, r.Outcome == Undone && err != nil && strings.Contains(err.Error(), "seen from far, since the change "+address+" does not answer"), "%+v, %v", r, err)
	w := apptest.Events[app.Watching](p.Person)
	must.True(t, len(w) == 1 && len(w[0].Answers) >= 2 && !w[0].Risky, "told %+v", w)
	must.True(t, len(p.Asked()) == 0 && p.sacks() == "11", "asked %+v, %s", p.Asked(), p.sacks())
}

// TestSessionIsLostWhileHeld: the host whose session is cut rolls back by itself, and the new
// session reports that; without a new session the outcome is unknown.
func TestSessionIsLostWhileHeld(t *testing.T) {
	t.Parallel()
	for name, unreachable := range map[string]bool{"reached again": false, "gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "lan", true)
			cut := make(chan struct{})
			p.Answer = func(ctx context.Context, q app.Question) (app.Answer, error) {
				close(cut)
				return silent(ctx, q)
			}
			p.writing = func(side model.Host, n int, _ *line, _ []byte) error {
				select {
				case <-cut:
					if side == model.Far && n == 1 {
						return net.ErrClosed
					}
				default:
				}
				return nil
			}
			p.dialing = func(side model.Host, n int) error {
				if unreachable && side == model.Far && n > 1 {
					return errors.New("no route to host")
				}
				return nil
			}
			r, err := p.do(t.Context(), minute)
			far := r.Hosts[0].Changes
			switch {
			case len(far) != 1 || len(apptest.Events[app.Trouble](p.Person)) == 0:
				t.Errorf("%+v, %v", r, err)
			case unreachable:
				must.True(t, r.Outcome == StillOpen && fault.KindOf(err) == fault.NotUndone && strings.Contains(far[0].Detail, "its watchdog takes it back by itself") && fault.HintOf(err) != "", "%+v, kind %d, %v", r, fault.KindOf(err), err)
			case r.Outcome != Undone || !errors.Is(err, session.ErrLost) || fault.KindOf(err) != fault.Unreachable || far[0].State != model.ChangeUndone || !strings.Contains(far[0].Detail, "was not seen"):
				t.Errorf("%+v, kind %d, %v", r, fault.KindOf(err), err)
			}
			must.Until(t, "the values of before", func() bool { return p.sacks() == "11" })
		})
	}
}

// TestNoNewConnection: a change that cannot be confirmed over new connections to all hosts is
// kept on none.
func TestNoNewConnection(t *testing.T) {
	t.Parallel()
	for _, lost := range []model.Host{model.Near, model.Far} {
		t.Run(string(lost), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "lan", true)
			p.Answer = yes
			p.dialing = func(side model.Host, n int) error {
				if side == lost && n > 1 {
					return errors.New("no route to host")
				}
				return nil
			}
			r, err := p.do(t.Context(), minute)
			must.True(t, r.Outcome == Undone && err != nil && strings.Contains(err.Error(), "no new connection: no route to host: all settings are back") && p.sacks() == "11", "%+v, %v, %s", r, err, p.sacks())
		})
	}
}
