package observe

import (
	"math"
	"testing"
	"time"

	"linerate/internal/must"
)

func TestAnalyse(t *testing.T) {
	// A packet every 100 µs for one second, except one that is 400 µs late in the middle, and
	// bursts in the margins, which do not count.
	var times []int64
	for i := range int64(10000) {
		at := i * 100_000
		if i == 5000 {
			at += 40_000
		}
		times = append(times, at)
	}
	for range 500 {
		times = append(times, 0, 999_900_000)
	}
	got := must.Get(Analyse(times, 125, 100*time.Millisecond))(t)
	must.True(t, math.Abs(got.Rate-1e7) <= 1 && got.Packets == 8000, "%d packets at %.3f bit/s, want 8000 at 10 Mbit/s", got.Packets, got.Rate)
	must.True(t, got.P50 == 100*time.Microsecond && got.P99 == 100*time.Microsecond && got.Max == 140*time.Microsecond, "gaps %v %v %v", got.P50, got.P99, got.Max)
}

func TestAnalyseRefusesTooFew(t *testing.T) {
	for name, times := range map[string][]int64{
		"none": nil, "one": {5}, "at once": {5, 5, 5}, "in the margins": {0, 1, 99, 100},
	} {
		must.Fail(t, must.Err(Analyse(times, 100, 10)), "%s", name)
	}
}

func TestTrains(t *testing.T) {
	for _, c := range []struct{ length, size, want int }{
		{1514, 1472, 1}, {42 + 44*1472, 1472, 44}, {42 + 36, 1472, 0}, {42 + 1473, 1472, 0}, {60, 1472, 0}, {20, 16, 0},
	} {
		got := trains(c.length, c.size)
		must.True(t, got == c.want, "a frame of %d bytes holds %d datagrams of %d, want %d", c.length, got, c.size, c.want)
	}
}
