// Package goruntime keeps the Go runtime out of the way of threads that measure.
//
// Two things in the runtime disturb them. A thread in a raw system call, which the scheduler
// does not see, keeps its processor, one of GOMAXPROCS: with as many such threads as processors
// nothing else in the process runs, not even what would end the measurement. And a garbage
// collection stops all threads twice and takes a quarter of the processors in between, which
// shows in the 99th percentile of small messages. So a measurement begins a Hold, which adds
// its threads to GOMAXPROCS and keeps collections off, and ends it:
//
//	hold := goruntime.Begin(threads)
//	defer hold.End()
//
// Holds overlap in any order, from any number of goroutines: GOMAXPROCS is raised by the sum of
// their threads, collections are off while any hold wants them off, and after the last one both
// have their old values.
//
// Memory stays bounded, however many holds there are and however long they last, even if one is
// never ended: while collections are off the heap is checked several times a second, and
// collected if it has grown by MaxGrowth since the last collection. Check reports that to a
// measurement. A process that runs without collections (GOGC=off) is left alone. The memory
// limit of the process (GOMEMLIMIT) always applies.
package goruntime

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// MaxGrowth is how much the heap may grow since the last collection while collections are off,
// in bytes. Measurements allocate their buffers at the beginning, up to some ten MiB, and
// little else; a server besieged by anonymous clients can allocate any amount.
const MaxGrowth = 512 << 20

// lookEvery is the time between two checks of the heap, which may exceed the limit by what is
// allocated meanwhile. A check takes some microseconds.
const lookEvery = 250 * time.Millisecond

// off is the GOGC percentage without any collection, not even the runtime's forced one every
// two minutes (forcegcperiod in runtime/proc.go).
const off = -1

// Hold is one measurement's claim on a quiet runtime. It is safe for concurrent use.
type Hold struct {
	of       *state
	threads  int
	collect  bool // collections may run
	ended    bool
	before   int64 // collections forced before it began
	reported atomic.Bool
}

// Begin turns garbage collections off, and makes room for that many threads that keep their
// processor, until the hold is ended. It stops the world for a moment, so call it before the
// clock starts.
func Begin(threads int) *Hold { return process.begin(threads, false) }

// Room makes room for that many threads that keep their processor, and leaves collections on:
// for a measurement that produces garbage itself.
func Room(threads int) *Hold { return process.begin(threads, true) }

// Check returns true, once, if garbage was collected since Begin because the heap grew by
// MaxGrowth. It neither waits nor allocates.
func (h *Hold) Check() bool {
	return !h.collect && h.of.made.Load() != h.before && h.reported.CompareAndSwap(false, true)
}

// End undoes the hold. A second End does nothing.
func (h *Hold) End() { h.of.end(h) }

// process is the state of all holds in this process. GOMAXPROCS and the collector's percentage
// are process-wide variables that can only be read and set, not added to: a second instance
// would overwrite what the first one set, and leave threads without a processor. So there is
// one global instance, instead of one that every engine and server has to be given.
var process = state{growth: MaxGrowth, every: lookEvery}

// state is the effect of holds on GOMAXPROCS and the collector's percentage.
type state struct {
	growth uint64
	every  time.Duration
	made   atomic.Int64 // collections because of growth

	mu      sync.Mutex
	off     int         // holds that keep collections off
	percent int         // the collector's percentage without them
	next    *time.Timer // runs look; nil while collections are on, or with GOGC=off
}

func (s *state) begin(threads int, collect bool) *Hold {
	h := &Hold{of: s, threads: threads, collect: collect}
	s.mu.Lock()
	defer s.mu.Unlock()
	room(threads)
	if !collect {
		s.off++
		if s.off == 1 {
			s.percent = debug.SetGCPercent(off)
			if s.percent >= 0 {
				s.next = time.AfterFunc(s.every, s.look)
			}
		}
	}
	h.before = s.made.Load()
	return h
}

func (s *state) end(h *Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.ended {
		return
	}
	h.ended = true
	room(-h.threads)
	if h.collect {
		return
	}
	s.off--
	if s.off == 0 {
		if s.next != nil {
			s.next.Stop() // a running look finds next nil
			s.next = nil
		}
		debug.SetGCPercent(s.percent)
	}
}

// look collects garbage if the heap has grown too much. s.next runs it.
func (s *state) look() {
	s.mu.Lock()
	timer, much := s.next, grown() >= s.growth
	s.mu.Unlock()
	if timer == nil {
		return
	}
	if much {
		s.made.Add(1)
		runtime.GC() // without the lock, which Begin and End need
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == timer {
		timer.Reset(s.every)
	}
}

// room adds threads to GOMAXPROCS. Setting that stops the world.
func room(threads int) {
	if threads != 0 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads)
	}
}

// grown returns by how much the heap has grown since the last collection, in bytes: live and
// unswept objects, minus the live ones at that time.
func grown() uint64 {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	now, then := heap[0].Value.Uint64(), heap[1].Value.Uint64()
	return now - min(then, now)
}
