package networkd

import (
	"math"
	"strconv"
	"strings"
)

// sizeBytes converts a size of systemd.syntax(7), with K, M and G as powers of 1024, to
// bytes; it returns other text unchanged.
func sizeBytes(s string) string { return scaled(s, 1024, 1) }

// megabits converts a rate in bit/s, with powers of 1000, to Mbit/s; it returns other text
// unchanged.
func megabits(s string) string { return scaled(s, 1000, 1e6) }

func scaled(s string, base, unit float64) string {
	factor, number := 1.0, s
	for i, letter := range []string{"K", "M", "G", "T"} {
		if n, ok := strings.CutSuffix(s, letter); ok {
			factor, number = math.Pow(base, float64(i+1)), n
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if v = v * factor / unit; err != nil || v < 0 || v > math.MaxInt32 || v != math.Trunc(v) {
		return s
	}
	return strconv.FormatInt(int64(v), 10)
}

// microseconds converts a time span of systemd.time(7) with one unit to microseconds; a
// number alone is in seconds. It returns any other text unchanged.
func microseconds(s string) string {
	for _, u := range []struct {
		unit  string
		times float64
	}{{"usec", 1}, {"us", 1}, {"μs", 1}, {"µs", 1}, {"msec", 1e3}, {"ms", 1e3}, {"sec", 1e6}, {"s", 1e6}, {"", 1e6}} {
		if n, ok := strings.CutSuffix(s, u.unit); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if v *= u.times; err != nil || v < 0 || v > math.MaxInt32 || v != math.Trunc(v) {
				return s
			}
			return strconv.FormatInt(int64(v), 10)
		}
	}
	return s
}
