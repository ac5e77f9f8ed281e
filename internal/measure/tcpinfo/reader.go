package tcpinfo

import (
	"encoding/binary"

	"linerate/internal/core/fact"
)

const source = "TCP_INFO"

// Bits of tcpi_options, the same in include/uapi/linux/tcp.h, sys/netinet/tcp.h of
// FreeBSD and bsd/netinet/tcp.h of xnu.
const (
	optTimestamps = 1
	optSACK       = 2
	optScale      = 4
	optECN        = 8
)

// reader reads fields of a struct of any length.
type reader []byte

func (r reader) byte(off int) (byte, bool) {
	if off >= len(r) {
		return 0, false
	}
	return r[off], true
}

func (r reader) u32(off int) (uint32, bool) {
	if off+4 > len(r) {
		return 0, false
	}
	return binary.NativeEndian.Uint32(r[off:]), true
}

func (r reader) u64(off int) (uint64, bool) {
	if off+8 > len(r) {
		return 0, false
	}
	return binary.NativeEndian.Uint64(r[off:]), true
}

// count returns the 32-bit number at off.
func count[T ~int | ~int64](r reader, off int) fact.Of[T] {
	n, ok := r.u32(off)
	if !ok {
		return fact.Of[T]{}
	}
	return fact.Known(T(n), source)
}

// positive is count for fields whose value 0 means unknown.
func positive[T ~int | ~int64](r reader, off int) fact.Of[T] {
	f := count[T](r, off)
	if f.Or(0) == 0 {
		return fact.Of[T]{}
	}
	return f
}
