package loaded

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
)

// narrow carries 20 Mbit/s. 100 KB wait before it, which take 40 ms to send.
var narrow = enginetest.Bucket{Rate: 20e6, Burst: 10 << 10, Queue: 100 << 10}

// TestQueue fills a queue of known length, 40 ms, in front of a bottleneck.
// Reno halves its window when the queue is full, so that it is half full and
// more most of the time.
func TestQueue(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		t.Run(string(d), func(t *testing.T) {
			f := brief(d)
			f.Omit, f.Duration, f.Window = 500*time.Millisecond, 1500*time.Millisecond, 0
			f.Congestion, f.MSS = "reno", 1400
			var idle, loaded time.Duration
			for range 3 { // a busy machine adds delays of its own
				near, far := enginetest.Prepare(t, bulk(), enginetest.NewVeth(t, narrow), f)
				enginetest.Succeed(t, near, far, d)
				idle, loaded = seconds(t, near, d, model.IdleP50), seconds(t, near, d, model.LatencyP50)
				udp, tcp := latency(t, near, "loaded udp"), latency(t, near, "loaded tcp")
				t.Logf("idle p50 %v, loaded p50 %v p99 %v; udp %d of %d lost, tcp p50 %v",
					idle, loaded, seconds(t, near, d, model.LatencyP99), udp.Lost, udp.Sent, tcp.Times.Quantile(0.5).Or(0))
				added := loaded - idle
				if idle < 5*time.Millisecond && added > 10*time.Millisecond && added < 60*time.Millisecond {
					return
				}
			}
			t.Errorf("idle p50 %v, loaded p50 %v; a queue of 40 ms was filled", idle, loaded)
		})
	}
}
