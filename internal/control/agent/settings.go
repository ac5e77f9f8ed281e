package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/host/canary"
	"linerate/internal/panics"
)

// Settings returns the agent that changes settings by hand: this one, or one with more rights.
func (a *agent) Settings(ctx context.Context) (session.Settings, error) {
	if a.ByHand != nil {
		return a.ByHand(ctx)
	}
	return a, nil
}

// keeper returns an error if changes cannot be kept.
func (a *agent) keeper() (Keeper, error) {
	if err := a.mayTune(); err != nil {
		return nil, err
	}
	if a.Keeper == nil {
		return nil, fmt.Errorf("this agent keeps no changes: %w", errors.ErrUnsupported)
	}
	return a.Keeper, nil
}

// Pending returns the transaction that this session has applied.
func (a *agent) Pending(context.Context) (string, error) {
	k, err := a.keeper()
	if err != nil {
		return "", err
	}
	a.knobs.Lock()
	defer a.knobs.Unlock()
	if !a.changed {
		return "", nil
	}
	return k.Pending(), nil
}

// Confirm keeps what another session has applied.
func (a *agent) Confirm(ctx context.Context, transaction string) error {
	k, err := a.keeper()
	if err != nil {
		return err
	}
	return k.Confirm(ctx, transaction)
}

// Revert undoes confirmed changes: one transaction or all. A controller that hangs up does not
// interrupt it.
func (a *agent) Revert(ctx context.Context, transaction string) ([]model.Change, error) {
	k, err := a.keeper()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.Config.Undo)
	defer cancel()
	return k.Revert(ctx, transaction)
}

// Origins returns which permanent files set knobs.
func (a *agent) Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	if a.Config.Origins == nil {
		return nil, fmt.Errorf("this agent reads no permanent files: %w", errors.ErrUnsupported)
	}
	return a.Config.Origins(ctx, ids)
}

// Probe probes all targets at once. Only a controller that may change this host may make it
// contact others.
func (a *agent) Probe(ctx context.Context, targets []string, within, settle time.Duration) ([]probe.Result, error) {
	if err := a.mayTune(); err != nil {
		return nil, err
	}
	for _, t := range targets {
		if q, _ := probe.ParseQuery(t); a.MayConnect != nil && q.From != q.From.MarkOnly() {
			return nil, fmt.Errorf("%w: this server chooses the address and interface of its probes by itself", session.ErrRefused)
		}
	}
	answers := make([][]probe.Result, len(targets))
	var all panics.Group // a panic ends this call, which its session guards
	for i, t := range targets {
		all.Go(func() { answers[i] = canary.Probe(ctx, t, within, settle) })
	}
	all.Wait()
	var out []probe.Result
	for _, one := range answers {
		out = append(out, one...)
	}
	return out, nil
}
