package units

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestBitRateString(t *testing.T) {
	for _, c := range []struct {
		in   BitRate
		want string
	}{
		{0, "0 bit/s"}, {0.5, "0.5 bit/s"}, {999, "999 bit/s"}, {500e3, "500 kbit/s"}, {941482444.7, "941.5 Mbit/s"}, {999_940_000, "999.9 Mbit/s"},
		{999_960_000, "1 Gbit/s"}, {1e9, "1 Gbit/s"}, {23537.06e6, "23.54 Gbit/s"}, {-1.5e6, "-1.5 Mbit/s"}, {1e18, "1 Ebit/s"},
		{BitRate(math.NaN()), "unknown bit/s"}, {BitRate(math.Inf(1)), "unknown bit/s"},
	} {
		must.Equal(t, c.in.String(), c.want, "BitRate(%g)", float64(c.in))
	}
}

func TestBytesString(t *testing.T) {
	for _, c := range []struct {
		in                       Bytes
		exact, decimal, twoBased string
	}{
		{0, "0 B", "0 B", "0 B"}, {1, "1 B", "1 B", "1 B"}, {1024, "1 KiB", "1.02 kB", "1 KiB"}, {1500, "1500 B", "1.5 kB", "1.46 KiB"},
		{65000, "65000 B", "65 kB", "63.5 KiB"}, {65535, "65535 B", "65.5 kB", "64 KiB"}, {65536, "64 KiB", "65.5 kB", "64 KiB"},
		{1023 * 1024, "1023 KiB", "1.05 MB", "1023 KiB"}, {1 << 20, "1 MiB", "1.05 MB", "1 MiB"}, {3 << 19, "1.5 MiB", "1.57 MB", "1.5 MiB"},
		{1025 * 1024, "1025 KiB", "1.05 MB", "1 MiB"}, {16776960, "16.8 MB", "16.8 MB", "16 MiB"}, {1e9, "1 GB", "1 GB", "954 MiB"},
		{math.MaxInt64, "9.22 EB", "9.22 EB", "8 EiB"}, {-1500, "-1500 B", "-1.5 kB", "-1.46 KiB"},
	} {
		must.Equal(t, c.in.String(), c.exact, "Bytes(%d).String()", c.in)
		must.Equal(t, c.in.Decimal(), c.decimal, "Bytes(%d).Decimal()", c.in)
		must.Equal(t, c.in.Binary(), c.twoBased, "Bytes(%d).Binary()", c.in)
	}
}

func TestPercentString(t *testing.T) {
	for in, want := range map[Percent]string{
		3: "3 %", 0: "0 %", 0.01: "0.01 %", 99.2734: "99.27 %", -4.5: "-4.5 %", Percent(math.Inf(1)): "unknown %",
	} {
		must.Equal(t, in.String(), want, "Percent(%g)", float64(in))
	}
}

func TestFormatDuration(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0:                                  "0 s",
		850:                                "850 ns",
		9800:                               "9.8 µs",
		99949:                              "99.9 µs",
		99951:                              "0.1 ms",
		210 * time.Microsecond:             "0.21 ms",
		999499 * time.Microsecond:          "999 ms",
		999500 * time.Microsecond:          "1 s",
		1500 * time.Millisecond:            "1.5 s",
		59940 * time.Millisecond:           "59.9 s",
		59950 * time.Millisecond:           "1 min",
		130 * time.Second:                  "2 min 10 s",
		time.Hour - 500*time.Millisecond:   "1 h",
		time.Hour - 501*time.Millisecond:   "59 min 59 s",
		65*time.Minute + 29*time.Second:    "1 h 5 min",
		26 * time.Hour:                     "26 h",
		-210 * time.Microsecond:            "-0.21 ms",
		time.Duration(math.MinInt64):       "-2562047 h 47 min",
		2*time.Minute + 499999*time.Second: "138 h 55 min",
	} {
		must.Equal(t, FormatDuration(in), want, "FormatDuration(%d ns)", in)
	}
}

func TestFormatChange(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{
		{math.Log(1.045), "+4.5 %"}, {math.Log(0.5), "-50 %"}, {math.Log(2), "+100 %"}, {math.Log(4.8), "4.8 times"}, {math.Log(30.69), "30.7 times"},
		{math.Log(2970), "2970 times"}, {math.Log(1.0 / 3), "0.333 times"}, {math.Log(1.00123), "+0.12 %"}, {0, "0 %"}, {1e-12, "0 %"}, {-1e-12, "0 %"},
		{math.Inf(-1), "-100 %"}, {math.Inf(1), "+∞ %"}, {math.NaN(), "unknown"},
	} {
		must.Equal(t, FormatChange(c.in), c.want, "FormatChange(%g)", c.in)
	}
}

