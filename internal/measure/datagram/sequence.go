package datagram

import (
	"math/bits"
	"sort"
)

// bitmap remembers which of the numbers behind the highest one have been seen.
type bitmap struct {
	words []uint64
	mask  int64 // numbers remembered, minus 1
}

func newBitmap(memory int) bitmap {
	n := min(max(memory, MinMemory), MaxMemory)
	n = 1 << bits.Len(uint(n-1))
	return bitmap{words: make([]uint64, n/64), mask: int64(n - 1)}
}

// advance makes seq the highest number and marks it as seen. next was the
// highest before, plus 1; the numbers between are not seen.
func (b *bitmap) advance(next, seq int64) {
	if seq-next > b.mask {
		clear(b.words)
		next = seq
	}
	for n := next; n < seq; n++ {
		if n&63 == 0 && n+64 <= seq { // a whole word
			b.words[n&b.mask>>6] = 0
			n += 63
			continue
		}
		i := n & b.mask
		b.words[i>>6] &^= 1 << (i & 63)
	}
	i := seq & b.mask
	b.words[i>>6] |= 1 << (i & 63)
}

// forgot reports whether seq lies further behind next than is remembered.
func (b *bitmap) forgot(seq, next int64) bool { return next-seq > b.mask+1 }

// set marks seq, which is remembered, and reports whether it was new.
func (b *bitmap) set(seq int64) bool {
	i := seq & b.mask
	word, bit := &b.words[i>>6], uint64(1)<<(i&63)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// order remembers at which place in the order of arrival each datagram came
// that was the highest so far. Between two disturbances number and place
// advance together, so that only the beginnings of such stretches are kept:
// the last maxStretches of them, in a ring.
type order struct {
	stretches []stretch
	oldest    int // in the ring
	length    int
	end       int64 // number that would continue the last stretch
}

// stretch says that number seq+k came at place+k, for k from 0 until the next
// stretch begins, as far as seq+k was ever the highest.
type stretch struct {
	seq, place int64
}

const maxStretches = 4096

func newOrder() order { return order{stretches: make([]stretch, maxStretches)} }

// at returns stretch i, counted from the oldest.
func (o *order) at(i int) *stretch { return &o.stretches[(o.oldest+i)%maxStretches] }

// highest notes that seq, higher than all before, came at place.
func (o *order) highest(seq, place int64) {
	if o.length > 0 && seq == o.end {
		if last := o.at(o.length - 1); place-last.place == seq-last.seq {
			o.end = seq + 1
			return
		}
	}
	if o.length == maxStretches {
		o.oldest = (o.oldest + 1) % maxStretches
		o.length--
	}
	o.length++
	*o.at(o.length - 1) = stretch{seq, place}
	o.end = seq + 1
}

// overtaker returns the place of the first datagram that came with a number
// higher than seq, which is below the highest.
func (o *order) overtaker(seq int64) int64 {
	// The stretch that begins above seq is the one, unless seq's own reaches
	// further, but then seq would not be missing: a stretch has no holes.
	i := sort.Search(o.length, func(i int) bool { return o.at(i).seq > seq })
	if i < o.length {
		return o.at(i).place
	}
	panic("datagram: nothing came after a datagram that is late")
}
