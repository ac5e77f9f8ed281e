package datagram

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/hist"
	"pgregory.net/rapid"
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
				if n > most || s.due(s.slot+int64(n)-1) > at {
					t.Fatalf("%d are ready at %v, the last is due at %v", n, at, s.due(s.slot+int64(n)-1))
				}
				s.slot += int64(n)
			}
			if s.next() <= at {
				t.Fatalf("one due at %v was left at %v", s.next(), at)
			}
			if s.missed > 0 {
				t.Fatalf("%d given up, though never more than 50 ms late", s.missed)
			}
			want := math.Floor(float64(at-s.offset)/s.gap) + 1
			if at >= s.offset && math.Abs(float64(s.slot)-want) > 1 {
				t.Fatalf("%d sent at %v, want %v", s.slot, at, want)
			}
		}
	})
}

func TestScheduleForgives(t *testing.T) {
	s := schedule{gap: 1e6} // 1 ms
	s.forgive(time.Second)
	if s.missed == 0 || s.slot != s.missed {
		t.Fatalf("slot %d, missed %d", s.slot, s.missed)
	}
	if behind := time.Second - s.next(); behind > catchUp || behind < catchUp-2*time.Millisecond {
		t.Errorf("%v are made good, want about %v", behind, catchUp)
	}
	before := s.missed
	s.forgive(time.Second)
	if s.missed != before {
		t.Error("given up twice")
	}
}

func TestClockWaits(t *testing.T) {
	c := newClock(time.Now())
	for _, d := range []time.Duration{0, 5 * time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		due := c.now() + d
		c.until(due)
		if at := c.now(); at < due {
			t.Errorf("woke at %v, due at %v", at, due)
		}
	}
	// A long wait is cut, so that a stop is seen.
	begin := c.now()
	c.until(begin + time.Hour)
	if got := c.now() - begin; got > 5*time.Second {
		t.Errorf("slept %v", got)
	}
}

// TestPacing holds the rate to 0.1 % where the machine lets the sender run.
func TestPacing(t *testing.T) {
	const rate, size, length = 100e6, 1472, 2 * time.Second
	gap := size * 8 / rate * 1e9
	var off float64
	for range 3 {
		a, b := loopback(t, "udp4")
		gaps := new(hist.Histogram)
		f := newFlow(t, a, b, Options{}, SenderOptions{Size: size, Gap: gap, Gaps: gaps}, limits{time: length})
		f.run()
		if f.send.Segmented() || f.send.Pacing() != "clock" {
			t.Fatalf("segmented %t, pacing %q", f.send.Segmented(), f.send.Pacing())
		}
		want := length.Seconds() * rate / 8 / size
		off = math.Abs(float64(f.send.Sent.Load())-want) / want
		t.Logf("sent %d of %.1f, lost %d, gaps of %.1f us: p1 %v, median %v, p99 %v, longest %v, given up %d",
			f.send.Sent.Load(), want, f.send.Sent.Load()-f.tally.Received, gap/1e3,
			gaps.Quantile(0.01).Or(0), gaps.Quantile(0.5).Or(0), gaps.Quantile(0.99).Or(0), gaps.Max().Or(0),
			f.send.Missed.Load())
		if over := float64(f.send.Sent.Load()) - want; over > 0.001*want {
			t.Errorf("sent %.0f more than the rate allows", over) // no load excuses that
		}
		// One that begins late makes good for it: then the rest of the gaps are short.
		if mean := gaps.Mean().Or(0).Seconds() * 1e9; off <= 0.001 && math.Abs(mean-gap)/gap > 0.005 {
			t.Logf("the mean gap is %v ns, want %v", mean, gap)
			off = math.Abs(mean-gap) / gap
		}
		if off <= 0.001 {
			return
		}
	}
	if load := busy(); load != "" {
		t.Skipf("off by %.2f %% three times on a machine with load %s", 100*off, load)
	}
	t.Errorf("off by %.2f %%", 100*off)
}

// busy returns the load of the machine where that is more than it has cores
// for, "" otherwise.
func busy() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(b), " ")
	if strings.HasPrefix(load, "0.") || strings.HasPrefix(load, "1.") {
		return ""
	}
	return load
}
