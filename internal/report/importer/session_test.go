package importer

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"linerate/internal/confined"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

func table(t *testing.T, text string, columnsOf ...string) Named {
	t.Helper()
	f := must.Get(Read("csv", []byte(text), columns(t, columnsOf...)))(t)
	return Named{Name: "t.csv", File: f}
}

// TestNoVerdictOfSummaries: five windows under three kernels, summarised in batches one after
// the other (a published case), cannot support a verdict, and the session states what would.
func TestNoVerdictOfSummaries(t *testing.T) {
	text := "test,window,avg,min,max\n1,65536,209.98,145.00,304.00\n1,131072,220.12,161.00,373.00\n2,65536,217.74,134.00,305.00\n2,131072,164.54,106.00,298.00\n"
	s, _, err := Session([]Named{table(t, text, "setting=test", "setting=window", "goodput=avg:Mbit/s", "min=min:Mbit/s", "max=max:Mbit/s")}, About{Now: time.Unix(0, 0)})
	must.Need(t, err == nil && len(s.Plan.Settings) == 4 && len(s.Verdicts) == 0 && s.Plan.Mode == "", "%+v, %v", s, err)
	// A quarter of the four ranges' logarithms has the median 0.2078, for two runs 0.2939, so
	// that 5 % takes (4 x 0.2939 / ln 1.05)^2 = 581 blocks.
	said := strings.Join(s.Warnings, "\n")
	for _, want := range []string{"no verdict: the files do not say that the tests were made in blocks", "all 4 settings once in each block", "about 581 blocks (8 h)", "a quarter of the range"} {
		must.Contain(t, said, want)
	}
}

// TestVerdictOfBlocks: the same numbers in blocks support a verdict, and too few blocks do not.
func TestVerdictOfBlocks(t *testing.T) {
	make := func(blocks int, gain float64, rate string) Named {
		rng := rand.New(rand.NewPCG(1, 2))
		var b strings.Builder
		b.WriteString("block,setting,rate\n")
		for n := 1; n <= blocks; n++ {
			for i, f := range []float64{1, gain} { // in a fixed order, so that the numbers are the same each time
				fmt.Fprintf(&b, "%d,%s,%.2f\n", n, []string{"old", "new"}[i], 900*f*math.Exp(0.01*rng.NormFloat64()))
			}
		}
		return table(t, b.String(), "block=block", "setting=setting", rate)
	}
	for _, c := range []struct {
		blocks int
		gain   float64
		rate   string
		want   model.Outcome
	}{
		{12, 1.2, "goodput=rate:Mbit/s", model.Better}, {12, 1, "goodput=rate:Mbit/s", model.Equivalent}, {4, 1.2, "goodput=rate:Mbit/s", model.Undecided},
		{12, 1.2, "request_rate=rate", model.Better}, {12, 1.2, "latency_p99=rate:us", model.Worse},
	} {
		s, _, err := Session([]Named{make(c.blocks, c.gain, c.rate)}, About{Now: time.Unix(0, 0), Baseline: "old"})
		must.True(t, err == nil && len(s.Verdicts) == 1 && s.Verdicts[0].Outcome == c.want,
			"%d blocks, gain %g: %+v, %v, %q", c.blocks, c.gain, s.Verdicts, err, s.Warnings)
	}
	holes := table(t, "block,setting,rate\n1,old,1\n1,new,1\n3,old,1\n3,new,1\n", "block=block", "setting=setting", "goodput=rate:Mbit/s")
	s, _, err := Session([]Named{holes}, About{})
	must.True(t, err == nil && len(s.Verdicts) == 0 && strings.Contains(s.Warnings[0], "block 2 is missing"), "%q, %v", s.Warnings, err)
}

// TestSessionOfFiles: each file becomes a setting, and files that do not belong together are
// refused.
func TestSessionOfFiles(t *testing.T) {
	one := func(name string) Named {
		return Named{Name: "/logs/" + name, File: must.Get(Read("", load(t, name), Options{}))(t)}
	}
	a, b := one("iperf3.json"), one("iperf3-p2.json")
	b.Setting = "two streams"
	s, samples, err := Session([]Named{a, b}, About{ID: "x", Now: time.Unix(0, 0)})
	must.True(t, err == nil && s.Plan.Baseline == "iperf3.json" && len(s.Plan.Settings) == 2 && len(samples[2]) != 0 && strings.Contains(s.Reason, "iperf3.json (iperf 3.12)"), "%+v, %v", s, err)
	_, _, err = Session([]Named{a, one("np.out")}, About{})
	must.True(t, err != nil && strings.Contains(err.Error(), "are not one session"), "streams and message sizes in one session: %v", err)
	_, _, err = Session([]Named{a, b}, About{Baseline: "nothing"})
	must.True(t, err != nil && strings.Contains(err.Error(), "two streams"), "%v", err)
}

