// Package iperf2 holds the wire format of iperf 2, versions 2.0.5 to 2.2, for both ends.
//
// docs/wire/iperf2.md describes the formats; "section" in this package is a section of that
// text. Nothing here opens a socket or reads a clock, and every decoder is bounded by its
// input. All integers on the wire are big-endian.
package iperf2

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// DefaultPort is the server's port, TCP and UDP (section 1).
const DefaultPort = 5001

// DatagramLead is how many bytes of a datagram of 2.0.10 or later precede the client header;
// header lengths on the wire include them (section 5).
const DatagramLead = 16

// Lengths in bytes (sections 2 and 3).
const (
	baseLen  = 24
	extLen   = 36
	startLen = 20
)

// Flags is the first word of a client header (section 2).
type Flags uint32

// The flags of section 2. Version1 requests a return test.
const (
	Version1     Flags = 1 << 31
	Extend       Flags = 1 << 30 // an extension follows the base header
	UDPTests     Flags = 1 << 29
	KeyCheck     Flags = 1 << 28 // a permit key follows
	Sequence64   Flags = 1 << 27 // 64-bit datagram numbers
	Version2     Flags = 1 << 26
	PeerDetect   Flags = 1 << 25 // the client waits for the ack
	BounceBack   Flags = 1 << 23
	lengthGiven  Flags = 1 << 16
	lengthMask   Flags = 0x1fe
	lengthShift        = 1
	RunNow       Flags = 1 // the return test runs at the same time, not afterwards
	maxHeaderLen       = int(lengthMask >> lengthShift)
)

// HeaderLen returns the header's length in bytes, 0 to 255, DatagramLead included in a
// datagram. It returns false if the flags have no length (section 2).
func (f Flags) HeaderLen() (int, bool) {
	return int(f & lengthMask >> lengthShift), f&lengthGiven != 0
}

// withLen returns the flags with length n.
func (f Flags) withLen(n int) Flags {
	return f&^lengthMask | lengthGiven | Flags(n)<<lengthShift&lengthMask
}

// AckDue reports whether the server must answer the header with an Ack (section 4).
func (f Flags) AckDue() bool {
	return f&Extend != 0 && (f&Version2 == 0 || f&PeerDetect != 0)
}

// Amount is the length of a test as on the wire (section 2): negative for a time in units of 10
// ms, positive for a number of bytes.
type Amount int32

// amountUnit is the unit of a time on the wire.
const amountUnit = 10 * time.Millisecond

// AmountOfTime returns the amount for a time, rounded up to 10 ms. The time must be positive
// and below 249 days.
func AmountOfTime(d time.Duration) (Amount, error) {
	if d <= 0 || d > math.MaxInt32*amountUnit {
		return 0, fmt.Errorf("test time %v does not fit the header", d)
	}
	return Amount(-((d + amountUnit - 1) / amountUnit)), nil
}

// AmountOfBytes returns the amount for a number of bytes, 1 to 2^31-1.
func AmountOfBytes(n int64) (Amount, error) {
	if n < 1 || n > math.MaxInt32 {
		return 0, fmt.Errorf("amount of %d bytes does not fit the header", n)
	}
	return Amount(n), nil
}

// Time returns the duration of the test, and whether a duration ends it.
func (a Amount) Time() (time.Duration, bool) {
	if a >= 0 {
		return 0, false
	}
	return time.Duration(-int64(a)) * amountUnit, true
}

// Bytes returns the bytes to send, and whether they end the test.
func (a Amount) Bytes() (int64, bool) { return max(int64(a), 0), a > 0 }

// Stamp is a time or a duration in two words.
type Stamp struct{ Seconds, Microseconds uint32 }

// Float returns the stamp in seconds.
func (s Stamp) Float() float64 { return float64(s.Seconds) + float64(s.Microseconds)/1e6 }

func getStamp(b []byte) Stamp {
	return Stamp{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func putStamp(b []byte, s Stamp) {
	binary.BigEndian.PutUint32(b, s.Seconds)
	binary.BigEndian.PutUint32(b[4:], s.Microseconds)
}
