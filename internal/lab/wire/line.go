package wire

import (
	"math"
	"math/rand/v2"
	"sync"

	"linerate/internal/core/units"
)

// medium is the shared resource that serialises frames. Each direction of a
// full duplex wire has its own; both directions of a half duplex wire share one.
type medium struct {
	mu   sync.Mutex
	busy float64 // nanoseconds since the wire's start at which the link is free; for a rate that swings, on its sway's clock
}

// reserve returns when a frame that arrives at now and needs txNanos has left.
func (m *medium) reserve(now, txNanos float64) float64 {
	m.mu.Lock()
	m.busy = max(m.busy, now) + txNanos
	left := m.busy
	m.mu.Unlock()
	return left
}

// fate is what happens to a frame after the queue.
type fate uint8

const (
	deliver fate = iota
	vanish       // counted already; only uses the link
	twice
	holdBack
)

// entry is a frame in the line. Times are nanoseconds since the wire's start.
type entry struct {
	left int64 // when its last bit leaves the queue
	due  int64 // when it arrives
	slot int32
	size int32
	fate fate
}

// held is a frame that later frames are overtaking.
type held struct {
	entry

	behind   int // frames that must still overtake it
	deadline int64
}

// line computes one direction: frames go in with their arrival time and come out when due. It
// uses no clock and no file. One goroutine owns it, except for its counters.
type line struct {
	path     Path
	bitNanos float64 // nanoseconds per bit, 0 is unlimited; for a rate that swings, the mean
	sway     sway    // of the link's rate
	medium   *medium
	busNanos float64 // nanoseconds per bit on the bus, 0 is no bus
	bus      *medium // before the link, shared by both directions
	stage    medium  // before the link, of this direction alone
	tokens   float64 // bytes that the policer passes at once
	filled   int64   // time of the computation of tokens
	rng      *rand.Rand
	pool     *pool
	count    *counters

	ring   []entry // capacity is a power of two
	head   uint64  // next to come out
	tail   uint64  // next free
	queued uint64  // first that has not left the queue yet, head <= tail
	bytes  int64   // of frames in the queue

	lastDue int64
	held    []held
	ready   []entry // overtaken held frames, next to come out
}

func newLine(p Path, m *medium, seed, stream uint64, pool *pool, c *counters) *line {
	l := &line{
		path: p, medium: m, pool: pool, count: c,
		rng:   rand.New(rand.NewPCG(seed, stream)),
		ring:  make([]entry, 1024),
		held:  make([]held, 0, 64),
		ready: make([]entry, 0, 64),
	}
	if p.Rate > 0 {
		l.bitNanos, l.sway = 1e9/float64(p.Rate), newSway(p.Swing)
	}
	l.tokens = float64(PoliceBurst(p.Police))
	return l
}

// behind adds a bus of that rate before the link; 0 if none.
func (l *line) behind(bus *medium, rate units.BitRate) {
	if rate > 0 {
		l.bus, l.busNanos = bus, 1e9/float64(rate)
	}
}

// push offers a frame of size bytes in slot that arrived at now. It returns false if the frame
// was dropped at once; then the caller owns the slot again. Times must not decrease.
func (l *line) push(now int64, slot int32, size int) bool {
	l.count.frames.Add(1)
	l.count.bytes.Add(uint64(size))
	l.drain(now)
	if !l.passes(now, size) {
		l.count.policed.Add(1)
		return false
	}
	if q := int64(l.path.Queue); q > 0 && l.bytes+int64(size) > q {
		l.count.queueDrops.Add(1)
		return false
	}
	left := now
	if l.busNanos > 0 { // it carries frames without the gaps between them
		left = int64(math.Ceil(l.bus.reserve(float64(left), float64(size)*8*l.busNanos)))
	}
	if l.path.Stage > 0 {
		left = int64(math.Ceil(l.stage.reserve(float64(left), float64(size)*8e9/float64(l.path.Stage))))
	}
	if l.bitNanos > 0 {
		done := l.medium.reserve(l.sway.work(float64(left)), float64(size+Overhead)*8*l.bitNanos)
		left = int64(math.Ceil(l.sway.moment(done)))
	}
	e := entry{left: left, slot: slot, size: int32(size), fate: l.decide(size)}
	e.due = left + int64(l.path.Delay)
	if l.path.Jitter > 0 {
		e.due += l.rng.Int64N(int64(l.path.Jitter) + 1)
	}
	e.due = max(e.due, l.lastDue)
	l.lastDue = e.due
	if l.tail-l.head == uint64(len(l.ring)) {
		l.grow()
	}
	l.ring[l.tail&uint64(len(l.ring)-1)] = e
	l.tail++
	l.bytes += int64(size)
	return true
}

