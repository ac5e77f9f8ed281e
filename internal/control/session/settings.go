package session

import (
	"context"
	"fmt"
	"time"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
)

// Bounds of probes, as settings.proto states them.
const (
	MaxTargets = 16
	MaxWithin  = 10 * time.Second
	MaxSettle  = 15 * time.Second
	maxAnswers = 64
)

// Settings is the part of a Service for settings by hand; the words of
// settings.proto.
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

// settings is a Settings seen as messages.
type settings struct {
	*adapter
	s Settings
}

// Pending names what is applied.
func (a settings) Pending(ctx context.Context, _ *sessionpb.PendingRequest) (*sessionpb.PendingResponse, error) {
	return call(a.adapter, func(model.Host) (*sessionpb.PendingResponse, error) {
		id, err := a.s.Pending(ctx)
		return &sessionpb.PendingResponse{Transaction: clean(id, MaxName)}, err
	})
}

// Confirm keeps a transaction.
func (a settings) Confirm(ctx context.Context, p *sessionpb.ConfirmRequest) (*sessionpb.ConfirmResponse, error) {
	return call(a.adapter, func(model.Host) (*sessionpb.ConfirmResponse, error) {
		var c check
		id := c.name("transaction", p.GetTransaction())
		if c.err != nil {
			return nil, c.err
		}
		return &sessionpb.ConfirmResponse{}, a.s.Confirm(ctx, id)
	})
}

// Revert undoes what was confirmed.
func (a settings) Revert(ctx context.Context, p *sessionpb.RevertRequest) (*sessionpb.RevertResponse, error) {
	return call(a.adapter, func(model.Host) (*sessionpb.RevertResponse, error) {
		id := ""
		if p.GetTransaction() != "" {
			var c check
			if id = c.name("transaction", p.GetTransaction()); c.err != nil {
				return nil, c.err
			}
		}
		changes, err := a.s.Revert(ctx, id)
		out := &sessionpb.RevertResponse{Changes: encodeChanges(changes)}
		if err != nil && len(changes) > 0 { // an error would lose what was put back
			out.Problem, err = clean(err.Error(), MaxText), nil
		}
		return out, err
	})
}

// Origins tells of permanent files.
func (a settings) Origins(ctx context.Context, p *sessionpb.OriginsRequest) (*sessionpb.OriginsResponse, error) {
	return call(a.adapter, func(model.Host) (*sessionpb.OriginsResponse, error) {
		var c check
		ids := knobNames(&c, p.GetIds())
		if c.err != nil {
			return nil, c.err
		}
		found, err := a.s.Origins(ctx, ids)
		out := &sessionpb.OriginsResponse{}
		for id, l := range found {
			if len(out.Origins) < MaxKnobs {
				out.Origins = append(out.Origins, encodeOrigin(id, l))
			}
		}
		return out, err
	})
}

// Probe asks others.
func (a settings) Probe(ctx context.Context, p *sessionpb.ProbeRequest) (*sessionpb.ProbeResponse, error) {
	return call(a.adapter, func(model.Host) (*sessionpb.ProbeResponse, error) {
		var c check
		c.that(len(p.GetTargets()) > 0, "no targets")
		c.count("targets", len(p.GetTargets()), MaxTargets)
		within := c.duration("time to answer", p.GetWithinNs(), time.Millisecond, MaxWithin)
		settle := c.duration("time to settle", p.GetSettleNs(), 0, MaxSettle)
		for _, t := range p.GetTargets()[:min(len(p.GetTargets()), MaxTargets)] {
			c.text("target", t, MaxValue)
			if err := probe.Valid(t); err != nil {
				c.fail("target %v", err)
			}
		}
		if c.err != nil {
			return nil, c.err
		}
		results, err := a.s.Probe(ctx, p.GetTargets(), within, settle)
		out := &sessionpb.ProbeResponse{}
		for _, r := range results[:min(len(results), maxAnswers)] {
			out.Answers = append(out.Answers, &sessionpb.Answer{
				Target: clean(r.Target, MaxValue), Full: r.Full, Bytes: uint32(r.Bytes), Ok: r.OK, Detail: clean(r.Detail, MaxText),
			})
		}
		return out, err
	})
}

// Pending names what this session has applied, for Confirm of another one; "" for
// nothing.
func (c *Client) Pending(ctx context.Context) (string, error) {
	const op = "name what is applied"
	p, err := ask(ctx, c, op, 1, func(ctx context.Context) (*sessionpb.PendingResponse, error) {
		return c.settings.Pending(ctx, &sessionpb.PendingRequest{})
	})
	if err != nil {
		return "", err
	}
	var k check
	id := k.text("transaction", p.GetTransaction(), MaxName)
	return checked(ctx, c, op, &k, id)
}

// Confirm keeps what another session has applied on this host. It wraps ErrState
// when that went back before.
func (c *Client) Confirm(ctx context.Context, transaction string) error {
	_, err := ask(ctx, c, "confirm", 1, func(ctx context.Context) (*sessionpb.ConfirmResponse, error) {
		return c.settings.Confirm(ctx, &sessionpb.ConfirmRequest{Transaction: transaction})
	})
	return err
}

// Revert undoes what was confirmed on this host, one transaction or with "" all
// that ever was, and tells what became of each change, also with an error.
func (c *Client) Revert(ctx context.Context, transaction string) ([]model.Change, error) {
	const op = "undo what was confirmed"
	p, err := askFor(ctx, c, op, c.timeouts.Call+knob.MaxUndoTime, func(ctx context.Context) (*sessionpb.RevertResponse, error) {
		return c.settings.Revert(ctx, &sessionpb.RevertRequest{Transaction: transaction})
	})
	all, err := c.changes(ctx, op, p.GetChanges(), err)
	if err == nil && p.GetProblem() != "" {
		err = fmt.Errorf("%s on %s: %s", op, c.peer.Name, clean(p.GetProblem(), MaxText))
	}
	return all, err
}

// Origins tells which permanent files set knobs; those of which none is known
// are left out.
func (c *Client) Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	const op = "read permanent files"
	p, err := ask(ctx, c, op, 1, func(ctx context.Context) (*sessionpb.OriginsResponse, error) {
		r := &sessionpb.OriginsRequest{}
		for _, id := range ids {
			r.Ids = append(r.Ids, string(id))
		}
		return c.settings.Origins(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	var k check
	found := decodeOrigins(&k, p.GetOrigins())
	return checked(ctx, c, op, &k, found)
}

// Probe asks whether others answer the host, each for at most within after its
// link came back, which may take settle.
func (c *Client) Probe(ctx context.Context, targets []string, within, settle time.Duration) ([]probe.Result, error) {
	const op = "ask others"
	p, err := ask(ctx, c, op, slowCalls, func(ctx context.Context) (*sessionpb.ProbeResponse, error) {
		return c.settings.Probe(ctx, &sessionpb.ProbeRequest{Targets: targets, WithinNs: int64(within), SettleNs: int64(settle)})
	})
	if err != nil {
		return nil, err
	}
	var k check
	k.count("answers", len(p.GetAnswers()), maxAnswers)
	var out []probe.Result
	for _, a := range p.GetAnswers()[:min(len(p.GetAnswers()), maxAnswers)] {
		out = append(out, probe.Result{
			Target: k.text("target", a.GetTarget(), MaxValue), Full: a.GetFull(), Bytes: int(k.atMost("size", int64(a.GetBytes()), 1<<16)),
			OK: a.GetOk(), Detail: k.text("detail", a.GetDetail(), MaxText),
		})
	}
	return checked(ctx, c, op, &k, out)
}
