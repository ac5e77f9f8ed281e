package iperf2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Lengths of an ack in bytes, and the most that a reader accepts (section 4).
const (
	ackType    = 2
	ackLen     = 28
	ackTripLen = 52
	maxAckLen  = 256
)

// Ack is a server's answer to a header with AckDue (section 4).
type Ack struct {
	Flags                      uint32
	VersionUpper, VersionLower uint32

	// HasTrip reports that the times of a --trip-times test follow.
	HasTrip                            bool
	ClientSent, ServerGot, ServerAcked Stamp
}

// Append appends the ack to dst: 28 bytes, or 52 with HasTrip.
func (a Ack) Append(dst []byte) []byte {
	length := ackLen
	if a.HasTrip {
		length = ackTripLen
	}
	start := len(dst)
	dst = append(dst, make([]byte, length)...)
	b := dst[start:]
	for i, w := range []uint32{ackType, uint32(length), a.Flags, a.VersionUpper, a.VersionLower} {
		binary.BigEndian.PutUint32(b[4*i:], w)
	}
	if a.HasTrip {
		putStamp(b[ackLen:], a.ClientSent)
		putStamp(b[ackLen+8:], a.ServerGot)
		putStamp(b[ackLen+16:], a.ServerAcked)
	}
	return dst
}

// ErrAck reports that a peer's bytes are not an ack.
var ErrAck = errors.New("not an iperf 2 ack")

// ReadAck reads exactly one ack, of up to 256 bytes; it skips what a later version adds. The
// error wraps ErrAck if type or length are wrong.
func ReadAck(r io.Reader) (Ack, error) {
	var b [maxAckLen]byte
	if _, err := io.ReadFull(r, b[:8]); err != nil {
		return Ack{}, fmt.Errorf("read ack: %w", err)
	}
	kind, length := binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])
	if kind != ackType || length < ackLen || length > maxAckLen {
		return Ack{}, fmt.Errorf("read ack: %w: type %d, length %d", ErrAck, kind, length)
	}
	if _, err := io.ReadFull(r, b[8:length]); err != nil {
		return Ack{}, fmt.Errorf("read ack: %w", err)
	}
	a := Ack{
		Flags:        binary.BigEndian.Uint32(b[8:]),
		VersionUpper: binary.BigEndian.Uint32(b[12:]),
		VersionLower: binary.BigEndian.Uint32(b[16:]),
	}
	if length >= ackTripLen {
		a.HasTrip = true
		a.ClientSent, a.ServerGot, a.ServerAcked = getStamp(b[ackLen:]), getStamp(b[ackLen+8:]), getStamp(b[ackLen+16:])
	}
	return a, nil
}
