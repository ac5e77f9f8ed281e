package tcpinfo

import (
	"math"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Offsets in struct tcp_info, include/uapi/linux/tcp.h of Linux 6.18. Fields are only ever
// appended, so that an older kernel returns a shorter struct. The version is the first with the
// field.
const (
	offOptions       = 5   // 2.4; u8
	offScales        = 6   // 2.4; low half byte: the peer's, high: ours
	offAppLimited    = 7   // 4.9; bit 0; padding before
	offMSS           = 16  // 2.4; u32 from here on unless noted
	offPathMTU       = 60  // 2.4
	offRTT           = 68  // 2.4; us
	offRTTVar        = 72  // 2.4; us
	offCwnd          = 80  // 2.4; segments
	offTotalRetrans  = 100 // 2.6
	offBytesAcked    = 120 // 4.1; u64
	offSegsOut       = 136 // 4.2
	offSegsIn        = 140 // 4.2
	offNotSent       = 144 // 4.6; bytes
	offRTTMin        = 148 // 4.6; us
	offDeliveryRate  = 160 // 4.9; u64, bytes per second
	offBusy          = 168 // 4.10; u64, us
	offRwndLimited   = 176 // 4.10; u64, us
	offSndbufLimited = 184 // 4.10; u64, us
	offBytesSent     = 200 // 4.19; u64
	offSndWnd        = 228 // 5.4; bytes
)

// parse parses struct tcp_info as far as b holds it. The kernel's byte order is the machine's.
// A field that is not completely in b stays unknown.
func parse(b []byte) Info {
	r := reader(b)
	var i Info
	if options, ok := r.byte(offOptions); ok {
		i.Timestamps = fact.Known(options&optTimestamps != 0, source)
		i.SACK = fact.Known(options&optSACK != 0, source)
		i.ECN = fact.Known(options&optECN != 0, source)
		if scales, ok := r.byte(offScales); ok && options&optScale != 0 {
			i.SendScale = fact.Known(int(scales&15), source)
			i.RecvScale = fact.Known(int(scales>>4), source)
		}
	}
	i.MSS = positive[int](r, offMSS)
	i.PathMTU = positive[int](r, offPathMTU)
	i.Cwnd = r.cwnd()
	if us := positive[time.Duration](r, offRTT); us.IsKnown() {
		variation, _ := r.u32(offRTTVar)
		i.RTT = fact.Known(us.Or(0)*time.Microsecond, source)
		i.RTTVar = fact.Known(time.Duration(variation)*time.Microsecond, source)
	}
	// All ones until the first measurement: minmax_reset in tcp_init_sock.
	if us, ok := r.u32(offRTTMin); ok && us != math.MaxUint32 {
		i.RTTMin = fact.Known(time.Duration(us)*time.Microsecond, source)
	}
	i.Retransmits = count[int64](r, offTotalRetrans)
	i.SegmentsOut = count[int64](r, offSegsOut)
	i.SegmentsIn = count[int64](r, offSegsIn)
	i.NotSent = count[units.Bytes](r, offNotSent)
	i.PeerWindow = count[units.Bytes](r, offSndWnd)
	i.BytesSent, i.BytesAcked = r.total(offBytesSent), r.total(offBytesAcked)
	i.Busy = r.micros(offBusy)
	i.RwndLimited = r.micros(offRwndLimited)
	i.SndbufLimited = r.micros(offSndbufLimited)
	if rate, ok := r.u64(offDeliveryRate); ok {
		i.DeliveryRate = fact.Known(units.BitRate(rate)*8, source)
		i.AppLimited = fact.Known(b[offAppLimited]&1 != 0, source)
	}
	return i
}

// cwnd returns the congestion window, which the kernel counts in segments. It rejects a window
// beyond int64.
func (r reader) cwnd() fact.Of[units.Bytes] {
	segments, ok := r.u32(offCwnd)
	mss, _ := r.u32(offMSS)
	window := uint64(segments) * uint64(mss)
	if !ok || mss == 0 || window > math.MaxInt64 {
		return fact.Of[units.Bytes]{}
	}
	return fact.Known(units.Bytes(window), source)
}

// total returns the bytes at off, a u64. It rejects a value beyond int64.
func (r reader) total(off int) fact.Of[units.Bytes] {
	n, ok := r.u64(off)
	if !ok || n > math.MaxInt64 {
		return fact.Of[units.Bytes]{}
	}
	return fact.Known(units.Bytes(n), source)
}

// micros returns the time at off. It rejects more than 292 years.
func (r reader) micros(off int) fact.Of[time.Duration] {
	us, ok := r.u64(off)
	if !ok || us > math.MaxInt64/uint64(time.Microsecond) {
		return fact.Of[time.Duration]{}
	}
	return fact.Known(time.Duration(us)*time.Microsecond, source)
}
