//go:build slow

package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/lab/labtest"
)

// TestSlowIperf3 lets a program that knows nothing of linerate measure the wire.
func TestSlowIperf3(t *testing.T) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("needs iperf3: scripts/foreign installs it")
	}
	for _, kind := range kinds {
		for _, tt := range []struct {
			spec      string
			rate      float64
			tolerance float64
		}{
			{"rate=10mbit,rtt=2ms", 1e7, 0.005},
			{"rate=100mbit,rtt=20ms", 1e8, 0.005},
			{"rate=500mbit,rtt=2ms", 5e8, 0.01},
			{"rate=1gbit,rtt=200us", 1e9, 0.015},
			{"rate=1gbit,rtt=10ms", 1e9, 0.015},
		} {
			t.Run(string(kind)+"/"+tt.spec, func(t *testing.T) {
				labtest.Try(t, func() string {
					l := startLab(t, tt.spec, kind)
					var out bytes.Buffer
					var err error
					if err := l.Command(t.Context(), model.Far, []string{"iperf3", "-s", "-D", "-J"}, nil, nil, nil); err != nil {
						t.Fatal(err)
					}
					argv := []string{"iperf3", "-c", "b", "-J", "-O", "3", "-t", "8", "-C", "cubic", "--get-server-output"}
					tick := time.NewTicker(50 * time.Millisecond)
					defer tick.Stop()
					for range 40 {
						out.Reset()
						if err = l.Command(t.Context(), model.Near, argv, nil, &out, nil); err == nil {
							break
						}
						<-tick.C // the daemon listens a while after it has detached
					}
					if err != nil {
						t.Fatalf("%v\n%s", err, out.Bytes())
					}
					got, err := intervals(out.Bytes())
					if err != nil {
						t.Fatal(err)
					}
					want := goodput * tt.rate
					t.Logf("%.2f Mbit/s, formula %.2f", got/1e6, want/1e6)
					if math.Abs(got/want-1) > tt.tolerance {
						return fmt.Sprintf("iperf3 says %.2f Mbit/s, want %.2f within %.1f %%", got/1e6, want/1e6, 100*tt.tolerance)
					}
					return ""
				})
			})
		}
	}
}

// intervals returns the median over the receiver's full seconds, which has no
// part of the time that the queue takes to drain at the end.
func intervals(text []byte) (float64, error) {
	var r struct {
		Server struct {
			Intervals []struct {
				Sum struct {
					Rate    float64 `json:"bits_per_second"`
					Seconds float64 `json:"seconds"`
					Omitted bool    `json:"omitted"`
				} `json:"sum"`
			} `json:"intervals"`
		} `json:"server_output_json"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return 0, fmt.Errorf("read iperf3's report: %w", err)
	}
	var rates []float64
	for _, i := range r.Server.Intervals {
		if !i.Sum.Omitted && i.Sum.Seconds > 0.9 {
			rates = append(rates, i.Sum.Rate)
		}
	}
	if len(rates) == 0 {
		return 0, fmt.Errorf("no interval in iperf3's report: %.200s", text)
	}
	return median(rates), nil
}
