// Package tcpinfo reads what the kernel knows about a TCP connection: round
// trip, windows, retransmissions, and what the sender was waiting for.
//
// Linux fills everything that its kernel has, macOS some of it. Elsewhere the
// functions wrap errors.ErrUnsupported.
package tcpinfo

import (
	"net"
	"net/netip"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/sockio"
)

// Info is the state of one connection as its own kernel sees it. Totals count
// from the start of the connection. Times that a sender was busy or limited
// tick in jiffies (1 to 10 ms), so their ratios need some seconds to mean much
// (tcp_get_info_chrono_stats, net/ipv4/tcp.c).
type Info struct {
	Timestamps fact.Of[bool] // RFC 7323 timestamps are in use
	SACK       fact.Of[bool] // RFC 2018 selective acknowledgements are in use
	ECN        fact.Of[bool] // RFC 3168 was negotiated
	SendScale  fact.Of[int]  // window scale announced by the peer, 0 to 14; unknown where scaling is off
	RecvScale  fact.Of[int]  // window scale announced by this end, 0 to 14; unknown where scaling is off
	MSS        fact.Of[int]  // bytes of payload in a full segment sent
	PathMTU    fact.Of[int]  // bytes

	RTT    fact.Of[time.Duration] // smoothed round trip; unknown before the first measurement
	RTTVar fact.Of[time.Duration] // its mean deviation
	RTTMin fact.Of[time.Duration] // least round trip in the kernel's window (Linux: 5 min)

	Cwnd       fact.Of[units.Bytes] // congestion window
	PeerWindow fact.Of[units.Bytes] // receive window announced by the peer, scaled
	NotSent    fact.Of[units.Bytes] // in the send buffer, not sent yet

	Retransmits fact.Of[int64]       // segments retransmitted, total
	SegmentsOut fact.Of[int64]       // segments sent, total; wraps at 2^32
	SegmentsIn  fact.Of[int64]       // segments received, total; wraps at 2^32
	BytesSent   fact.Of[units.Bytes] // payload sent, total, retransmissions included
	BytesAcked  fact.Of[units.Bytes] // payload acknowledged, total; the kernel counts the SYN as one

	Busy          fact.Of[time.Duration] // with data to send, total; contains the two below
	RwndLimited   fact.Of[time.Duration] // held back by the peer's receive window
	SndbufLimited fact.Of[time.Duration] // held back by the send buffer

	DeliveryRate fact.Of[units.BitRate] // latest estimate of the kernel
	AppLimited   fact.Of[bool]          // DeliveryRate was limited by this program, not by the path
}

// Read returns the kernel's view of c. It wraps errors.ErrUnsupported where the
// system has none.
func Read(c *net.TCPConn) (Info, error) { return sockio.OnDescriptor(c, read) }

// ReadFD is Read for a connection that the caller holds by its descriptor. On
// Linux it does not allocate.
func ReadFD(fd uintptr) (Info, error) { return read(fd) }

// BBR is what the congestion control bbr believes of the path of one connection.
type BBR struct {
	Rate     units.BitRate  // of payload
	RTTMin   time.Duration  // of the last 10 s in version 1 (bbr_min_rtt_win_sec, net/ipv4/tcp_bbr.c)
	Steady   bool           // it sends as fast as Rate, and looks for neither more nor less
	InFlight fact.Of[int64] // segments under way at the most; unknown in version 1, and where it has no bound
}

// ReadBBR returns what bbr believes of the path of c. It wraps errors.ErrUnsupported where
// the system or another congestion control tells nothing.
func ReadBBR(c *net.TCPConn) (BBR, error) { return sockio.OnDescriptor(c, readBBR) }

// ReadBBRFD is ReadBBR for a connection that the caller holds by its descriptor.
func ReadBBRFD(fd uintptr) (BBR, error) { return readBBR(fd) }

// Subflow is one path of a connection over Multipath TCP (RFC 8684).
type Subflow struct {
	Near, Far netip.AddrPort // of this host, of the peer
	Info
}

// ReadSubflowsFD appends to out the subflows that a connection over Multipath TCP has now.
// It fails for plain TCP, also where a connection fell back to it, and wraps
// errors.ErrUnsupported where the system has no Multipath TCP. With room in out it does
// not allocate.
func ReadSubflowsFD(fd uintptr, out []Subflow) ([]Subflow, error) { return readSubflows(fd, out) }

// Together is what several subflows are as one connection: sums of what is counted, the
// least round trip. Times and windows of each are its own, and stay unknown.
func Together(subflows []Subflow) Info {
	out := subflows[0].Info
	if len(subflows) == 1 {
		return out
	}
	own := func(name string) string { return name + " of each subflow is its own" }
	out.RTT, out.RTTVar = fact.Unknown[time.Duration](own("the round trip")), fact.Unknown[time.Duration](own("the round trip"))
	out.PeerWindow = fact.Unknown[units.Bytes](own("the window"))
	out.Busy, out.RwndLimited, out.SndbufLimited = fact.Unknown[time.Duration](own("time")), fact.Unknown[time.Duration](own("time")), fact.Unknown[time.Duration](own("time"))
	out.DeliveryRate, out.AppLimited = fact.Unknown[units.BitRate](own("the rate")), fact.Unknown[bool](own("the rate"))
	for _, s := range subflows[1:] {
		out.Cwnd, out.NotSent = sum(out.Cwnd, s.Cwnd), sum(out.NotSent, s.NotSent)
		out.Retransmits = sum(out.Retransmits, s.Retransmits)
		out.SegmentsOut, out.SegmentsIn = sum(out.SegmentsOut, s.SegmentsOut), sum(out.SegmentsIn, s.SegmentsIn)
		out.BytesSent, out.BytesAcked = sum(out.BytesSent, s.BytesSent), sum(out.BytesAcked, s.BytesAcked)
		if least, known := s.RTTMin.Get(); known {
			out.RTTMin = fact.Known(min(least, out.RTTMin.Or(least)), source)
		}
	}
	return out
}

// sum adds two counts; unknown unless both are known.
func sum[T ~int64](a, b fact.Of[T]) fact.Of[T] {
	x, known := a.Get()
	y, also := b.Get()
	if !known || !also {
		return fact.Of[T]{}
	}
	return fact.Known(x+y, source)
}

// Congestion returns the name of the congestion control of c, for example
// "cubic". It wraps errors.ErrUnsupported where the system does not tell.
func Congestion(c *net.TCPConn) (string, error) { return sockio.OnDescriptor(c, congestion) }

// CongestionFD is Congestion for a connection that the caller holds by its
// descriptor.
func CongestionFD(fd uintptr) (string, error) { return congestion(fd) }
