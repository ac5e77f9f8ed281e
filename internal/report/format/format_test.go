package format_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"
	"golang.org/x/perf/benchfmt"

	"linerate/internal/core/fleet"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/sweep"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/reporttest"
)

func table(t *testing.T, c reporttest.Case) (text []byte, rows [][]string) {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, format.CSV(&b, c.Session, report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()}), c.Samples))
	rows = must.Get(stdcsv.NewReader(bytes.NewReader(b.Bytes())).ReadAll())(t)
	return b.Bytes(), rows
}

func TestTableIsAsStored(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "test" && c.Name != "interrupted" {
			continue
		}
		got, _ := table(t, c)
		must.Golden(t, filepath.Join("testdata", c.Name+".csv"), string(got))
	}
}

// TestEveryNumberIsThere: each number of each run and each sample has a row that reads back as
// the same number.
func TestEveryNumberIsThere(t *testing.T) {
	for _, c := range reporttest.Cases() {
		_, rows := table(t, c)
		var want []float64
		for _, r := range c.Session.Runs {
			for _, v := range r.Values {
				want = append(want, v.Value)
			}
			for _, x := range c.Samples[r.Number] {
				want = append(want, x.Value)
			}
		}
		must.Need(t, len(rows) == len(want)+1, "%s: %d rows of %d numbers", c.Name, len(rows)-1, len(want))
		for i, row := range rows[1:] {
			must.Equal(t, must.Get(strconv.ParseFloat(row[len(row)-1], 64))(t), want[i], "%s, row %d: %v is", c.Name, i, row)
		}
	}
}

// TestNoCellIsAFormula: the name of a setting cannot become a formula, a cell or a row.
func TestNoCellIsAFormula(t *testing.T) {
	for _, evil := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "a,b", "a\"b", "a\nb", "\t=1", "\x1b[2J"} {
		c := reporttest.Cases()[1]
		for i := range c.Session.Runs {
			c.Session.Runs[i].Setting = evil
		}
		c.Samples[1][0].Of, c.Samples[1][0].Metric = evil, model.Metric(evil)
		text, rows := table(t, c)
		must.True(t, !bytes.ContainsRune(text, '\x1b'), "%q is in the file", evil)
		for _, row := range rows[1:] {
			must.Need(t, len(row) == len(format.CSVColumns()), "%q: a row of %d cells", evil, len(row))
			for i, cell := range row[:len(row)-1] {
				must.True(t, cell == "" || !strings.ContainsAny(cell[:1], "=+-@\t"), "%q: %s is %q", evil, format.CSVColumns()[i], cell)
			}
		}
	}
}

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

