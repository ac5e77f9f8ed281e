//go:build vm

package machine

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	"linerate/internal/must"
)

// windowStory: over a path of 40 ms, windows from 64 KiB to 1536 KiB, set for the
// sockets of the test as the articles did, carry what window and round trip allow, until
// the machine itself is the limit and more of it helps no more. The one who receives
// is Debian with FreeBSD's sender, or FreeBSD with Debian's. It returns what the first
// finding names for the smallest.
func windowStory(ctx context.Context, t *testing.T, near *Machine, direction string) (smallest string) {
	t.Helper()
	const roundTrip = 0.040
	var all []float64
	for _, kib := range []int{64, 128, 256, 512, 1024, 1536} {
		rate, limit := look(ctx, t, near, direction, strconv.Itoa(kib)+"KiB")
		most := float64(kib) * 1024 * 8 / roundTrip
		t.Logf("%5d KiB: %6.2f Mbit/s of %6.2f that the window allows; %s", kib, rate/1e6, most/1e6, limit)
		must.True(t, rate <= most*1.1, "%d KiB: %.0f bit/s, above what window and round trip allow", kib, rate)
		must.True(t, kib > 128 || rate >= most*0.6, "%d KiB: %.0f bit/s, far below what the window allows", kib, rate)
		if kib == 64 {
			smallest = limit
		}
		all = append(all, rate)
	}
	if all[3] < 2.5*all[0] {
		t.Errorf("512 KiB carry %.0f bit/s, 64 KiB %.0f: the window does not grow", all[3], all[0])
	}
	if all[5] > 2*all[4] {
		t.Errorf("1536 KiB carry %.0f bit/s, 1024 KiB %.0f: no plateau", all[5], all[4])
	}
	return smallest
}

// look is a test in one direction, --to or --reverse, with a window: its goodput in
// bit/s and what its first finding names.
func look(ctx context.Context, t *testing.T, near *Machine, direction, window string) (rate float64, limit string) {
	t.Helper()
	text := do(ctx, t, near, "linerate", "test", "10.0.0.2", direction, "-t", "4s", "--omit", "2s", "--idle", "0s", "-w", window, "--json")
	var d struct {
		Session struct {
			Findings []struct{ Limit string }
			Runs     []struct {
				Values []struct {
					Metric string
					Value  float64
				}
			}
		}
	}
	err := json.Unmarshal([]byte(text), &d)
	must.Need(t, err == nil, "%v in %s", err, text)
	for _, r := range d.Session.Runs {
		for _, v := range r.Values {
			if v.Metric == "goodput" {
				rate = v.Value
			}
		}
	}
	must.Need(t, rate != 0, "no goodput in %s", text)
	if len(d.Session.Findings) > 0 {
		limit = d.Session.Findings[0].Limit
	}
	return rate, limit
}
