package datagram

import (
	"math/bits"
	"sort"
)

// bitmap remembers which numbers below the highest one have been seen.
type bitmap struct {
	words []uint64
	mask  int64 // numbers remembered, minus 1
}

func newBitmap(memory int) bitmap {
	n := min(max(memory, MinMemory), MaxMemory)
	n = 1 << bits.Len(uint(n-1))
	return bitmap{words: make([]uint64, n/64), mask: int64(n - 1)}
}

// advance makes seq the highest number and marks it as seen. next is the previous highest plus
// 1; the numbers between stay unseen.
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

// forgot reports whether seq is too far below next to be remembered.
func (b *bitmap) forgot(seq, next int64) bool { return next-seq > b.mask+1 }

// set marks seq, which must be remembered, and reports whether it was new.
func (b *bitmap) set(seq int64) bool {
	i := seq & b.mask
	word, bit := &b.words[i>>6], uint64(1)<<(i&63)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// order remembers the place, in the order of arrival, of each datagram that was the highest so
// far. Number and place advance together until loss or reordering, so that order keeps only the
// beginning of each such stretch: the last maxStretches of them, in a ring.
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

// highest records that seq, higher than all before, arrived at place.
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

// overtaker returns the place of the first datagram to arrive with a number higher than seq,
// which is below the highest.
func (o *order) overtaker(seq int64) int64 {
	// It is in the first stretch that begins above seq. seq's own stretch cannot hold it: a
	// stretch has no holes, and seq is missing.
	i := sort.Search(o.length, func(i int) bool { return o.at(i).seq > seq })
	if i < o.length {
		return o.at(i).place
	}
	panic("datagram: nothing came after a datagram that is late")
}