// TestNotesOfFiles: a note names the files and tests that it applies to.
func TestNotesOfFiles(t *testing.T) {
	file := func(name string, notes ...string) Named {
		f := Named{Name: "/logs/" + name}
		for _, n := range notes {
			f.File.Tests = append(f.File.Tests, Test{Notes: strings.Fields(n)})
		}
		return f
	}
	a, b, c, d := file("a", "all half", "all line-1"), file("b", "all"), file("c", "all line-1 few"), file("d", "all few")
	for want, files := range map[string][]Named{
		"all, half (1 of 2 tests), line-1":                     {a},
		"all, a: half (1 of 2 tests), a, c: line-1, c, d: few": {a, b, c, d},
	} {
		must.Equal(t, strings.Join(notes(files), ", "), want)
	}
	must.Equal(t, notes([]Named{file("a", "x"), file("b", "x"), file("c", "x"), file("d", "x"), file("e", "y")})[0], "a and 3 files more: x")
}

// TestByKind: files with tests of several kinds make a session for each, in their order.
func TestByKind(t *testing.T) {
	f := Named{Name: "n", File: must.Get(Read("", load(t, "netperf.txt"), Options{}))(t)}
	got := ByKind([]Named{f, {Name: "q", File: must.Get(Read("", []byte(others["qperf, latency"]), Options{}))(t)}, f})
	var said []string
	for _, kind := range got {
		for _, f := range kind {
			said = append(said, fmt.Sprintf("%s %s %d", f.Name, f.File.Tests[0].Flow.Engine, len(f.File.Tests)))
		}
	}
	must.Equal(t, strings.Join(said, ", "), "n tcpbulk 1, n tcpbulk 1, n reqresp 1, n reqresp 1, q reqresp 1, q reqresp 1")
}

// TestTooMany: the import refuses a table with too many tests or settings for one session, with
// their number.
func TestTooMany(t *testing.T) {
	settings, tests := "setting,rate\n", "setting,rate\n"
	for n := range MaxSettings + 1 {
		settings += fmt.Sprintf("s%d,1\n", n)
	}
	tests += strings.Repeat("s,1\n", MaxTests+1)
	for text, says := range map[string]string{settings: "more than 1000 settings", tests: "hold 10001 tests"} {
		_, _, err := Session([]Named{table(t, text, "setting=setting", "goodput=rate:Mbit/s")}, About{})
		must.True(t, err != nil && strings.Contains(err.Error(), says), "%v, want %q", err, says)
	}
}

// published reads a published case, with the given columns and lines.
func published(t *testing.T, name, where string, columnsOf ...string) (File, error) {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/cases/" + name + ".csv"))(t)
	o := columns(t, columnsOf...)
	if where != "" {
		o.Where = []Where{must.Get(ParseWhere(where))(t)}
	}
	return Read("csv", text, o)
}

// TestGigabitSteps: the import reads rates in the unit of their line, and takes no bytes,
// milliseconds or words as rates.
func TestGigabitSteps(t *testing.T) {
	rates := []string{"setting=setup", "setting=step", "goodput=value:{unit}"}
	must.Say(t, must.Err(published(t, "gigabit-steps", "", rates...)), `line 5: 262144 bytes as goodput: unit "bytes" is none of`, "bytes as a rate")
	mbit, err := published(t, "gigabit-steps", "unit=Mbit/s", rates...)
	must.Need(t, err == nil && len(mbit.Tests) == 3, "%+v, %v", mbit, err)
	tuned := value(mbit.Tests[1], model.To, model.Goodput)
	must.True(t, tuned == 626e6 && value(mbit.Tests[0], model.To, model.Goodput) == 134e6, "%+v", mbit.Tests)
	// The article prints 626 Mbit/s as 74.6 MB/s: that is MiB/s, of 1048576 bytes.
	for unit, want := range map[string]float64{"MiB/s": 74.6, "MB/s": 78.3} {
		got := math.Round(tuned/rateUnits[unit]*10) / 10 // it is 78.25
		must.True(t, !(math.Abs(got-want) > 0.051), "626 Mbit/s are %g %s, want %g", got, unit, want)
	}
	bytes, err := published(t, "gigabit-steps", "unit=MB/s", rates...)
	must.True(t, err == nil && len(bytes.Tests) == 9 && value(bytes.Tests[1], model.To, model.Goodput) == 1e9 && value(bytes.Tests[8], model.To, model.Goodput) == 504e6, "%+v, %v", bytes.Tests, err)
	wait, err := published(t, "gigabit-steps", "unit=ms", "setting=setup", "rtt=value:{unit}")
	must.True(t, err == nil && len(wait.Tests) == 1 && value(wait.Tests[0], model.To, model.RTT) == 1e-4, "%+v, %v", wait.Tests, err)
	for where, says := range map[string]string{"unit=kB": `unit "kB" is none of`, "unit=furlong": "no line has what is asked for: unit=furlong", "volume=1": `no column is called "volume"`} {
		f, err := published(t, "gigabit-steps", where, rates...)
		must.True(t, err != nil && strings.Contains(err.Error(), says), "%s: %+v, %v, want %q", where, f.Tests, err, says)
	}
}

