package reqresp

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
)

// meter is what one asking worker notes. The worker writes, with neither lock
// nor allocation; the sampler reads the present interval while it does, and
// everything else after the worker has ended.
type meter struct {
	issued    int64         // requests of the window that were sent
	answered  int64         // of these, answered
	completed int64         // requests answered inside the window, whenever they were due
	latency   hist.Recorder // of the window, since the request was due
	service   hist.Recorder // of the window, since it was sent; with a rate only
	slips     hist.Recorder // of the window: how late a request was sent that was due and had nothing before it

	_       [128]byte // the sampler looks at what follows; keep it in a line of its own
	writing atomic.Bool
	sent    counter
	epoch   *atomic.Uint32   // of all workers: its last bit says which of interval is written
	present [2]hist.Recorder // latencies of one interval each, by the time of the answer
	_       [128]byte
}

// counter counts the bytes that one goroutine sends; others read it meanwhile.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int) { c.n.Store(c.n.Load() + int64(n)) }

// answer notes an answer: latency since the request was due.
func (m *meter) answer(latency time.Duration) {
	// The sampler turns the epoch and then waits for writing to end: it either
	// sees this mark, or this sees its new epoch (sync/atomic is sequentially
	// consistent).
	m.writing.Store(true)
	m.present[m.epoch.Load()&1].Record(latency)
	m.writing.Store(false)
}

// turn ends the present interval of all meters and returns its latencies.
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
		// It cannot hold more than MaxCount: the sampler would be 104 days late.
		_ = sum.Merge(h.Histogram())
		*h = hist.Recorder{}
	}
	return sum
}

// quantile is the time within which the part q of sent requests was answered.
// The lost ones are slower than any other.
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
