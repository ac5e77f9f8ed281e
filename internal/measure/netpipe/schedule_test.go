package netpipe

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/must"
)

func numbers(t testing.TB, text string) []int {
	t.Helper()
	var out []int
	for f := range strings.FieldsSeq(text) {
		out = append(out, must.Get(strconv.Atoi(f))(t))
	}
	return out
}

// NPtcp 3.7.2 (Debian) wrote each list to np.out on loopback.
func TestSizesAreThoseOfNPtcp(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     Settings
		count int
		sizes string
	}{
		{"defaults", Default(), 124, `1 2 3 4 6 8 12 13 16 19 21 24 27 29 32 35 45 48 51 61 64 67 93 96 99
			125 128 131 189 192 195 253 256 259 381 384 387 509 512 515 765 768 771 1021 1024 1027
			1533 1536 1539 2045 2048 2051 3069 3072 3075 4093 4096 4099 6141 6144 6147 8189 8192 8195
			12285 12288 12291 16381 16384 16387 24573 24576 24579 32765 32768 32771 49149 49152 49155
			65533 65536 65539 98301 98304 98307 131069 131072 131075 196605 196608 196611
			262141 262144 262147 393213 393216 393219 524285 524288 524291 786429 786432 786435
			1048573 1048576 1048579 1572861 1572864 1572867 2097149 2097152 2097155 3145725 3145728 3145731
			4194301 4194304 4194307 6291453 6291456 6291459 8388605 8388608 8388611`},
		{"no perturbation", Settings{Start: 1, Upper: 300_000}, 36, `1 2 3 4 6 8 12 16 24 32 48 64 96 128
			192 256 384 512 768 1024 1536 2048 3072 4096 6144 8192 12288 16384 24576 32768 49152 65536
			98304 131072 196608 262144`},
		{"duplicates", Settings{Start: 7, Upper: 200, Perturbation: 3}, 29, `7 10 10 13 16 16 19 22 22 25 28
			34 37 40 46 49 52 70 73 76 94 97 100 142 145 148 190 193 196`},
		{"wide perturbation", Settings{Start: 64, Upper: 1000, Perturbation: 16}, 24, `48 64 80 80 96 112 112
			128 144 176 192 208 240 256 272 368 384 400 496 512 528 752 768 784`},
		{"perturbation 1", Settings{Start: 2, Upper: 60, Perturbation: 1}, 22, `2 3 4 6 7 8 9 11 12 13 15 16 17
			23 24 25 31 32 33 47 48 49`},
		{"one base", Settings{Start: 100, Upper: 100, Perturbation: 3}, 3, `97 100 103`},
		{"above the bound", Settings{Start: 1, Upper: 64, Perturbation: 3}, 22, `1 2 3 4 6 8 12 13 16 19 21
			24 27 29 32 35 45 48 51 61 64 67`},
		{"integrity", Settings{Upper: 64}.WithIntegrity(), 8, `5 7 9 13 17 25 33 49`},
		{"integrity from 8", Settings{Start: 8, Upper: 20, Integrity: true}, 3, `8 12 16`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := must.Get(Sizes(c.s))(t)
			d := cmp.Diff(numbers(t, c.sizes), got)
			must.True(t, d == "" && len(got) == c.count, "%d sizes, want %d (-want +got):\n%s", len(got), c.count, d)
		})
	}
}

