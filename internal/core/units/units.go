// Package units holds the typed quantities of linerate; only this package scales, parses and
// prints them.
//
// Inside linerate everything is in base units: bits per second, bytes, and time.Duration.
// Prefixes with 1000 (k, M, G) and 1024 (Ki, Mi, Gi) are distinct in both directions: 2^20
// bytes are never printed as "MB". JSON holds the base-unit numbers; the texts made here are
// for people.
package units

import (
	"math"
	"strconv"
	"strings"
)

// BitRate is a rate in bits per second.
type BitRate float64

// Bytes is an amount of data in bytes.
type Bytes int64

// Percent is a share in percent: 3 means 3 %.
type Percent float64

// String returns r with a 1000-based prefix and at most four significant
// digits, for example "941.5 Mbit/s". ParseBitRate reads it back.
func (r BitRate) String() string {
	if !isFinite(float64(r)) {
		return "unknown bit/s"
	}
	n, prefix := scale(float64(r), 1000, 4, []string{"", "k", "M", "G", "T", "P", "E"})
	return n + " " + prefix + "bit/s"
}

// plainBytes is the amount below which Bytes.String prefers the exact count to a rounded one,
// so that MTUs and the 65535 of an unscaled window stay recognizable.
const plainBytes = 100_000

// String returns b exactly if that is short: with a 1024-based prefix ("64 KiB", "1.5 MiB"), or
// as a count below 100,000 ("1500 B"). Everything else is rounded like Decimal. ParseBytes
// reads it back.
func (b Bytes) String() string {
	if s, ok := b.exactBinary(); ok {
		return s
	}
	if -plainBytes < b && b < plainBytes {
		return strconv.FormatInt(int64(b), 10) + " B"
	}
	return b.Decimal()
}

// Decimal returns b with a 1000-based prefix and three significant digits,
// for example "65.5 kB" for 65536.
func (b Bytes) Decimal() string {
	n, prefix := scale(float64(b), 1000, 3, []string{"", "k", "M", "G", "T", "P", "E"})
	return n + " " + prefix + "B"
}

// Binary returns b with a 1024-based prefix and three significant digits (four
// from 1000 to 1023), for example "64 KiB" for 65536 and "63.5 KiB" for 65000.
func (b Bytes) Binary() string {
	n, prefix := scale(float64(b), 1024, 3, []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
	return n + " " + prefix + "B"
}

// exactBinary formats b in the largest 1024-based unit in which at most four significant digits
// are exact.
func (b Bytes) exactBinary() (string, bool) {
	if b <= 0 || b%1024 != 0 {
		return "", false
	}
	for i, prefix := range []string{"E", "P", "T", "G", "M", "K"} {
		unit := Bytes(1) << (60 - 10*i)
		if b < unit {
			continue
		}
		n := digits(float64(b)/float64(unit), 4)
		back, err := strconv.ParseFloat(n, 64)
		if err == nil && back < 10_000 && back*float64(unit) == float64(b) {
			return n + " " + prefix + "iB", true
		}
	}
	return "", false
}

// String returns p with at most four significant digits, for example "3 %".
// ParsePercent reads it back.
func (p Percent) String() string {
	if !isFinite(float64(p)) {
		return "unknown %"
	}
	return digits(float64(p), 4) + " %"
}

// scale formats v divided by the matching power of base, with that power's prefix. It checks
// the rounded text, so that 999,960 is "1 M".
func scale(v, base float64, significant int, prefixes []string) (number, prefix string) {
	for _, prefix = range prefixes {
		number = digits(v, significant)
		if rounded, err := strconv.ParseFloat(number, 64); err != nil || math.Abs(rounded) < base {
			break
		}
		if prefix != prefixes[len(prefixes)-1] {
			v /= base
		}
	}
	return number, prefix
}

// digits formats v with at most the given number of significant digits and without trailing
// zeros. It never drops digits before the decimal point, and shows at most twelve after it.
func digits(v float64, significant int) string {
	if v == 0 {
		return "0"
	}
	whole := int(math.Floor(math.Log10(math.Abs(v)))) + 1
	return trim(strconv.FormatFloat(v, 'f', min(max(0, significant-whole), 12), 64))
}

// trim removes trailing zeros after the decimal point, and the sign of zero.
func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
