package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// sweepOf returns a session of passes over sizes, with the same time for a size in each pass.
func sweepOf(passes int, list []units.Bytes, oneWay func(units.Bytes) time.Duration) model.Session {
	s := model.Session{Kind: model.KindSweep}
	for i := range passes {
		r := model.Run{Number: i + 1, Block: i + 1, Attempt: 1, Setting: "current", State: model.RunValid,
			Flow: sizes.With(model.Flow{Engine: sizes.Name, Direction: model.To}, sizes.Params{Sizes: list}), Ends: []model.EndReport{{Host: model.Near}, {Host: model.Far}}}
		for _, n := range list {
			p := model.Point{Size: n, Stalled: oneWay(n) < 0}
			if !p.Stalled {
				// Slightly different in each pass, as in every measurement.
				p.Trials = []time.Duration{oneWay(n) + time.Duration(i), oneWay(n) + time.Duration(2*i)}
			}
			r.Ends[0].Points = append(r.Ends[0].Points, p)
		}
		s.Runs = append(s.Runs, r)
	}
	return s
}

func reported(s model.Session) *Document {
	t := traffic.Measured{Session: &s, Host: func(h model.Host) string { return map[model.Host]string{model.Near: "desk", model.Far: "nas"}[h] }, Label: func(model.Direction) string { return "to nas" }}
	for _, r := range s.Runs {
		if r.State == model.RunValid {
			t.Runs = append(t.Runs, r)
		}
	}
	return document(t)
}

func gigabit(n units.Bytes) time.Duration {
	return 20*time.Microsecond + 8*time.Duration(n)*time.Nanosecond
}

func TestSweepKeepsItsTableShort(t *testing.T) {
	sizes := plan.SweepSizes(1, 8<<20)
	d := reported(sweepOf(5, sizes, gigabit)).Directions[0]
	must.True(t, len(d.Rows) >= 20 && len(d.Rows) <= tableRows+2, "%d rows of %d sizes", len(d.Rows), len(sizes))
	first, last := d.Rows[0].Size.Size, d.Rows[len(d.Rows)-1].Size.Size
	must.True(t, first == 1 && last >= 8<<20, "rows from %v to %v", first, last)
	must.True(t, len(d.Findings) == 0 && len(d.Curve.Warnings) == 0, "findings %+v, warnings %q", d.Findings, d.Curve.Warnings)
	must.True(t, d.Smallest != nil && d.Smallest.Size == 1 && d.Smallest.Median >= 20*time.Microsecond && d.Smallest.Median <= 21*time.Microsecond,
		"smallest %+v", d.Smallest)
	must.True(t, d.Largest != nil && d.Largest.Goodput >= 0.99e9 && d.Largest.Goodput <= 1e9, "largest %+v", d.Largest)
	// n½ of a + bn is a/b: 20 µs at 1 Gbit/s are 2500 bytes.
	must.True(t, d.Half >= 2400 && d.Half <= 2600, "half of the goodput with %v", d.Half)
	for _, n := range []int{0, 1, 2} {
		few := reported(sweepOf(5, sizes[:n], gigabit))
		must.True(t, n <= 0 || len(few.Directions[0].Rows) == n, "%d sizes have %d rows", n, len(few.Directions[0].Rows))
	}
}

// TestOneTime: a size with one time, as other programs write it, shows no spread.
func TestOneTime(t *testing.T) {
	s := sweepOf(1, []units.Bytes{2}, gigabit)
	s.Runs[0].Ends[0].Points[0].Trials = []time.Duration{1500}
	b := reported(s).blocks()
	must.Equal(t, b[0].Text, "messages to nas, 1 size, 1 pass")
	must.Equal(t, b[1].Text, "latency one way of 2 B: 1.5 µs")
	must.Equal(t, b[2].Text, "greatest goodput: 10.67 Mbit/s with messages of 2 B")
	must.Equal(t, fmt.Sprint(b[4].Columns[1].Title, b[4].Rows), "time[[{2 B 0} {1.5 µs 0} {10.67 Mbit/s 0} { 3}]]")
}

func TestSweepShowsWhatIsOdd(t *testing.T) {
	sizes := plan.SweepSizes(1, 8<<20)
	d := reported(sweepOf(8, sizes, func(n units.Bytes) time.Duration {
		switch {
		case n >= 98301 && n <= 98307:
			return -1
		case n >= 12285 && n <= 12291:
			return 3 * gigabit(n)
		}
		return gigabit(n)
	})).Directions[0]
	for _, want := range []units.Bytes{12285, 12291, 98301, 98307} {
		must.True(t, slices.ContainsFunc(d.Rows, func(r Row) bool { return r.Size.Size == want && r.Mark != "" }), "%v has no marked row", want)
	}
	must.True(t, len(d.Findings) == 2 && strings.Contains(d.Findings[0].Text, "from 12285 B to 12291 B") &&
		strings.Contains(d.Findings[1].Text, "nothing came back from 98301 B to 98307 B"), "findings %+v", d.Findings)
}

