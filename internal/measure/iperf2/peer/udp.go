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
	leastReport = 128 // that of 2.1; one of 2.0.5 is as long as its datagrams
)

// The end of a flow (section 5).
const (
	finalEvery = 50 * time.Millisecond // between two final datagrams
	finalTries = 40
	// mostRefusals is how many datagrams may fail before nobody seems to
	// listen: the host of a peer that is gone says so.
	mostRefusals = 10
	mostAcks     = 10                     // reports that one flow gets
	afterFinal   = 400 * time.Millisecond // for which a receiver answers further ones
	silence      = 2 * time.Second        // after its time, from which a flow without final datagram has ended
)

// stamper writes the header of each datagram of a flow.
type stamper struct {
	layout iperf2.Layout
	header []byte // behind that of the datagram; empty on the way back
	wall   time.Time
}

// stamp writes the header of datagram number, which leaves so long after the
// start, and allocates nothing.
func (s *stamper) stamp(b []byte, number int64, at time.Duration) {
	iperf2.Datagram{ID: number, Sent: stampOf(s.wall.Add(at))}.Put(b, s.layout)
	off := s.layout.HeaderOffset()
	if len(s.header) > 0 {
		copy(b[off:], s.header)
		return
	}
	// Zero flags say nothing, where payload could be taken for some.
	binary.BigEndian.PutUint32(b[off:], 0)
}

// gapOf returns the time between datagrams of size bytes at rate, ns; 0 is as
// fast as possible.
func gapOf(rate units.BitRate, size int) float64 {
	if rate <= 0 {
		return 0
	}
	return float64(size) * 8 / float64(rate) * 1e9
}