// passes reports whether the policer, a token bucket, passes a frame of size bytes at now.
func (l *line) passes(now int64, size int) bool {
	if l.path.Police <= 0 {
		return true
	}
	rate := float64(l.path.Police) / 8e9 // bytes per nanosecond
	l.tokens = min(float64(PoliceBurst(l.path.Police)), l.tokens+float64(now-l.filled)*rate)
	l.filled = now
	if l.tokens < float64(size) {
		return false
	}
	l.tokens -= float64(size)
	return true
}

// decide draws the fate of a frame and counts it. Every frame draws the same number of random
// values for a given path, so that a fate depends only on the seed and on the frame's position
// among the accepted frames.
func (l *line) decide(size int) fate {
	lost := l.chance(float64(l.path.Loss))
	dup := l.chance(float64(l.path.Duplicate))
	late := l.chance(float64(l.path.Reorder))
	switch {
	case l.path.PathMTU > 0 && size-HeaderBytes > l.path.PathMTU:
		l.count.mtuDrops.Add(1)
		return vanish
	case lost:
		l.count.lost.Add(1)
		return vanish
	case late:
		l.count.reordered.Add(1)
		return holdBack
	case dup:
		l.count.duplicated.Add(1)
		return twice
	}
	return deliver
}

func (l *line) chance(percent float64) bool {
	return percent > 0 && l.rng.Float64()*100 < percent
}

// drain removes frames whose last bit has left by now from the queue's count.
func (l *line) drain(now int64) {
	mask := uint64(len(l.ring) - 1)
	for l.queued < l.tail && l.ring[l.queued&mask].left <= now {
		l.bytes -= int64(l.ring[l.queued&mask].size)
		l.queued++
	}
}

func (l *line) grow() {
	bigger := make([]entry, 2*len(l.ring))
	for i := l.head; i != l.tail; i++ {
		bigger[i&uint64(len(bigger)-1)] = l.ring[i&uint64(len(l.ring)-1)]
	}
	l.ring = bigger
}

// pop returns the next frame that is due at now, and frees vanished frames. The caller frees
// the returned frame's slot.
func (l *line) pop(now int64) (entry, bool) {
	if n := len(l.ready); n > 0 {
		e := l.ready[0]
		copy(l.ready, l.ready[1:])
		l.ready = l.ready[:n-1]
		return e, true
	}
	for l.head < l.tail {
		e := l.ring[l.head&uint64(len(l.ring)-1)]
		if e.due > now {
			break
		}
		l.drain(e.left)
		l.head++
		switch e.fate {
		case vanish:
			l.pool.put(e.slot)
		case holdBack:
			l.held = append(l.held, held{e, ReorderDistance, e.due + int64(ReorderHold)})
		case deliver, twice:
			l.overtake()
			return e, true
		}
	}
	if len(l.held) > 0 && l.held[0].deadline <= now {
		e := l.held[0].entry
		l.held = append(l.held[:0], l.held[1:]...)
		return e, true
	}
	return entry{}, false
}

// overtake counts one more frame that has passed the held frames. Those that were passed often
// enough come out next, oldest first.
func (l *line) overtake() {
	keep := l.held[:0]
	for _, h := range l.held {
		h.behind--
		if h.behind == 0 {
			l.ready = append(l.ready, h.entry)
			continue
		}
		keep = append(keep, h)
	}
	l.held = keep
}

// next returns when pop will return a frame, if nothing is pushed.
func (l *line) next() (int64, bool) {
	if len(l.ready) > 0 {
		return l.ready[0].due, true
	}
	at, ok := int64(math.MaxInt64), false
	if l.head < l.tail {
		at, ok = l.ring[l.head&uint64(len(l.ring)-1)].due, true
	}
	if len(l.held) > 0 {
		at, ok = min(at, l.held[0].deadline), true
	}
	return at, ok
}
