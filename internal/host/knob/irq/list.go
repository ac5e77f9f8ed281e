package irq

import (
	"fmt"
	"strconv"
	"strings"
)

// maxCPU is far above the processors of any machine and bounds what a list may
// make: NR_CPUS of Linux ends at 8192.
const maxCPU = 1 << 14

// parseList reads a list of processors, in ascending order. Real input:
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
		if err != nil || b < a || b >= maxCPU || len(list) > 0 && int(a) <= list[len(list)-1] {
			return nil, fmt.Errorf("processors %q: want a list such as 0-3,8, or %s", text, none)
		}
		for n := a; n <= b; n++ {
			list = append(list, int(n))
		}
	}
	return list, nil
}

// formatList is the shortest text of an ascending list.
func formatList(list []int) string {
	if len(list) == 0 {
		return none
	}
	var spans []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		span := strconv.Itoa(list[i])
		if j > i {
			span += "-" + strconv.Itoa(list[j])
		}
		spans, i = append(spans, span), j+1
	}
	return strings.Join(spans, ",")
}

// listOfMask reads a mask of processors. Real input:
//
//	3
//	00000000,00000003
//	ff,ffffffff
func listOfMask(text string) (string, error) {
	groups := strings.Split(text, ",")
	if len(groups) > maxCPU/32 {
		return "", fmt.Errorf("mask of processors %q: too long", text)
	}
	var list []int
	for i := range groups {
		bits, err := strconv.ParseUint(groups[len(groups)-1-i], 16, 32)
		if err != nil {
			return "", fmt.Errorf("mask of processors %q: want hexadecimal groups", text)
		}
		for b := range 32 {
			if bits&(1<<b) != 0 {
				list = append(list, 32*i+b)
			}
		}
	}
	return formatList(list), nil
}

// maskOf is the mask of an ascending list, in groups of 32 bits.
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
