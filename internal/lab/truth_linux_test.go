package lab

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/lab/labtest"
	"linerate/internal/lab/wire"
)

// goodput is what TCP with timestamps carries over Ethernet with MTU 1500:
// 1448 bytes of payload in 1538 on the wire (RFC 7323 section 3.2; 20 + 20 + 12
// bytes of headers).
const goodput = 1448.0 / 1538

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func TestGoodput(t *testing.T) {
	for _, kind := range kinds {
		for _, tt := range []struct {
			spec      string
			rate      float64
			tolerance float64 // relative
		}{
			{"rate=100mbit,rtt=2ms", 1e8, 0.005},
			{"rate=1gbit,rtt=200us", 1e9, 0.015},
		} {
			t.Run(string(kind)+"/"+tt.spec, func(t *testing.T) {
				labtest.Try(t, func() string {
					l := startLab(t, tt.spec, kind)
					result := listen(t, l, model.Far, "tcp-sink", "400", "200", "5")
					run(t, l, model.Near, "tcp-source", "b")
					var rates []float64
					result(&rates)
					st, err := l.Stats(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					want := goodput * tt.rate
					got := median(rates)
					t.Logf("%.2f Mbit/s, formula %.2f, CPU of the wire %.2f s, %d + %d wakes", got/1e6, want/1e6, st.CPU, st.AB.Wakes, st.BA.Wakes)
					if math.Abs(got/want-1) > tt.tolerance {
						return fmt.Sprintf("goodput %.2f Mbit/s, want %.2f within %.1f %%", got/1e6, want/1e6, 100*tt.tolerance)
					}
					if st.AB.Missed > 0 || st.AB.Refused > 0 {
						return fmt.Sprintf("frames were lost outside the wire: %+v", st.AB)
					}
					return ""
				})
			})
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, kind := range kinds {
		for _, rtt := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%s", kind, rtt), func(t *testing.T) {
				l := startLab(t, "rtt="+rtt.String(), kind)
				listen(t, l, model.Far, "udp-echo")
				labtest.Try(t, func() string {
					const n = 15
					var p pings
					if err := json.Unmarshal(run(t, l, model.Near, "udp-ping", "b", fmt.Sprint(n), "64", "500"), &p); err != nil {
						t.Fatal(err)
					}
					if len(p.Trips) != p.Sent {
						return fmt.Sprintf("%d of %d answered", len(p.Trips), p.Sent)
					}
					if p.Trips[0] < rtt.Seconds() {
						t.Fatalf("a round trip took %.3f ms, less than %s", 1e3*p.Trips[0], rtt)
					}
					machine := labtest.Waking(t, rtt, n)
					allowed := 200*time.Microsecond + 2*machine
					got := median(p.Trips)
					t.Logf("median round trip %.3f ms; the machine adds %v to a wait", 1e3*got, machine)
					if got > (rtt + allowed).Seconds() {
						return fmt.Sprintf("median round trip %.3f ms, want %s + at most %s", 1e3*got, rtt, allowed)
					}
					return ""
				})
			})
		}
	}
}

// inBinomial reports whether k of n is what share would give, within five
// standard deviations.
func inBinomial(k uint64, n int, share float64) bool {
	mean := float64(n) * share
	return math.Abs(float64(k)-mean) <= 5*math.Sqrt(mean*(1-share))
}

// train sends n numbered datagrams from a to b and returns what b counted and
// the wire's truth.
func train(t *testing.T, l *Lab, n, size, gapMicros int) (counted, wire.Counters) {
	t.Helper()
	result := listen(t, l, model.Far, "udp-count")
	before, err := l.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run(t, l, model.Near, "udp-burst", "b", fmt.Sprint(n), fmt.Sprint(size), fmt.Sprint(gapMicros))
	var c counted
	result(&c)
	st, err := l.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st.AB.Lost -= before.AB.Lost
	return c, st.AB
}

func TestLossReorderDuplicate(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			const n = 8000
			labtest.Try(t, func() string {
				l := startLab(t, "rtt=1ms,to.loss=1%,to.reorder=2%,to.dup=0.5%", kind)
				c, truth := train(t, l, n, 64, 50)
				t.Logf("counted %+v, truth %+v", c, truth)
				switch lost := uint64(n - c.Distinct); {
				case truth.Missed+truth.Refused > 0:
					return "frames were lost outside the wire"
				// End marks may be lost or held back as well.
				case lost > truth.Lost || truth.Lost > lost+5:
					return fmt.Sprintf("%d datagrams missing, wire lost %d", lost, truth.Lost)
				case !inBinomial(truth.Lost, n, 0.01):
					return fmt.Sprintf("lost %d of %d, want about 1 %%", truth.Lost, n)
				case !inBinomial(uint64(c.Late), n, 0.02) || uint64(c.Late) > truth.Reordered:
					return fmt.Sprintf("%d late, wire held back %d, want about 2 %%", c.Late, truth.Reordered)
				case c.Distance < wire.ReorderDistance:
					return fmt.Sprintf("overtaken by at most %d, want %d", c.Distance, wire.ReorderDistance)
				case !inBinomial(truth.Duplicated, n, 0.005) || uint64(c.Received-c.Distinct)+5 < truth.Duplicated:
					return fmt.Sprintf("%d arrived twice, wire doubled %d, want about 0.5 %%", c.Received-c.Distinct, truth.Duplicated)
				}
				return ""
			})
		})
	}
}

