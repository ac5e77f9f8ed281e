package knob

import (
	"errors"
	"fmt"
	"slices"

	"linerate/internal/core/model"
)

// Faults returns everything wrong with changes on a machine of system whose present values are
// before, without querying the machine: a missing setting, a read-only or boot-time one, one
// set twice, a value out of the system's range, and every broken constraint. Values have to be
// canonical. Errors of constraints wrap ErrConstraint, errors of what the machine lacks
// errors.ErrUnsupported. Advice returns what is merely unwise.
func (x *Index) Faults(system string, before Values, changes []model.Assignment) []error {
	var errs []error
	for i, c := range changes {
		if slices.ContainsFunc(changes[:i], func(o model.Assignment) bool { return o.Knob == c.Knob }) {
			errs = append(errs, fmt.Errorf("%s is set twice", c.Knob))
			continue
		}
		if err := x.settable(system, c.Knob); err != nil {
			errs = append(errs, err)
		}
	}
	return append(errs, x.Misfits(system, before, changes)...)
}

// Advice returns warnings about changes on a machine of system whose present values are before.
func Advice(system string, before Values, changes []model.Assignment) []string {
	var all []string
	for _, v := range Violations(system, before, changes) {
		if v.Constraint.Advice {
			all = append(all, v.Error())
		}
	}
	return all
}

// settable returns an *Error if id cannot be tried on system.
func (x *Index) settable(system string, id model.KnobID) error {
	k, ok := x.ByID(id)
	if !ok {
		return x.UnknownError(id)
	}
	var err error
	if k.Scope == ScopeFlow { // a user's mistake, not something that a machine lacks
		err = errors.New("belongs to the test traffic, not to a host")
	} else if _, err = k.On(system); err == nil {
		err = k.Writable(system)
	}
	if err != nil {
		return &Error{Op: "set", Knob: id, Err: err}
	}
	return nil
}

// On returns where system keeps the knob. The error says why linerate cannot access it there,
// and wraps errors.ErrUnsupported if another system may have it.
func (k Knob) On(system string) (Native, error) {
	n, ok := k.Native[system]
	switch {
	case k.Scope == ScopeFlow:
		return n, errors.New("belongs to the test traffic, not to a host") // a mistake on every system
	case !ok:
		return n, Because(NotOnSystem, fmt.Errorf("%s has no such setting: %w", system, errors.ErrUnsupported))
	case n.Mechanism == NotYet:
		return n, Because(NotByLinerate, fmt.Errorf("linerate cannot use %s on %s: %w", n.Name, system, errors.ErrUnsupported))
	}
	return n, nil
}

// Writable returns an error if the knob cannot be tried on system: it is a fact, not a setting,
// or takes effect only at boot. The error wraps errors.ErrUnsupported.
func (k Knob) Writable(system string) error {
	n := k.Native[system]
	switch {
	case k.ReadOnly || n.ReadOnly:
		return fmt.Errorf("a fact of the machine, not a setting: %w", errors.ErrUnsupported)
	case k.EffectOn(system) == EffectBoot:
		return fmt.Errorf("read at boot only (%s): no trial can show its effect: %w", n.Permanent(system), errors.ErrUnsupported)
	}
	return nil
}

// Error is a failed operation on a knob.
type Error struct {
	Op    string // "read", "write", "check", "find"
	Knob  model.KnobID
	Place string // "net.ipv4.tcp_rmem", "" if there is none
	Err   error
}

func (e *Error) Error() string {
	if e.Place == "" {
		return fmt.Sprintf("%s %s: %v", e.Op, e.Knob, e.Err)
	}
	return fmt.Sprintf("%s %s (%s): %v", e.Op, e.Knob, e.Place, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