func TestFormatChangeInterval(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{math.Log(1.031), math.Log(1.059), "+3.1 % to +5.9 %"}, {math.Log(0.98), math.Log(1.3), "-2 % to +30 %"},
		{math.Log(0.9991), math.Log(1.0004), "-0.09 % to +0.04 %"}, {math.Log(1.8), math.Log(2.4), "1.80 to 2.40 times"},
		{math.Log(0.46), math.Log(0.59), "-54 % to -41 %"}, {math.Log(29.1), math.Log(32.3), "29.1 to 32.3 times"},
		{math.Log(0.31), math.Log(0.36), "0.310 to 0.360 times"}, {math.Log(0.02), math.Log(50), "0.020 to 50 times"},
		{math.Log(2.1), inf, "above 2.1 times"}, {-inf, math.Log(0.2), "below 0.2 times"}, {-inf, math.Log(1.059), "below +5.9 %"},
		{math.Log(1.031), inf, "above +3.1 %"}, {-inf, inf, "not bounded yet"}, {math.NaN(), math.NaN(), "not bounded yet"},
	} {
		must.Equal(t, FormatChangeInterval((c.low+c.high)/2, c.low, c.high), c.want, "FormatChangeInterval(%g, %g)", c.low, c.high)
	}
}

func TestRound(t *testing.T) {
	for _, c := range []struct {
		v, uncertainty float64
		want           string
	}{
		{941.4824, 0.31, "941.48"},
		{941.4824, 3.1, "941.5"},
		{941.4824, 31, "941"},
		{5, 0.12, "5.00"},
		{941.4824, 0, "941.5"},
		{941.4824, math.Inf(1), "941.5"},
	} {
		must.Equal(t, Round(c.v, c.uncertainty), c.want, "Round(%g, %g)", c.v, c.uncertainty)
	}
}

func TestParseBitRate(t *testing.T) {
	for in, want := range map[string]BitRate{
		"0": 0, "1500": 1500, "1e9": 1e9, "1.5e+6": 1.5e6, "100M": 100e6, "100m": 100e6,
		"100mbit": 100e6, "100Mbit": 100e6, "1gbit": 1e9, "1Gbit/s": 1e9, "2.5 Gbit/s": 2.5e9,
		"941 Mbit/s": 941e6, "500kbit": 500e3, "10mbps": 10e6, "10 Mbps": 10e6, "10Mb/s": 10e6,
		"12.5MB/s": 100e6, "12.5 MBps": 100e6, "1MiB/s": 8 << 20, "1Kibit": 1024, "8bit/s": 8,
		" 1 gbit ": 1e9, "1tbit": 1e12, ".5gbit": 5e8, "1Ebit/s": 1e18,
	} {
		got := must.Get(ParseBitRate(in))(t)
		must.True(t, got == want, "ParseBitRate(%q) = %g, want %g", in, float64(got), float64(want))
	}
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]Bytes{
		"0": 0, "1500": 1500, "1500B": 1500, "1500 B": 1500, "64K": 65536, "64k": 65536,
		"64KiB": 65536, "64 KiB": 65536, "64kB": 64000, "64KB": 64000, "1MiB": 1 << 20, "1M": 1 << 20,
		"1.5MiB": 3 << 19, "1.5 MB": 1500000, "2G": 2 << 30, "2GB": 2e9, "1TiB": 1 << 40, "1e6": 1e6,
		"9223372036854775807": math.MaxInt64, "9007199254740993": 1<<53 + 1, "1.3 KiB": 1331,
	} {
		must.Equal(t, must.Get(ParseBytes(in))(t), want, "ParseBytes(%q)", in)
	}
}

func TestParsePercent(t *testing.T) {
	for in, want := range map[string]Percent{"3%": 3, "3 %": 3, "0.01%": 0.01, "3": 3, "250%": 250, "0": 0} {
		got := must.Get(ParsePercent(in))(t)
		must.True(t, got == want, "ParsePercent(%q) = %g, want %g", in, float64(got), float64(want))
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0.5": 500 * time.Millisecond, "10s": 10 * time.Second, "0s": 0, "0": 0,
		"1m30s": 90 * time.Second, "2 min 10 s": 130 * time.Second, "1h 5min": 65 * time.Minute,
		"250ms": 250 * time.Millisecond, "9.8 µs": 9800, "9.8us": 9800, "850 ns": 850,
	} {
		must.Equal(t, must.Get(ParseDuration(in))(t), want, "ParseDuration(%q)", in)
	}
}

