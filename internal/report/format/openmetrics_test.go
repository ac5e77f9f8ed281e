package format_test

import (
	"bytes"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/reporttest"
)

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
		must.Do(t, format.OpenMetricsFleet(&b, &fleet.Status{Hosts: []fleet.HostStatus{{Name: evil}, {Name: "b"}}, Hour: fleet.Tally{fleet.Done: 1}}, evil))
		strict(t, evil, b.String())
		must.Len(t, read(t, evil, text)["linerate_evil"].GetMetric(), 0, "%q is a metric", evil)
		must.True(t, !strings.ContainsRune(text, '\x1b'), "%q is in the page", evil)
	}
}
