package link

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// gcStep is added to the garbage collector's percentage while a test runs. The
// heap of a process that measures is some MiB, so that the next collection
// would come at tens of GiB: never. A collection in the middle showed in the
// 99th percentile of small messages.
const gcStep = 1_000_000

// Runtime keeps the Go runtime out of the way while links are in use. Its zero
// value is ready for use, and safe for concurrent use. What it changes is the
// process's, not a test's: holds therefore only add and subtract, so that they
// may overlap in any order.
type Runtime struct{ mu sync.Mutex }

// Hold keeps garbage collections off, and raises GOMAXPROCS by so many threads,
// because a thread in a raw system call keeps its processor. The function that
// it returns undoes that, once.
func (r *Runtime) Hold(threads int) (release func()) {
	r.add(threads, gcStep)
	return sync.OnceFunc(func() { r.add(-threads, -gcStep) })
}

func (r *Runtime) add(threads, percent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads)
	// The present value can only be read by setting another.
	debug.SetGCPercent(debug.SetGCPercent(gcStep) + percent)
}
