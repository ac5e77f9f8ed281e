package responsiveness

import (
	"math"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestRPM computes an example of 20 probes of each kind that was worked out by hand from the
// draft's formulas.
func TestRPM(t *testing.T) {
	var all []probe
	at := func(v int) time.Duration { return time.Duration(v) * time.Millisecond }
	for i := range 20 {
		http := at(24 + i)
		if i == 19 {
			http = at(400) // trimmed
		}
		all = append(all, probe{tcp: at(20 + i), tls: at(22 + i), http: http}, probe{self: true, http: at(60 + 2*i)})
	}
	must.True(t, math.Abs(rpm(all)-1352.357320) < 1e-6, "%v", rpm(all))
	must.True(t, math.IsNaN(rpm(nil)) && math.IsNaN(rpm([]probe{{self: true, http: at(10)}})), "a number without probes of both kinds")
}

func TestStable(t *testing.T) {
	for _, c := range []struct {
		series []float64
		want   bool
	}{
		{nil, false}, {[]float64{1, 1, 1, 1, 1, 1}, false}, // six have three averages
		{[]float64{1, 1, 1, 1, 1, 1, 1}, true}, {[]float64{9, 0, 5, 100, 101, 99, 100, 102, 98, 100}, true}, {[]float64{1, 2, 3, 4, 5, 6, 7}, false},
		{[]float64{1, 1, 1, math.NaN(), 1, 1, 1}, false}, {[]float64{0, 0, 0, 0, 0, 0, 0}, false},
	} {
		must.Equal(t, stable(c.series), c.want, c.series)
	}
	must.Equal(t, confidence([]float64{1, 1, 1}, nil), "low")
	must.Equal(t, confidence([]float64{1, 1, 1, 1, 1, 1, 1}, []float64{1, 2, 3, 4, 5, 6, 7}), "medium")
}

func TestConfig(t *testing.T) {
	now := `{"version":1,"x":2,"urls":{"small_download_url":"https://h/s","large_download_url":"https://h/l","upload_url":"https://h/u"},"test_endpoint":"h"}`
	old := `{"version":1,"urls":{"small_https_download_url":"https://h/s","large_https_download_url":"https://h/l","https_upload_url":"https://h/u"}}`
	for _, text := range []string{now, old} {
		u := must.Get(parseConfig([]byte(text)))(t)
		must.Equal(t, [3]string{u.Small, u.Large, u.Upload}, [3]string{"https://h/s", "https://h/l", "https://h/u"})
	}
	for change, want := range map[[2]string]string{
		{`"version":1`, `"version":2`}: "version 2", {"https://h/l", "http://h/l"}: "not an address of https", {"https://h/u", "https://other/u"}: "several hosts",
		{`"upload_url"`, `"other"`}: "without a upload_url", {"https://h/s", "https://me@h/s"}: "not an address", {"{", "["}: "read configuration",
	} {
		must.Say(t, must.Err(parseConfig([]byte(strings.Replace(now, change[0], change[1], 1)))), want, change[1])
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"version":1,"urls":{"small_download_url":"https://h/s","large_download_url":"https://h/l","upload_url":"https://h/u"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := parseConfig(b)
		must.True(t, err != nil || strings.HasPrefix(u.Small, "https:") && strings.HasPrefix(u.Large, "https:") && strings.HasPrefix(u.Upload, "https:"), "%+v", u)
	})
}
