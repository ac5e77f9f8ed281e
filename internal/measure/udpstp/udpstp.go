// Package udpstp implements the pure part of the UDP Speed Test Protocol of RFC 9946: its PDUs
// in versions 11 and 20, the table of sending rates, the search for the highest one,
// authentication, and the receiver's counts. It has no socket and no clock; package peer has
// both roles.
//
// docs/wire/udpstp.md describes the protocol; "section" in this package is a section of that
// text.
package udpstp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Versions of the protocol. All below Version have the layout of Oldest.
const (
	Version = 20 // RFC 9946, obudpst 9
	Oldest  = 11 // obudpst 8
)

const (
	// Port is the port of servers for Setup requests (IANA).
	Port = 24601
	// MaxFlows is how many flows a test may have.
	MaxFlows = 24
	// Silence is the timeout of a silent peer: then its test is over.
	Silence = 3 * time.Second
	// Stall is how long a peer may be silent until the other end reports it in its PDUs.
	Stall = time.Second
	// Grace is how long after its time the server ends a test.
	Grace = 500 * time.Millisecond
)

// IPHeaders returns the bytes of the IP and UDP headers of a datagram.
func IPHeaders(ipv6 bool) int {
	if ipv6 {
		return 48 // RFC 8200 section 3, RFC 768
	}
	return 28 // RFC 791 section 3.1, RFC 768
}

// ErrPDU is wrapped by the errors of invalid PDUs.
var ErrPDU = errors.New("not a PDU of this protocol")

// The first two bytes of the PDUs.
const (
	setupID      = 0xACE1
	activationID = 0xACE2
	nullID       = 0xDEAD
	loadID       = 0xBEEF
	statusID     = 0xFEED
)

var be = binary.BigEndian

// check returns an error unless b is a PDU of that length and kind, whose checksum is at sum.
func check(b []byte, length int, id uint16, sum int) error {
	switch {
	case len(b) < length:
		return fmt.Errorf("%w: %d bytes where %#x has %d", ErrPDU, len(b), id, length)
	case be.Uint16(b) != id:
		return fmt.Errorf("%w: %#x where %#x is due", ErrPDU, be.Uint16(b), id)
	case be.Uint16(b[sum:]) != 0 && checksum(b[:length]) != 0: // 0: not used
		return fmt.Errorf("%w: wrong checksum", ErrPDU)
	}
	return nil
}

// checksum returns the Internet checksum (RFC 1071) of b, whose length is even: 0 if b holds
// its own.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(be.Uint16(b))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum + sum>>16)
}

// Stamp is a time in load and status PDUs. The zero value is no time.
type Stamp struct{ Seconds, Nanoseconds uint32 }

// StampOf returns t in PDU format.
func StampOf(t time.Time) Stamp { return Stamp{uint32(t.Unix()), uint32(t.Nanosecond())} }

// Time returns the moment of s.
func (s Stamp) Time() time.Time { return time.Unix(int64(s.Seconds), int64(s.Nanoseconds)) }

func (s Stamp) put(b []byte) {
	be.PutUint32(b, s.Seconds)
	be.PutUint32(b[4:], s.Nanoseconds)
}

func stampAt(b []byte) Stamp { return Stamp{be.Uint32(b), be.Uint32(b[4:])} }

// flag returns a boolean in PDU format.
func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// millis returns d in whole milliseconds, at most what a field of that many bits holds.
func millis(d time.Duration, bits int) uint64 {
	return uint64(min(max(d.Round(time.Millisecond).Milliseconds(), 0), 1<<bits-1))
}
