//go:build truth

package tcpbulk

import (
	"fmt"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestWindows: on an idle machine both ends measure for the requested time, data arrives, and
// no end has a warning.
func TestWindows(t *testing.T) {
	for name, e := range everyPlane() {
		for _, d := range []model.Direction{model.To, model.From, model.Both} {
			for _, n := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, d, n), func(t *testing.T) {
					truth.Hold(t, truth.Tries, func(try *truth.Try) {
						near, far := timedRun(try, e, timed(d, n))
						claimWindows(try, near, far)
					})
				})
			}
		}
	}
	t.Run("200 streams", func(t *testing.T) {
		truth.Hold(t, truth.Tries, func(try *truth.Try) {
			f := timed(model.To, 200)
			f.Block = 16 << 10
			near, far := timedRun(try, New(), f)
			claimWindows(try, near, far)
		})
	})
}

func claimWindows(try *truth.Try, ends ...*enginetest.End) {
	for _, end := range ends {
		must.Equal(try, len(end.Report.Warnings), 0, "end %s warns %q", end.Report.Host, end.Report.Warnings)
		for _, r := range end.Report.Flows {
			name := fmt.Sprintf("window of the %s %s", r.Role, r.Direction)
			try.Claim(name, 1e3*r.Window.Seconds(), 1e3*measured.Seconds(), 10e3*measured.Seconds(), "ms")
			must.True(try, r.Bytes != 0, "%s %s: nothing in %v", r.Direction, r.Role, r.Window)
			if s := r.TCP; s != nil && s.Busy.Or(0) > 2*r.Window {
				try.Errorf("busy for %v of %v", s.Busy, r.Window)
			}
		}
	}
}
