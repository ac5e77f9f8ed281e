// Package tuner keeps the right to change a host in a separate process, so that the server that
// listens to anonymous clients does not need it.
//
// The server starts that process, the tuner, before it drops its privileges ([Start]), and has
// the only socket to it. For each session whose key may tune, it requests a connection
// ([Tuner.Open]), a socket of the same kind that it hands over. The request carries the secret
// of the session's key, which the tuner checks itself: an attacker who takes over the server
// can change nothing before a client with such a key connects. The connection speaks the
// session protocol, with an agent that changes settings and has no engines, so messages are
// bounded and checked like those of any client. When the server or the tuner ends, for any
// reason, the other sees the end of its socket, and all applied changes are undone.
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
)

// Request is the server's request for one session.
type Request struct {
	Secret []byte `json:"secret"` // of the session's key
	Peer   string `json:"peer"`   // address of the session's controller
}

// Bounds of the exchange before a connection is handed over.
const (
	maxRequest  = 1 << 10
	maxSessions = 16 // of a tuner at a time; one of them changes something
	answerTime  = 5 * time.Second
)

// Hand changes settings of a host for one session of a server, through the tuner. It connects
// on first use. It is safe for concurrent use, and implements agent.Knobs.
type Hand struct {
	Tuner     *Tuner
	Request   Request
	Version   string
	Catalogue *knob.Index // of the settings
	// Record, if set, receives every change. Its events have no key and no address yet.
	Record func(audit.Event)

	mu     sync.Mutex
	client *session.Client
	closed bool
}

// connected returns the session with the tuner, and opens it on first use.
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
	if _, err := c.Facts(ctx, h.Request.Peer); err != nil { // tells the agent which interface leads to the peer
		_, _ = c.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("ask the tuner of this server: %w", err)
	}
	h.client = c
	return c, nil
}

func (h *Hand) record(e audit.Event) {
	if h.Record != nil {
		h.Record(e)
	}
}

// Apply changes all knobs or none.
func (h *Hand) Apply(ctx context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error) {
	var changes []model.Change
	c, err := h.connected(ctx)
	if err == nil {
		changes, err = c.Apply(ctx, as, within)
	}
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

// Verify compares knobs with their applied values.
func (h *Hand) Verify(ctx context.Context) error {
	c, err := h.connected(ctx)
	if err != nil {
		return err
	}
	return c.Verify(ctx)
}

// Extend moves the deadline to d from now.
func (h *Hand) Extend(ctx context.Context, d time.Duration) error {
	c, err := h.connected(ctx)
	if err != nil {
		return err
	}
	return c.Extend(ctx, d)
}

// Undo undoes the applied changes.
func (h *Hand) Undo(ctx context.Context) ([]model.Change, error) {
	var changes []model.Change
	c, err := h.connected(ctx)
	if err == nil {
		changes, err = c.Undo(ctx)
	}
	h.recordUndone(changes, err)
	return changes, err
}

// recordUndone records each undone change, from the applied value to the earlier one.
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
	c, err := h.connected(ctx)
	if err != nil {
		return nil, err
	}
	return c.ReadKnobs(ctx, ids)
}

// Close ends the session with the tuner, which undoes what is still applied. It is idempotent.
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
		err = nil // the tuner undoes at the end of its connection
	}
	h.recordUndone(changes, err)
	return err
}

// Settings returns the tuner's service for changing settings by hand.
func (h *Hand) Settings(ctx context.Context) (session.Settings, error) {
	c, err := h.connected(ctx)
	if err != nil {
		h.record(audit.Event{Kind: audit.Change, Outcome: audit.Failed, Reason: err.Error()})
		return nil, err
	}
	return settings{c, h}, nil
}

// settings are a tuner's Settings that record each change.
type settings struct {
	*session.Client
	hand *Hand
}

// Confirm keeps what another session has applied.
func (s settings) Confirm(ctx context.Context, transaction string) error {
	err := s.Client.Confirm(ctx, transaction)
	e := audit.Event{Kind: audit.Confirm, Place: transaction, Outcome: audit.OK}
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, err.Error()
	}
	s.hand.record(e)
	return err
}

// Revert undoes confirmed changes: one transaction or all. A controller that hangs up does not
// interrupt it.
func (s settings) Revert(ctx context.Context, transaction string) ([]model.Change, error) {
	changes, err := s.Client.Revert(context.WithoutCancel(ctx), transaction)
	s.hand.recordUndone(changes, err)
	return changes, err
}

// Keep writes settings into the system's files.
func (s settings) Keep(ctx context.Context, k session.Keep) (session.Keeping, error) {
	out, err := s.Client.Keep(ctx, k)
	if k.DryRun {
		return out, err
	}
	for _, f := range out.Files {
		e := audit.Event{Kind: audit.Keep, Place: f.Path, Outcome: audit.OK}
		if err != nil {
			e.Outcome, e.Reason = audit.Failed, err.Error()
		}
		if f.Change != session.FileSame {
			s.hand.record(e)
		}
	}
	if err != nil && len(out.Files) == 0 {
		s.hand.record(audit.Event{Kind: audit.Keep, Outcome: audit.Failed, Reason: err.Error()})
	}
	return out, err
}

// Restore restores the files that were kept.
func (s settings) Restore(ctx context.Context, since string) (session.Restored, error) {
	out, err := s.Client.Restore(ctx, since)
	for _, f := range out.Files {
		s.hand.record(audit.Event{Kind: audit.Restore, Place: f.Path, Outcome: audit.OK, Reason: string(f.State)})
	}
	if err != nil {
		s.hand.record(audit.Event{Kind: audit.Restore, Outcome: audit.Failed, Reason: err.Error()})
	}
	return out, err
}
