package plan

import (
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// EndName is what the text of a far end is called in tables: the host of a link without
// its pin, the address that a command is for, any other text as it is.
func EndName(target string) string {
	if rest, link := strings.CutPrefix(target, "linerate://"); link {
		if _, host, ok := strings.Cut(rest, "@"); ok {
			rest = host
		}
		return strings.TrimSuffix(rest, ":5299")
	}
	if rest, command := strings.CutPrefix(target, "exec:"); command {
		address, _, _ := strings.Cut(rest, " ")
		return address
	}
	return target
}

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
