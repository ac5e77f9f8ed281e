package target

import (
	"context"
	"fmt"
	"slices"

	"linerate/internal/control/experiment"
	"linerate/internal/control/runner"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// OpenSeveral opens several far ends with one session at the near end: the first far end as
// Open does, the others as its Others. The caller calls Close.
func (o *Opener) OpenSeveral(ctx context.Context, near, far Target, others []Target) (*Ends, error) {
	for _, t := range append([]Target{far}, others...) {
		switch {
		case len(others) == 0:
		case t.Kind == Foreign:
			return nil, fault.WithHint(fault.Usagef("%s: several far ends are compared where linerate runs on each", t), "start linerate serve there, or compare over ssh: user@host")
		case t.Kind == Lab && near.Kind != Here:
			return nil, fault.WithHint(fault.Usagef("%s: a lab has both ends of its own", t), "leave out --from")
		}
	}
	e, err := o.Open(ctx, near, far)
	if err != nil {
		return nil, err
	}
	var first *Ends // all but labs share their near end
	if far.Kind != Lab {
		first = e
	}
	for _, t := range others {
		beside := first
		if t.Kind == Lab {
			beside = nil
		}
		other, err := o.open(ctx, near, t, beside)
		if err != nil {
			e.Close()
			return nil, fmt.Errorf("far end %s: %w", t, err)
		}
		if first == nil && t.Kind != Lab {
			first = other
		}
		e.Others = append(e.Others, other)
		e.warn(other.Warnings)
	}
	return e, nil
}

// At returns the ends that a setting is measured between, nil if they are not open.
func (e *Ends) At(s model.Setting) *Ends {
	target := s.FarEnd()
	if target == "" || target == e.FarText {
		return e
	}
	for _, o := range e.Others {
		if o.FarText == target {
			return o
		}
	}
	return nil
}

// All returns these ends and the Others.
func (e *Ends) All() []*Ends { return append([]*Ends{e}, e.Others...) }

// Beside describes the other far ends, for a plan that names them.
func (e *Ends) Beside() []model.End {
	var out []model.End
	for _, o := range e.Others {
		hosts := slices.Clone(o.Hosts)
		for i := range hosts { // a report needs no more: the plan should not hold all settings of all hosts
			hosts[i].Knobs, hosts[i].Machine = map[model.KnobID]fact.Of[string]{}, nil
		}
		out = append(out, model.End{Target: o.FarText, Hosts: hosts, WireRate: o.WireRate})
	}
	return out
}

// Across returns a runner that makes each run between the ends that its setting names.
func (e *Ends) Across() experiment.Runner {
	if len(e.Others) == 0 {
		return e.Runner
	}
	return across{e}
}

type across struct{ ends *Ends }

// Run implements experiment.Runner. A run with an unreachable end fails at once: Reopen tries
// to reach that end again.
func (a across) Run(ctx context.Context, s runner.Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	e := a.ends.At(s.Setting)
	missing := fmt.Errorf("%w: far end %s", runner.ErrContact, s.Setting.FarEnd())
	if e != nil && e.lost == nil {
		run, changes, err := e.Runner.Run(ctx, s, emit)
		if run.LostContact {
			e.lost = err
		}
		return run, changes, err
	}
	if e != nil {
		missing = e.lost
	}
	now := a.ends.env.Now()
	return model.Run{
		Number: s.Number, Block: s.Block, Position: s.Position, Attempt: s.Attempt, Setting: s.Setting.Name, Flow: s.Flow,
		Started: now, Ended: now, State: model.RunInvalid, LostContact: true, Reason: missing.Error(),
	}, nil, missing
}

// Release implements experiment.Runner.
func (a across) Release(ctx context.Context) ([]model.Change, error) {
	var all []model.Change
	for _, e := range a.ends.All() {
		changes, err := e.Runner.Release(ctx)
		if all = append(all, changes...); err != nil {
			return all, err
		}
	}
	return all, nil
}

// reopenLost opens new sessions with the ends to which contact was lost, and with those that
// share the near end of one. It is not an error if one of the Others stays unreachable: its
// runs fail until it is back.
func (e *Ends) reopenLost(ctx context.Context) error {
	for _, o := range e.All() {
		if o.beside != nil && o.beside.lost != nil && o.lost == nil {
			o.lost = o.beside.lost
		}
	}
	for _, o := range e.All() {
		if o.lost == nil {
			continue
		}
		_ = o.hangUp()
		err := o.connect(ctx)
		if err != nil && o == e {
			return err
		}
		if o.lost = nil; err != nil {
			o.lost = fmt.Errorf("%w: far end %s: %w", runner.ErrContact, o.FarText, err)
			_ = o.hangUp()
		}
	}
	return ctx.Err()
}
