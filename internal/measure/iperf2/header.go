package iperf2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// UpperFlags are the flags of the extension (section 3).
type UpperFlags uint16

// The flags of section 3.
const (
	Isochronous   UpperFlags = 0x0001
	L2Length      UpperFlags = 0x0002
	L2Check       UpperFlags = 0x0004
	NoUDPFinal    UpperFlags = 0x0008
	TripTime      UpperFlags = 0x0010
	RateSet       UpperFlags = 0x0100
	FQRate        UpperFlags = 0x0200
	ReverseTest   UpperFlags = 0x0400
	FullDuplexRun UpperFlags = 0x0800
	EpochStart    UpperFlags = 0x1000
	Periodic      UpperFlags = 0x2000
	WritePrefetch UpperFlags = 0x4000
	QuickAck      UpperFlags = 0x8000

	timed = TripTime | FQRate | EpochStart // the flags that require the Start part
)

// Versions of 2.1.8, as the extension and the ack carry them.
const (
	VersionUpper = 0x00020001 // 2.1
	VersionLower = 0x00080003 // patch 8, build kind 3
)

// Header is the client's description of its test, first on every TCP connection and, after the
// datagram header, in every UDP datagram (sections 2 and 3).
type Header struct {
	Flags     Flags
	Threads   int32 // parallel connections
	Port      int32 // where the client listens for a return test
	BufferLen int32 // bytes; 0: default
	WinBand   int32 // TCP before 2.1: socket buffer, bytes; UDP of 2.0.5: bit/s
	Amount    Amount

	Extension Extension // with Extend
	Start     Start     // with Extend, if the upper flags require it
}

// Extension follows the base header since 2.0.13 (section 3).
type Extension struct {
	Type, Length  int32
	Upper         UpperFlags
	Lower         uint16
	VersionUpper  uint32
	VersionLower  uint32
	Reserved      uint16
	TOS           uint16
	BitsPerSecond uint64 // 56 bits on the wire
	Prefetch      uint32 // bytes
}

// Start follows the extension if a start time or a pacing rate is set.
type Start struct {
	Reserved      uint32
	At            Stamp
	FQLow, FQHigh uint32
}

// DSCP returns the mark that the client requests for the server's packets.
func (h Header) DSCP() int { return int(h.Extension.TOS&0xff) >> 2 }

// Pace returns the rate at which the client wants each TCP connection to be sent to, from its
// --bandwidth or --fq-rate, bit/s; 0 is as fast as possible. The header has the fq rate in
// bytes per second (2.1.8 sends 002625a0 for 20m).
func (h Header) Pace() uint64 {
	if h.Extension.Upper&FQRate != 0 && h.Start.FQLow|h.Start.FQHigh != 0 {
		return 8 * (uint64(h.Start.FQHigh)<<32 | uint64(h.Start.FQLow))
	}
	return h.Extension.BitsPerSecond
}

// Unobeyed lists the client's options that this program ignores when it sends.
func (h Header) Unobeyed() (out []string) {
	if h.Flags&Extend == 0 || h.Mode() == Forward {
		return nil
	}
	for _, o := range []struct {
		flag UpperFlags
		name string
	}{{Isochronous, "--isochronous"}, {Periodic, "--burst-period"}, {WritePrefetch, "--tcp-write-prefetch"}} {
		if h.Extension.Upper&o.flag != 0 {
			out = append(out, o.name+" of the client is not obeyed: the server sends steadily, at --bitrate where that is given")
		}
	}
	return out
}

// hasStart reports whether the header is written with the Start part.
func (h Header) hasStart() bool { return h.Flags&Extend != 0 && h.Extension.Upper&timed != 0 }

// Append appends the header to dst. lead is the length of what precedes it in its message: 0 on
// TCP, DatagramLead on UDP. With Extend, Append sets the length bits itself.
func (h Header) Append(dst []byte, lead int) []byte {
	flags := h.Flags
	if flags&Extend != 0 {
		n := lead + baseLen + extLen
		if h.hasStart() {
			n += startLen
		}
		flags = flags.withLen(n)
	}
	be := binary.BigEndian
	for _, w := range []uint32{
		uint32(flags), uint32(h.Threads), uint32(h.Port), uint32(h.BufferLen), uint32(h.WinBand), uint32(h.Amount),
	} {
		dst = be.AppendUint32(dst, w)
	}
	if flags&Extend == 0 {
		return dst
	}
	e := h.Extension
	for _, w := range []uint32{
		uint32(e.Type), uint32(e.Length), uint32(e.Upper)<<16 | uint32(e.Lower), e.VersionUpper, e.VersionLower,
		uint32(e.Reserved)<<16 | uint32(e.TOS), uint32(e.BitsPerSecond), uint32(e.BitsPerSecond>>32) << 8, e.Prefetch,
	} {
		dst = be.AppendUint32(dst, w)
	}
	if !h.hasStart() {
		return dst
	}
	for _, w := range []uint32{h.Start.Reserved, h.Start.At.Seconds, h.Start.At.Microseconds, h.Start.FQLow, h.Start.FQHigh} {
		dst = be.AppendUint32(dst, w)
	}
	return dst
}

