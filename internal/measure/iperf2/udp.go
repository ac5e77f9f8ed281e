package iperf2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Layout is which of the two datagram formats a peer speaks (section 5).
type Layout int

// The layouts. They differ in the offsets of the client header and the server report, and
// nothing on the wire names them.
const (
	Layout16 Layout = iota // 2.0.10 and later: 64-bit numbers, header at 16
	Layout12               // 2.0.5: 32-bit numbers from 0, header at 12
)

// String names the versions with the layout.
func (l Layout) String() string {
	if l == Layout12 {
		return "iperf 2.0.5"
	}
	return "iperf 2.0.10 or later"
}

// HeaderOffset returns the offset of the client header in a datagram.
func (l Layout) HeaderOffset() int {
	if l == Layout12 {
		return 12
	}
	return DatagramLead
}

// Datagram is the start of every datagram (section 5).
type Datagram struct {
	ID   int64 // from 0 in 2.0.5, from 1 in 2.1; negative in the final one
	Sent Stamp // the sender's wall clock
}

// Final reports whether the datagram ends the test and asks for the report.
func (d Datagram) Final() bool { return d.ID < 0 }

// Number returns the position of the datagram in its flow, without the sign of a final one.
func (d Datagram) Number() uint64 {
	if d.ID < 0 {
		return -uint64(d.ID)
	}
	return uint64(d.ID)
}

// Put writes the datagram header to the start of b, which must be long enough,
// and allocates nothing. In Layout12 the id is cut to 32 bits.
func (d Datagram) Put(b []byte, l Layout) {
	_ = b[l.HeaderOffset()-1]
	binary.BigEndian.PutUint32(b, uint32(d.ID))
	putStamp(b[4:], d.Sent)
	if l == Layout16 {
		binary.BigEndian.PutUint32(b[12:], uint32(uint64(d.ID)>>32))
	}
}

// ParseDatagram parses the start of a datagram. It returns an error if the datagram is too
// short.
func ParseDatagram(b []byte, l Layout) (Datagram, error) {
	if len(b) < l.HeaderOffset() {
		return Datagram{}, fmt.Errorf("parse datagram of %d bytes: %d needed", len(b), l.HeaderOffset())
	}
	d := Datagram{ID: int64(int32(binary.BigEndian.Uint32(b))), Sent: getStamp(b[4:])}
	if l == Layout16 {
		d.ID = int64(uint64(binary.BigEndian.Uint32(b[12:]))<<32 | uint64(binary.BigEndian.Uint32(b)))
	}
	return d, nil
}

// DetectLayout determines a flow's layout from one of its datagrams, best the first, and
// returns false if it cannot: flags at 16 with Sequence64 are Layout16, an id of 0 is Layout12
// (section 5).
func DetectLayout(b []byte) (Layout, bool) {
	switch {
	case len(b) >= DatagramLead+4 && Flags(binary.BigEndian.Uint32(b[DatagramLead:]))&Sequence64 != 0:
		return Layout16, true
	case len(b) >= 12 && binary.BigEndian.Uint32(b) == 0:
		return Layout12, true
	default:
		return Layout16, false
	}
}

// Report is what a UDP server sends back after the final datagram (section 5).
type Report struct {
	Bytes      uint64 // payload, datagram headers included
	Duration   Stamp
	Lost       int64
	OutOfOrder int64
	Datagrams  int64
	Jitter     Stamp

	HasTransit bool // the client asked for one-way delays, and Layout16 carries them
	Transit    Transit
}

// Transit summarises the one-way delays, which are meaningful only if the clocks of both hosts
// agree.
type Transit struct {
	Min, Max, Sum, Mean, M2, VD Stamp
	Count, GapCount, GapSum     uint32
}

// Lengths of a report from its flags word on, and its parts (section 5).
const (
	reportBase     = 40
	reportExtended = 100
	reportHigh     = 112
	report16Len    = DatagramLead + reportHigh
)

// ErrReport reports that a datagram is no server report.
var ErrReport = errors.New("not an iperf 2 server report")

