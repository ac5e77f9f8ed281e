package wire

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/lists"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// testLine returns a line with its own medium.
func testLine(p Path, seed uint64) *line {
	return newLine(p, &medium{}, seed, 0, newPool(1518), &counters{})
}

// offer pushes a frame at now.
func offer(t must.TB, l *line, now int64, size int) bool {
	slot, ok := l.pool.get()
	must.Need(t, ok, "pool is empty")
	accepted := l.push(now, slot, size)
	if !accepted {
		l.pool.put(slot)
	}
	return accepted
}

// popped is a frame that came out of a line.
type popped struct {
	entry

	at int64
}

// run takes everything out of l, each frame at the time of next.
func run(l *line) []popped {
	var out []popped
	for {
		at, ok := l.next()
		if !ok {
			return out
		}
		for {
			e, ok := l.pop(at)
			if !ok {
				break
			}
			l.pool.put(e.slot)
			out = append(out, popped{e, at})
		}
	}
}

func TestLineRate(t *testing.T) {
	t.Parallel()
	l := testLine(Path{Rate: 1e9, Delay: time.Millisecond}, 1)
	const n, size = 10000, 1514
	for range n {
		offer(t, l, 0, size)
	}
	out := run(l)
	must.Need(t, len(out) == n, "%d frames came out, want %d", len(out), n)
	for i, p := range out {
		// 1538 bytes on a gigabit link take 12.304 us.
		want := float64(i+1)*12304 + 1e6
		must.Need(t, math.Abs(float64(p.due)-want) <= 1, "frame %d due at %d ns, want %.0f", i, p.due, want)
	}
}

func TestLineQueue(t *testing.T) {
	t.Parallel()
	const size = 1000
	l := testLine(Path{Rate: 8e6, Queue: 10 * size}, 1) // 1.024 ms a frame
	accepted := 0
	for range 20 {
		if offer(t, l, 0, size) {
			accepted++
		}
	}
	got := l.count.read().QueueDrops
	must.True(t, accepted == 10 && got == 10, "accepted %d and dropped %d of 20, want 10 and 10", accepted, got)
	must.True(t, !offer(t, l, 1_023_999, size), "a frame was accepted before the first one had left")
	must.True(t, offer(t, l, 1_024_000, size), "no frame was accepted when the first one had left")
}

func TestLineReorder(t *testing.T) {
	t.Parallel()
	l := testLine(Path{Rate: 1e9, Reorder: 5}, 3)
	const n = 1000
	for i := range n {
		offer(t, l, int64(i)*20_000, 200+i)
	}
	out := run(l)
	must.Need(t, len(out) == n, "%d frames came out, want %d", len(out), n)
	late := 0
	for i, p := range out {
		passed := lists.Count(out[:i], func(q popped) bool { return q.size > p.size && q.fate != holdBack })
		switch {
		case p.fate != holdBack && passed > 0:
			t.Fatalf("frame %d was overtaken by %d without being held", p.size-200, passed)
		case p.fate == holdBack && passed != ReorderDistance && p.size < 200+n-20:
			t.Fatalf("held frame %d was overtaken by %d, want %d", p.size-200, passed, ReorderDistance)
		case p.fate == holdBack:
			late++
		}
	}
	got := l.count.read().Reordered
	must.True(t, uint64(late) == got && late >= 20 && late <= 90, "%d frames came late, %d counted, about 50 expected", late, got)
}

func TestLineHoldEnds(t *testing.T) {
	t.Parallel()
	l := testLine(Path{Reorder: 100}, 1)
	offer(t, l, 1000, 100)
	out := run(l)
	must.True(t, len(out) == 1 && out[0].at == 1000+int64(ReorderHold), "a lone held frame came out as %+v, want it after %s", out, ReorderHold)
}

func TestHalfDuplexShares(t *testing.T) {
	t.Parallel()
	m := &medium{}
	there := newLine(Path{Rate: 1e9}, m, 1, 0, newPool(1518), &counters{})
	back := newLine(Path{Rate: 1e9}, m, 1, 1, newPool(1518), &counters{})
	for range 100 {
		offer(t, there, 0, 1514)
		offer(t, back, 0, 1514)
	}
	a, b := run(there), run(back)
	must.Equal(t, max(a[99].due, b[99].due), 200*12304, "200 frames on one medium took")
}

func TestPathMTU(t *testing.T) {
	t.Parallel()
	l := testLine(Path{PathMTU: 1400}, 1)
	offer(t, l, 0, 1400+HeaderBytes)
	offer(t, l, 0, 1401+HeaderBytes)
	out := run(l)
	must.True(t, len(out) == 1 && l.count.read().MTUDrops == 1, "%d frames came out and %d vanished, want 1 and 1", len(out), l.count.read().MTUDrops)
}

