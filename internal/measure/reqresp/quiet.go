package reqresp

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// gcStep is added to the garbage collector's percentage while a test runs:
	// the next collection comes when the heap is 10,000 times as large.
	gcStep = 1_000_000
	// maxGrowth is how much the heap may grow while collections are held off.
	maxGrowth  = 512 << 20
	heapMetric = "/memory/classes/heap/objects:bytes"
)

// quiet keeps the Go runtime out of the way while tests run: a collection shows
// in p99, and a thread in a raw system call keeps its processor, of which there
// must then be more. Both belong to the process, so that tests which overlap
// only add and subtract.
type quiet struct{ mu sync.Mutex }

// hold is one test's part in a quiet runtime.
type hold struct {
	q       *quiet
	threads int // added to GOMAXPROCS
	step    int // added to the percentage
	heap    [1]metrics.Sample
	base    uint64 // heap at the beginning, bytes
}

// begin makes room for so many threads, and holds collections off if asked.
func (q *quiet) begin(threads int, collect bool) *hold {
	h := &hold{q: q, threads: threads, step: gcStep}
	if collect {
		h.step = 0
	}
	h.heap[0].Name = heapMetric
	h.base = h.size()
	q.add(h.threads, h.step)
	return h
}

// check lets collections run again when the heap has grown too much meanwhile,
// and then returns true, once.
func (h *hold) check() bool {
	if h.step == 0 || h.size() < h.base+maxGrowth {
		return false
	}
	h.q.add(0, -h.step)
	h.step = 0
	return true
}

// end undoes begin.
func (h *hold) end() { h.q.add(-h.threads, -h.step) }

func (h *hold) size() uint64 {
	metrics.Read(h.heap[:])
	return h.heap[0].Value.Uint64()
}

func (q *quiet) add(threads, percent int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if threads != 0 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads)
	}
	if percent != 0 {
		// The present value can only be read by setting another.
		debug.SetGCPercent(debug.SetGCPercent(gcStep) + percent)
	}
}
