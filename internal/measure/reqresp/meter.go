package reqresp

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
)

// meter holds the measurements of one asking worker. The worker writes, without lock or
// allocation; the sampler reads the current interval meanwhile, and everything else after the
// worker has ended.
type meter struct {
	issued    int64         // requests sent in the window
	answered  int64         // of these, answered
	completed int64         // requests answered inside the window, whenever due
	latency   hist.Recorder // in the window, since the request was due
	service   hist.Recorder // in the window, since it was sent; only with a rate
	slips     hist.Recorder // in the window: how late a due request was sent although no other preceded it

	_       [128]byte // the sampler reads what follows; keep it in a cache line of its own
	writing atomic.Bool
	sent    counter
	epoch   *atomic.Uint32   // of all workers: its last bit selects the interval to write
	present [2]hist.Recorder // latencies of one interval each, by the time of the answer
	_       [128]byte
}

// counter counts the bytes that one goroutine sends; others read it meanwhile.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int) { c.n.Store(c.n.Load() + int64(n)) }

// answer records an answer: latency since the request was due.
func (m *meter) answer(latency time.Duration) {
	// The sampler turns the epoch and then waits for writing to end: either it sees this mark,
	// or this worker sees its new epoch (sync/atomic is sequentially consistent).
	m.writing.Store(true)
	m.present[m.epoch.Load()&1].Record(latency)
	m.writing.Store(false)
}

// turn ends the current interval of all meters and returns its latencies.
func turn(epoch *atomic.Uint32, meters []*meter) *hist.Histogram {
	ended := epoch.Add(1) - 1
	sum := new(hist.Histogram)
	for _, m := range meters {
		for m.writing.Load() {
			runtime.Gosched()
		}
		h := &m.present[ended&1]
		if h.Count() == 0 {
			continue
		}
		// It cannot exceed MaxCount: the sampler would be 104 days late.
		_ = sum.Merge(h.Histogram())
		*h = hist.Recorder{}
	}
	return sum
}

// quantile returns the time within which the part q of sent requests was answered. Lost
// requests count as slower than any other.
func quantile(h *hist.Histogram, q float64, sent int64) fact.Of[time.Duration] {
	answered := float64(h.Count())
	if answered == 0 {
		return fact.Unknown[time.Duration]("no request was answered")
	}
	rank := math.Ceil(q * float64(sent) * (1 - 1e-12))
	if rank > answered {
		return fact.Unknown[time.Duration]("it falls among requests that were never answered")
	}
	return h.Quantile(rank / answered)
}
