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

// Thread prepares the calling goroutine for l and others like it: where they
// make raw system calls it gets a thread of its own, and room for that. The
// function that it returns undoes it, in the same goroutine.
func Thread(l *Link) (release func()) {
	if l.Waiting() == (*poller)(nil).waiting() {
		return Hold(0)
	}
	runtime.LockOSThread()
	let := Hold(1)
	return func() {
		let()
		runtime.UnlockOSThread()
	}
}

// Hold keeps the Go runtime out of the way: garbage collections are held off,
// and GOMAXPROCS is raised by so many threads, because a thread in a raw system
// call keeps its processor. The function that it returns undoes that, once.
//
// What it changes is the process's, not a test's. Holds only add and subtract,
// so that they may overlap in any order.
func Hold(threads int) (release func()) {
	change(threads, gcStep)
	return sync.OnceFunc(func() { change(-threads, -gcStep) })
}

// process guards GOMAXPROCS and the collector's percentage, which are the
// process's: they can only be read and set, not added to, and a hold that got
// lost between two of those would leave threads without a processor. No owner
// but the package is as wide as they are.
var process sync.Mutex

func change(threads, percent int) {
	process.Lock()
	defer process.Unlock()
	if threads != 0 { // setting it stops the world
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads)
	}
	// The percentage can only be read by setting another one: one that lets no
	// collection begin.
	debug.SetGCPercent(debug.SetGCPercent(gcStep) + percent)
}
