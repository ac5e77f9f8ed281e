package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"linerate/internal/lab/labtest"
)

// TestTruthOfSwing: in a period of a day a run of a second sees one rate. At the top of it
// the path carries 1.4 times of what its mean allows, at the bottom 0.6 times, and the
// ceiling that is stated is that of the mean, with a source that says so. Reno and a
// queue of 256 KiB keep the wire busy.
func TestTruthOfSwing(t *testing.T) {
	needLab(t)
	const (
		spec = "lab:rate=20mbit,rtt=2ms,to.swing=40%/24h/6h,from.swing=40%/24h/18h,near.tcp.congestion_control=reno,far.tcp.congestion_control=reno"
		mean = 18.8296e6 // diagnosis.md section 2.1
	)
	labtest.Try(t, func() string {
		out := succeed(t, "test", spec, "-t", "1s", "--omit", "2s", "--idle", "0s", "--json=full", "-q").out
		measured := decode[document](t, out)
		for way, want := range map[string]float64{"to": 1.4 * mean, "from": 0.6 * mean} {
			if got := median(measured.goodput(way)); math.Abs(got/want-1) > 0.01 {
				return fmt.Sprintf("%s: %.3f Mbit/s, want %.3f within 1 %%", way, got/1e6, want/1e6)
			}
		}
		told := decode[struct {
			Session struct {
				Hosts []struct {
					PathRate struct {
						Value  float64 `json:"value"`
						Source string  `json:"source"`
					} `json:"path_rate"`
				} `json:"hosts"`
			} `json:"session"`
			Report struct {
				Lines []struct {
					Ceiling struct {
						Value float64 `json:"value"`
					} `json:"ceiling"`
				} `json:"lines"`
			} `json:"report"`
		}](t, out)
		for _, l := range told.Report.Lines {
			if math.Abs(l.Ceiling.Value/mean-1) > 1e-4 {
				t.Errorf("a ceiling of %.0f, want %.0f", l.Ceiling.Value, mean)
			}
		}
		for i, phase := range []string{"/6h0m0s", "/18h0m0s"} {
			rate := told.Session.Hosts[i].PathRate
			if rate.Value != 20e6 || !strings.HasSuffix(rate.Source, "the mean of a rate that swings by 40%/24h0m0s"+phase) {
				t.Errorf("host %d is told %+v", i, rate)
			}
		}
		return ""
	})
}
