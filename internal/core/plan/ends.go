package plan

import (
	"slices"

	"linerate/internal/core/model"
)

// Without returns p with names left out of the order of its open blocks: a far end that
// cannot be reached any more is measured no longer, and the others go on. The order of
// the rest stays as it was drawn. Blocks that are left with the baseline and its twin
// are measured still.
func Without(p model.Plan, open []int, names []string) model.Plan {
	p.Order = slices.Clone(p.Order)
	for _, block := range open {
		p.Order[block-1] = slices.DeleteFunc(slices.Clone(p.Order[block-1]), func(s string) bool { return slices.Contains(names, s) })
	}
	return p
}
