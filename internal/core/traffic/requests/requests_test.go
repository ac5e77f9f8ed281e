package requests_test

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/must"
)

// TestOverdue: a schedule that the connections cannot keep gives a warning with a number that
// can; one that they keep, or no schedule, gives none.
func TestOverdue(t *testing.T) {
	var times hist.Recorder
	times.Add(10*time.Millisecond, 100)
	runs := []model.Run{{Ends: []model.EndReport{{Latencies: []model.Latency{{Name: model.LatencyServed, Direction: model.To, Times: times.Histogram()}}}}}}
	for rate, want := range map[float64]string{0: "", 50: "", 1000: "use at least -P 12"} {
		f := model.Flow{Engine: requests.Name, Streams: 2, Params: traffic.Write(requests.Params{Rate: rate})}
		got := strings.Join(requests.Kind().Warnings(f, runs), "")
		must.True(t, (got == "") == (want == "") && strings.HasSuffix(got, want), "%g a second: %q, want %q", rate, got, want)
	}
}
