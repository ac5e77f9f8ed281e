package netpipe

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/must"
)

// Written by NPtcp 3.7.2 (Debian).
func TestLinesOfNPtcp(t *testing.T) {
	for _, c := range []struct {
		text string
		want Line
	}{
		{"       1 1.079816   0.00000707", Line{Bytes: 1, Mebibit: 1.079816, Seconds: 7.07e-6}},
		{"     142 119.265092   0.00000908", Line{Bytes: 142, Mebibit: 119.265092, Seconds: 9.08e-6}},
		{"      58 29.000000   0.00001526", Line{Bytes: 58, Mebibit: 29, Seconds: 1.526e-5}},
		{"      13 20", Line{Bytes: 13, Repeats: 20}},
	} {
		got := must.Get(ParseLine(c.text))(t)
		must.Equal(t, got, c.want, "%q", c.text)
		must.Equal(t, got.String(), c.text, "%q is printed as %q", c.text, got)
	}
	l, _ := ParseLine("       1 1.000000   0.00000763")
	must.True(t, l.BitRate() == 1048576, "rate %v", l.BitRate())
}

func TestNewLine(t *testing.T) {
	p := Point{Bytes: 29}
	for _, c := range []struct {
		name string
		s    Settings
		want string
	}{
		{"ping-pong", Default(), "      29 14.500000   0.00001526"},
		{"both ways", Settings{Bidirectional: true}, "      58 29.000000   0.00001526"},
		{"integrity", Settings{Integrity: true}, "      29 20"},
		{"integrity both ways", Settings{Integrity: true, Bidirectional: true}, "      58 20"},
	} {
		must.Equal(t, NewLine(c.s, p, 1.0/65536, 20).String(), c.want, "%s", c.name)
	}
}

func TestParseLineRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "0 fields"},
		{"1", "1 fields"},
		{"1 2 3 4", "4 fields"},
		{"0 1.0 0.1", "bytes"},
		{"-1 1.0 0.1", "256 MiB"},
		{"268435456 1.0 0.1", "256 MiB"},
		{"1 -4.5 0.1", "rate"},
		{"1 nan 0.1", "rate"},
		{"1 inf 0.1", "rate"},
		{"1 1e3 0.1", "rate"},
		{"1 0x10 0.1", "rate"},
		{"1 1_0 0.1", "rate"},
		{"1 1000000000001 0.1", "rate"},
		{"1 1.0 -0.1", "seconds"},
		{"1 1.0 0,1", "seconds"},
		{"1 1.0 .", "seconds"},
		{"1 0", "repeats"},
		{"1 1000000001", "repeats"},
		{strings.Repeat(" ", 129), "128 bytes"},
	} {
		must.Say(t, must.Err(ParseLine(c.text)), c.want, "%q", c.text)
	}
}

func TestParseFile(t *testing.T) {
	in := "       1 0.900141   0.00000848\n       2 1.811748   0.00000842\r\n\n"
	want := []Line{{Bytes: 1, Mebibit: 0.900141, Seconds: 8.48e-6}, {Bytes: 2, Mebibit: 1.811748, Seconds: 8.42e-6}}
	got, err := Parse(strings.NewReader(in))
	d := cmp.Diff(want, got)
	must.True(t, d == "" && err == nil, "error %v (-want +got):\n%s", err, d)
	for _, c := range []struct{ name, in string }{
		{"bad line", "       1 0.900141   0.00000848\nhello\n"},
		{"endless line", strings.Repeat("1", 1<<16)},
		{"endless file", strings.Repeat("1 20\n", 8001)},
	} {
		got, err := Parse(strings.NewReader(c.in))
		must.True(t, err != nil && got == nil, "%s: %d lines", c.name, len(got))
	}
	must.Len(t, must.Get(Parse(strings.NewReader(strings.Repeat("1 20\n", 8000))))(t), 8000)
}

func TestLinesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Point{Bytes: rapid.IntRange(1, MaxBytes/2).Draw(t, "bytes")}
		s := Settings{Bidirectional: rapid.Bool().Draw(t, "both ways")}
		l := NewLine(s, p, rapid.Float64Range(1e-6, 50).Draw(t, "seconds"), 3)
		got := must.Get(ParseLine(l.String()))(t)
		must.Need(t, got.Bytes == l.Bytes && !(math.Abs(got.Mebibit-l.Mebibit) > 5.1e-7) && !(math.Abs(got.Seconds-l.Seconds) > 5.1e-9), "%+v became %+v", l, got)
	})
}

func FuzzParseLine(f *testing.F) {
	for _, s := range []string{
		"       1 1.079816   0.00000707", "      13 20", "1 2 3 4", "-1 1 1", "1 999999999999.9999999 0", "\xff 1 1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLine(text)
		if err != nil {
			must.True(t, l == (Line{}), "%+v beside %v", l, err)
			return
		}
		again, err := ParseLine(l.String())
		must.True(t, err == nil && again.String() == l.String(), "%q becomes %q, %v", l, again, err)
	})
}
