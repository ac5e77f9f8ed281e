package tcpbulk

import (
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestNextInterval: a sampler that wakes up late leaves no very short interval behind.
func TestNextInterval(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		state         state
		planned, want time.Duration
	}{
		{measuring, 20 * ms, 120 * ms},
		{measuring, 121 * ms, 220 * ms},
		{measuring, 209 * ms, 220 * ms},
		{measuring, 211 * ms, 320 * ms}, // and not 9 ms on
		{measuring, 480 * ms, 500 * ms}, // the window ends
		{warming, 0, 20 * ms},
	} {
		f := newFlow(model.To, model.Receiver, model.Flow{Interval: 100 * ms, Duration: 480 * ms, Omit: 20 * ms})
		f.state = c.state
		if c.state == measuring {
			f.open.at = 20 * ms
		}
		must.Equal(t, f.next(c.planned), c.want, "next after %v", c.planned)
	}
}

// TestLosses: one of two streams ended at a time of a window that was planned
// to last from 1 s to 11 s and lasted till 12 s.
func TestLosses(t *testing.T) {
	for _, c := range []struct {
		name string
		role model.Role
		at   time.Duration
		warn bool
	}{
		{"receiver, early", model.Receiver, 5 * time.Second, true},
		{"receiver, at the end", model.Receiver, 11900 * time.Millisecond, true},
		{"sender, early", model.Sender, 5 * time.Second, true},
		// The receiver was complete, and closed its connections one by one.
		{"sender, after the receiver", model.Sender, 11 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(model.To, c.role, model.Flow{Duration: 10 * time.Second})
			f.open.at, f.shut.at = time.Second, 12*time.Second
			ended, going := &stream{reason: syscall.ECONNRESET}, &stream{}
			ended.last.Store(int64(c.at))
			going.last.Store(int64(f.shut.at))
			f.streams = []*stream{ended, going}
			f.losses()
			must.Equal(t, len(f.warnings) > 0, c.warn, "warnings %q, want any: %v", f.warnings, c.warn)
		})
	}
}
