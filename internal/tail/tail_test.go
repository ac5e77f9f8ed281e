package tail_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"linerate/internal/must"
	"linerate/internal/tail"
)

// TestTail: the last bytes are kept, however the output is split.
func TestTail(t *testing.T) {
	for _, pieces := range [][]string{{"abcdefgh"}, {"abc", "defgh"}, {"a", "b", "c", "d", "e", "f", "g", "h"}, {"abcd", "", "efgh"}} {
		tail := tail.Tail{Keep: 5}
		for _, p := range pieces {
			must.Equal(t, must.Get(fmt.Fprint(&tail, p))(t), len(p), "%q", p)
		}
		if got := tail.String(); got != "defgh" || !tail.Cut() {
			t.Errorf("%q became %q, cut %v", pieces, got, tail.Cut())
		}
	}
	whole := tail.Tail{Keep: 3}
	if _, _ = fmt.Fprint(&whole, "abc"); whole.String() != "abc" || whole.Cut() {
		t.Errorf("%q, cut %v", whole.String(), whole.Cut())
	}
	many, all := tail.Tail{Keep: 10}, sync.WaitGroup{}
	for range 8 {
		all.Go(func() { _, _ = fmt.Fprint(&many, strings.Repeat("x", 7)) })
	}
	all.Wait()
	must.True(t, many.String() == strings.Repeat("x", 10), "%q", many.String())
}
