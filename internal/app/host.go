package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// ThisMachine is what people call the near end unless it has a name.
const ThisMachine = model.ThisMachine

// Host is a host with an open session.
type Host struct {
	Side   model.Host // the end that it is; this machine alone is the near one
	Name   string     // for people
	Client *session.Client
	Facts  model.HostFacts
	Peer   string                                   // address of the other end as this one reaches it, "" for none
	Dial   func(context.Context) (wire.Peer, error) // makes a new way to it
}

// Value returns the canonical value that the host held when its facts were read;
// "" where that is not known.
func (h *Host) Value(id model.KnobID) string { return h.Facts.Knobs[id].Or("") }

// OpenSession opens a session with a host by dial.
func (e Env) OpenSession(ctx context.Context, side model.Host, dial func(context.Context) (wire.Peer, error)) (*session.Client, error) {
	most := cmp.Or(e.Timeout, DefaultTimeout)
	tell := time.AfterFunc(waitingAfter, func() { e.Observe(Waiting{side, most}) })
	defer tell.Stop()
	begun := time.Now()
	silent, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	peer, err := dial(&personal{silent, ctx})
	if err != nil {
		return nil, silence(silent, ctx, most, err)
	}
	// Who had to type a password, or copied this program there, has waited for
	// something; what is left for the agent's first word is never nothing.
	hello, cancel := context.WithTimeout(ctx, max(most-time.Since(begun), min(most, leastHello))+afterSilence)
	defer cancel()
	c, err := session.Open(hello, peer, session.Options{Host: side, Version: e.Version, Catalogue: e.Catalogue, Timeouts: patient(most)})
	return c, fault.WithKind(fault.Unreachable, silence(hello, ctx, most, err))
}

// patient are the times of a session whose host may be silent for most: who waits longer
// than usual for its first word knows that it is slow, and waits longer for all others.
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
	// afterSilence lets the way learn that the patience has ended before it is closed.
	afterSilence = 50 * time.Millisecond
)

// personal is a context that ends with the patience for a host, and knows the one that
// does not: for a way on which a person may be asked.
type personal struct {
	context.Context
	whole context.Context
}

// Unhurried returns the context of a way to a host without the patience of
// OpenSession, for a way that has a patience of its own.
func Unhurried(ctx context.Context) context.Context {
	if p, ok := ctx.(*personal); ok {
		return p.whole
	}
	return ctx
}

// silence is err as the end of the patience with a host, where that is what it is.
func silence(limited, ctx context.Context, most time.Duration, err error) error {
	if err == nil || ctx.Err() != nil || !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return err
	}
	return quiet(err, fmt.Errorf("no answer in %s: %w", units.FormatDuration(most), err))
}

// quiet is why a host that said nothing was given up, with what err advises.
func quiet(err, why error) error {
	why = fault.WithKind(fault.Unreachable, why)
	if hint := fault.HintOf(err); hint != "" {
		return fault.WithHint(why, "%s", hint)
	}
	return fault.WithHint(why, "is it on, and does a firewall let this through? --timeout waits longer")
}

// errSilent ends the patience with a host that is no agent.
var errSilent = errors.New("it said nothing")

// Patience is that of OpenSession for a host that is no agent: met is called at its
// first sign of life, from any goroutine, and end with the error of the whole, which it
// returns as what it means.
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

// Again opens another session with a host, beside the one that it has.
func (e Env) Again(ctx context.Context, h *Host) (*session.Client, error) {
	return e.OpenSession(ctx, h.Side, h.Dial)
}

// HangUp ends a session. That the host was lost before is no trouble: it undoes by
// itself. It takes as long as the undo of what the session applied may take.
func (e Env) HangUp(c *session.Client) {
	if _, err := c.Close(context.Background()); err != nil && !errors.Is(err, session.ErrLost) {
		e.Observe(Trouble{err})
	}
}
