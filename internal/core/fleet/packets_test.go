package fleet_test

import (
	"testing"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/fleettest"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/must"
)

// TestPackets has a host, a path, and what lies in front of a host, carry smaller packets or no marks for a
// while: each is reported once, a host within half an hour (fleet.md section 12), and so is its end.
func TestPackets(t *testing.T) {
	const from, until = 48 * 3600, 72 * 3600
	for name, c := range map[string]struct {
		odd  func(from, to int64) bool
		size float64
		m    model.Metric
		host int64
	}{
		"host":      {func(from, to int64) bool { return from == 3 || to == 3 }, 1500, packets.Passes, 3},
		"marks":     {func(from, _ int64) bool { return from == 3 }, 9000, packets.Marks, 3},
		"path":      {func(from, to int64) bool { return from == 3 && to == 5 }, 1400, packets.Passes, 0},
		"both ways": {func(from, to int64) bool { return from+to == 8 && from*to == 15 }, 1400, packets.Passes, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := fleettest.New(8, 1)
			w.Carries = func(a, b, at int64) (packet, marks float64) {
				packet, marks = 9000, 1
				if at >= from && at < until && c.odd(a, b) {
					if packet = c.size; c.m == packets.Marks {
						marks = 0
					}
				}
				return packet, marks
			}
			var worse, better []*fleet.Outcome
			w.Told = func(o *fleet.Outcome) {
				if o.Metric != packets.Passes && o.Metric != packets.Marks {
					return
				}
				must.True(t, o.Host == c.host && o.Metric == c.m, "%+v", o)
				if o.Worse {
					worse = append(worse, o)
					must.True(t, o.Host == 0 || w.Now < from+1800, "reported %d s after", w.Now-from)
				} else {
					better = append(better, o)
				}
			}
			w.Measure(96)
			want := 1
			if name == "both ways" {
				want = 2
			}
			must.True(t, len(worse) == want && len(better) == want, "%d worse, %d better", len(worse), len(better))
			must.True(t, c.m != packets.Passes || worse[0].Value(worse[0].Was) == 9000 && worse[0].Value(worse[0].Now) == c.size, "%+v", worse[0])
		})
	}
}