func TestParseErrors(t *testing.T) {
	rate := func(s string) error { _, err := ParseBitRate(s); return err }
	size := func(s string) error { _, err := ParseBytes(s); return err }
	percent := func(s string) error { _, err := ParsePercent(s); return err }
	duration := func(s string) error { _, err := ParseDuration(s); return err }
	for _, c := range []struct {
		parse       func(string) error
		in, problem string
	}{
		{rate, "", "is empty"}, {rate, "-1mbit", "is negative"}, {rate, "NaN", "does not start with a number"}, {rate, "Inf", "does not start with a number"},
		{rate, "+5", "does not start with a number"}, {rate, ".", "does not start with a number"}, {rate, "0x10", `has the unknown unit "x10"`},
		{rate, "100 parsec", `has the unknown unit "parsec"`}, {rate, "100MB", "names an amount, not a rate"}, {rate, "100mb", "names an amount, not a rate"}, {rate, "1e400", "is out of range"},
		{rate, "2e18", "is out of range"}, {rate, "1.2.3", `has the unknown unit ".3"`}, {size, "", "is empty"}, {size, "-1", "is negative"}, {size, "64kb", "is in bits"},
		{size, "64Kbit", "is in bits"}, {size, "64 apples", `has the unknown unit "apples"`}, {size, "1.5", "is not a whole number of bytes"}, {size, "1.5B", "is not a whole number of bytes"},
		{size, "0.0001K", "is not a whole number of bytes"}, {size, "9223372036854775808", "is out of range"}, {size, "8EiB", "is out of range"}, {size, "1e30", "is out of range"},
		{size, "1e999", "is out of range"}, {percent, "three", "does not start with a number"}, {percent, "-3%", "is negative"}, {percent, "3 pct", `has the unknown unit "pct"`},
		{percent, "1e999", "is out of range"}, {duration, "", "is empty"}, {duration, "-1s", "is negative"}, {duration, "10 parsecs", "is not a length of time, or out of range"},
		{duration, "1 m s", `has a stray blank before "s"`}, {duration, "1 0s", `has a stray blank before "0s"`}, {duration, "9999999999h", "is not a length of time, or out of range"},
	} {
		err := c.parse(c.in)
		var pe *ParseError
		if !errors.As(err, &pe) {
			t.Errorf("parse %q: error %v, want a *ParseError", c.in, err)
			continue
		}
		must.True(t, pe.Problem == c.problem && pe.Input == c.in && pe.Example != "", "parse %q: problem %q, want %q", c.in, pe.Problem, c.problem)
	}
	must.Equal(t, rate("100MB").Error(), `bit rate "100MB" names an amount, not a rate; write it like 100mbit, 2.5 Gbit/s or 12 MB/s`, "error text")
}

// near reports whether got is want to the given number of significant digits.
func near(got, want float64, significant int) bool {
	return math.Abs(got-want) <= 0.5000001*math.Pow10(1-significant)*math.Abs(want)
}

func TestPrintedRatesParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := BitRate(math.Pow(10, rapid.Float64Range(0, 17.9).Draw(t, "exponent")))
		got := must.Get(ParseBitRate(want.String()))(t)
		must.Need(t, near(float64(got), float64(want), 4), "%g printed as %q parsed as %g", float64(want), want, float64(got))
		again := got.String()
		must.Need(t, again == want.String(), "%q printed again as %q", want, again)
	})
}

func TestPrintedBytesParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Multiples of powers of two are as likely as odd counts. Above 2^53
		// the three digits of 9.22 EB could round beyond the type.
		shift := rapid.IntRange(0, 40).Draw(t, "shift")
		want := Bytes(rapid.Int64Range(0, 1<<53>>shift).Draw(t, "n") << shift)
		for _, text := range []string{want.String(), want.Decimal(), want.Binary()} {
			got := must.Get(ParseBytes(text))(t)
			must.Need(t, near(float64(got), float64(want), 3), "%d printed as %q parsed as %d", want, text, got)
		}
		if text, ok := want.exactBinary(); ok {
			got, err := ParseBytes(text)
			must.Need(t, err == nil && got == want, "%d printed as %q parsed as %d, %v", want, text, got, err)
		}
	})
}

func TestPrintedDurationsParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(math.Pow(10, rapid.Float64Range(0, 16).Draw(t, "exponent")))
		text := FormatDuration(want)
		got := must.Get(ParseDuration(text))(t)
		must.Need(t, near(float64(got), float64(want), 2), "%d ns printed as %q parsed as %d ns", want, text, got)
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"100mbit", "2.5 Gbit/s", "64KiB", "64K", "3 %", "1m30s", "1e9", "1E", "-1", "NaN", "9223372036854775807", "é", "5\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseBitRate(s)
		must.True(t, err != nil || r >= 0 && r <= maxBitRate, "ParseBitRate(%q) = %g", s, float64(r))
		b, err := ParseBytes(s)
		must.True(t, err != nil || b >= 0, "ParseBytes(%q) = %d", s, b)
		p, err := ParsePercent(s)
		must.True(t, err != nil || p >= 0 && !math.IsInf(float64(p), 0), "ParsePercent(%q) = %g", s, float64(p))
		d, err := ParseDuration(s)
		must.True(t, err != nil || d >= 0, "ParseDuration(%q) = %v", s, d)
	})
}
