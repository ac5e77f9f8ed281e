// Package tuner keeps the right to change a host in a process of its own, so that
// the server that listens to anonymous clients needs none.
//
// The server starts that process, the tuner, before it gives up its rights
// ([Start]), and is connected to it by a socket that nobody else has. For each
// session whose key may tune it asks for a connection ([Tuner.Open]), which is
// made of the same sort of socket and handed over. With it comes the secret of the
// session's key, which the tuner looks up itself: who has taken the server over can
// change nothing before somebody came who may. What is spoken on it is the
// session protocol, with an agent that changes settings and has no engines, so
// that messages are bounded and checked as from anybody. When the server or the
// tuner ends, however that happens, both see the end of their sockets, and what
// is applied goes back.
package tuner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"linerate/internal/control/audit"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
)

// Request is what a session asks for.
type Request struct {
	Secret []byte `json:"secret"` // of the session's key
	Peer   string `json:"peer"`   // address of the session's controller
}

// bounds of the exchange before a connection is handed over.
const (
	maxRequest  = 1 << 10
	maxSessions = 16 // of a tuner at a time; one of them changes something
	answerTime  = 5 * time.Second
)

// Hand changes settings of a host for one session of a server, by its tuner. It
// connects when it is first used. It is safe for concurrent use, and implements
// agent.Knobs and session.Settings.
type Hand struct {
	Tuner     *Tuner
	Request   Request
	Version   string
	Catalogue *knob.Index // of the settings
	// Record, where given, is told of every change. Its events have no key and no
	// address yet.
	Record func(audit.Event)

	mu     sync.Mutex
	client *session.Client
	closed bool
}

// connected returns the session with the tuner, and opens it.
func (h *Hand) connected(ctx context.Context) (*session.Client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("%w: the session has ended", session.ErrLost)
	}
	if h.client != nil {
		return h.client, nil
	}
	conn, err := h.Tuner.Open(ctx, h.Request)
	if err != nil {
		return nil, fmt.Errorf("reach the tuner of this server: %w", err)
	}
	c, err := session.Open(ctx, wire.Peer{Control: conn, Name: "the tuner"}, session.Options{Host: model.Far, Version: h.Version, Catalogue: h.Catalogue})
	if err != nil {
		return nil, fmt.Errorf("reach the tuner of this server: %w", err)
	}
	if _, err := c.Facts(ctx, h.Request.Peer); err != nil { // by which it finds the interface that leads there
		_, _ = c.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("ask the tuner of this server: %w", err)
	}
	h.client = c
	return c, nil
}

// with calls do with the session.
func with[T any](ctx context.Context, h *Hand, do func(c *session.Client) (T, error)) (out T, err error) {
	c, err := h.connected(ctx)
	if err != nil {
		return out, err
	}
	return do(c)
}

func (h *Hand) record(e audit.Event) {
	if h.Record != nil {
		h.Record(e)
	}
}

// Apply changes knobs, all or none.
func (h *Hand) Apply(ctx context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error) {
	changes, err := with(ctx, h, func(c *session.Client) ([]model.Change, error) { return c.Apply(ctx, as, within) })
	if err != nil {
		for _, a := range as {
			h.record(audit.Event{Kind: audit.Change, Knob: string(a.Knob), New: fmt.Sprint(a.Value), Outcome: audit.Failed, Reason: err.Error()})
		}
		return changes, err
	}
	for _, c := range changes {
		h.record(audit.Event{Kind: audit.Change, Knob: string(c.Knob), Place: c.Native, Old: c.Old, New: c.New, Outcome: audit.OK})
	}
	return changes, nil
}

// Verify compares knobs with what was set.
func (h *Hand) Verify(ctx context.Context) error {
	_, err := with(ctx, h, func(c *session.Client) (none, error) { return none{}, c.Verify(ctx) })
	return err
}

type none struct{}

// Extend moves the deadline to d from now.
func (h *Hand) Extend(ctx context.Context, d time.Duration) error {
	_, err := with(ctx, h, func(c *session.Client) (none, error) { return none{}, c.Extend(ctx, d) })
	return err
}

// Undo puts back what was changed.
func (h *Hand) Undo(ctx context.Context) ([]model.Change, error) {
	changes, err := with(ctx, h, func(c *session.Client) ([]model.Change, error) { return c.Undo(ctx) })
	h.recordUndone(changes, err)
	return changes, err
}