func TestPointsNameTheirNeighbours(t *testing.T) {
	c := must.Get(NewSchedule(Settings{Start: 7, Upper: 19, Perturbation: 3}))(t)
	var got []Point
	for p, ok := c.Next(0); ok; p, ok = c.Next(0) {
		got = append(got, p)
	}
	want := []Point{
		{Index: 0, Bytes: 7, Base: 7, Previous: 7, Increment: 3},
		{Index: 1, Bytes: 10, Base: 10, Previous: 7, Increment: 3},
		{Index: 2, Bytes: 10, Base: 13, Previous: 10, Increment: 6},
		{Index: 3, Bytes: 13, Base: 13, Previous: 10, Increment: 6},
		{Index: 4, Bytes: 16, Base: 13, Previous: 13, Increment: 6},
		{Index: 5, Bytes: 16, Base: 19, Previous: 16, Increment: 6},
		{Index: 6, Bytes: 19, Base: 19, Previous: 16, Increment: 6},
		{Index: 7, Bytes: 22, Base: 19, Previous: 19, Increment: 6},
	}
	must.NoDiff(t, cmp.Diff(want, got), "points")
	must.True(t, !c.Slow(), "the bound ended it, not the time")
}

func TestSlowMessageEndsTheScheduleAtTheNextBase(t *testing.T) {
	s := Settings{Start: 64, Upper: 1000, Perturbation: 16}
	for _, c := range []struct {
		name string
		at   int // the first point that is slow
		time float64
		want int // total points
		slow bool
	}{
		{"opening", 0, 1, 0, true},
		{"last of a base", 3, 1, 3, true},
		{"first of a base", 4, 2, 24, false}, // the two others are fast again
		{"just below", 3, 0.999999, 24, false},
		{"not a number", 3, math.NaN(), 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			sch := must.Get(NewSchedule(s))(t)
			points, last := 0, 0.0
			for {
				if points == c.at {
					last = c.time
				} else {
					last = 1e-5
				}
				if _, ok := sch.Next(last); !ok {
					break
				}
				points++
			}
			must.True(t, points == c.want && sch.Slow() == c.slow, "%d points, slow %t", points, sch.Slow())
			_, ok := sch.Next(0)
			must.True(t, !ok, "the schedule began again")
		})
	}
}

// documented implements the loop of docs/wire/netpipe.md literally, as a check of the state
// machine.
func documented(s Settings) []int {
	inc, nq := 1, 0
	if s.Start > 1 {
		inc, nq = s.Start/2, 1
	}
	var out []int
	for size := s.Start; len(out) < 7997 && size <= s.Upper; size, nq = size+inc, nq+1 {
		if nq > 2 && nq%2 == 1 {
			inc *= 2
		}
		if p := s.Perturbation; p > 0 && inc > p+1 {
			out = append(out, size-p, size, size+p)
		} else {
			out = append(out, size)
		}
	}
	return out
}

func TestScheduleLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := settings().Draw(t, "settings")
		c := must.Get(NewSchedule(s))(t)
		var sizes []int
		base := 0
		for p, ok := c.Next(0.5); ok; p, ok = c.Next(0.5) {
			must.Need(t, p.Index == len(sizes) && p.Base >= base && p.Base >= s.Start && p.Base <= s.Upper, "point %+v after base %d", p, base)
			off := p.Bytes - p.Base
			must.Need(t, off == 0 || off == s.Perturbation || off == -s.Perturbation, "point %+v is %d off", p, off)
			must.Need(t, p.Bytes >= 1 && p.Bytes <= MaxBytes, "point %+v is out of bounds", p)
			must.Need(t, p.Previous-p.Increment+1 >= 1, "point %+v has no repeat count", p)
			base = p.Base
			sizes = append(sizes, p.Bytes)
		}
		must.Need(t, slices.Equal(sizes, documented(s)), "sizes %v, documented %v", sizes, documented(s))
		must.Need(t, len(sizes) != 0 && len(sizes) <= 799 && !c.Slow(), "%d points, slow %t", len(sizes), c.Slow())
	})
}

