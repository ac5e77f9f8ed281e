package agent

import (
	"context"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
)

// relay is an agent whose settings by hand are done by Config.Settings, where a
// session has that. Hello may say so, therefore each call looks.
type relay struct{ *agent }

func (r relay) settings() session.Settings {
	if r.Settings != nil {
		return r.Settings
	}
	return r.agent
}

// Pending names what this session has applied.
func (r relay) Pending(ctx context.Context) (string, error) { return r.settings().Pending(ctx) }

// Confirm keeps what another session has applied.
func (r relay) Confirm(ctx context.Context, transaction string) error {
	return r.settings().Confirm(ctx, transaction)
}

// Revert undoes what was confirmed. It is not cut short by a controller that
// hangs up.
func (r relay) Revert(ctx context.Context, transaction string) ([]model.Change, error) {
	if r.Settings == nil {
		return r.agent.Revert(ctx, transaction)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Config.Undo)
	defer cancel()
	return r.Settings.Revert(ctx, transaction)
}

// Origins tells which permanent files set knobs.
func (r relay) Origins(ctx context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	return r.settings().Origins(ctx, ids)
}

// Probe asks others.
func (r relay) Probe(ctx context.Context, targets []string, within, settle time.Duration) ([]probe.Result, error) {
	return r.settings().Probe(ctx, targets, within, settle)
}

// Keep puts settings into the files of the system.
func (r relay) Keep(ctx context.Context, k session.Keep) (session.Keeping, error) {
	return r.settings().Keep(ctx, k)
}

// Restore takes back the files that were kept.
func (r relay) Restore(ctx context.Context, since string) (session.Restored, error) {
	return r.settings().Restore(ctx, since)
}

// Kept lists what was kept.
func (r relay) Kept(ctx context.Context) ([]session.KeptRecord, error) { return r.settings().Kept(ctx) }

// Confirmed lists what a person kept by confirming it.
func (r relay) Confirmed(ctx context.Context) ([]session.Confirmation, error) {
	return r.settings().Confirmed(ctx)
}

// Claims tells who else sets knobs.
func (r relay) Claims(ctx context.Context, ids []model.KnobID) ([]model.Claim, error) {
	return r.settings().Claims(ctx, ids)
}
