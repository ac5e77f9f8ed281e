package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// ThisMachine is the name of the near end unless it has another.
const ThisMachine = model.ThisMachine

// Host is a host with an open session.
type Host struct {
	Side   model.Host // which end it is; if there is only this machine, it is the near end
	Name   string     // for people
	Client *session.Client
	Facts  model.HostFacts
	Peer   string                                   // address of the other end as this one reaches it, "" for none
	Dial   func(context.Context) (wire.Peer, error) // opens a new connection to it
}

// Value returns the canonical value of a knob when the facts of the host were read; "" if it
// is not known.
func (h *Host) Value(id model.KnobID) string { return h.Facts.Knobs[id].Or("") }

// OpenSession opens a session with a host over a connection from dial.
func (e Env) OpenSession(ctx context.Context, side model.Host, dial func(context.Context) (wire.Peer, error)) (*session.Client, error) {
	return e.OpenRole(ctx, side, side, dial)
}

// OpenRole is OpenSession with a host that plays the role of an end, which may be the other one.
func (e Env) OpenRole(ctx context.Context, side, role model.Host, dial func(context.Context) (wire.Peer, error)) (*session.Client, error) {
	most := cmp.Or(e.Timeout, DefaultTimeout)
	begun := time.Now()
	silent, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	dialled := &personal{Context: silent, whole: ctx}
	tell := time.AfterFunc(waitingAfter, func() {
		w := Waiting{side, most}
		if dialled.asks.Load() {
			w.Most = 0
		}
		e.Observe(w)
	})
	defer tell.Stop()
	peer, err := dial(dialled)
	if err != nil {
		return nil, silence(silent, ctx, most, err)
	}
	// Typing a password or copying this program there takes time of its own, so leave the
	// agent some time for its first message in any case.
	hello, cancel := context.WithTimeout(ctx, max(most-time.Since(begun), min(most, leastHello))+afterSilence)
	defer cancel()
	c, err := session.Open(hello, peer, session.Options{Host: role, Version: e.Version, Catalogue: e.Catalogue, Timeouts: patient(most)})
	return c, fault.WithKind(fault.Unreachable, silence(hello, ctx, most, err))
}

// patient returns the timeouts of a session whose host may be silent for most. If that is
// longer than the default, the host is slow, and all timeouts grow in proportion.
func patient(most time.Duration) session.Timeouts {
	var t session.Timeouts
	if more := float64(most) / float64(DefaultTimeout); more > 1 {
		t = session.DefaultTimeouts()
		for _, d := range []*time.Duration{&t.Hello, &t.Call, &t.Ping, &t.Pong, &t.Send} {
			*d = time.Duration(float64(*d) * more)
		}
		t.Hello = most
	}
	return t
}

const (
	waitingAfter = 3 * time.Second
	leastHello   = 5 * time.Second
	// afterSilence lets dial see the timeout before the connection is closed.
	afterSilence = 50 * time.Millisecond
)

// personal is a context that ends with the timeout for a host and knows the one that does
// not: for a dial that may ask the user something.
type personal struct {
	context.Context
	whole context.Context
	asks  atomic.Bool // the dial uses whole
}

// Unhurried returns the context of a dial without the timeout of OpenSession, for a dial with
// a timeout of its own.
func Unhurried(ctx context.Context) context.Context {
	if p, ok := ctx.(*personal); ok {
		p.asks.Store(true)
		return p.whole
	}
	return ctx
}

// silence turns err into a timeout error if the timeout of limited caused it.
func silence(limited, ctx context.Context, most time.Duration, err error) error {
	if err == nil || ctx.Err() != nil || !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return err
	}
	return quiet(err, fmt.Errorf("no answer in %s: %w", units.FormatDuration(most), err))
}

// quiet returns why as an unreachable fault, with the hint of err if it has one.
func quiet(err, why error) error {
	why = fault.WithKind(fault.Unreachable, why)
	if hint := fault.HintOf(err); hint != "" {
		return fault.WithHint(why, "%s", hint)
	}
	return fault.WithHint(why, "is it on, and does a firewall let this through? --timeout waits longer")
}

// errSilent is the cause when the timeout for a foreign host passes.
var errSilent = errors.New("it said nothing")

// Patience is the timeout of OpenSession for a host that is not an agent. The caller calls
// met at its first sign of life, from any goroutine, and end with the final error; end
// returns the error to report.
func (e Env) Patience(ctx context.Context, side model.Host) (waiting context.Context, met func(), end func(error) error) {
	most := cmp.Or(e.Timeout, DefaultTimeout)
	waiting, give := context.WithCancelCause(ctx)
	tell := time.AfterFunc(waitingAfter, func() { e.Observe(Waiting{side, most}) })
	late := time.AfterFunc(most, func() { give(errSilent) })
	met = func() { tell.Stop(); late.Stop() }
	return waiting, met, func(err error) error {
		met()
		silent := errors.Is(context.Cause(waiting), errSilent)
		give(nil)
		if err == nil || ctx.Err() != nil || !silent {
			return err
		}
		return quiet(err, fmt.Errorf("no answer in %s", units.FormatDuration(most)))
	}
}

// Again opens another session with a host, besides the one that it has.
func (e Env) Again(ctx context.Context, h *Host) (*session.Client, error) {
	return e.OpenSession(ctx, h.Side, h.Dial)
}

// HangUp closes a session. A host that was lost before is not reported: it undoes by itself.
// It takes as long as the undo of the session's changes may take.
func (e Env) HangUp(c *session.Client) {
	if _, err := c.Close(context.Background()); err != nil && !errors.Is(err, session.ErrLost) {
		e.Observe(Trouble{err})
	}
}
