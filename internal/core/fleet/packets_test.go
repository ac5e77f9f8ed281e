package fleet_test

import (
	"testing"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/fleettest"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/must"
)

// TestPackets has a host, or a path, carry smaller packets or no marks for a day: it is reported once, a
// host within half an hour (fleet.md section 12), and so is its end.
func TestPackets(t *testing.T) {
	const from, until = 48 * 3600, 72 * 3600
	for name, c := range map[string]struct {
		odd    func(from, to int64) bool
		metric model.Metric
		host   int64
		now    float64
	}{
		"host":  {func(from, to int64) bool { return from == 3 || to == 3 }, packets.Passes, 3, 1500},
		"marks": {func(from, _ int64) bool { return from == 3 }, packets.Marks, 3, 0},
		"path":  {func(from, to int64) bool { return from == 3 && to == 5 }, packets.Passes, 0, 1400},
	} {
		w, told := fleettest.New(8, 1), map[bool]int{}
		w.Carries = func(a, b, at int64) (float64, float64) {
			usual := map[model.Metric]float64{packets.Passes: 9000, packets.Marks: 1}
			if at >= from && at < until && c.odd(a, b) {
				usual[c.metric] = c.now
			}
			return usual[packets.Passes], usual[packets.Marks]
		}
		w.OnOutcome = func(o *fleet.Outcome) {
			if o.Part() == "packets" {
				told[o.Worse]++
				must.True(t, o.Host == c.host && o.Metric == c.metric && (!o.Worse || o.Value(o.Now) == c.now) && (o.Host == 0 || (w.Now-from)%(until-from) < 1800), "%s: %+v at %d", name, o, w.Now)
			}
		}
		w.Measure(96)
		must.True(t, told[true] == 1 && told[false] == 1, "%s: %v", name, told)
	}
}
