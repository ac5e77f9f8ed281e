package format_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/reporttest"
)

// content is a file in Flent's structure.
type content struct {
	Version  int            `json:"version"`
	Metadata map[string]any `json:"metadata"`
	X        []float64      `json:"x_values"`
	Results  map[string][]*float64
	Raw      map[string][]struct {
		T, Val float64
		RTT    float64 `json:"tcp_rtt"`
	} `json:"raw_values"`
}

func renderFlent(c reporttest.Case) ([]byte, error) {
	var b bytes.Buffer
	err := format.Flent(&b, c.Session, report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()}), c.Samples)
	return b.Bytes(), err
}

// TestFilesHoldTheSamples: the file has every goodput of the shown runs, all series are as long
// as the time axis, and the file names the matching Flent test.
func TestFilesHoldTheSamples(t *testing.T) {
	tests := map[string]string{"test": "tcp_bidirectional", "sequential": "tcp_upload", "datagrams": "udp_flood"}
	for _, c := range reporttest.Cases() {
		if c.Name == "datagrams" {
			for n := range c.Samples {
				c.Samples[n] = append(c.Samples[n], model.Sample{Host: model.Far, Direction: model.To, Metric: model.Datagrams, Length: time.Second, Value: 1})
			}
		}
		text, err := renderFlent(c)
		if errors.Is(err, format.ErrNoFlent) {
			continue
		}
		must.Do(t, err)
		var f content
		must.Do(t, json.Unmarshal(text, &f))
		want := tests[c.Name]
		must.True(t, want == "" || f.Metadata["NAME"] == want, "%s is the test %v", c.Name, f.Metadata["NAME"])
		for name, values := range f.Results {
			must.True(t, len(values) == len(f.X) && len(f.Raw[name]) != 0,
				"%s: %d values of %s at %d times, %d raw", c.Name, len(values), name, len(f.X), len(f.Raw[name]))
			sum, n, raw := 0.0, 0.0, 0.0
			for _, v := range values {
				if v != nil {
					sum, n = sum+*v, n+1
				}
			}
			for _, v := range f.Raw[name] {
				raw += v.Val
			}
			mean, want := sum/n, raw/float64(len(f.Raw[name]))
			must.True(t, !(math.Abs(mean-want) > 0.001*want), "%s: %s is %.3f Mbit/s in the mean, the samples %.3f", c.Name, name, mean, want)
		}
		if c.Name == "test" {
			must.Golden(t, filepath.Join("testdata", "test.flent"), string(text))
		}
	}
}

// TestCheckHasEachDirection: the file of a check has its first test to and from, and not the
// datagrams of its last test.
func TestCheckHasEachDirection(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "check" {
			continue
		}
		for i := range c.Session.Runs {
			r := &c.Session.Runs[i]
			r.Block = r.Number
			c.Samples[r.Number] = []model.Sample{{Host: r.Flow.Direction.Receiver(), Direction: r.Flow.Direction, Metric: model.Goodput, Length: time.Second, Value: float64(r.Number) * 1e6}}
		}
		var f content
		must.Do(t, json.Unmarshal(must.Get(renderFlent(c))(t), &f))
		must.True(t, len(f.Raw) == 2 && len(f.Raw["TCP upload"]) == 1 && f.Raw["TCP upload"][0].Val == 1 && len(f.Raw["TCP download"]) == 1 && f.Raw["TCP download"][0].Val == 2, "%+v", f.Raw)
		return
	}
	t.Error("no check among the cases")
}

// TestRoundTrips: each goodput has the last round trip that its sender saw in the same step.
func TestRoundTrips(t *testing.T) {
	c := reporttest.Cases()[0]
	c.Session.Runs = c.Session.Runs[:1]
	sample := func(h model.Host, d model.Direction, m model.Metric, from, to, value float64) model.Sample {
		return model.Sample{Host: h, Direction: d, Metric: m, Start: time.Duration(from * 1e9), Length: time.Duration((to - from) * 1e9), Value: value}
	}
	c.Samples = model.Held{c.Session.Runs[0].Number: {
		sample(model.Near, model.To, model.RTT, 0.8, 1, 0.02), sample(model.Near, model.To, model.RTT, 0.4, 0.6, 0.01), sample(model.Near, model.To, model.RTT, 1.2, 1.4, 0.03),
		sample(model.Far, model.From, model.RTT, 0.8, 1, 9), sample(model.Far, model.To, model.RTT, 0.8, 1, 9),
		sample(model.Far, model.To, model.Goodput, 1, 2, 2e6), sample(model.Far, model.To, model.Goodput, 0, 1, 1e6), sample(model.Far, model.To, model.Goodput, 2, 3, 3e6),
	}}
	var f content
	must.Do(t, json.Unmarshal(must.Get(renderFlent(c))(t), &f))
	for i, want := range []float64{20, 30, 0} {
		got := f.Raw["TCP upload"][i]
		must.True(t, got.RTT == want && got.Val == float64(i+1), "%d: %+v", i, got)
	}
}

// TestNothingIsSaid: a session without goodput over time gives an error and no file.
func TestNothingIsSaid(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name == "silent" || c.Name == "sweep" {
			text, err := renderFlent(c)
			must.True(t, errors.Is(err, format.ErrNoFlent) && len(text) == 0, "%s: %v, %d bytes", c.Name, err, len(text))
		}
	}
}

// TestPackedIsTheSame: the packed file is the plain one through gzip.
func TestPackedIsTheSame(t *testing.T) {
	c := reporttest.Cases()[0]
	want := must.Get(renderFlent(c))(t)
	var b bytes.Buffer
	must.Do(t, format.FlentPacked(&b, c.Session, report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()}), c.Samples))
	got, err := io.ReadAll(must.Get(gzip.NewReader(&b))(t))
	must.True(t, err == nil && bytes.Equal(got, want), "%d bytes of %d (%v)", len(got), len(want), err)
}

// TestFlentReadsThem makes Flent itself summarise a file.
func TestFlentReadsThem(t *testing.T) {
	program, err := exec.LookPath("flent")
	must.SkipIf(t, err != nil, "flent is not installed (Debian: flent; PyPI: flent)")
	text := must.Get(renderFlent(reporttest.Cases()[0]))(t)
	path := filepath.Join(t.TempDir(), "test.flent")
	must.Do(t, os.WriteFile(path, text, 0o600))
	for _, format := range []string{"summary", "csv"} {
		out, err := exec.CommandContext(t.Context(), program, "-f", format, "-i", path).CombinedOutput()
		must.Need(t, err == nil, "flent -f %s: %v\n%s", format, err, out)
		must.True(t, bytes.Contains(out, []byte("TCP upload")) && bytes.Contains(out, []byte("TCP download")) && (format != "summary" || bytes.Contains(out, []byte("Mbits/s"))), "flent -f %s says\n%s", format, out)
	}
}
