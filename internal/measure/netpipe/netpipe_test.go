package netpipe

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestValidateNamesEveryFault(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Settings
		want []string // nil is valid
	}{
		{"default", Default(), nil},
		{"one size", Settings{Start: 100, Upper: 100, Perturbation: 3}, nil},
		{"reset", Settings{Start: 1, Upper: 64, Streaming: true, Reset: true}, nil},
		{"integrity both ways", Settings{Start: 5, Upper: 64, Integrity: true, Bidirectional: true}, nil},
		{"largest", Settings{Start: 1, Upper: MaxBytes - 3, Perturbation: 3}, nil},
		{"largest both ways", Settings{Start: 1, Upper: MaxBytes / 2, Bidirectional: true}, nil},
		{"zero value", Settings{}, []string{"-l 0"}},
		{"bounds crossed", Settings{Start: 9, Upper: 8}, []string{"-u 8: the upper bound is below the first size, 9"}},
		{"stream both ways", Settings{Start: 1, Upper: 8, Streaming: true, Bidirectional: true}, []string{"-s and -2"}},
		{"too large", Settings{Start: 1, Upper: MaxBytes - 2, Perturbation: 3}, []string{"overflow"}},
		{"too large both ways", Settings{Start: 1, Upper: MaxBytes/2 + 1, Bidirectional: true}, []string{"overflow"}},
		{"sum overflows", Settings{Start: 1, Upper: 1<<63 - 1, Perturbation: 1<<63 - 1}, []string{"overflow"}},
		{"several", Settings{Start: 0, Upper: -1, Perturbation: -2}, []string{"-l 0", "-u -1", "-p -2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.s.Validate()
			must.Need(t, (err == nil) == (c.want == nil), "error %v", err)
			for _, w := range c.want {
				must.Contain(t, err.Error(), w)
			}
			_, serr := NewSchedule(c.s)
			must.True(t, (serr == nil) == (err == nil), "schedule says %v", serr)
		})
	}
}

func TestIntegrityOverwritesSizes(t *testing.T) {
	s := Default().WithIntegrity()
	want := Settings{Start: 5, Upper: DefaultUpper, Integrity: true}
	must.Equal(t, s, want, "settings")
	must.True(t, s.Trials() == 1 && Default().Trials() == 3 && (Settings{Final: true}).Trials() == 7, "trials are not 1, 3 and 7")
}

func TestStreamingResets(t *testing.T) {
	for _, c := range []struct{ streaming, reset, want bool }{
		{false, false, false}, {true, false, true}, {false, true, true}, {true, true, true},
	} {
		must.Equal(t, (Settings{Streaming: c.streaming, Reset: c.reset}).Resets(), c.want, "-s %t, -r %t: resets", c.streaming, c.reset)
	}
}

func TestBuffersBoundBothWays(t *testing.T) {
	both := Settings{Start: 1, Upper: 10_000, Bidirectional: true}
	for _, c := range []struct {
		name          string
		s             Settings
		send, receive int
		upper         int // 0 is an error
	}{
		{"one way", Default(), 4608, 4608, DefaultUpper},
		{"one way, buffers unknown", Default(), 0, 0, DefaultUpper},
		{"both ways", both, 4608, 4608, 9216}, // NPtcp -2 -b 2304 on Linux
		{"bound is less", both, 16384, 131072, 10_000},
		{"exactly", both, 5000, 5000, 10_000},
		{"sum overflows", both, 1<<63 - 1, 1<<63 - 1, 10_000},
		{"unknown", both, 0, 4608, 0},
		{"start above", Settings{Start: 10_000, Upper: 20_000, Bidirectional: true}, 4608, 4608, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.s.Bounded(c.send, c.receive)
			must.True(t, got.Upper == c.upper && (err == nil) == (c.upper > 0), "upper bound %d, error %v", got.Upper, err)
		})
	}
}

func TestArgumentsPutIntegrityFirst(t *testing.T) {
	s := Settings{Start: 8, Upper: 64, Perturbation: 1, Integrity: true, Bidirectional: true, Reset: true}
	must.Equal(t, strings.Join(s.Arguments(), " "), "-i -r -2 -l 8 -u 64 -p 1", "arguments")
	must.Same(t, Default().Arguments(), []string{"-l", "1", "-u", "10000000", "-p", "3"}, "arguments")
	got := (Settings{Streaming: true}).Arguments()
	must.True(t, got[0] == "-s" && !slices.Contains(got, "-r"), "arguments %q", got)
}

// settings draws valid ones, with small and large sizes.
func settings() *rapid.Generator[Settings] {
	return rapid.Custom(func(t *rapid.T) Settings {
		s := Settings{
			Start:        rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 1<<20)).Draw(t, "start"),
			Perturbation: rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 1<<20)).Draw(t, "perturbation"),
			Final:        rapid.Bool().Draw(t, "final"),
		}
		s.Upper = rapid.IntRange(s.Start, MaxBytes-s.Perturbation).Draw(t, "upper")
		return s
	})
}

func TestDrawnSettingsAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := settings().Draw(t, "settings")
		must.Do(t, s.Validate())
	})
}
