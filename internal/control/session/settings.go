package session

import (
	"context"
	"fmt"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
)

// The longest times of a probe, as the tags of probeRequest have them.
const (
	MaxWithin = 10 * time.Second
	MaxSettle = 15 * time.Second
)

// Settings changes settings by hand, and keeps them.
type Settings interface {
	// Pending names what this session has applied, "" for nothing.
	Pending(ctx context.Context) (transaction string, err error)
	// Confirm keeps what another session has applied on this host.
	Confirm(ctx context.Context, transaction string) error
	// Revert undoes what was confirmed on this host: one transaction, or with "" all
	// that ever was.
	Revert(ctx context.Context, transaction string) ([]model.Change, error)
	// Origins tells which permanent files set knobs, as far as that is known.
	Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error)
	// Probe asks whether others answer this host.
	Probe(ctx context.Context, targets []string, within, settle time.Duration) ([]probe.Result, error)
	keeping
}

// Pending names what this session has applied, for Confirm of another one; "" for
// nothing.
func (c *Client) Pending(ctx context.Context) (string, error) {
	r, err := ask[transaction](ctx, c, "name what is applied", 1, "Pending", nothing{})
	return r.Transaction, err
}

// Confirm keeps what another session has applied on this host. It wraps ErrState
// when that went back before.
func (c *Client) Confirm(ctx context.Context, id string) error {
	_, err := ask[nothing](ctx, c, "confirm", 1, "Confirm", transaction{id})
	return err
}

// Revert undoes what was confirmed on this host, one transaction or with "" all
// that ever was, and tells what became of each change, also with an error.
func (c *Client) Revert(ctx context.Context, id string) ([]model.Change, error) {
	const op = "undo what was confirmed"
	r, err := askFor[changeList](ctx, c, op, c.timeouts.Call+knob.MaxUndoTime, "Revert", transaction{id})
	if err == nil && r.Problem != "" {
		err = fmt.Errorf("%s on %s: %s", op, c.peer.Name, r.Problem)
	}
	return r.Changes, err
}

// Origins tells which permanent files set knobs; those of which none is known
// are left out.
func (c *Client) Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	r, err := ask[fileLines](ctx, c, "read permanent files", 1, "Origins", knobNames{ids})
	return r.Lines, err
}

// Probe asks whether others answer the host, each for at most within after its
// link came back, which may take settle.
func (c *Client) Probe(ctx context.Context, targets []string, within, settle time.Duration) ([]probe.Result, error) {
	r, err := ask[probeResults](ctx, c, "ask others", slowCalls, "Probe", probeRequest{targets, within, settle})
	return r.Results, err
}
