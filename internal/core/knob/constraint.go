package knob

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
)

// Values are canonical values by knob.
type Values map[model.KnobID]string

// Int returns the value of id as a number; false when it is not known or none.
func (v Values) Int(id model.KnobID) (int64, bool) {
	n, err := strconv.ParseInt(v[id], 10, 64)
	return n, err == nil
}

// Constraint is a rule about values that belong together.
type Constraint struct {
	ID      string         // "C-02"
	Systems []string       // GOOS; none is all
	Knobs   []model.KnobID // that it looks at
	Rule    string         // for people
	Advice  bool           // a wise rule: what breaks it is told and not refused
	Source  string
	// Breaks says how the values after a change break the rule, "" when they
	// do not or too little is known. before holds those of today.
	Breaks func(before, after Values) string
}

// Violation is a constraint that values break.
type Violation struct {
	Constraint Constraint
	How        string
}

// Error returns the whole sentence.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s (%s: %s)", v.How, v.Constraint.ID, v.Constraint.Rule)
}

// ErrConstraint says that values may not be set together.
var ErrConstraint = errors.New("values do not fit together")

// Unwrap makes errors.Is find ErrConstraint.
func (v *Violation) Unwrap() error { return ErrConstraint }

// Violations returns the constraints of system that the changes to before would
// break, where the constraint looks at a changed knob.
func Violations(system string, before Values, changes []model.Assignment) []*Violation {
	after := make(Values, len(before)+len(changes))
	maps.Copy(after, before)
	for _, c := range changes {
		after[c.Knob] = c.Value
	}
	var all []*Violation
	for _, c := range about(system, changes) {
		if how := c.Breaks(before, after); how != "" {
			all = append(all, &Violation{c, how})
		}
	}
	return all
}

// about returns the constraints of system that look at a changed knob.
func about(system string, changes []model.Assignment) []Constraint {
	changed := func(id model.KnobID) bool {
		return slices.ContainsFunc(changes, func(a model.Assignment) bool { return a.Knob == id })
	}
	return slices.DeleteFunc(Constraints(), func(c Constraint) bool {
		return len(c.Systems) > 0 && !slices.Contains(c.Systems, system) || !slices.ContainsFunc(c.Knobs, changed)
	})
}

// Related returns the knobs that the constraints of system look at when changes
// are made: those whose values Faults, Violations and Advice want to know.
func Related(system string, changes []model.Assignment) []model.KnobID {
	var all []model.KnobID
	for _, c := range about(system, changes) {
		all = lists.Once(all, c.Knobs...)
	}
	return all
}

// Misfits returns what is wrong with the values of changes on a machine of system
// whose knobs hold before: those out of the system's range, and every constraint
// that is broken. Values have to be canonical. Those of constraints wrap
// ErrConstraint. Unlike Faults it does not ask whether a knob can be set there.
func (x *Index) Misfits(system string, before Values, changes []model.Assignment) []error {
	errs := x.outOfBounds(system, changes)
	for _, v := range Violations(system, before, changes) {
		if !v.Constraint.Advice {
			errs = append(errs, v)
		}
	}
	return errs
}

// outOfBounds are the faults of numbers that system does not take.
func (x *Index) outOfBounds(system string, changes []model.Assignment) []error {
	var errs []error
	for _, c := range changes {
		k, ok := x.ByID(c.Knob)
		if !ok || k.Type != TypeBytes && k.Type != TypeInt || k.Zero != "" && c.Value == "0" {
			continue
		}
		low, high := k.Bounds(system)
		if n, err := strconv.ParseInt(c.Value, 10, 64); err != nil || n < low || n > high {
			errs = append(errs, &ValueError{Knob: c.Knob, Text: c.Value, Want: fmt.Sprintf("%d to %d on %s", low, high, system)})
		}
	}
	return errs
}
