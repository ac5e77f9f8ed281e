package iperf3

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The two spellings of the greeting of a UDP stream, in wire order (section 9). Versions since
// 3.12 send the new ones; the old ones are the decimal numbers 123456789 and 987654321 as a
// little-endian host of 3.11 or older writes them.
const (
	hello    = "9876"
	reply    = "6789"
	helloOld = "\x15\xcd\x5b\x07"
	replyOld = "\xb1\x68\xde\x3a"
)

// Limits of a UDP datagram's payload in bytes, header included (section 5): the longest header,
// and the most that fits an IPv4 packet.
const (
	MinDatagram = 16
	MaxDatagram = 65507
)

// Hello returns the datagram with which a client opens a UDP stream. Send it only once to a
// foreign server, which reads a second one as data.
func Hello() []byte { return []byte(hello) }

// Reply returns the datagram with which a server answers a hello; clients of all versions
// accept it.
func Reply() []byte { return []byte(reply) }

// IsHello reports whether b is a hello in either spelling.
func IsHello(b []byte) bool { return string(b) == hello || string(b) == helloOld }

// IsReply reports whether b is a reply in either spelling.
func IsReply(b []byte) bool { return string(b) == reply || string(b) == replyOld }

// DatagramHeader begins every UDP datagram of a test (section 9).
type DatagramHeader struct {
	Seconds      uint32 // sender's clock: since its boot from 3.7 on, wall clock before
	Microseconds uint32
	Sequence     uint64 // from 1, per stream; 32 bits on the wire, or 64 if both ends agree
}

// DatagramHeaderLen returns the length of a header in bytes: 12, or 16 with
// 64-bit sequence numbers.
func DatagramHeaderLen(wide bool) int {
	if wide {
		return 16
	}
	return 12
}

// Put writes the header to the start of b, which must be long enough. It allocates nothing.
// Unless wide is true the sequence number is cut to 32 bits, as iperf3's own wraps.
func (h DatagramHeader) Put(b []byte, wide bool) {
	_ = b[DatagramHeaderLen(wide)-1]
	binary.BigEndian.PutUint32(b[0:], h.Seconds)
	binary.BigEndian.PutUint32(b[4:], h.Microseconds)
	if wide {
		binary.BigEndian.PutUint64(b[8:], h.Sequence)
		return
	}
	binary.BigEndian.PutUint32(b[8:], uint32(h.Sequence))
}

// ParseDatagramHeader parses the header at the start of a datagram; the rest is payload. It
// returns an error if the datagram is too short for one.
func ParseDatagramHeader(b []byte, wide bool) (DatagramHeader, error) {
	if len(b) < DatagramHeaderLen(wide) {
		return DatagramHeader{}, fmt.Errorf("parse datagram of %d bytes: header takes %d", len(b), DatagramHeaderLen(wide))
	}
	h := DatagramHeader{Seconds: binary.BigEndian.Uint32(b[0:]), Microseconds: binary.BigEndian.Uint32(b[4:])}
	if wide {
		h.Sequence = binary.BigEndian.Uint64(b[8:])
	} else {
		h.Sequence = uint64(binary.BigEndian.Uint32(b[8:]))
	}
	return h, nil
}

// Tally computes the loss of a UDP stream like an iperf3 receiver (section 9), so that its
// numbers can be compared with a real one's. A duplicate hides a loss, and losses after the
// last datagram are not seen. The zero value is ready; it is not safe for concurrent use.
type Tally struct {
	Highest    uint64  // the highest sequence number seen
	Received   uint64  // datagrams
	Errors     uint64  // datagrams counted as lost
	OutOfOrder uint64  // datagrams that arrived after a higher number
	Jitter     float64 // seconds, smoothed by 1/16

	transit float64
}

// Add counts one datagram that arrived at a time of the receiver's clock, in seconds since any
// fixed moment. Jitter starts with the second datagram, as in 3.8 and later.
func (t *Tally) Add(h DatagramHeader, arrivedSeconds float64) {
	if h.Sequence > t.Highest {
		t.Errors += h.Sequence - 1 - t.Highest
		t.Highest = h.Sequence
	} else {
		t.OutOfOrder++
		if t.Errors > 0 {
			t.Errors--
		}
	}
	transit := arrivedSeconds - (float64(h.Seconds) + float64(h.Microseconds)/1e6)
	if t.Received > 0 {
		t.Jitter += (math.Abs(transit-t.transit) - t.Jitter) / 16
	}
	t.transit = transit
	t.Received++
}
