package peer

import (
	"encoding/binary"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/iperf2"
)

// Sizes of datagrams, bytes of payload.
const (
	size4       = 1470 // what iperf 2 sends over IPv4
	size6       = 1450 // and over IPv6
	minDatagram = 76   // both headers of 2.1
	maxDatagram = datagram.MaxPayload
	leastReport = 128 // of 2.1; a report of 2.0.5 is as long as its datagrams
)

// The end of a flow (section 5).
const (
	finalEvery = 50 * time.Millisecond // between two final datagrams
	finalTries = 40
	// mostRefusals is how many sends may fail before the peer counts as gone: its host reports
	// that the port is closed.
	mostRefusals = 10
	mostAcks     = 10                     // reports sent to one flow
	afterFinal   = 400 * time.Millisecond // how long a receiver answers further final datagrams
	silence      = 2 * time.Second        // after its time, a flow this silent has ended without a final datagram
)

// stamper writes the header of each datagram of a flow.
type stamper struct {
	layout iperf2.Layout
	header []byte // after that of the datagram; empty on the return direction
	wall   time.Time
}

// stamp writes the header of datagram number, which leaves at after the start. It allocates
// nothing.
func (s *stamper) stamp(b []byte, number int64, at time.Duration) {
	iperf2.Datagram{ID: number, Sent: stampOf(s.wall.Add(at))}.Put(b, s.layout)
	off := s.layout.HeaderOffset()
	if len(s.header) > 0 {
		copy(b[off:], s.header)
		return
	}
	// Zero flags mean no header; payload could be taken for flags.
	binary.BigEndian.PutUint32(b[off:], 0)
}

// gapOf returns the time between datagrams of size bytes at rate, ns; 0 is as fast as possible.
func gapOf(rate units.BitRate, size int) float64 {
	if rate <= 0 {
		return 0
	}
	return float64(size) * 8 / float64(rate) * 1e9
}
