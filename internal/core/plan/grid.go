package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
)

// Cell returns the name of the setting that combines these levels.
func Cell(levels ...model.Level) string {
	names := make([]string, len(levels))
	for i, l := range levels {
		names[i] = l.Name
	}
	return strings.Join(names, " ")
}

// Cells returns the names of all combinations of the factors' levels, the last factor
// varying fastest.
func Cells(factors []model.Factor) []string {
	out := lists.Each(Combinations(factors), func(c []model.Level) string { return Cell(c...) })
	return out
}

// Combinations returns every combination of the factors' levels, a level of each, in the
// order of Cells.
func Combinations(factors []model.Factor) [][]model.Level {
	if len(factors) == 0 {
		return nil
	}
	out := [][]model.Level{nil}
	for _, f := range factors {
		var next [][]model.Level
		for _, c := range out {
			for _, l := range f.Levels {
				next = append(next, append(slices.Clip(c), l))
			}
		}
		out = next
	}
	return out
}

// amounts returns the levels of f as numbers; nil unless all are positive amounts, among which
// a smallest good one makes sense.
func amounts(f model.Factor) []float64 {
	var out []float64
	for _, l := range f.Levels {
		v, err := strconv.ParseFloat(l.Value, 64)
		if err != nil || v <= 0 {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// ascending returns the names of all combinations, those with smaller amounts, which cost less,
// first. The factor with the most levels counts first: it is the one being searched. Levels
// that are not amounts stay in the user's order. It returns nil if no factor has amounts.
func ascending(factors []model.Factor) []string {
	order := make([]int, 0, len(factors))
	for i, f := range factors {
		if amounts(f) != nil {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return nil
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(factors[b].Levels), len(factors[a].Levels)) })
	all := Combinations(factors)
	slices.SortStableFunc(all, func(a, b []model.Level) int {
		for _, f := range order {
			x, _ := strconv.ParseFloat(a[f].Value, 64) // amounts has parsed them
			y, _ := strconv.ParseFloat(b[f].Value, 64)
			if c := cmp.Compare(x, y); c != 0 {
				return c
			}
		}
		return 0
	})
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = Cell(c...)
	}
	return out
}
