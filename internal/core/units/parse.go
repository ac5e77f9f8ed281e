package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ParseError reports what is wrong with a quantity in user input.
type ParseError struct {
	Quantity string // "bit rate", "size", "percentage", "duration"
	Input    string
	Problem  string // "has no unit", lower case
	Example  string // a valid input: "100mbit or 2.5 Gbit/s"
}

// Error returns the input, the problem, and an example.
func (e *ParseError) Error() string {
	return fmt.Sprintf("%s %q %s; write it like %s", e.Quantity, e.Input, e.Problem, e.Example)
}

// maxBitRate is far above any link and keeps every accepted rate printable.
const maxBitRate = 1e18

// ParseBitRate parses a rate. Prefixes are k, M, G, T, P, E (1000-based, either case) and Ki,
// Mi, Gi, Ti, Pi, Ei (1024-based). The unit is one of
//
//   - nothing, "bit", "bit/s", "bits/s", "b/s", "bps": bits per second, as in
//     "100mbit", "2.5 Gbit/s", "941 Mbps", "100M", "1e9";
//   - "B/s" or "Bps" with a capital B: bytes per second, eight bits each.
//
// Note that only tc(8) reads "mbps" as megabytes per second; here it is megabits, as everywhere
// else. "MB" and "mb" without a time are rejected, because they are amounts. Negative numbers,
// NaN and rates above 1e18 are errors. All errors are *ParseError.
func ParseBitRate(s string) (BitRate, error) {
	fail := func(problem string) (BitRate, error) {
		return 0, &ParseError{Quantity: "bit rate", Input: s, Problem: problem, Example: "100mbit, 2.5 Gbit/s or 12 MB/s"}
	}
	number, unit, problem := split(s)
	if problem != "" {
		return fail(problem)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fail("is out of range")
	}
	factor, base := prefixFactor(unit, 1000)
	switch base {
	case "", "bit", "bits", "Bit", "bit/s", "bits/s", "Bit/s", "b/s", "bps":
	case "B/s", "Bps":
		factor *= 8
	case "b", "B":
		return fail("names an amount, not a rate")
	default:
		return fail(fmt.Sprintf("has the unknown unit %q", unit))
	}
	if v *= factor; v > maxBitRate {
		return fail("is out of range")
	}
	return BitRate(v), nil
}

// ParseBytes parses an amount of data. "1500" and "1500B" are bytes; "kB", "KB", "MB", "GB" are
// 1000-based; "KiB", "MiB", "GiB" 1024-based. A bare K, M or G (either case) is 1024-based, as
// iperf3 interprets the arguments of -l and -w (its src/units.c, unit_atoi). A lower-case b is
// rejected, since it could mean bits. Fractions are rounded to whole bytes with a prefix
// ("1.5MiB") and rejected without one. All errors are *ParseError.
func ParseBytes(s string) (Bytes, error) {
	fail := func(problem string) (Bytes, error) {
		return 0, &ParseError{Quantity: "size", Input: s, Problem: problem, Example: "64KiB, 1MiB or 1500"}
	}
	number, unit, problem := split(s)
	if problem != "" {
		return fail(problem)
	}
	step := 1024.0
	if strings.HasSuffix(unit, "B") {
		step = 1000
	}
	factor, base := prefixFactor(unit, step)
	switch base {
	case "", "B":
	case "b", "bit", "bits":
		return fail("is in bits")
	default:
		return fail(fmt.Sprintf("has the unknown unit %q", unit))
	}
	// Whole numbers do not go through float64, which is exact to 2^53 only.
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n > math.MaxInt64/int64(factor) {
			return fail("is out of range")
		}
		return Bytes(n * int64(factor)), nil
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v*factor >= math.MaxInt64 {
		return fail("is out of range")
	}
	v *= factor
	whole := math.Round(v)
	if whole != v && (factor == 1 || whole == 0) {
		return fail("is not a whole number of bytes")
	}
	return Bytes(whole), nil
}