// reportFlags reports whether the word at b begins a report: its top bit is
// set, and its low 24 bits are zero.
func reportFlags(b []byte) (Flags, bool) {
	if len(b) < reportBase {
		return 0, false
	}
	f := Flags(binary.BigEndian.Uint32(b))
	return f, f&Version1 != 0 && f&0xffffff == 0
}

// ParseReport finds the report in a datagram from the server, in either layout, and returns the
// layout with it. The error wraps ErrReport if there is none.
func ParseReport(b []byte) (Report, Layout, error) {
	for _, l := range []Layout{Layout16, Layout12} {
		off := l.HeaderOffset()
		if len(b) < off {
			continue
		}
		if flags, ok := reportFlags(b[off:]); ok {
			return parseReport(b[off:], flags, l), l, nil
		}
	}
	return Report{}, Layout16, fmt.Errorf("parse datagram of %d bytes: %w", len(b), ErrReport)
}

func parseReport(b []byte, flags Flags, l Layout) Report {
	word := func(off int) uint64 { return uint64(binary.BigEndian.Uint32(b[off:])) }
	r := Report{
		Bytes:      word(4)<<32 | word(8),
		Duration:   getStamp(b[12:]),
		Lost:       int64(int32(word(20))),
		OutOfOrder: int64(int32(word(24))),
		Datagrams:  int64(int32(word(28))),
		Jitter:     getStamp(b[32:]),
	}
	if l == Layout12 {
		return r
	}
	if flags&Sequence64 != 0 && len(b) >= reportHigh {
		r.Lost = int64(word(100)<<32 | word(20))
		r.OutOfOrder = int64(word(104)<<32 | word(24))
		r.Datagrams = int64(word(108)<<32 | word(28))
	}
	if flags&Extend != 0 && len(b) >= reportExtended {
		t := b[reportBase:]
		r.HasTransit = true
		r.Transit = Transit{
			Min: getStamp(t), Max: getStamp(t[8:]), Sum: getStamp(t[16:]), Mean: getStamp(t[24:]),
			M2: getStamp(t[32:]), VD: getStamp(t[40:]),
			Count: uint32(word(88)), GapCount: uint32(word(92)), GapSum: uint32(word(96)),
		}
	}
	return r
}

// Put writes the report over b, which holds the client's final datagram, and returns how many
// bytes of b to send: all of them in Layout12, whose clients expect their own size and first 12
// bytes back, 128 in Layout16. It returns an error if b is too short or a count does not fit
// the layout.
func (r Report) Put(b []byte, l Layout) (int, error) {
	off, size := l.HeaderOffset(), len(b)
	need := off + reportBase
	if l == Layout16 {
		need, size = report16Len, report16Len
	}
	if len(b) < need {
		return 0, fmt.Errorf("write report: %d bytes needed, %d there", need, len(b))
	}
	if top := max(r.Lost, r.OutOfOrder, r.Datagrams); l == Layout12 && top > math.MaxInt32 {
		return 0, fmt.Errorf("write report: count %d does not fit 32 bits", top)
	}
	put := func(at int, v uint32) { binary.BigEndian.PutUint32(b[off+at:], v) }
	flags := Version1
	if l == Layout16 {
		clear(b[:size])
		flags |= Sequence64
		if r.HasTransit {
			flags |= Extend
			r.Transit.put(b[off+reportBase:])
		}
		put(100, uint32(uint64(r.Lost)>>32))
		put(104, uint32(uint64(r.OutOfOrder)>>32))
		put(108, uint32(uint64(r.Datagrams)>>32))
	}
	put(0, uint32(flags))
	put(4, uint32(r.Bytes>>32))
	put(8, uint32(r.Bytes))
	putStamp(b[off+12:], r.Duration)
	put(20, uint32(r.Lost))
	put(24, uint32(r.OutOfOrder))
	put(28, uint32(r.Datagrams))
	putStamp(b[off+32:], r.Jitter)
	return size, nil
}

func (t Transit) put(b []byte) {
	for i, s := range []Stamp{t.Min, t.Max, t.Sum, t.Mean, t.M2, t.VD} {
		putStamp(b[8*i:], s)
	}
	for i, w := range []uint32{t.Count, t.GapCount, t.GapSum} {
		binary.BigEndian.PutUint32(b[48+4*i:], w)
	}
}
