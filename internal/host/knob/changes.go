package knob

import (
	"context"
	"errors"
	"runtime"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// CheckChanges says whether the changes may be made together on this machine,
// before anything is written: every value in the system's own range, and no
// constraint broken. Values have to be canonical. What the other knobs hold is
// read. The error joins every fault; those of constraints wrap
// knob.ErrConstraint.
func (h Host) CheckChanges(ctx context.Context, changes []model.Assignment) error {
	return errors.Join(knob.Misfits(runtime.GOOS, h.related(ctx, changes), changes)...)
}

// related reads the knobs that the constraints of the changes look at.
func (h Host) related(ctx context.Context, changes []model.Assignment) knob.Values {
	before := make(knob.Values)
	for _, id := range knob.Related(runtime.GOOS, changes) {
		if v, ok := h.readOne(ctx, id).Get(); ok {
			before[id] = v
		}
	}
	return before
}