// ParsePercent parses a share in percent, with or without the sign: "3%", "3 %", "0.01%", "3".
// It may exceed 100. All errors are *ParseError.
func ParsePercent(s string) (Percent, error) {
	fail := func(problem string) (Percent, error) {
		return 0, &ParseError{Quantity: "percentage", Input: s, Problem: problem, Example: "3% or 0.01%"}
	}
	number, unit, problem := split(s)
	if problem != "" {
		return fail(problem)
	}
	if unit != "" && unit != "%" {
		return fail(fmt.Sprintf("has the unknown unit %q", unit))
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fail("is out of range")
	}
	return Percent(v), nil
}

// ParseDuration parses a length of time that is not negative: "10s", "1m30s", "2 min 10 s",
// "250ms", "9.8 µs". A bare number is seconds, as for the -t of iperf. All errors are
// *ParseError.
func ParseDuration(s string) (time.Duration, error) {
	fail := func(problem string) (time.Duration, error) {
		return 0, &ParseError{Quantity: "duration", Input: s, Problem: problem, Example: "10s, 250ms or 1m30s"}
	}
	text, problem := joinDuration(s)
	switch {
	case problem != "":
		return fail(problem)
	case text == "":
		return fail("is empty")
	case strings.HasPrefix(text, "-"):
		return fail("is negative")
	}
	if last := text[len(text)-1]; '0' <= last && last <= '9' && !strings.ContainsFunc(text, unicode.IsLetter) {
		text += "s"
	}
	d, err := time.ParseDuration(strings.ReplaceAll(text, "min", "m"))
	if err != nil {
		return fail("is not a length of time, or out of range")
	}
	return d, nil
}

// ParseSpan is ParseDuration for long times, with whole days ("30d") and weeks ("2w") too.
func ParseSpan(s string) (time.Duration, error) {
	for unit, one := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		count, ok := strings.CutSuffix(strings.TrimSpace(s), unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		if err != nil || n < 0 || n > int64(math.MaxInt64/one) {
			return 0, &ParseError{Quantity: "duration", Input: s, Problem: "is not a number of days or weeks", Example: "12h, 30d or 2w"}
		}
		return time.Duration(n) * one, nil
	}
	return ParseDuration(s)
}

// joinDuration removes the blanks of s. A blank between two letters or two
// digits is an error, because joining them would change the meaning.
func joinDuration(s string) (joined, problem string) {
	fields := strings.Fields(s)
	for i, f := range fields {
		if i == 0 {
			continue
		}
		before := fields[i-1]
		if isDigit(before[len(before)-1]) == isDigit(f[0]) {
			return "", fmt.Sprintf("has a stray blank before %q", f)
		}
	}
	return strings.Join(fields, ""), ""
}

// split cuts s into a plain decimal number and the unit after it. It returns a problem if there
// is no number, or a negative one. The number has an exponent only if digits follow the e or E,
// so that "1E" keeps its unit.
func split(s string) (number, unit, problem string) {
	s = strings.TrimSpace(s)
	i := digitsEnd(s, 0)
	if i < len(s) && s[i] == '.' {
		i = digitsEnd(s, i+1)
	}
	number = s[:i]
	switch {
	case s == "":
		return "", "", "is empty"
	case s[0] == '-':
		return "", "", "is negative"
	case number == "" || number == ".":
		return "", "", "does not start with a number"
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if end := digitsEnd(s, j); end > j {
			number, i = s[:end], end
		}
	}
	return number, strings.TrimLeft(s[i:], " \t"), ""
}

// prefixFactor cuts the prefix off unit and returns its factor: a power of 1024 for Ki, Mi and
// so on, and of step for k, M and so on in either case.
func prefixFactor(unit string, step float64) (factor float64, rest string) {
	if unit == "" {
		return 1, ""
	}
	power := strings.IndexByte("kmgtpe", unit[0]|0x20) + 1
	if power == 0 {
		return 1, unit
	}
	rest = unit[1:]
	if strings.HasPrefix(rest, "i") {
		rest, step = rest[1:], 1024
	}
	return math.Pow(step, float64(power)), rest
}

func digitsEnd(s string, from int) int {
	for from < len(s) && isDigit(s[from]) {
		from++
	}
	return from
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
