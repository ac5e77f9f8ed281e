package udpflow

import (
	"encoding/binary"
	"errors"
	"time"
)

// kind is the type of a datagram (docs/wire/udpflow.md, section Header).
type kind uint8

const (
	outside kind = iota // data sent outside the measured window
	inside              // data sent in the window
	ending              // the sender's counts
	ack                 // the receiver has received them
	report              // the receiver is alive
	kinds
)

const (
	magic     = 0x4c
	version   = 1
	headerLen = 16
	endLen    = headerLen + 8 + 8 + 4
	reportLen = headerLen + keyLen

	early = 1 // flag of an end

	sequenceBits = 48
	maxSequence  = 1<<sequenceBits - 1
)

// header is the start of every datagram.
type header struct {
	kind   kind
	stream uint16
	seq    int64         // 0 to maxSequence
	sent   time.Duration // since the sender's start, modulo 2^48 ns
}

// put writes h to the start of b, which holds at least headerLen bytes.
func (h header) put(b []byte) {
	_ = b[headerLen-1]
	binary.BigEndian.PutUint32(b[0:], magic<<24|uint32(version<<4|h.kind)<<16|uint32(h.stream))
	binary.BigEndian.PutUint32(b[4:], uint32(h.seq>>16))
	binary.BigEndian.PutUint64(b[8:], uint64(h.seq)<<48|uint64(h.sent)&maxSequence)
}

// parseHeader parses the header at the start of b, and returns false if there is none.
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < headerLen {
		return header{}, false
	}
	first := binary.BigEndian.Uint32(b[0:])
	h.kind = kind(first >> 16 & 0xf)
	if first>>20 != magic<<4|version || h.kind >= kinds {
		return header{}, false
	}
	last := binary.BigEndian.Uint64(b[8:])
	h.stream = uint16(first)
	h.seq = int64(binary.BigEndian.Uint32(b[4:]))<<16 | int64(last>>48)
	h.sent = time.Duration(last & maxSequence)
	return h, true
}

// counts is the content of an end.
type counts struct {
	first, behind int64 // numbers of the first datagram inside and the first after the window
	early         bool  // the sender ended before its plan
}

// put writes c after the header of b, which holds at least endLen bytes.
func (c counts) put(b []byte) {
	binary.BigEndian.PutUint64(b[16:], uint64(c.first))
	binary.BigEndian.PutUint64(b[24:], uint64(c.behind))
	flags := uint32(0)
	if c.early {
		flags = early
	}
	binary.BigEndian.PutUint32(b[32:], flags)
}

var errEnd = errors.New("an end that contradicts itself")

// parseEnd parses the end b, whose header is h.
func parseEnd(h header, b []byte) (counts, error) {
	if len(b) < endLen {
		return counts{}, errEnd
	}
	first, behind := binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])
	if first > behind || behind > uint64(h.seq) {
		return counts{}, errEnd
	}
	return counts{
		first: int64(first), behind: int64(behind),
		early: binary.BigEndian.Uint32(b[32:])&early != 0,
	}, nil
}
