package irq

import (
	"strings"
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/must"

	"pgregory.net/rapid"
)

// TestMasksAndLists: converting a list to a mask and back returns the same list.
func TestMasksAndLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.MapOf(rapid.IntRange(0, 200), rapid.Just(true)).Draw(t, "processors")
		var list []int
		for n := range 201 {
			if set[n] {
				list = append(list, n)
			}
		}
		text := knob.CPUList(list)
		back := must.Get(parseList(text))(t)
		must.Need(t, knob.CPUList(back) == text, "%v is %q is %v", list, text, back)
		got, err := knob.CPUsOfMask(maskOf(list))
		must.Need(t, got == text && err == nil, "%q is mask %s is %q, %v", text, maskOf(list), got, err)
	})
	for _, bad := range []string{"", "3-1", "1,1", "x", "-1", "1-", "99999", "0-16384", "2,1"} {
		must.Fail(t, must.Err(parseList(bad)), "parseList(%q)", bad)
	}
}

func FuzzLists(f *testing.F) {
	f.Add("0-3,8")
	f.Add("ff,00000001")
	f.Fuzz(func(t *testing.T, s string) {
		if list, err := parseList(s); err == nil {
			must.Len(t, must.Get(parseList(knob.CPUList(list)))(t), len(list), "%q is %v, then", s, list)
		}
		text, err := knob.CPUsOfMask(s)
		must.True(t, err != nil || !strings.Contains(text, "--"), "mask %q is %q", s, text)
	})
}