// TestSizesAndCPU: benchstat and OpenMetrics have each size of a sweep, and benchstat the CPU of
// a direction with its unit.
func TestSizesAndCPU(t *testing.T) {
	c := reporttest.Cases()[slices.IndexFunc(reporttest.Cases(), func(c reporttest.Case) bool { return c.Name == "sweep" })]
	points := 0
	for i := range c.Session.Runs {
		r := &c.Session.Runs[i]
		r.Values = append(r.Values, model.Value{Direction: model.To, Metric: "cpu_near", Value: 0.5})
		points += len(slices.DeleteFunc(slices.Clone(r.Ends[0].Points), func(p model.Point) bool { return len(p.Trials) == 0 }))
	}
	got, cpu := 0, 0
	for _, r := range parsed(t, c.Name, benchLines(t, c)) {
		if _, ok := r.Value("message-sec"); ok {
			got++
			must.Contain(t, string(r.Name), "/direction=to/size=")
		}
		if v, ok := r.Value("cpu_near-s/s"); ok && v == 0.5 {
			cpu++
			must.Contain(t, string(r.Name), "/direction=to")
		}
	}
	must.True(t, got == points && got > 0 && cpu == len(c.Session.Runs), "%d of %d points, %d of %d CPU", got, points, cpu, len(c.Session.Runs))
	text, d := page(t, c)
	curve := d.Section.Data.(*sweep.Document).Directions[0].Curve
	timed := slices.DeleteFunc(slices.Clone(curve.Sizes), func(s sweep.Size) bool { return s.Trials == 0 })
	must.Equal(t, len(read(t, c.Name, text)["linerate_message_seconds"].GetMetric()), len(timed), "sizes in OpenMetrics")
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

func text(t *testing.T, c reporttest.Case) (string, report.Document) {
	t.Helper()
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	var b bytes.Buffer
	must.Do(t, format.Markdown(&b, format.MarkdownInput{Session: c.Session, Document: d}))
	return b.String(), d
}

// TestUndated: the heading of files without a time does not show that of their import as that of
// the measurement.
func TestUndated(t *testing.T) {
	c := reporttest.Cases()[0]
	c.Session.Kind, c.Session.Runs = model.KindImported, []model.Run{{Number: 1}}
	got, _ := text(t, c)
	heading, _, _ := strings.Cut(got, "\n")
	must.True(t, strings.HasSuffix(heading, ", imported "+c.Session.Ended.UTC().Format("2006-01-02 15:04 UTC")+", measured at an unknown time"), "%s", heading)
}

// TestTexts compares with the stored files, and demands all content of the report.
func TestTexts(t *testing.T) {
	for _, c := range reporttest.Cases() {
		got, d := text(t, c)
		must.Golden(t, filepath.Join("testdata", c.Name+".md"), got)
		plain := regexp.MustCompile(`\\([!-~])`).ReplaceAllString(got, "$1")
		all := lists.Each(d.Findings, func(f report.Finding) string { return f.Text })
		for _, l := range d.Lines {
			all = append(all, l.Goodput.String())
		}
		for _, table := range d.Tables {
			for _, r := range table.Rows {
				all = append(all, r.ChangeText, r.RangeText, r.Words)
			}
		}
		for _, n := range d.Next {
			all = append(all, n.Command)
		}
		for _, want := range append(all, append(d.Warnings, d.Untrustworthy, d.ID)...) {
			must.Contain(t, plain, want, "%s", c.Name)
		}
	}
}

// TestTablesAreWhole: all rows of a table have as many cells as its heading.
func TestTablesAreWhole(t *testing.T) {
	cells := regexp.MustCompile(`(^|[^\\])\|`)
	for _, c := range reporttest.Cases() {
		got, _ := text(t, c)
		columns := 0
		for line := range strings.Lines(got) {
			if !strings.HasPrefix(line, "|") {
				columns = 0
				continue
			}
			n := len(cells.FindAllString(line, -1))
			if strings.HasPrefix(line, "|---") {
				n = strings.Count(line, "|")
			}
			must.True(t, columns <= 0 || n == columns, "%s: %d cells where the heading has %d: %s", c.Name, n, columns, line)
			columns = n
		}
	}
}

// TestNamesAreText: names of hosts and settings cannot become markup, a mention of a person, or
// a separate line.
func TestNamesAreText(t *testing.T) {
	for evil, never := range map[string]string{
		"<script>x</script>": " <script", "**b**": "**b**", "[x](http://x)": "[x](", "a|b": " a|b", "`x`": " `x`", "@everyone": "@everyone",
		"#12": "#12", "- x": "\n- x", "1. x": "\n1. x", "x\n# y": "\n# y", "\x1b[2J": "\x1b", "_x_": " _x_", "~~x~~": "~~x~~", "![x](y)": "![x]", "&lt;": " &lt;", "$x$": " $x$",
	} {
		c := reporttest.Cases()[1]
		for i := range c.Session.Hosts {
			c.Session.Hosts[i].Name = evil
		}
		for i := range c.Session.Verdicts {
			c.Session.Verdicts[i].Setting = evil
		}
		c.Session.Warnings = []string{evil}
		c.Session.Command = nil
		c.Session.Far = "nas"
		got, _ := text(t, c)
		must.True(t, !strings.Contains(got, never), "%q is in the text as %q", evil, never)
	}
}

func page(t *testing.T, c reporttest.Case) (string, report.Document) {
	t.Helper()
	var b bytes.Buffer
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	must.Do(t, format.OpenMetrics(&b, c.Session, d))
	return b.String(), d
}

// read parses like node_exporter's textfile collector.
func read(t *testing.T, name, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(prommodel.LegacyValidation)
	all, err := p.TextToMetricFamilies(strings.NewReader(text))
	must.Need(t, err == nil, "%s: %v\n%s", name, err, text)
	return all
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// TestPrometheusReadsThem: the page has the report's goodputs in bytes a second, all names end
// in their unit, there are no timestamps, and the page has the required end.
func TestPrometheusReadsThem(t *testing.T) {
	for _, c := range reporttest.Cases() {
		text, d := page(t, c)
		if c.Name == "test" || c.Name == "guarded" {
			must.Golden(t, filepath.Join("testdata", c.Name+".prom"), text)
		}
		strict(t, c.Name, text)
		all := read(t, c.Name, text)
		for name, f := range all {
			for _, m := range f.GetMetric() {
				if want := kindOf(name); m.TimestampMs != nil || f.GetType() != want {
					t.Errorf("%s: %s is a %v with timestamp %v", c.Name, name, f.GetType(), m.TimestampMs)
				}
			}
		}
		for _, l := range d.Lines {
			found := false
			for _, m := range all["linerate_goodput_bytes_per_second"].GetMetric() {
				if label(m, "direction") == string(l.Direction) && label(m, "setting") == l.Setting {
					found = math.Abs(m.GetGauge().GetValue()*8-float64(l.Goodput)) < 1
				}
			}
			must.True(t, found, "%s: %s of %s is missing", c.Name, l.Goodput, l.Label)
		}
	}
}

// kindOf returns the type of a family: times by quantile are a summary.
func kindOf(name string) dto.MetricType {
	if name == "linerate_latency_seconds" {
		return dto.MetricType_SUMMARY
	}
	return dto.MetricType_GAUGE
}

// TestTextfilesOfOnePair: two sessions between the same hosts share no series, which a textfile
// collector would refuse.
func TestTextfilesOfOnePair(t *testing.T) {
	series := map[string]bool{}
	for _, id := range []string{"20261122T080000-aaaa", "20261122T090000-bbbb"} {
		c := reporttest.Cases()[0]
		c.Session.ID = id
		text, _ := page(t, c)
		for l := range strings.Lines(text) {
			if name, _, ok := strings.Cut(l, "} "); ok && !strings.HasPrefix(l, "#") {
				must.True(t, !series[name], "%s} is in both", name)
				series[name] = true
			}
		}
	}
	must.True(t, len(series) >= 10, "%d series", len(series))
}

// TestPromtoolAccepts checks the page of every kind of session with promtool.
func TestPromtoolAccepts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	must.SkipIf(t, err != nil, "promtool is not installed (Debian: prometheus)")
	for _, c := range reporttest.Cases() {
		text, _ := page(t, c)
		p := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		p.Stdin = strings.NewReader(text)
		out, err := p.CombinedOutput()
		must.True(t, err == nil && len(out) == 0, "%s: promtool check metrics: %v\n%s", c.Name, err, out)
	}
}

// strict checks the rules of OpenMetrics 1.0 beyond that parser: one block for each family, a
// unit at the end of its name, and # EOF at the end.
func strict(t *testing.T, name, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	must.True(t, lines[len(lines)-1] == "# EOF" && strings.HasSuffix(text, "\n"), "%s: no # EOF", name)
	var seen []string
	family := ""
	series := map[string]bool{}
	for _, l := range lines[:len(lines)-1] {
		if rest, ok := strings.CutPrefix(l, "# TYPE "); ok {
			family, _, _ = strings.Cut(rest, " ")
			must.True(t, !slices.Contains(seen, family), "%s: %s comes twice", name, family)
			seen = append(seen, family)
			continue
		}
		if rest, ok := strings.CutPrefix(l, "# UNIT "); ok {
			of, unit, _ := strings.Cut(rest, " ")
			must.True(t, of == family && strings.HasSuffix(family, "_"+unit), "%s: %q in %s", name, l, family)
			continue
		}
		if strings.HasPrefix(l, "# HELP "+family+" ") {
			continue
		}
		of, _, _ := strings.Cut(l, " ")
		must.True(t, strings.HasPrefix(strings.Replace(l, " ", "{", 1), family+"{") && !series[of], "%s: %q in %s, or twice", name, l, family)
		series[l[:strings.LastIndexByte(l, ' ')]] = true
	}
}

// TestLabelsAreText: names cannot become labels, lines or numbers.
func TestLabelsAreText(t *testing.T) {
	for _, evil := range []string{`a"b`, `a\`, "a\nlinerate_evil 1", `",x="`, "}", "\x1b[2J", "é"} {
		c := reporttest.Cases()[1]
		clean := c.Session.Verdicts[0].Setting
		for i := range c.Session.Verdicts {
			if c.Session.Verdicts[i].Setting == clean {
				c.Session.Verdicts[i].Setting = evil
			}
		}
		c.Session.Hosts[1].Name = evil
		text, _ := page(t, c)
		strict(t, evil, text)
		var b bytes.Buffer
		must.Do(t, format.OpenMetricsFleet(&b, &fleet.Status{Hosts: []fleet.HostStatus{{Name: evil}, {Name: "b"}}, Present: fleet.Present{Goodput: fleet.NewMatrix(2), RoundTrip: fleet.NewMatrix(2), Loss: fleet.NewMatrix(2)}, Hour: fleet.Tally{fleet.Done: 1}}, evil))
		strict(t, evil, b.String())
		must.Len(t, read(t, evil, text)["linerate_evil"].GetMetric(), 0, "%q is a metric", evil)
		must.True(t, !strings.ContainsRune(text, '\x1b'), "%q is in the page", evil)
	}
}
