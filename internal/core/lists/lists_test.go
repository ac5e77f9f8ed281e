package lists

import (
	"strconv"
	"strings"
	"testing"

	"linerate/internal/must"
)

func TestLists(t *testing.T) {
	must.Equal(t, strings.Join(Once([]string{"a"}, "b", "a", "b", "c"), " "), "a b c")
	must.Equal(t, strings.Join(Each([]int{1, 2}, strconv.Itoa), " "), "1 2")
	must.True(t, Each([]int{}, strconv.Itoa) == nil, "a list of nothing is no nil")
	must.Equal(t, Count([]int{1, 2, 3, 5}, func(n int) bool { return n%2 == 1 }), 3)
}
