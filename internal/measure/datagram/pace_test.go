package datagram

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

// TestScheduleKeepsRate wakes at random times: what is sent by any time is what
// the rate allows, however late the sender was, unless it was very late.
func TestScheduleKeepsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{
			gap:    rapid.Float64Range(100, 1e7).Draw(t, "gap"),
			offset: time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "offset")),
		}
		most := rapid.IntRange(1, 64).Draw(t, "most")
		at := time.Duration(0)
		for range rapid.IntRange(1, 50).Draw(t, "wakes") {
			at += time.Duration(rapid.Int64Range(0, 50e6).Draw(t, "nap"))
			s.forgive(at)
			for n := s.ready(at, most); n > 0; n = s.ready(at, most) {
				must.Need(t, n <= most && s.due(s.slot+int64(n)-1) <= at, "%d are ready at %v, the last is due at %v", n, at, s.due(s.slot+int64(n)-1))
				s.slot += int64(n)
			}
			must.Need(t, s.next() > at, "one due at %v was left at %v", s.next(), at)
			must.Need(t, s.missed <= 0, "%d given up, though never more than 50 ms late", s.missed)
			want := math.Floor(float64(at-s.offset)/s.gap) + 1
			must.Need(t, at < s.offset || math.Abs(float64(s.slot)-want) <= 1, "%d sent at %v, want %v", s.slot, at, want)
		}
	})
}

func TestScheduleForgives(t *testing.T) {
	s := schedule{gap: 1e6} // 1 ms
	s.forgive(time.Second)
	must.Need(t, s.missed != 0 && s.slot == s.missed, "slot %d, missed %d", s.slot, s.missed)
	behind := time.Second - s.next()
	must.True(t, behind <= catchUp && behind >= catchUp-2*time.Millisecond, "%v are made good, want about %v", behind, catchUp)
	before := s.missed
	s.forgive(time.Second)
	must.Equal(t, s.missed, before, "given up twice")
}

func TestClockWaits(t *testing.T) {
	c := newClock(time.Now())
	for _, d := range []time.Duration{0, 5 * time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		due := c.now() + d
		c.until(due)
		at := c.now()
		must.True(t, at >= due, "woke at %v, due at %v", at, due)
	}
	// A long wait is cut, so that a stop is seen.
	begin := c.now()
	c.until(begin + time.Hour)
	got := c.now() - begin
	must.True(t, got <= time.Minute, "slept %v", got)
}
