//go:build truth && linux

package loaded

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
	"linerate/internal/truth"
)

// narrow carries 20 Mbit/s behind a queue of 100 KB, which take 40 ms to send.
var narrow = enginetest.Bucket{Rate: 20e6, Burst: 10 << 10, Queue: 100 << 10}

// TestQueue fills a queue of known length, 40 ms, in front of a bottleneck. Reno halves its
// window when the queue is full, so that it is at least half full most of the time.
func TestQueue(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		t.Run(string(d), func(t *testing.T) {
			f := brief(d)
			f.Omit, f.Duration, f.Window = 500*time.Millisecond, 1500*time.Millisecond, 0
			f.Congestion, f.MSS = "reno", 1400
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				near, far := enginetest.Prepare(try, bulk(), enginetest.NewVeth(try, narrow), f)
				enginetest.Succeed(try, near, far, d)
				idle, loaded := seconds(try, near, d, model.IdleP50), seconds(try, near, d, model.LatencyP50)
				try.Claim("idle p50", 1e3*idle.Seconds(), 0, 5, "ms")
				try.Claim("added by a queue of 40 ms", 1e3*(loaded-idle).Seconds(), 10, 60, "ms")
			})
		})
	}
}

// TestProbes sends a probe every 20 ms: 300 ms without load and 1.5 s under it.
func TestProbes(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		t.Run(string(d), func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				near, far := enginetest.Prepare(try, bulk(), enginetest.NewWire(try), brief(d))
				enginetest.Succeed(try, near, far, d)
				for name, want := range map[string]float64{"idle udp": 15, "idle tcp": 15, "loaded udp": 75, "loaded tcp": 75} {
					try.Claim(name, float64(latency(try, near, name).Sent), want/3, 3*want, "probes")
				}
				of := d
				if d == model.Both {
					of = ""
				}
				for _, m := range []model.Metric{model.LatencyP50, model.LatencyP99, model.IdleP50, model.IdleP99} {
					try.Claim(string(m), 1e3*seconds(try, near, of, m).Seconds(), 0, 1e3, "ms on the loopback")
				}
			})
		})
	}
}

// TestShareOfSlowPath: on a link of 100 kbit/s whose rate is unknown, the probes take at most 1
// % of what arrived, and some are sent.
func TestShareOfSlowPath(t *testing.T) {
	for name, c := range map[string]struct {
		way  model.Direction
		omit time.Duration
	}{"to": {model.To, time.Second}, "from": {model.From, time.Second}, "to, no warm-up": {model.To, 0}, "from, no warm-up": {model.From, 0}} {
		t.Run(name, func(t *testing.T) {
			d, f := c.way, brief(c.way)
			f.Omit, f.Duration, f.Interval, f.Window, f.Lead = c.omit, 5*time.Second, time.Second, 0, time.Second
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				near, far := enginetest.Prepare(try, bulk(), enginetest.NewVeth(try, enginetest.Bucket{Rate: 100e3, Burst: 5 << 10, Queue: 20 << 10}), f)
				enginetest.Succeed(try, near, far, d)
				receiver := near
				if d == model.To {
					receiver = far
				}
				sent, bits := int64(0), int64(0)
				for _, l := range near.Report.Latencies {
					each, loaded := map[string]int64{"loaded udp": udpBits, "loaded tcp": tcpBits}[l.Name]
					if loaded {
						sent, bits = sent+l.Sent, bits+l.Sent*each
					}
				}
				try.Claim("probes under load", float64(sent), leastProbes, 10, "probes")
				for _, x := range receiver.Report.Flows {
					if x.Role == model.Receiver {
						try.Claim("of what arrived", 100*float64(bits)/(8*float64(x.Bytes)), 0, 1, "%")
					}
				}
			})
		})
	}
}
