package wire

import "sync/atomic"

// slotsPerChunk is how many frames the pool grows by.
const slotsPerChunk = 256

// maxPoolBytes bounds the memory of one direction. It is twice the frames of a second at 1
// Gbit/s; beyond that, frames count as queue drops.
const maxPoolBytes = 256 << 20

// pool holds the frames of one direction in slots of equal size. It grows in
// chunks and never shrinks, so that a running wire does not allocate.
type pool struct {
	size   int
	chunks [][]byte
	free   []int32
}

// newPool returns a pool of slots for frames of up to size bytes.
func newPool(size int) *pool {
	return &pool{size: (size + 63) &^ 63}
}

// get returns a free slot, or false at the memory limit.
func (p *pool) get() (int32, bool) {
	if len(p.free) == 0 {
		if (len(p.chunks)+1)*slotsPerChunk*p.size > maxPoolBytes {
			return 0, false
		}
		base := len(p.chunks) * slotsPerChunk
		p.chunks = append(p.chunks, make([]byte, slotsPerChunk*p.size))
		for i := slotsPerChunk - 1; i >= 0; i-- {
			p.free = append(p.free, int32(base+i))
		}
	}
	slot := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return slot, true
}

// put gives a slot back.
func (p *pool) put(slot int32) { p.free = append(p.free, slot) }

// bytes returns the memory of a slot.
func (p *pool) bytes(slot int32) []byte {
	at := int(slot) % slotsPerChunk * p.size
	return p.chunks[int(slot)/slotsPerChunk][at : at+p.size : at+p.size]
}

// counters are the counters of a direction, written by its goroutine and read
// by others.
type counters struct {
	frames, bytes, delivered, outBytes    atomic.Uint64
	lost, queueDrops, mtuDrops, policed   atomic.Uint64
	duplicated, reordered, refused, wakes atomic.Uint64
	missed                                atomic.Uint64
}

func (c *counters) read() Counters {
	return Counters{
		Frames: c.frames.Load(), Bytes: c.bytes.Load(),
		Delivered: c.delivered.Load(), OutBytes: c.outBytes.Load(),
		Lost: c.lost.Load(), QueueDrops: c.queueDrops.Load(), MTUDrops: c.mtuDrops.Load(), Policed: c.policed.Load(),
		Duplicated: c.duplicated.Load(), Reordered: c.reordered.Load(),
		Missed: c.missed.Load(), Refused: c.refused.Load(), Wakes: c.wakes.Load(),
	}
}
