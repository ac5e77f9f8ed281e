package knob

import (
	"fmt"
	"strconv"
	"strings"
)

// noCPU is the text of an empty list of processors.
const noCPU = "none"

// CPUList returns the shortest text of an ascending list of processors.
func CPUList(list []int) string {
	if len(list) == 0 {
		return noCPU
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

// CPUsOfMask converts a mask of processors, 32 bits per group, to a list (Linux, lib/bitmap.c
// bitmap_parse). Real input:
//
//	3
//	00000000,00000003
//	ff,ffffffff
func CPUsOfMask(mask string) (string, error) {
	groups := strings.Split(mask, ",")
	if len(groups) > MaxCPU/32 {
		return "", fmt.Errorf("mask of processors %q: too long", mask)
	}
	var list []int
	for i := range groups {
		bits, err := strconv.ParseUint(groups[len(groups)-1-i], 16, 32)
		if err != nil {
			return "", fmt.Errorf("mask of processors %q: want hexadecimal groups", mask)
		}
		for b := range 32 {
			if bits&(1<<b) != 0 {
				list = append(list, 32*i+b)
			}
		}
	}
	return CPUList(list), nil
}

// MaxCPU is far above the processors of any machine and limits the size of a list: NR_CPUS of
// Linux ends at 8192.
const MaxCPU = 1 << 14
