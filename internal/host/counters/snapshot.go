package counters

import (
	"math"
	"time"
)

// Snapshot holds the values of a host's counters at one moment. Two of them yield samples and
// counters; one alone says nothing. It is immutable.
type Snapshot struct {
	at     time.Time
	device string // interface, "" for none
	parts  coreParts
	cores  []core  // ascending id
	queues []queue // softnet, ascending id
	values values
	// of this process, sorted by id; nil if the system does not report them
	threads []thread
	quota   float64      // in CPUs, the smallest of this process's control groups; 0 for none
	qdisc   qdiscKind    // the discipline whose counters are in values
	driver  driverValues // of the interface's driver
	levels  []level      // readings of the radio, if the interface is one
}

// level is a value that a sample reports as it is.
type level struct {
	name  string
	value float64
}

// core is the time that a core has spent since boot. What the system does not report is 0,
// and coreParts says so.
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

// coreParts says which parts of a core's time the system reports.
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

// value is the value of a counter.
type value struct {
	n      uint64
	known  bool
	narrow bool // it has 32 bits and wraps around
}

type values [counterCount]value

func (v *values) set(i id, n uint64)         { v[i] = value{n: n, known: true} }
func (v *values) setNarrow(i id, n uint32)   { v[i] = value{n: uint64(n), known: true, narrow: true} }
func (v *values) raiseNarrow(i id, n uint32) { v.setNarrow(i, uint32(v[i].n)+n) }

// moved returns how far a counter moved from a to b. It returns false if one of them is
// unknown, or the counter was reset rather than wrapped around: a driver was loaded, an
// interface recreated.
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

// moved32 takes a step of less than half the range for progress, which may wrap around, and a
// larger one for a reset. No counter that is read every second moves by 2^31 between two
// readings.
func moved32(a, b uint32) (int64, bool) {
	if d := b - a; d < 1<<31 {
		return int64(d), true
	}
	return 0, false
}

// qdiscKind distinguishes a queueing discipline from one that replaced it.
type qdiscKind struct {
	handle  uint32
	kind    [16]byte
	backlog uint32 // queued bytes
	known   bool
}

func (q qdiscKind) same(o qdiscKind) bool {
	return q.known && o.known && q.handle == o.handle && q.kind == o.kind
}

// driverValues are counters of a driver under its own names. Names is shared by all snapshots
// of a watcher; nil values mean that they were not read.
type driverValues struct {
	names  []string
	values []uint64
}
