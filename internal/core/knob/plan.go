package knob

import (
	"cmp"
	"slices"
	"strconv"

	"linerate/internal/core/model"
)

// Plan returns changes in the order in which to make them; now holds the present canonical
// values. What grows comes first, limits before the values below them; then knobs without a
// stage; then what shrinks, limits last (knobs.md section 0, rule 3). Within that, less risky
// changes come first, so that a harmless knob fails before a risky one is changed; the caller's
// order decides the rest. When MTUs change on two hosts, the caller of both decides which host
// goes first (rule 4).
func (x *Index) Plan(now map[model.KnobID]string, changes []model.Assignment) []model.Assignment {
	type ranked struct {
		model.Assignment
		phase, stage, risk int
	}
	all := make([]ranked, len(changes))
	for i, c := range changes {
		k, _ := x.ByID(c.Knob) // an unknown knob has no stage and no risk
		r := ranked{Assignment: c, phase: 1, risk: int(k.Risk)}
		if k.Stage != StageNone {
			r.phase, r.stage = 0, int(k.Stage)
			if shrinks(now[c.Knob], c.Value) {
				r.phase, r.stage = 2, -int(k.Stage)
			}
		}
		all[i] = r
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.stage, b.stage), cmp.Compare(a.risk, b.risk))
	})
	ordered := make([]model.Assignment, len(all))
	for i, r := range all {
		ordered[i] = r.Assignment
	}
	return ordered
}

func shrinks(from, to string) bool {
	a, errA := strconv.ParseInt(from, 10, 64)
	b, errB := strconv.ParseInt(to, 10, 64)
	return errA == nil && errB == nil && b < a
}
