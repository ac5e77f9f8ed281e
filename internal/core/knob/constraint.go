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

// Int returns the value of id as a number; false if it is unknown or not a number.
func (v Values) Int(id model.KnobID) (int64, bool) {
	n, err := strconv.ParseInt(v[id], 10, 64)
	return n, err == nil
}

// Constraint is a rule about related values.
type Constraint struct {
	ID      string         // "C-02"
	Systems []string       // GOOS; empty means all
	Knobs   []model.KnobID // that the rule concerns
	Rule    string         // for people
	Advice  bool           // a recommendation: a violation gives a warning, not an error
	Source  string
	// Breaks says how the values after a change break the rule; "" if they do not, or if too
	// little is known. before holds the present values.
	Breaks func(before, after Values) string
}

// Violation is a constraint that values break, and how.
type Violation struct {
	Constraint Constraint
	How        string
}

// Error returns the full sentence.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s (%s: %s)", v.How, v.Constraint.ID, v.Constraint.Rule)
}

// ErrConstraint reports values that may not be set together.
var ErrConstraint = errors.New("values do not fit together")

// Unwrap makes errors.Is find ErrConstraint.
func (v *Violation) Unwrap() error { return ErrConstraint }

// Violations returns the constraints of system that applying changes to before would break,
// among those that concern a changed knob.
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

// about returns the constraints of system that concern a changed knob.
func about(system string, changes []model.Assignment) []Constraint {
	changed := func(id model.KnobID) bool {
		return slices.ContainsFunc(changes, func(a model.Assignment) bool { return a.Knob == id })
	}
	return slices.DeleteFunc(Constraints(), func(c Constraint) bool {
		return len(c.Systems) > 0 && !slices.Contains(c.Systems, system) || !slices.ContainsFunc(c.Knobs, changed)
	})
}

// Related returns the knobs that the constraints on changes concern: their values are the input
// of Faults, Violations and Advice.
func Related(system string, changes []model.Assignment) []model.KnobID {
	var all []model.KnobID
	for _, c := range about(system, changes) {
		all = lists.Once(all, c.Knobs...)
	}
	return all
}

// Misfits returns the faults of the values of changes on a machine of system whose present
// values are before: values out of the system's range, and broken constraints. Values have to
// be canonical. Errors of constraints wrap ErrConstraint. Unlike Faults it does not check
// whether a knob can be set there.
func (x *Index) Misfits(system string, before Values, changes []model.Assignment) []error {
	errs := x.outOfBounds(system, changes)
	for _, v := range Violations(system, before, changes) {
		if !v.Constraint.Advice {
			errs = append(errs, v)
		}
	}
	return errs
}

// outOfBounds returns the faults of numbers that system does not accept.
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
