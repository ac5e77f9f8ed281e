// Package tcpinfo reads the kernel's statistics of a TCP connection: round trip, windows,
// retransmissions, and what the sender waited for.
//
// Linux reports all fields that its kernel has, macOS some of them. Elsewhere the functions
// wrap errors.ErrUnsupported.
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
	SendScale  fact.Of[int]  // window scale announced by the peer, 0 to 14; unknown if scaling is off
	RecvScale  fact.Of[int]  // window scale announced by this end, 0 to 14; unknown if scaling is off
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

	DeliveryRate fact.Of[units.BitRate] // the kernel's latest estimate
	AppLimited   fact.Of[bool]          // DeliveryRate was limited by this program, not by the path
}

// Read returns the kernel's view of c. The error wraps errors.ErrUnsupported if the system has
// none.
func Read(c *net.TCPConn) (Info, error) { return sockio.OnDescriptor(c, read) }

// ReadFD is Read for a connection that the caller holds by its descriptor. On
// Linux it does not allocate.
func ReadFD(fd uintptr) (Info, error) { return read(fd) }

// BBR is bbr's model of the path of one connection.
type BBR struct {
	Rate     units.BitRate  // of payload
	RTTMin   time.Duration  // of the last 10 s in version 1 (bbr_min_rtt_win_sec, net/ipv4/tcp_bbr.c)
	Steady   bool           // it sends at Rate, and probes for neither more nor less
	InFlight fact.Of[int64] // most segments in flight; unknown in version 1, and if unlimited
}

// ReadBBR returns bbr's model of the path of c. The error wraps errors.ErrUnsupported if the
// system or another congestion control has none.
func ReadBBR(c *net.TCPConn) (BBR, error) { return sockio.OnDescriptor(c, readBBR) }

// ReadBBRFD is ReadBBR for a connection that the caller holds by its descriptor.
func ReadBBRFD(fd uintptr) (BBR, error) { return readBBR(fd) }

// Subflow is one path of a connection over Multipath TCP (RFC 8684).
type Subflow struct {
	Near, Far netip.AddrPort // of this host, of the peer
	Info
}

// ReadSubflowsFD appends to out the current subflows of a Multipath TCP connection. It fails
// for plain TCP, including a connection that fell back to it, and wraps errors.ErrUnsupported
// if the system has no Multipath TCP. If out has enough capacity it does not allocate.
func ReadSubflowsFD(fd uintptr, out []Subflow) ([]Subflow, error) { return readSubflows(fd, out) }

// Together combines several subflows into one connection: sums of the counters, the least round
// trip. Other times and windows differ per subflow, and stay unknown.
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

// Congestion returns the name of the congestion control of c, for example "cubic". The error
// wraps errors.ErrUnsupported if the system does not report it.
func Congestion(c *net.TCPConn) (string, error) { return sockio.OnDescriptor(c, congestion) }

// CongestionFD is Congestion for a connection that the caller holds by its
// descriptor.
func CongestionFD(fd uintptr) (string, error) { return congestion(fd) }
