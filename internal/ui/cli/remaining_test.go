package cli

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/must"
)

// TestNoTimeLeftIsLessThanNothing: what is still to come is never told as a negative time,
// however much more than planned was done, or later than planned it is.
func TestNoTimeLeftIsLessThanNothing(t *testing.T) {
	for _, e := range []app.Copying{{Host: "nas", Bytes: 10, Done: 10, Elapsed: 3 * time.Second}, {Host: "nas", Bytes: 10, Done: 12, Elapsed: 3 * time.Second}} {
		line := copyLine(e)
		must.True(t, !strings.Contains(line, "-") && strings.HasSuffix(line, ", 1 s left"), "%+v: %s", e, line)
	}
	for _, share := range []float64{1, 1.5, 4} {
		left := moreTime(app.FolderProgress{Share: share, Elapsed: time.Minute})
		must.True(t, !strings.Contains(left, "-") && left == ", about 0 s more", "%g: %q", share, left)
	}
	must.Equal(t, moreTime(app.FolderProgress{Share: 0.25, Elapsed: time.Minute}), ", about 3 min more")
	must.Equal(t, moreTime(app.FolderProgress{Elapsed: time.Minute}), "")
}
