package tcpinfo

import (
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Offsets in struct tcp_info of FreeBSD, sys/netinet/tcp.h of 12.1. It begins in Linux's order,
// followed by fields of its own, then padding, which later versions use from its start: the
// offsets below do not change. Numbers are u32.
const (
	bsdOptions     = 5
	bsdScales      = 6   // low half byte: send scale, high: receive scale
	bsdMSS         = 16  // t_maxseg: includes the options of each segment
	bsdRTT         = 68  // us, smoothed
	bsdRTTVar      = 72  // us
	bsdCwnd        = 80  // bytes, where Linux has segments
	bsdPeerWindow  = 100 // bytes
	bsdRetransmits = 120 // segments
	bsdLeast       = 132 // through tcpi_snd_zerowin
)

// timestampBytes is the size of the RFC 7323 option in each segment.
const timestampBytes = 12

// parseFreeBSD parses struct tcp_info. It uses nothing from a struct that is shorter than
// 12.1's.
func parseFreeBSD(b []byte) Info {
	const none = "not in tcp_info of freebsd"
	i := Info{
		PathMTU: fact.Unknown[int](none), RTTMin: fact.Unknown[time.Duration](none), NotSent: fact.Unknown[units.Bytes](none),
		SegmentsOut: fact.Unknown[int64](none), SegmentsIn: fact.Unknown[int64](none), BytesSent: fact.Unknown[units.Bytes](none), Busy: fact.Unknown[time.Duration](none),
		RwndLimited: fact.Unknown[time.Duration](none), SndbufLimited: fact.Unknown[time.Duration](none),
		DeliveryRate: fact.Unknown[units.BitRate](none), AppLimited: fact.Unknown[bool](none),
	}
	if len(b) < bsdLeast {
		return i
	}
	r := reader(b)
	options := b[bsdOptions]
	i.Timestamps = fact.Known(options&optTimestamps != 0, source)
	i.SACK = fact.Known(options&optSACK != 0, source)
	i.ECN = fact.Known(options&optECN != 0, source)
	if options&optScale != 0 {
		i.SendScale = fact.Known(int(b[bsdScales]&15), source)
		i.RecvScale = fact.Known(int(b[bsdScales]>>4), source)
	}
	if mss := positive[int](r, bsdMSS).Or(0); mss > timestampBytes {
		if options&optTimestamps != 0 {
			mss -= timestampBytes
		}
		i.MSS = fact.Known(mss, source)
	}
	if us := positive[time.Duration](r, bsdRTT); us.IsKnown() {
		variation, _ := r.u32(bsdRTTVar)
		i.RTT = fact.Known(us.Or(0)*time.Microsecond, source)
		i.RTTVar = fact.Known(time.Duration(variation)*time.Microsecond, source)
	}
	i.Cwnd = count[units.Bytes](r, bsdCwnd)
	i.PeerWindow = count[units.Bytes](r, bsdPeerWindow)
	i.Retransmits = count[int64](r, bsdRetransmits)
	return i
}