// TestLineLaws checks what holds for every path: frames are conserved, none is early, order is
// kept except by held frames, and all memory is freed.
func TestLineLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 60)
		p := Path{
			Rate:      units.BitRate(rapid.SampledFrom([]int{0, 1e6, 1e8, 1e9}).Draw(t, "rate")),
			Queue:     units.Bytes(rapid.SampledFrom([]int{0, 1514, 5000, 1 << 20}).Draw(t, "queue")),
			Delay:     time.Duration(rapid.IntRange(0, 1e7).Draw(t, "delay")),
			Jitter:    time.Duration(rapid.IntRange(0, 1e7).Draw(t, "jitter")),
			Loss:      units.Percent(share.Draw(t, "loss")),
			Reorder:   units.Percent(share.Draw(t, "reorder")),
			Duplicate: units.Percent(share.Draw(t, "dup")),
			PathMTU:   rapid.SampledFrom([]int{0, 700}).Draw(t, "mtu"),
		}
		l := testLine(p, rapid.Uint64().Draw(t, "seed"))
		offered := 0
		now := int64(0)
		var out []popped
		for i := range rapid.IntRange(1, 3000).Draw(t, "frames") {
			now += rapid.Int64Range(0, 100_000).Draw(t, "gap")
			offered++
			offer(t, l, now, 60+i%1455)
			if i%7 == 0 {
				for e, ok := l.pop(now); ok; e, ok = l.pop(now) {
					l.pool.put(e.slot)
					out = append(out, popped{e, now})
				}
			}
		}
		out = append(out, run(l)...)
		c := l.count.read()
		must.Need(t, c.Frames == uint64(offered) && c.Frames == uint64(len(out))+c.Lost+c.MTUDrops+c.QueueDrops,
			"%d frames offered, %d came out: %+v", offered, len(out), c)
		last := int64(0)
		for _, o := range out {
			must.Need(t, o.at >= o.due && o.due >= o.left+int64(p.Delay), "frame came out early: %+v", o)
			must.Need(t, o.fate == holdBack || o.due >= last, "frame due at %d came after one due at %d", o.due, last)
			if o.fate != holdBack {
				last = o.due
			}
		}
		free := len(l.pool.free)
		must.Need(t, free == len(l.pool.chunks)*slotsPerChunk, "%d of %d slots came back", free, len(l.pool.chunks)*slotsPerChunk)
	})
}

func TestLineRepeats(t *testing.T) {
	t.Parallel()
	fates := func(seed uint64) []int32 {
		l := testLine(Path{Loss: 10, Duplicate: 10, Jitter: time.Millisecond}, seed)
		for i := range 500 {
			offer(t, l, int64(i)*1000, 60+i)
		}
		sizes := lists.Each(run(l), func(p popped) int32 { return p.size * int32(1+p.fate) })
		return sizes
	}
	one, again, another := fates(1), fates(1), fates(2)
	must.True(t, slices.Equal(one, again), "one seed gave two outcomes")
	must.True(t, !slices.Equal(one, another), "two seeds gave one outcome")
}

func TestLineDoesNotAllocate(t *testing.T) {
	l := testLine(Path{Rate: 1e9, Delay: time.Millisecond, Loss: 1, Duplicate: 1, Reorder: 1}, 1)
	now := int64(0)
	work := func() {
		for range 100 {
			now += 20_000
			offer(t, l, now, 1514)
			for e, ok := l.pop(now); ok; e, ok = l.pop(now) {
				l.pool.put(e.slot)
			}
		}
	}
	for range 100 {
		work()
	}
	n := testing.AllocsPerRun(100, work)
	must.True(t, n <= 0, "%.1f allocations in 100 frames, want none", n)
}

func BenchmarkLine(b *testing.B) {
	l := testLine(Path{Rate: 1e9, Delay: time.Millisecond, Queue: 1 << 20, Loss: 0.01, Jitter: time.Microsecond}, 1)
	now := int64(0)
	for b.Loop() {
		now += 12304
		offer(b, l, now, 1514)
		for e, ok := l.pop(now); ok; e, ok = l.pop(now) {
			l.pool.put(e.slot)
		}
	}
}

// A bus delays the frames of both directions together; the link after it is idle in between.
func TestBusShares(t *testing.T) {
	t.Parallel()
	bus := &medium{}
	there := newLine(Path{Rate: 10e9}, &medium{}, 1, 0, newPool(1518), &counters{})
	back := newLine(Path{Rate: 10e9}, &medium{}, 1, 1, newPool(1518), &counters{})
	there.behind(bus, 1e9)
	back.behind(bus, 1e9)
	for range 100 {
		offer(t, there, 0, 1514)
		offer(t, back, 0, 1514)
	}
	a, b := run(there), run(back)
	want := int64(200*1514*8 + 1231) // 200 frames on the bus, the last one on the link: 1538 bytes
	must.Equal(t, max(a[99].due, b[99].due), want, "200 frames on one bus took")
}

// TestPolicer: at twice the policer's rate half of the frames pass, after the burst, and none
// waits.
func TestPolicer(t *testing.T) {
	t.Parallel()
	const size, n = 1000, 20000
	l := testLine(Path{Police: 8e7}, 1) // 10 frames a millisecond
	passed := 0
	for i := range n {
		if offer(t, l, int64(i)*50_000, size) { // 20 a millisecond
			passed++
		}
		for {
			e, ok := l.pop(int64(i) * 50_000)
			if !ok {
				break
			}
			l.pool.put(e.slot)
		}
	}
	burst := int(PoliceBurst(8e7)) / size
	want := n/2 + burst
	must.True(t, passed >= want-2 && passed <= want+2, "%d of %d frames passed, want %d", passed, n, want)
	got := l.count.read().Policed
	must.True(t, got == uint64(n-passed), "%d counted as policed, and %d were", got, n-passed)
}

// TestStage: a slower stage after the queue sets the rate.
func TestStage(t *testing.T) {
	t.Parallel()
	l := testLine(Path{Rate: 1e9, Stage: 8e7}, 1)
	const size, n = 1000, 500
	for range n {
		offer(t, l, 0, size)
	}
	out := run(l)
	last := out[len(out)-1].at
	must.True(t, len(out) == n && math.Abs(float64(last)-n*100_000) <= 20_000, "%d frames by %d ns, want %d by %d", len(out), last, n, n*100_000)
}