// recordUndone records what went back: each change from what was set to what was
// there before.
func (h *Hand) recordUndone(changes []model.Change, err error) {
	for _, c := range changes {
		e := audit.Event{Kind: audit.Undo, Knob: string(c.Knob), Place: c.Native, Old: c.New, New: c.Old, Outcome: audit.OK, Reason: c.Detail}
		if c.State != model.ChangeUndone {
			e.Outcome, e.Reason = audit.Failed, string(c.State)+": "+c.Detail
		}
		h.record(e)
	}
	if err != nil {
		h.record(audit.Event{Kind: audit.Undo, Outcome: audit.Failed, Reason: err.Error()})
	}
}

// Read reads knobs.
func (h *Hand) Read(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error) {
	return with(ctx, h, func(c *session.Client) (map[model.KnobID]fact.Of[string], error) { return c.ReadKnobs(ctx, ids) })
}

// Close ends the session with the tuner, which undoes what is still applied. It
// is idempotent.
func (h *Hand) Close() error {
	h.mu.Lock()
	c := h.client
	h.client, h.closed = nil, true
	h.mu.Unlock()
	if c == nil {
		return nil
	}
	changes, err := c.Close(context.Background()) // which knows how long the undo may take
	if errors.Is(err, session.ErrLost) {
		err = nil // its end of the connection undoes
	}
	h.recordUndone(changes, err)
	return err
}

// Pending names what this session has applied.
func (h *Hand) Pending(ctx context.Context) (string, error) {
	return with(ctx, h, func(c *session.Client) (string, error) { return c.Pending(ctx) })
}

// Confirm keeps what another session has applied.
func (h *Hand) Confirm(ctx context.Context, transaction string) error {
	_, err := with(ctx, h, func(c *session.Client) (none, error) { return none{}, c.Confirm(ctx, transaction) })
	e := audit.Event{Kind: audit.Confirm, Place: transaction, Outcome: audit.OK}
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, err.Error()
	}
	h.record(e)
	return err
}

// Revert undoes what was confirmed, or one transaction of it.
func (h *Hand) Revert(ctx context.Context, transaction string) ([]model.Change, error) {
	changes, err := with(ctx, h, func(c *session.Client) ([]model.Change, error) { return c.Revert(ctx, transaction) })
	h.recordUndone(changes, err)
	return changes, err
}

// Origins tells which permanent files set knobs.
func (h *Hand) Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	return with(ctx, h, func(c *session.Client) (map[model.KnobID]model.FileLine, error) { return c.Origins(ctx, ids) })
}

// Probe asks whether others answer this host.
func (h *Hand) Probe(ctx context.Context, targets []string, within, settle time.Duration) ([]probe.Result, error) {
	return with(ctx, h, func(c *session.Client) ([]probe.Result, error) { return c.Probe(ctx, targets, within, settle) })
}

// Keep puts settings into the files of the system.
func (h *Hand) Keep(ctx context.Context, k session.Keep) (session.Keeping, error) {
	out, err := with(ctx, h, func(c *session.Client) (session.Keeping, error) { return c.Keep(ctx, k) })
	if k.DryRun {
		return out, err
	}
	for _, f := range out.Files {
		e := audit.Event{Kind: audit.Keep, Place: f.Path, Outcome: audit.OK}
		if err != nil {
			e.Outcome, e.Reason = audit.Failed, err.Error()
		}
		if f.Change != session.FileSame {
			h.record(e)
		}
	}
	if err != nil && len(out.Files) == 0 {
		h.record(audit.Event{Kind: audit.Keep, Outcome: audit.Failed, Reason: err.Error()})
	}
	return out, err
}

// Restore takes back the files that were kept.
func (h *Hand) Restore(ctx context.Context, since string) (session.Restored, error) {
	out, err := with(ctx, h, func(c *session.Client) (session.Restored, error) { return c.Restore(ctx, since) })
	for _, f := range out.Files {
		h.record(audit.Event{Kind: audit.Restore, Place: f.Path, Outcome: audit.OK, Reason: string(f.State)})
	}
	if err != nil {
		h.record(audit.Event{Kind: audit.Restore, Outcome: audit.Failed, Reason: err.Error()})
	}
	return out, err
}

// Kept lists what was kept.
func (h *Hand) Kept(ctx context.Context) ([]session.KeptRecord, error) {
	return with(ctx, h, func(c *session.Client) ([]session.KeptRecord, error) { return c.Kept(ctx) })
}

// Confirmed lists what a person kept by confirming it.
func (h *Hand) Confirmed(ctx context.Context) ([]session.Confirmation, error) {
	return with(ctx, h, func(c *session.Client) ([]session.Confirmation, error) { return c.Confirmed(ctx) })
}

// Claims tells who else sets knobs.
func (h *Hand) Claims(ctx context.Context, ids []model.KnobID) ([]model.Claim, error) {
	return with(ctx, h, func(c *session.Client) ([]model.Claim, error) { return c.Claims(ctx, ids) })
}
