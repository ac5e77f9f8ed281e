package irq

import (
	"fmt"
	"strconv"
	"strings"

	"linerate/internal/core/knob"
)

// parseList parses a list of CPUs, in ascending order. Real input:
//
//	0-1
//	0,2-3,8
//	none
func parseList(text string) ([]int, error) {
	if text == none {
		return nil, nil
	}
	var list []int
	for span := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(span, "-")
		a, err := strconv.ParseUint(first, 10, 16)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseUint(last, 10, 16)
		}
		if err != nil || b < a || b >= knob.MaxCPU || len(list) > 0 && int(a) <= list[len(list)-1] {
			return nil, fmt.Errorf("processors %q: want a list such as 0-3,8, or %s", text, none)
		}
		for n := a; n <= b; n++ {
			list = append(list, int(n))
		}
	}
	return list, nil
}

// maskOf returns the mask of an ascending list, in groups of 32 bits.
func maskOf(list []int) string {
	size := 1
	if len(list) > 0 {
		size = list[len(list)-1]/32 + 1
	}
	groups := make([]uint32, size)
	for _, n := range list {
		groups[n/32] |= 1 << (n % 32)
	}
	words := make([]string, size)
	for i, g := range groups {
		words[size-1-i] = fmt.Sprintf("%08x", g)
	}
	return strings.Join(words, ",")
}
