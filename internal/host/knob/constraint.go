package knob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"

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
	for _, c := range Constraints() {
		if len(c.Systems) > 0 && !slices.Contains(c.Systems, system) || !c.touches(changes) {
			continue
		}
		if how := c.Breaks(before, after); how != "" {
			all = append(all, &Violation{c, how})
		}
	}
	return all
}

func (c Constraint) touches(changes []model.Assignment) bool {
	return slices.ContainsFunc(changes, func(a model.Assignment) bool { return slices.Contains(c.Knobs, a.Knob) })
}

// CheckChanges says whether the changes may be made together on this machine,
// before anything is written: every value in the system's own range, and no
// constraint broken. Values have to be canonical. What the other knobs hold is
// read. The error joins every fault; those of constraints wrap ErrConstraint.
func (h Host) CheckChanges(ctx context.Context, changes []model.Assignment) error {
	errs := outOfBounds(runtime.GOOS, changes)
	for _, v := range Violations(runtime.GOOS, h.related(ctx, changes), changes) {
		if !v.Constraint.Advice {
			errs = append(errs, v)
		}
	}
	return errors.Join(errs...)
}

// Advise returns what is unwise about the changes, for people.
func (h Host) Advise(ctx context.Context, changes []model.Assignment) []string {
	var all []string
	for _, v := range Violations(runtime.GOOS, h.related(ctx, changes), changes) {
		if v.Constraint.Advice {
			all = append(all, v.Error())
		}
	}
	return all
}

// related reads the knobs that the constraints of the changes look at.
func (h Host) related(ctx context.Context, changes []model.Assignment) Values {
	before := make(Values)
	for _, c := range Constraints() {
		if len(c.Systems) > 0 && !slices.Contains(c.Systems, runtime.GOOS) || !c.touches(changes) {
			continue
		}
		for _, id := range c.Knobs {
			if _, done := before[id]; done {
				continue
			}
			if v, ok := h.readOne(ctx, id).Get(); ok {
				before[id] = v
			}
		}
	}
	return before
}

// outOfBounds are the faults of numbers that this system does not take.
func outOfBounds(system string, changes []model.Assignment) []error {
	var errs []error
	for _, c := range changes {
		k, ok := ByID(c.Knob)
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
