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

// TestFirstByteIsAwaited: a short window of TCP in which nothing has arrived begins with the
// first byte, and closes where none comes.
func TestFirstByteIsAwaited(t *testing.T) {
	const ms = time.Millisecond
	for first, want := range map[time.Duration][2]time.Duration{
		0: {0, 400 * ms}, 1200 * ms: {1200 * ms, 1600 * ms}, time.Hour: {0, 3400 * ms},
	} {
		at := time.Duration(0)
		p := Part{Role: model.Receiver, Direction: model.To, Spec: model.Flow{Interval: 200 * ms, Duration: 400 * ms}, Count: func(r *Reading) {
			if r.At >= first {
				r.Bytes = 1 + int64(r.At)
			}
		}}
		p.Begin()
		for p.State != Done {
			at = p.next(at)
			p.step(at, model.Near, nil)
		}
		must.Equal(t, [2]time.Duration{p.Open.At, p.Shut.At}, want, "first byte at %v", first)
	}
}
