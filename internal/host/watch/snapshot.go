package watch

import (
	"math"
	"time"
)

// Snapshot is what the counters of a host stood at at one moment. Two of them
// make samples and counters; one alone says nothing. It is immutable.
type Snapshot struct {
	at     time.Time
	device string // interface, "" for none
	parts  coreParts
	cores  []core  // ascending id
	queues []queue // softnet, ascending id
	values values  //
	// threads of this process, ascending id; nil where the system does not tell
	threads []thread
	quota   float64      // of processors, the smallest of this process's control groups; 0 for none
	qdisc   qdiscKind    // whose counters values holds
	driver  driverValues // of the interface's driver
	levels  []level      // what the radio stands at, if the interface is one
}

// level is a value that a sample tells as it stands.
type level struct {
	name  string
	value float64
}

// core is the time that a core has spent since the machine started. What the
// system does not tell stays 0, and coreParts says so.
type core struct {
	id                                int
	user, system, irq, softirq, steal time.Duration
}

func (c core) busy() time.Duration { return c.user + c.system + c.irq + c.softirq }

// thread is the time that a thread of this process has run, and waited to run.
type thread struct {
	id        int
	run, wait time.Duration
}

// coreParts says which parts of a core's time the system tells.
type coreParts struct{ user, system, irq, softirq, steal bool }

func (p coreParts) count() int {
	n := 0
	for _, known := range []bool{p.user, p.system, p.irq, p.softirq, p.steal} {
		if known {
			n++
		}
	}
	return n
}

// queue is a core's part of the receive path, all counters of 32 bits.
type queue struct {
	id                                    int
	processed, dropped, squeezed, limited uint32
	hasLimited                            bool
}

// value is what a counter stands at.
type value struct {
	n      uint64
	known  bool
	narrow bool // it has 32 bits and begins anew at 0
}

type values [counterCount]value

func (v *values) set(i id, n uint64)         { v[i] = value{n: n, known: true} }
func (v *values) setNarrow(i id, n uint32)   { v[i] = value{n: uint64(n), known: true, narrow: true} }
func (v *values) raiseNarrow(i id, n uint32) { v.setNarrow(i, uint32(v[i].n)+n) }

// moved returns how far a counter moved from a to b. It reports false where
// one of them is unknown or where the counter began anew for another reason
// than running over: a driver was loaded, an interface made again.
func moved(a, b value) (int64, bool) {
	if !a.known || !b.known || a.narrow != b.narrow {
		return 0, false
	}
	if a.narrow {
		return moved32(uint32(a.n), uint32(b.n))
	}
	if b.n < a.n || b.n-a.n > math.MaxInt64 {
		return 0, false
	}
	return int64(b.n - a.n), true
}

// moved32 takes a step of less than half the range for running over, and one
// of more for a reset. A counter that is read every second and moves 2^31
// times between two readings does not exist.
func moved32(a, b uint32) (int64, bool) {
	if d := b - a; d < 1<<31 {
		return int64(d), true
	}
	return 0, false
}

// qdiscKind tells one queueing discipline from the one that replaced it.
type qdiscKind struct {
	handle  uint32
	kind    [16]byte
	backlog uint32 // bytes that wait
	known   bool
}

func (q qdiscKind) same(o qdiscKind) bool {
	return q.known && o.known && q.handle == o.handle && q.kind == o.kind
}

// driverValues are counters of a driver under its own names. Names is shared
// by all snapshots of a watcher; nil values mean that they were not read.
type driverValues struct {
	names  []string
	values []uint64
}