// Size, repeat count and rate of a run of NPtcp 3.7.2 (Debian) on loopback. The rate gives the
// time with more digits than the third column.
func TestRepeatsAreThoseOfNPtcp(t *testing.T) {
	rows := []struct {
		repeats int
		line    string
	}{
		{11567, "       1 0.849906   0.00000898"}, {11139, "       2 1.662128   0.00000918"},
		{10892, "       3 2.482183   0.00000922"}, {7229, "       4 3.370740   0.00000905"},
		{8283, "       6 4.933967   0.00000928"}, {5389, "       8 6.482992   0.00000941"},
		{6638, "      12 9.209801   0.00000994"}, {4191, "      13 9.685140   0.00001024"},
		{4506, "      16 13.676319   0.00000893"}, {6302, "      19 15.322633   0.00000946"},
		{6676, "      21 16.866572   0.00000950"}, {7018, "      24 19.541553   0.00000937"},
		{7559, "      27 22.445723   0.00000918"},
	}
	s := Default()
	c := must.Get(NewSchedule(s))(t)
	last := 0.10 / 11567.5 // the opening's time is not printed
	for _, row := range rows {
		l := must.Get(ParseLine(row.line))(t)
		p, ok := c.Next(last)
		must.Need(t, ok && p.Bytes == l.Bytes, "point %+v, NPtcp has %d bytes", p, l.Bytes)
		got := s.Repeats(p, last)
		must.True(t, got >= row.repeats-1 && got <= row.repeats+1, "%d bytes: %d repeats, NPtcp has %d", p.Bytes, got, row.repeats)
		last = float64(l.Bytes) * 8 / float64(l.BitRate())
	}
}

func TestRepeatsAreBounded(t *testing.T) {
	first := Point{Bytes: 1, Base: 1, Previous: 1, Increment: 1}
	for _, c := range []struct {
		name string
		s    Settings
		last float64
		want int
	}{
		{"slow", Default(), 0.5, 3},
		{"slow, final", Settings{Final: true}, 0.5, 7},
		{"10 µs", Default(), 1.024e-5, 9765},
		{"10 µs, final", Settings{Final: true}, 1.024e-5, 24414},
		{"integrity", Default().WithIntegrity(), 0.5, 3},
		{"no time", Default(), 0, 100_000},
		{"negative time", Default(), -1, 100_000},
		{"not a number", Default(), math.NaN(), 100_000},
		{"tiny", Default(), 1e-300, MaxRepeats},
		{"for ever", Default(), math.Inf(1), 3},
	} {
		t.Run(c.name, func(t *testing.T) { must.Equal(t, c.s.Repeats(first, c.last), c.want, "repeats") })
	}
}

func TestOneWayTime(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Settings
		want float64
	}{
		{"ping-pong", Default(), 0.125},
		{"stream", Settings{Streaming: true}, 0.25},
		{"both ways", Settings{Bidirectional: true}, 0.25},
	} {
		must.Equal(t, c.s.OneWay(1, 4), c.want, "%s", c.name)
	}
	must.Equal(t, Default().OneWay(1, 0), 0.5, "no repeats s")
	must.True(t, Fastest(3, 1, 2) == 1 && Fastest(0, 1) == 1e-6 && Fastest(1e-7) == 1e-7 && Fastest() == 1e-6, "fastest is not the least, or 1 µs for none")
}

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
		{"", "0 fields"}, {"1", "1 fields"}, {"1 2 3 4", "4 fields"}, {"0 1.0 0.1", "bytes"}, {"-1 1.0 0.1", "256 MiB"}, {"268435456 1.0 0.1", "256 MiB"},
		{"1 -4.5 0.1", "rate"}, {"1 nan 0.1", "rate"}, {"1 inf 0.1", "rate"}, {"1 1e3 0.1", "rate"}, {"1 0x10 0.1", "rate"}, {"1 1_0 0.1", "rate"},
		{"1 1000000000001 0.1", "rate"}, {"1 1.0 -0.1", "seconds"}, {"1 1.0 0,1", "seconds"}, {"1 1.0 .", "seconds"}, {"1 0", "repeats"},
		{"1 1000000001", "repeats"}, {strings.Repeat(" ", 129), "128 bytes"},
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