// ErrHeader reports an invalid header.
var ErrHeader = errors.New("not an iperf 2 client header")

// ParseHeader parses the header at the start of b, which begins lead bytes into its message. It
// follows the length bits: it skips parts that this package does not know (isochronous
// settings, a permit key, additions of 2.2). It reads the Start part in the layout of 2.1.8 if
// the length is that of 2.1.8. The error wraps ErrHeader if the length contradicts the flags or
// exceeds b.
func ParseHeader(b []byte, lead int) (Header, error) {
	if len(b) < baseLen {
		return Header{}, fmt.Errorf("%w: %d of %d bytes", ErrHeader, len(b), baseLen)
	}
	be := binary.BigEndian
	h := Header{
		Flags:     Flags(be.Uint32(b)),
		Threads:   int32(be.Uint32(b[4:])),
		Port:      int32(be.Uint32(b[8:])),
		BufferLen: int32(be.Uint32(b[12:])),
		WinBand:   int32(be.Uint32(b[16:])),
		Amount:    Amount(be.Uint32(b[20:])),
	}
	if h.Flags&Extend == 0 {
		return h, nil
	}
	length, given := h.Flags.HeaderLen()
	if length -= lead; !given {
		length = baseLen + extLen
	}
	if length < baseLen+extLen || length > len(b) {
		return Header{}, fmt.Errorf("%w: flags %08x say %d bytes, %d are there", ErrHeader, uint32(h.Flags), length, len(b))
	}
	x := b[baseLen:]
	h.Extension = Extension{
		Type:          int32(be.Uint32(x)),
		Length:        int32(be.Uint32(x[4:])),
		Upper:         UpperFlags(be.Uint16(x[8:])),
		Lower:         be.Uint16(x[10:]),
		VersionUpper:  be.Uint32(x[12:]),
		VersionLower:  be.Uint32(x[16:]),
		Reserved:      be.Uint16(x[20:]),
		TOS:           be.Uint16(x[22:]),
		BitsPerSecond: uint64(be.Uint32(x[28:])>>8)<<32 | uint64(be.Uint32(x[24:])),
		Prefetch:      be.Uint32(x[32:]),
	}
	if h.hasStart() && length == baseLen+extLen+startLen {
		s := x[extLen:]
		h.Start = Start{Reserved: be.Uint32(s), At: getStamp(s[4:]), FQLow: be.Uint32(s[12:]), FQHigh: be.Uint32(s[16:])}
	}
	return h, nil
}

// Opening is what the first four bytes of a TCP connection announce.
type Opening int

// The openings that a server accepts (section 4).
const (
	OpeningData       Opening = iota // no header: count everything, including those bytes
	OpeningHeader                    // a header; a forward, reverse or full duplex test
	OpeningReturn                    // a header that requests a return test
	OpeningBounceBack                // a request and response test
)

// String returns the opening's name.
func (o Opening) String() string {
	switch o {
	case OpeningHeader:
		return "header"
	case OpeningReturn:
		return "return test"
	case OpeningBounceBack:
		return "bounce back"
	default:
		return "data"
	}
}

// Peek classifies the first four bytes of a TCP connection and returns the length of the header
// including them: 0 for data, otherwise at most 255. The error wraps ErrHeader if a header
// cannot have that length.
func Peek(first [4]byte) (Opening, int, error) {
	f := Flags(binary.BigEndian.Uint32(first[:]))
	switch {
	case f == BounceBack:
		return OpeningBounceBack, bounceLen, nil
	case f&(Version1|Extend) == 0:
		return OpeningData, 0, nil
	}
	n, given := f.HeaderLen()
	switch {
	case f&Extend == 0:
		n = baseLen
	case !given:
		n = baseLen + extLen
	case n < baseLen+extLen:
		return OpeningData, 0, fmt.Errorf("%w: flags %08x say %d bytes", ErrHeader, uint32(f), n)
	}
	if f&Version1 != 0 {
		return OpeningReturn, n, nil
	}
	return OpeningHeader, n, nil
}
