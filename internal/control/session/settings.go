package session

import (
	"context"
	"fmt"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
)

// The longest times of a probe, as in the tags of probeRequest.
const (
	MaxWithin = 10 * time.Second
	MaxSettle = 15 * time.Second
)

// Settings changes settings by hand, and keeps them.
type Settings interface {
	// Pending returns the transaction that this session has applied, "" for none.
	Pending(ctx context.Context) (transaction string, err error)
	// Confirm keeps what another session has applied on this host.
	Confirm(ctx context.Context, transaction string) error
	// Revert undoes what was confirmed on this host: one transaction, or with "" all of them.
	Revert(ctx context.Context, transaction string) ([]model.Change, error)
	// Origins returns which permanent files set knobs, as far as known.
	Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error)
	// Probe reports whether targets answer this host.
	Probe(ctx context.Context, targets []string, within, settle time.Duration) ([]probe.Result, error)
	keeping
}

// Pending returns the transaction that this session has applied, for Confirm of another one; ""
// for none.
func (c *Client) Pending(ctx context.Context) (string, error) {
	r, err := ask[transaction](ctx, c, "name what is applied", 1, "Pending", nothing{})
	return r.Transaction, err
}

// Confirm keeps what another session has applied on this host. It wraps ErrState if that was
// already undone.
func (c *Client) Confirm(ctx context.Context, id string) error {
	_, err := ask[nothing](ctx, c, "confirm", 1, "Confirm", transaction{id})
	return err
}

// Revert undoes what was confirmed on this host, one transaction or with "" all of them, and
// returns the outcome of each change, even with an error.
func (c *Client) Revert(ctx context.Context, id string) ([]model.Change, error) {
	const op = "undo what was confirmed"
	r, err := askFor[changeList](ctx, c, op, c.timeouts.Call+knob.MaxUndoTime, "Revert", transaction{id})
	if err == nil && r.Problem != "" {
		err = fmt.Errorf("%s on %s: %s", op, c.peer.Name, r.Problem)
	}
	return r.Changes, err
}

// Origins returns which permanent files set knobs; it omits knobs without a known file.
func (c *Client) Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	r, err := ask[fileLines](ctx, c, "read permanent files", 1, "Origins", knobNames{ids})
	return r.Lines, err
}

// Probe reports whether targets answer the host, each for at most within after its link came
// back, which may take settle.
func (c *Client) Probe(ctx context.Context, targets []string, within, settle time.Duration) ([]probe.Result, error) {
	r, err := ask[probeResults](ctx, c, "ask others", slowCalls, "Probe", probeRequest{targets, within, settle})
	return r.Results, err
}
