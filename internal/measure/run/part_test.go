package run

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestNextInterval: a sampler that wakes up late leaves no very short interval behind.
func TestNextInterval(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		state         State
		planned, want time.Duration
	}{
		{Measuring, 20 * ms, 120 * ms},
		{Measuring, 121 * ms, 220 * ms},
		{Measuring, 209 * ms, 220 * ms},
		{Measuring, 211 * ms, 320 * ms}, // and not 9 ms on
		{Measuring, 480 * ms, 500 * ms}, // the window ends
		{Warming, 0, 20 * ms},
	} {
		p := Part{State: c.state, Spec: model.Flow{Interval: 100 * ms, Duration: 480 * ms, Omit: 20 * ms}}
		if c.state == Measuring {
			p.Open.At = 20 * ms
		}
		must.Equal(t, p.next(c.planned), c.want, "next after %v", c.planned)
	}
}
