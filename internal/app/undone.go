package app

import (
	"cmp"
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// Settle returns a change whose undo was not seen with its outcome, as shown by the value
// that the host now holds. system is the GOOS of the host.
func (e Env) Settle(c model.Change, system string, now fact.Of[string]) model.Change {
	k, ok := e.Catalogue.ByID(c.Knob)
	if !ok {
		return c
	}
	value, known := now.Get()
	if !known {
		c.Detail = "its undo was not seen, and its value is unknown: " + now.Reason()
		return c
	}
	old, errOld := k.Decode(system, c.Old)
	wrote, errNew := k.Decode(system, c.New)
	switch {
	case errOld == nil && value == old:
		c.State, c.Detail = model.ChangeUndone, "its undo was not seen; the host holds the old value"
	case errNew == nil && value == wrote:
		c.Detail = "its undo was not seen, and it still holds what linerate wrote"
	default:
		c.State = model.ChangeForeign
		c.Detail = fmt.Sprintf("it holds %q, which linerate did not write", value)
	}
	return c
}

// StillChanged names the changes that were not undone, each with the reason.
func StillChanged(changes []model.Change) []string {
	var out []string
	for _, c := range changes {
		if c.State == model.ChangeFailed || c.State == model.ChangeApplied {
			why := cmp.Or(c.Detail, "its undo was not seen")
			out = append(out, fmt.Sprintf("%s on the %s host (%s)", c.Knob, c.Host, why))
		}
	}
	return out
}

// Returned says of changes that were undone what holds now: another program may have changed a
// setting meanwhile, which is then left alone.
func Returned(changes []model.Change) string {
	var left []string
	back := false
	for _, c := range changes {
		if c.State == model.ChangeForeign {
			left = lists.Once(left, string(c.Knob))
		}
		back = back || c.State == model.ChangeUndone
	}
	switch {
	case len(left) == 0:
		return "all settings are back"
	case back:
		return "all settings are back but " + plain.And(left) + ", which another program changed meanwhile"
	}
	return "what another program set meanwhile stays: " + plain.And(left)
}
