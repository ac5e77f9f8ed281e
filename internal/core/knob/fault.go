package knob

import (
	"errors"
	"fmt"
	"slices"

	"linerate/internal/core/model"
)

// Faults returns everything that is wrong with changes on a machine of system
// whose knobs hold before, without asking the machine: no such setting there,
// one that nobody may write or that is read at boot only, one set twice, a value
// out of the system's range, and every constraint that is broken. Values have to
// be canonical. Those of constraints wrap ErrConstraint, those of what the
// machine lacks errors.ErrUnsupported. What is merely unwise is told by Advice.
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

// Advice returns what is unwise about changes on a machine of system whose knobs
// hold before, for people.
func Advice(system string, before Values, changes []model.Assignment) []string {
	var all []string
	for _, v := range Violations(system, before, changes) {
		if v.Constraint.Advice {
			all = append(all, v.Error())
		}
	}
	return all
}

// settable says why id cannot be tried on system, as an *Error.
func (x *Index) settable(system string, id model.KnobID) error {
	k, ok := x.ByID(id)
	if !ok {
		return x.UnknownError(id)
	}
	var err error
	if k.Scope == ScopeFlow { // a slip of the user, not something that a machine lacks
		err = errors.New("belongs to the test traffic, not to a host")
	} else if _, err = k.On(system); err == nil {
		err = k.Writable(system)
	}
	if err != nil {
		return &Error{Op: "set", Knob: id, Err: err}
	}
	return nil
}

// On returns where system keeps the knob. The error says why linerate has no hand
// on it there, and wraps errors.ErrUnsupported where another system may.
func (k Knob) On(system string) (Native, error) {
	n, ok := k.Native[system]
	switch {
	case k.Scope == ScopeFlow:
		return n, errors.New("belongs to the test traffic, not to a host") // wherever it is: a mistake
	case !ok:
		return n, fmt.Errorf("%s has no such setting: %w", system, errors.ErrUnsupported)
	case n.Mechanism == NotYet:
		return n, fmt.Errorf("linerate cannot use %s on %s: %w", n.Name, system, errors.ErrUnsupported)
	}
	return n, nil
}

// Writable says why the knob cannot be tried on system: it is a fact and no
// setting, or it is read at boot only. The error wraps errors.ErrUnsupported.
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

// Error says what could not be done with a knob.
type Error struct {
	Op    string // "read", "write", "check", "find"
	Knob  model.KnobID
	Place string // "net.ipv4.tcp_rmem", "" when there is none
	Err   error
}

// Error returns the sentence.
func (e *Error) Error() string {
	if e.Place == "" {
		return fmt.Sprintf("%s %s: %v", e.Op, e.Knob, e.Err)
	}
	return fmt.Sprintf("%s %s (%s): %v", e.Op, e.Knob, e.Place, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
