package tcpbulk

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

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
			f.Open.At, f.Shut.At = time.Second, 12*time.Second
			ended, going := &stream{reason: syscall.ECONNRESET}, &stream{}
			ended.last.Store(int64(c.at))
			going.last.Store(int64(f.Shut.At))
			f.streams = []*stream{ended, going}
			f.losses()
			must.Equal(t, len(f.Warnings) > 0, c.warn, "warnings %q, want any: %v", f.Warnings, c.warn)
		})
	}
}

// TestPacerSpreadsWrites holds the rate of a pacer exactly, by a clock that only it moves.
func TestPacerSpreadsWrites(t *testing.T) {
	for name, rate := range map[string]float64{"14 Mbit/s": 14e6 / 8, "1 Gbit/s": 1e9 / 8, "100 kbit/s": 100e3 / 8, "1 kbit/s": 1e3 / 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, p, sent, longest := time.Now(), pacer{rate: rate}, 0, 0
				for time.Since(start) < 100*time.Second {
					asked := time.Now()
					n := p.wait(128<<10, time.Since(start))
					took := time.Since(asked)
					must.Need(t, took <= paceNap, "slept for %v", took)
					sent, longest = sent+n, max(longest, n)
				}
				got := float64(sent) / time.Since(start).Seconds()
				must.True(t, got >= 0.99*rate && got <= 1.01*rate+paceLeast/100, "%.0f bytes a second, want %.0f", got, rate)
				most := max(paceLeast, int(rate*paceStep.Seconds()))
				must.True(t, longest <= most, "a write of %d bytes, want at most %d", longest, most)
			})
		})
	}
}

// TestPacerForgetsWhatThePathHeldUp holds that a stream does not send in a burst what it
// could not send before.
func TestPacerForgetsWhatThePathHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1e6
		start, p := time.Now(), pacer{rate: rate}
		p.wait(1000, 0)
		time.Sleep(time.Second) // the path takes nothing
		at, burst := time.Since(start), 0
		for {
			n := p.wait(128<<10, time.Since(start))
			if time.Since(start) > at {
				break
			}
			burst += n
		}
		most := int(rate*paceDebt.Seconds()) + 2*paceLeast
		must.True(t, burst <= most, "%d bytes at once, want at most %d", burst, most)
	})
}
