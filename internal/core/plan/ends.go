package plan

import (
	"slices"

	"linerate/internal/core/model"
)

// Without returns p with names left out of its open blocks: a far end that became unreachable
// is no longer measured, while the others continue. The drawn order of the rest stays. Blocks
// with only the baseline and its twin left are still measured.
func Without(p model.Plan, open []int, names []string) model.Plan {
	p.Order = slices.Clone(p.Order)
	for _, block := range open {
		p.Order[block-1] = slices.DeleteFunc(slices.Clone(p.Order[block-1]), func(s string) bool { return slices.Contains(names, s) })
	}
	return p
}

// Drop returns p without the named settings, which cannot be measured at all: the others are
// compared as if the plan had never had them.
func Drop(p model.Plan, names []string) model.Plan {
	gone := func(name string) bool { return slices.Contains(names, name) }
	cells := Combinations(p.Factors)
	open := make([]int, len(p.Order))
	for i := range open {
		open[i] = i + 1
	}
	p = Without(p, open, names)
	p.Settings = slices.DeleteFunc(slices.Clone(p.Settings), func(s model.Setting) bool { return gone(s.Name) })
	if p.Levels = slices.DeleteFunc(slices.Clone(p.Levels), gone); len(p.Levels) < 2 {
		p.Levels = nil
	}
	p.Factors = slices.Clone(p.Factors)
	for i, f := range p.Factors {
		p.Factors[i].Levels = slices.DeleteFunc(slices.Clone(f.Levels), func(l model.Level) bool {
			return !slices.ContainsFunc(cells, func(c []model.Level) bool { return c[i] == l && !gone(Cell(c...)) })
		})
	}
	return p
}
