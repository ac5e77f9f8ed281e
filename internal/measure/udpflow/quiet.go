package udpflow

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// gcStep is added to the garbage collector's percentage while a test runs.
	// The heap of a process that measures is some MiB, so that the next
	// collection would come at tens of GiB: never.
	gcStep = 1_000_000
	// maxGrowth is how much the heap may grow while collections are held off.
	maxGrowth  = 512 << 20
	heapMetric = "/memory/classes/heap/objects:bytes"
)

// quiet keeps the Go runtime out of the way while tests run: it holds garbage
// collections off, and raises GOMAXPROCS, because a thread in a raw system call
// keeps its processor. Both are the process's, not a test's. Tests that overlap
// therefore only add and subtract: that commutes, so that they may begin and
// end in any order. The lock makes each step one.
type quiet struct{ mu sync.Mutex }

// hold is one test's part in a quiet runtime.
type hold struct {
	q       *quiet
	threads int // added to GOMAXPROCS
	step    int // added to the percentage; 0 once collections run again
	heap    [1]metrics.Sample
	base    uint64 // heap at the beginning, bytes
}

// begin holds collections off and makes room for so many threads that keep
// their processor.
func (q *quiet) begin(threads int) *hold {
	h := &hold{q: q, threads: threads, step: gcStep}
	h.heap[0].Name = heapMetric
	h.base = h.size()
	q.add(threads, gcStep)
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
