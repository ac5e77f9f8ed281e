package files

import (
	"context"
	"errors"

	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// ProposeMost is Propose for as many of the settings as can be proven. It omits the refused
// ones, with the refusal as the reason.
func ProposeMost(ctx context.Context, f Format, h Host, r Request) (Proposal, error) {
	var omitted []model.Omission
	omit := func(settings []Setting, why error) {
		for _, s := range settings {
			for _, a := range append([]model.Assignment{{Knob: s.Knob, Value: s.Value}}, s.Also...) {
				omitted = append(omitted, model.Omission{Knob: a.Knob, Value: a.Value, Reason: fault.Sentence(why)})
			}
		}
	}
	for {
		p, err := Propose(ctx, f, h, r)
		if !refused(err) {
			p.Omitted = append(omitted, p.Omitted...)
			return p, err
		}
		var left []Setting
		for _, s := range r.Settings {
			one := r
			one.Settings = []Setting{s}
			_, alone := Propose(ctx, f, h, one)
			switch {
			case edited(err) && edited(alone): // the error for all settings tells what the file would lose
				omit(one.Settings, err)
			case refused(alone):
				omit(one.Settings, alone)
			case alone != nil:
				return Proposal{}, alone
			default:
				left = append(left, s)
			}
		}
		if len(left) == len(r.Settings) { // each is fine alone
			omit(left, err)
			left = nil
		}
		if r.Settings = left; len(left) == 0 { // a program that refuses the owner's files refuses them without ours too
			return Proposal{Draft: Draft{Omitted: omitted}}, nil
		}
	}
}

// edited reports whether err concerns a file that was edited by hand.
func edited(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.edited
}

// refused reports whether err is a *Refusal.
func refused(err error) bool {
	_, ok := errors.AsType[*Refusal](err)
	return ok
}
