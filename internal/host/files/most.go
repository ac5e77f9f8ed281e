package files

import (
	"context"
	"errors"

	"linerate/internal/core/model"
)

// ProposeMost is Propose for as many of the settings as can be proven. Those that
// are refused are omitted, with the refusal as the reason.
func ProposeMost(ctx context.Context, f Format, h Host, r Request) (Proposal, error) {
	var refused []model.Omission
	omit := func(settings []Setting, why *Refusal) {
		for _, s := range settings {
			for _, a := range append([]model.Assignment{{Knob: s.Knob, Value: s.Value}}, s.Also...) {
				refused = append(refused, model.Omission{Knob: a.Knob, Value: a.Value, Reason: why.Advice()})
			}
		}
	}
	for {
		p, err := Propose(ctx, f, h, r)
		var why *Refusal
		if !errors.As(err, &why) {
			p.Omitted = append(refused, p.Omitted...)
			return p, err
		}
		var left []Setting
		for _, s := range r.Settings {
			one := r
			one.Settings = []Setting{s}
			var alone *Refusal
			if _, err := Propose(ctx, f, h, one); errors.As(err, &alone) {
				omit(one.Settings, alone)
				continue
			} else if err != nil {
				return Proposal{}, err
			}
			left = append(left, s)
		}
		if len(left) == len(r.Settings) { // each alone is good
			omit(left, why)
			left = nil
		}
		r.Settings = left
	}
}

// Advice is the refusal with what to change by hand.
func (r *Refusal) Advice() string {
	if r.Hint == "" {
		return r.Error()
	}
	return r.Error() + "; " + r.Hint
}
