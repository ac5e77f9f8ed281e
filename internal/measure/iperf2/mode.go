package iperf2

import (
	"errors"
	"fmt"
)

// Mode is which end sends, and over which connection (section 6).
type Mode int

// The modes of section 6.
const (
	Forward    Mode = iota // the client sends
	Dual                   // both at once; the server connects back
	TradeOff               // the client, then the server, which connects back
	Reverse                // the server sends on the client's connection; since 2.1
	FullDuplex             // both send on one connection; since 2.1
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Dual:
		return "dual"
	case TradeOff:
		return "trade-off"
	case Reverse:
		return "reverse"
	case FullDuplex:
		return "full duplex"
	default:
		return "forward"
	}
}

// ConnectsBack reports whether the server opens a connection to the client, on the port in the
// header. The client must listen on it first.
func (m Mode) ConnectsBack() bool { return m == Dual || m == TradeOff }

// Mode returns the requested mode.
func (h Header) Mode() Mode {
	upper := UpperFlags(0)
	if h.Flags&Extend != 0 {
		upper = h.Extension.Upper
	}
	switch {
	case h.Flags&Version1 != 0 && h.Flags&RunNow != 0:
		return Dual
	case h.Flags&Version1 != 0:
		return TradeOff
	case upper&ReverseTest != 0:
		return Reverse
	case upper&FullDuplexRun != 0:
		return FullDuplex
	default:
		return Forward
	}
}

// NewHeader returns the header of a 2.1.8 client for a TCP or UDP test: one thread, the default
// port. The caller sets the amount, and the rate of a UDP test in the extension. Servers of
// 2.0.5 treat Reverse and FullDuplex as Forward (section 6).
func NewHeader(m Mode, udp bool) Header {
	h := Header{Flags: Extend, Threads: 1, Port: DefaultPort}
	h.Extension = Extension{VersionUpper: VersionUpper, VersionLower: VersionLower}
	if udp {
		h.Flags |= Sequence64
	}
	switch m {
	case Dual:
		h.Flags |= Version1 | RunNow
	case TradeOff:
		h.Flags |= Version1
	case Reverse:
		h.Extension.Upper = ReverseTest
	case FullDuplex:
		h.Extension.Upper = FullDuplexRun
		if udp {
			h.Extension.Upper |= NoUDPFinal
		}
	case Forward:
	}
	if m == Reverse || m == FullDuplex {
		h.Flags |= Version2
		if udp {
			h.Flags |= UDPTests
		}
	}
	return h
}

// NewOldHeader returns the 24-byte header of a 2.0.5 client. The error wraps
// errors.ErrUnsupported for the modes that 2.0.5 does not have.
func NewOldHeader(m Mode) (Header, error) {
	h := Header{Threads: 1, Port: DefaultPort}
	switch m {
	case Forward:
	case Dual:
		h.Flags = Version1 | RunNow
	case TradeOff:
		h.Flags = Version1
	default:
		return Header{}, fmt.Errorf("iperf 2.0.5 %s test: %w", m, errors.ErrUnsupported)
	}
	return h, nil
}

// SafeFirstByte reports whether a test without a header may begin with b: a server takes any
// byte from 0x40 up for the start of a header (section 4).
func SafeFirstByte(b byte) bool { return b < 0x40 }
