package watch

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/must"
)

// TestRender: a host that was never reached comes with the command that forgets it.
func TestRender(t *testing.T) {
	var b strings.Builder
	must.Do(t, Render(&b, Document{[]series.History{{Host: "x", Missed: 4}, {Host: "y", Looks: 2, Missed: 1, Last: time.Date(2026, 11, 28, 14, 20, 0, 0, time.UTC)}}}, nil))
	must.Equal(t, b.String(), "x   0 looks; not reached at the last 4 looks\n  forget it: linerate prune --kind watch --state failed\n\ny   2 looks, the last one at 2026-11-28 14:20; not reached at the last 1 look\n")
}
