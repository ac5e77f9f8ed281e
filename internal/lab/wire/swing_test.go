package wire

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/units"
	"linerate/internal/must"
)

// swung returns how many bytes of frames and gaps leave a busy line in each of n equal parts of
// a time, counted when their last bit has left.
func swung(t *testing.T, p Path, length time.Duration, n int) []float64 {
	t.Helper()
	const size = 1514
	l := testLine(p, 1)
	out := make([]float64, n)
	for now := int64(0); now < int64(length); now += int64(time.Millisecond) {
		for l.tail == 0 || l.bytes < 20*size { // it never runs empty
			must.Need(t, offer(t, l, now, size), "a frame was dropped")
		}
		for e, ok := l.pop(now); ok; e, ok = l.pop(now) {
			l.pool.put(e.slot)
			out[min(int(e.left*int64(n)/int64(length)), n-1)] += size + Overhead
		}
	}
	return out
}

// TestSwingFollowsTheSine: what is delivered in each eighth and each quarter of a period is the
// integral of rate × (1 + share × sin), to half a per cent, for three periods, and from another
// phase; the mean of each whole period is the rate.
func TestSwingFollowsTheSine(t *testing.T) {
	t.Parallel()
	const rate, periods, parts = 50e6, 3, 8
	for name, s := range map[string]Swing{
		"10 % in 8 s":             {Share: 10, Period: 8 * time.Second},
		"10 % in 8 s, from 2 s":   {Share: 10, Period: 8 * time.Second, Lead: 2 * time.Second},
		"60 % in 4 s, from 3.1 s": {Share: 60, Period: 4 * time.Second, Lead: 3100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := swung(t, Path{Rate: rate, Swing: s}, periods*s.Period, periods*parts)
			turn, step := 2*math.Pi/s.Period.Seconds(), s.Period.Seconds()/parts
			want := func(from, to float64) float64 { // bytes, computed independently here
				up := math.Cos(turn*(from+s.Lead.Seconds())) - math.Cos(turn*(to+s.Lead.Seconds()))
				return rate / 8 * (to - from + float64(s.Share)/100/turn*up)
			}
			for _, wide := range []int{1, 2, parts} {
				for i := 0; i+wide <= len(got); i += wide {
					sum := 0.0
					for _, b := range got[i : i+wide] {
						sum += b
					}
					w := want(float64(i)*step, float64(i+wide)*step)
					must.True(t, math.Abs(sum/w-1) <= 0.005, "parts %d to %d of %d: %.0f bytes, want %.0f", i, i+wide, parts, sum, w)
				}
			}
		})
	}
}

// TestSwayIsItsInverse: both clocks of a swing are each other's inverse, and neither goes back.
func TestSwayIsItsInverse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newSway(Swing{
			Share:  units.Percent(rapid.Float64Range(0.1, 90).Draw(t, "share")),
			Period: time.Duration(rapid.Int64Range(int64(100*time.Millisecond), int64(24*time.Hour)).Draw(t, "period")),
			Lead:   time.Duration(rapid.Int64Range(0, int64(100*time.Millisecond)).Draw(t, "lead")),
		})
		at := rapid.Float64Range(0, float64(48*time.Hour)).Draw(t, "at")
		back := w.moment(w.work(at))
		must.Need(t, math.Abs(back-at) <= 10, "%f ns comes back as %f", at, back)
		must.Need(t, w.work(at+1000) > w.work(at), "the clock stands still at %f ns", at)
	})
}

// TestSteadyRateIsExact: a path that does not swing has unchanged times.
func TestSteadyRateIsExact(t *testing.T) {
	t.Parallel()
	w := newSway(Swing{})
	must.True(t, w.work(12304.5) == 12304.5 && w.moment(12304.5) == 12304.5, "a steady rate has two clocks")
}

// packet4 and packet6 return frames with a time to live, a protocol, and the first byte of its
// header.
func packet4(ttl, protocol, first byte) []byte {
	f := make([]byte, 98)
	f[12], f[14], f[22], f[23], f[34] = 0x08, 0x45, ttl, protocol, first
	return f
}

func packet6(ttl, protocol, first byte) []byte {
	f := make([]byte, 110)
	f[12], f[13], f[14], f[20], f[21], f[54] = 0x86, 0xdd, 0x60, protocol, ttl, first
	return f
}

func TestOwnErrors(t *testing.T) {
	t.Parallel()
	fragment, options := packet4(64, 1, 11), packet4(64, 1, 0)
	fragment[21] = 1
	options[14], options[38] = 0x46, 11
	for name, tt := range map[string]struct {
		frame []byte
		want  bool
	}{
		"time exceeded":          {packet4(64, 1, 11), true},
		"unreachable":            {packet4(64, 1, 3), true},
		"with options":           {options, true},
		"forwarded":              {packet4(63, 1, 11), false},
		"echo":                   {packet4(64, 1, 8), false},
		"a later fragment":       {fragment, false},
		"a datagram":             {packet4(64, 17, 11), false},
		"unreachable, IPv6":      {packet6(64, 58, 1), true},
		"packet too big":         {packet6(64, 58, 2), true},
		"time exceeded, IPv6":    {packet6(64, 58, 3), true},
		"forwarded, IPv6":        {packet6(63, 58, 3), false},
		"echo, IPv6":             {packet6(64, 58, 128), false},
		"a datagram, IPv6":       {packet6(64, 17, 3), false},
		"cut off":                {packet4(64, 1, 11)[:34], false},
		"cut off, IPv6":          {packet6(64, 58, 3)[:54], false},
		"cut off in the options": {options[:36], false},
		"no IP":                  {make([]byte, 60), false},
	} {
		must.Equal(t, ownError(tt.frame), tt.want, name)
	}
}
