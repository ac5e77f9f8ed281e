package format_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/reporttest"
)

func benchLines(t *testing.T, c reporttest.Case) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, format.GoBench(&b, c.Session, report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})))
	return b.Bytes()
}

// parsed parses lines as benchstat does.
func parsed(t *testing.T, name string, text []byte) []*benchfmt.Result {
	t.Helper()
	r := benchfmt.NewReader(bytes.NewReader(text), name)
	var out []*benchfmt.Result
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			out = append(out, rec.Clone())
		case *benchfmt.SyntaxError:
			t.Errorf("%s: %v", name, rec)
		}
	}
	must.Do(t, r.Err())
	return out
}

// TestBenchstatReadsThem: benchstat's parser finds a benchmark for each valid run and
// direction, with the run's goodput.
func TestBenchstatReadsThem(t *testing.T) {
	for _, c := range reporttest.Cases() {
		text := benchLines(t, c)
		if c.Name == "sequential" {
			must.Golden(t, filepath.Join("testdata", c.Name+".bench"), string(text))
		}
		var want []float64
		for _, baseline := range []bool{true, false} {
			for _, r := range report.Counted(c.Session.Runs) {
				for _, v := range r.Values {
					if v.Metric == model.Goodput && (r.Setting == c.Session.Plan.Baseline) == baseline {
						want = append(want, v.Value)
					}
				}
			}
		}
		var got []float64
		for _, r := range parsed(t, c.Name, text) {
			for _, v := range r.Values {
				if v.Unit == "bit/s" {
					got = append(got, v.Value)
				}
			}
			must.True(t, r.GetConfig("near") == "desk" || c.Session.Mesh != nil, "%s: the near end: %q", c.Name, r.GetConfig("near"))
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d goodputs, not %d", c.Name, len(got), len(want))
			continue
		}
		for i := range want {
			must.Equal(t, got[i], want[i], "%s: goodput %d", c.Name, i)
		}
	}
}

// TestBaselineComesFirst: benchstat compares with the first setting it reads, so the baseline
// comes first, even if another setting was measured before it.
func TestBaselineComesFirst(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "sequential" {
			continue
		}
		slices.Reverse(c.Session.Runs)
		path := filepath.Join(t.TempDir(), "runs.txt")
		must.Do(t, os.WriteFile(path, benchLines(t, c), 0o600))
		out := must.Get(exec.CommandContext(t.Context(), "go", "run", "golang.org/x/perf/cmd/benchstat", "-col", "/setting", "-format", "csv", path).Output())(t)
		for l := range strings.Lines(string(out)) {
			if columns := strings.Split(l, ","); len(columns) > 3 && columns[0] == "" && !strings.Contains(l, "CI") {
				must.Equal(t, columns[1], c.Session.Plan.Baseline, "the first column of benchstat")
				return
			}
		}
		t.Errorf("benchstat has no columns:\n%s", out)
	}
}

// TestNamesAreOneWord: the name of a setting cannot become another line, another part of a name
// or a number of processors.
func TestNamesAreOneWord(t *testing.T) {
	for _, evil := range []string{"a b", "a/b", "a=b", "x\nBenchmarkEvil 1 1 bit/s", "tune-8", "\x1b[2J", "Unit x better=lower"} {
		c := reporttest.Cases()[1]
		for i := range c.Session.Runs {
			c.Session.Runs[i].Setting = evil
		}
		got := parsed(t, evil, benchLines(t, c))
		must.True(t, len(got) == len(c.Session.Runs), "%q: %d results of %d runs", evil, len(got), len(c.Session.Runs))
		for _, r := range got {
			_, parts := r.Name.Parts()
			must.Need(t, len(parts) == 3 && strings.HasPrefix(string(parts[1]), "/setting=") && string(parts[2]) == "/direction=to", "%q: the name is %q", evil, r.Name)
		}
	}
}