func TestQueueDelaysAndDrops(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			// 64 KiB are 43 frames of 1514 bytes, each 1.2304 ms at 10 Mbit/s.
			const n, full = 150, 43 * 1.2304
			labtest.Try(t, func() string {
				l := startLab(t, "rate=10mbit,queue=64KiB,rtt=0s", kind)
				c, truth := train(t, l, n, 1472, 0)
				wantRate := 1e7 * 1472 / 1538
				switch {
				case uint64(n-c.Distinct) != truth.QueueDrops || truth.QueueDrops == 0:
					return fmt.Sprintf("%d datagrams missing, queue dropped %d", n-c.Distinct, truth.QueueDrops)
				case c.LongestMs < full-1.5 || c.LongestMs > full+3:
					return fmt.Sprintf("longest way %.1f ms, want %.1f", c.LongestMs, full)
				case math.Abs(c.Rate/wantRate-1) > 0.02:
					return fmt.Sprintf("drained at %.2f Mbit/s, want %.2f", c.Rate/1e6, wantRate/1e6)
				}
				return ""
			})
		})
	}
}

func TestBlackholeDropsLargeFramesOnly(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			l := startLab(t, "rtt=0s,to.blackhole=1400", kind)
			listen(t, l, model.Far, "udp-echo")
			ping := func(from model.Host, to, size string) int {
				var p pings
				if err := json.Unmarshal(run(t, l, from, "udp-ping", to, "3", size, "0"), &p); err != nil {
					t.Fatal(err)
				}
				return len(p.Trips)
			}
			// 20 bytes of IPv4 header and 8 of UDP are added.
			if got := ping(model.Near, "b", "1372"); got != 3 {
				t.Errorf("%d of 3 packets of 1400 bytes came back", got)
			}
			if got := ping(model.Near, "b", "1373"); got != 0 {
				t.Errorf("%d of 3 packets of 1401 bytes came back", got)
			}
			st, err := l.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if st.AB.MTUDrops != 3 || st.BA.MTUDrops != 0 {
				t.Errorf("wire says %d and %d vanished, want 3 and 0", st.AB.MTUDrops, st.BA.MTUDrops)
			}
		})
	}
}

func TestDirectionsDiffer(t *testing.T) {
	l := startLab(t, "to.rate=20mbit,from.rate=5mbit,to.delay=6ms,from.delay=2ms,queue=32KiB", wire.Auto)
	for _, way := range []struct {
		from, to model.Host
		rate     float64
	}{{model.Near, model.Far, 20e6}, {model.Far, model.Near, 5e6}} {
		labtest.Try(t, func() string {
			result := listen(t, l, way.to, "tcp-sink", "300", "300", "3")
			run(t, l, way.from, "tcp-source", string(way.to))
			var rates []float64
			result(&rates)
			if got, want := median(rates), goodput*way.rate; math.Abs(got/want-1) > 0.02 {
				return fmt.Sprintf("from %s: %.2f Mbit/s, want %.2f", way.from, got/1e6, want/1e6)
			}
			return ""
		})
	}
	listen(t, l, model.Far, "udp-echo")
	labtest.Try(t, func() string {
		var p pings
		if err := json.Unmarshal(run(t, l, model.Near, "udp-ping", "b", "20", "64", "500"), &p); err != nil {
			t.Fatal(err)
		}
		if got := median(p.Trips); got < 8e-3 || got > 9e-3 {
			return fmt.Sprintf("round trip %.2f ms, want 8 and serialisation", 1e3*got)
		}
		return ""
	})
}

func TestJumboAndSmallMTU(t *testing.T) {
	for _, kind := range kinds {
		for _, mtu := range []int{576, 9000} {
			t.Run(fmt.Sprintf("%s/%d", kind, mtu), func(t *testing.T) {
				l := startLab(t, fmt.Sprintf("rate=200mbit,rtt=1ms,mtu=%d", mtu), kind)
				result := listen(t, l, model.Far, "tcp-sink", "100", "100", "3")
				before, err := l.Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				run(t, l, model.Near, "tcp-source", "b")
				var rates []float64
				result(&rates)
				st, err := l.Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				// Bulk TCP fills its frames, and none may be larger than the MTU.
				mean := float64(st.AB.Bytes-before.AB.Bytes) / float64(st.AB.Frames-before.AB.Frames)
				if full := float64(mtu + wire.HeaderBytes); mean < 0.9*full || mean > full {
					t.Errorf("mean frame of %.0f bytes, want nearly %.0f", mean, full)
				}
			})
		}
	}
}