func TestSweepWords(t *testing.T) {
	base := Feature{Reference: 65536, From: 98304, To: 8 << 20, Fall: 0.3, Low: 0.25, High: 0.35, Passes: 9}
	with := func(change func(*Feature)) Feature {
		f := base
		change(&f)
		return f
	}
	for _, c := range []struct {
		f    Feature
		want string
	}{
		{with(func(f *Feature) { f.Kind, f.State = Cliff, IsConfirmed }),
			"goodput falls at 96 KiB and stays low up to 8 MiB: 30 % less (25 % to 35 %) than with 64 KiB; confirmed by 9 fresh passes"},
		{with(func(f *Feature) {
			f.Kind, f.State, f.To, f.High, f.Passes = Notch, Candidate, f.From, model.Bound(nan()), 5
		}), "goodput is low at 96 KiB: 30 % less (at least 25 %) than with 64 KiB; larger messages recover; found among many sizes, not measured again"},
		{with(func(f *Feature) {
			f.Kind, f.State, f.From, f.To, f.Fall = Slow, NotConfirmed, 1, 64, 2
		}),
			"a message of 1 B to 64 B takes longer than one of 64 KiB: 200 % more (25 % to 35 %); not confirmed by 9 fresh passes"},
		{with(func(f *Feature) {
			f.Kind, f.State, f.Fall, f.Passes, f.Low = Notch, Open, 0.3, 1, model.Bound(nan())
		}), "goodput is low from 96 KiB to 8 MiB: 30 % less than with 64 KiB; larger messages recover; measured again, but not often enough to confirm it: 1 fresh pass"},
		{with(func(f *Feature) { f.Kind, f.State, f.Fall = Stall, Candidate, 1 }),
			"nothing came back from 96 KiB to 8 MiB, while 64 KiB still works: in 100 % of 9 passes"},
		{with(func(f *Feature) { f.Kind, f.State, f.Reference = Stall, NotConfirmed, 0 }),
			"nothing came back from 96 KiB to 8 MiB: it did not happen again in 9 fresh passes"},
	} {
		must.Equal(t, sentence(c.f, sizes.PingPong), c.want, "%s %s", c.f.Kind, c.f.State)
	}
}

func nan() float64 { v := 0.0; return v / v }

func TestSweepOfASessionWithNothing(t *testing.T) {
	for name, s := range map[string]model.Session{
		"empty": {}, "invalid runs": func() model.Session {
			s := sweepOf(5, []units.Bytes{1}, gigabit)
			for i := range s.Runs {
				s.Runs[i].State = model.RunInvalid
			}
			return s
		}(),
	} {
		d := reported(s)
		must.Equal(t, len(d.Directions), 0, "%s: %+v", name, d.Directions)
		b := must.Get(json.Marshal(d))(t)
		must.True(t, !strings.Contains(string(b), `"directions":null`), "%s: %s", name, b)
	}
	all := reported(sweepOf(5, []units.Bytes{1, 2}, func(units.Bytes) time.Duration { return -1 }))
	d := all.Directions[0]
	must.True(t, d.Smallest == nil && d.Largest == nil && len(d.Rows) == 2 && len(d.Findings) == 1, "everything stalls: %+v", d)
	must.OK(t, must.Err(json.Marshal(all)))
}

func TestSweepLogsNameTheirHost(t *testing.T) {
	s := sweepOf(5, []units.Bytes{1, 1024, 4096}, func(n units.Bytes) time.Duration {
		if n == 4096 {
			return 10 * gigabit(n)
		}
		return gigabit(n)
	})
	s.Runs[3].Ends[1].Points = []model.Point{{Size: 4096, Log: []string{"dc0: TX underrun -- increasing TX threshold"}}}
	d := reported(s).Directions[0]
	must.True(t, len(d.Findings) == 1 && slices.Equal(d.Findings[0].Log, []string{"nas: dc0: TX underrun -- increasing TX threshold"}), "%+v", d.Findings)
}

// TestWriteNetPIPE checks the format that docs/wire/netpipe.md shows.
func TestWriteNetPIPE(t *testing.T) {
	d := Document{Directions: []Direction{{Curve: Curve{Sizes: []Size{
		{Size: 1, Trials: 3, Min: 7070 * time.Nanosecond, Median: time.Second}, {Size: 2}, {Size: 29, Trials: 3, Min: time.Second / 65536},
	}}}}}
	var b bytes.Buffer
	must.Do(t, d.WriteNetPIPE(&b))
	want := "       1 1.079137   0.00000707\n      29 14.500235   0.00001526\n"
	must.True(t, regexp.MustCompile(`^ {7}1 1\.079\d{3}   0\.00000707\n {6}29 14\.500\d{3}   0\.00001526\n$`).MatchString(b.String()),
		"got %q, want about %q", b.String(), want)
	b.Reset()
	d.Mode = sizes.Both
	err := d.WriteNetPIPE(&b)
	must.True(t, err == nil && strings.HasPrefix(b.String(), "       2 2.158"), "both ways: %q, %v", b.String(), err)
	r, w := io.Pipe()
	failure := errors.New("disk full")
	must.Is(t, errors.Join(r.CloseWithError(failure), d.WriteNetPIPE(w)), failure)
}

func TestSizeText(t *testing.T) {
	for n, want := range map[units.Bytes]string{
		1: "1 B", 4093: "4093 B", 65536: "64 KiB", 98307: "98307 B", 1 << 20: "1 MiB", 1<<20 + 3: "1 MiB + 3 B",
		192<<10 - 3: "192 KiB - 3 B", 192<<10 - 4: "196604 B", 1_000_000: "1000000 B",
	} {
		must.Equal(t, SizeText(n), want, "%d", n)
	}
}

func TestRoundedBytes(t *testing.T) {
	for n, want := range map[units.Bytes]string{0: "0", 999: "999", 2503: "2500", 147459: "147000", 1234567: "1230000"} {
		must.Equal(t, fmt.Sprint(int64(roundedBytes(n))), want, "%d", n)
	}
}