// TestMatrixOfWords: an article's words on its curves are not measurements, so the import
// refuses its table of cards at the first line.
func TestMatrixOfWords(t *testing.T) {
	f, err := published(t, "nic-matrix", "", "setting=computer", "setting=card", "goodput=what_the_text_says:Mbit/s")
	must.True(t, err != nil && strings.Contains(err.Error(), `line 2: "even speed at every message size" is no number`) && len(f.Tests) == 0,
		"%+v, %v", f.Tests, err)
}

// TestUnitsFitTheirRole: a rate cannot be in milliseconds, nor a time in Mbit/s.
func TestUnitsFitTheirRole(t *testing.T) {
	for _, bad := range []string{"goodput=a:ms", "rtt=a:Mbit/s", "loss_ratio=a:ms", "retransmits=a:s"} {
		must.Fail(t, must.Err(ParseColumn(bad)), "%s", bad)
	}
	must.Fail(t, must.Err(ParseWhere("medium")), "a column without a text is taken")
}

// hostile returns files, by name, that take far more memory than their length, of the given
// size or as large as allowed.
func hostile(size int, allowed bool) map[string]func() string {
	fill := func(head, one, tail string) func() string {
		return func() string {
			n := (size - len(head) - len(tail)) / len(one)
			for part, most := range map[string]int{"{": maxObjects - 100, "\n": maxLines - 10, ",": maxFields - 100, "[": maxFields - 100} {
				if each := strings.Count(one, part); allowed && each > 0 {
					n = min(n, most/each)
				}
			}
			return head + strings.Repeat(one, n) + tail
		}
	}
	const start = `{"start":{"connected":[],"version":"iperf 3.12","timestamp":{"timesecs":1},"test_start":{"protocol":"TCP","num_streams":1}},`
	return map[string]func() string{
		"spaces":        fill("", " ", ""),
		"flent":         fill(`{"version":4,"metadata":{},"results":{"TCP upload":[1]},"x_values":[1`, ",1", "]}"),
		"flent raw":     fill(`{"x_values":[1],"results":{"TCP upload":[1]},"raw_values":{"TCP upload":[{}`, ",{}", "]}}"),
		"intervals":     fill(start+`"end":{},"intervals":[{}`, ",{}", "]}"),
		"streams":       fill(start+`"end":{},"intervals":[{"streams":[{}`, ",{}", "]}]}"),
		"events":        fill(`{"event":"start","data":{}}`+"\n", `{"event":"interval","data":{}}`+"\n", ""),
		"nested":        fill(`{"x_values":1,"results":`, "[", ""),
		"short lines":   fill("a,b\n", "1,1\n", ""),
		"one line":      fill("a,b\n", ",", ""),
		"iperf 2":       fill("Client connecting to 10.0.0.2, TCP port 5001\n[ ID] Interval       Transfer     Bandwidth\n", "[  3]  0.0- 1.0 sec  1.00 MBytes  8.39 Mbits/sec\n", ""),
		"iperf 2, CSV":  fill("", "20261121120000,10.0.0.1,5001,10.0.0.2,5001,3,0.0-1.0,1000,8000\n", ""),
		"iperf 3":       fill("Connecting to host 10.0.0.2, port 5201\n[ ID] Interval           Transfer     Bitrate\n", "[  5]   0.00-1.00 sec  1.00 MBytes  8.39 Mbits/sec    0    100 KBytes\n", ""),
		"np.out":        fill("", "1 1.0 0.1\n", ""),
		"key and value": fill("MIGRATED TCP STREAM TEST from 1.1.1.1 to 1.1.1.2\n", "THROUGHPUT=1\n", ""),
	}
}

// readHostile reads each file, as large as allowed or packed, in a process with little memory.
func readHostile(t *testing.T, size int, packed bool) {
	confined.Run(t, 480<<20, 120, func(t *testing.T) {
		for name, text := range hostile(size, !packed) {
			file := []byte(text())
			if packed {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				must.Get(z.Write(file))(t)
				must.Do(t, z.Close())
				file = b.Bytes()
			}
			o := Options{}
			if strings.HasSuffix(name, "line") || strings.HasSuffix(name, "lines") {
				o.Columns = []Column{must.Get(ParseColumn("goodput=b:Mbit/s"))(t)}
			}
			_, err := Read("", file, o)
			if packed {
				must.Fail(t, err, "%s of %d bytes", name, len(file))
			}
			t.Logf("%s of %d bytes: %v", name, len(file), err)
		}
	})
}

// TestHostilePacked: the import refuses a packed file of some kilobytes that unpacks to 40 MB.
func TestHostilePacked(t *testing.T) { readHostile(t, 40<<20, true) }
