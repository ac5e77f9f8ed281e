package importer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func table(t *testing.T, text string, columnsOf ...string) Named {
	t.Helper()
	f := must.Get(Read("csv", []byte(text), columns(t, columnsOf...)))(t)
	return Named{Name: "t.csv", File: f}
}

// TestNoVerdictOfSummaries: five windows under three kernels, summarised in batches one
// after the other (a published case), cannot carry a verdict, and what can is said.
func TestNoVerdictOfSummaries(t *testing.T) {
	text := "test,window,avg,min,max\n1,65536,209.98,145.00,304.00\n1,131072,220.12,161.00,373.00\n2,65536,217.74,134.00,305.00\n2,131072,164.54,106.00,298.00\n"
	s, _, err := Session([]Named{table(t, text, "setting=test", "setting=window", "goodput=avg:Mbit/s", "min=min:Mbit/s", "max=max:Mbit/s")}, About{Now: time.Unix(0, 0)})
	must.Need(t, err == nil && len(s.Plan.Settings) == 4 && len(s.Verdicts) == 0 && s.Plan.Mode == "", "%+v, %v", s, err)
	// The median of a quarter of the four ranges' logarithms is 0.2078, for two runs
	// 0.2939, so that 5 % takes (4 x 0.2939 / ln 1.05)^2 = 581 blocks.
	said := strings.Join(s.Warnings, "\n")
	for _, want := range []string{"no verdict: the files do not say that the tests were made in blocks", "all 4 settings once in each block", "about 581 blocks (8 h)", "a quarter of the range"} {
		must.Contain(t, said, want)
	}
}

// TestVerdictOfBlocks: the same numbers in blocks carry one, and too few do not.
func TestVerdictOfBlocks(t *testing.T) {
	make := func(blocks int, gain float64, rate string) Named {
		rng := rand.New(rand.NewPCG(1, 2))
		var b strings.Builder
		b.WriteString("block,setting,rate\n")
		for n := 1; n <= blocks; n++ {
			for i, f := range []float64{1, gain} { // in one order, so that the numbers are the same each time
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

// TestSessionOfFiles: each file is a setting, and what does not belong together is
// refused.
func TestSessionOfFiles(t *testing.T) {
	one := func(name string) Named {
		f := must.Get(Read("", load(t, name), Options{}))(t)
		return Named{Name: "/logs/" + name, File: f}
	}
	a, b := one("iperf3.json"), one("iperf3-p2.json")
	b.Setting = "two streams"
	s, samples, err := Session([]Named{a, b}, About{ID: "x", Now: time.Unix(0, 0)})
	must.True(t, err == nil && s.Plan.Baseline == "iperf3.json" && len(s.Plan.Settings) == 2 && len(samples[2]) != 0 && strings.Contains(s.Reason, "iperf3.json (iperf 3.12)"), "%+v, %v", s, err)
	if _, _, err := Session([]Named{a, one("np.out")}, About{}); err == nil || !strings.Contains(err.Error(), "are not one session") {
		t.Errorf("streams and message sizes in one session: %v", err)
	}
	if _, _, err := Session([]Named{a, b}, About{Baseline: "nothing"}); err == nil || !strings.Contains(err.Error(), "two streams") {
		t.Errorf("%v", err)
	}
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

// TestTooMany: a table that makes more tests or settings than one session may have is
// refused with the number.
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
