package tcpinfo

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Offsets in struct tcp_info, include/uapi/linux/tcp.h of Linux 6.18. Fields
// are only ever appended, so that an older kernel returns a shorter struct.
// The version is the first that has the field.
const (
	offOptions       = 5   // 2.4; u8
	offScales        = 6   // 2.4; low half byte: peer's, high: ours
	offAppLimited    = 7   // 4.9; bit 0; padding before
	offMSS           = 16  // 2.4; u32 from here on where not said otherwise
	offPathMTU       = 60  // 2.4
	offRTT           = 68  // 2.4; us
	offRTTVar        = 72  // 2.4; us
	offCwnd          = 80  // 2.4; segments
	offTotalRetrans  = 100 // 2.6
	offSegsOut       = 136 // 4.2
	offNotSent       = 144 // 4.6; bytes
	offRTTMin        = 148 // 4.6; us
	offDeliveryRate  = 160 // 4.9; u64, bytes per second
	offBusy          = 168 // 4.10; u64, us
	offRwndLimited   = 176 // 4.10; u64, us
	offSndbufLimited = 184 // 4.10; u64, us
	offBytesSent     = 200 // 4.19; u64
	offSndWnd        = 228 // 5.4; bytes

	infoBytes = 512 // room for what later kernels append
)

// Bits of tcpi_options, include/uapi/linux/tcp.h.
const (
	optTimestamps = 1
	optSACK       = 2
	optScale      = 4
	optECN        = 8
)

const source = "TCP_INFO"

func read(fd uintptr) (Info, error) {
	var b [infoBytes]byte
	n, err := getsockopt(fd, unix.TCP_INFO, b[:])
	if err != nil {
		return Info{}, fmt.Errorf("read tcp_info: %w", err)
	}
	return parse(b[:n]), nil
}

func congestion(fd uintptr) (string, error) {
	// TCP_CA_NAME_MAX, include/net/tcp.h.
	var b [16]byte
	n, err := getsockopt(fd, unix.TCP_CONGESTION, b[:])
	if err != nil {
		return "", fmt.Errorf("read congestion control: %w", err)
	}
	return unix.ByteSliceToString(b[:n]), nil
}

// getsockopt reads a TCP option into b, which is not empty, and returns how
// many bytes the kernel wrote. It never returns more than len(b).
func getsockopt(fd uintptr, option int, b []byte) (int, error) {
	n := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.IPPROTO_TCP, uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return 0, errno
	}
	return min(int(n), len(b)), nil
}

// parse decodes as much of struct tcp_info as b holds. The kernel's byte order
// is the machine's. A field that is not wholly in b stays unknown.
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
	i.NotSent = count[units.Bytes](r, offNotSent)
	i.PeerWindow = count[units.Bytes](r, offSndWnd)
	if n, ok := r.u64(offBytesSent); ok && n <= math.MaxInt64 {
		i.BytesSent = fact.Known(units.Bytes(n), source)
	}
	i.Busy = r.micros(offBusy)
	i.RwndLimited = r.micros(offRwndLimited)
	i.SndbufLimited = r.micros(offSndbufLimited)
	if rate, ok := r.u64(offDeliveryRate); ok {
		i.DeliveryRate = fact.Known(units.BitRate(rate)*8, source)
		i.AppLimited = fact.Known(b[offAppLimited]&1 != 0, source)
	}
	return i
}

// reader takes fields from a struct of any length.
type reader []byte

func (r reader) byte(off int) (byte, bool) {
	if off >= len(r) {
		return 0, false
	}
	return r[off], true
}

func (r reader) u32(off int) (uint32, bool) {
	if off+4 > len(r) {
		return 0, false
	}
	return binary.NativeEndian.Uint32(r[off:]), true
}

func (r reader) u64(off int) (uint64, bool) {
	if off+8 > len(r) {
		return 0, false
	}
	return binary.NativeEndian.Uint64(r[off:]), true
}

// cwnd returns the congestion window, which the kernel counts in segments. A
// window that no int64 holds is not believed.
func (r reader) cwnd() fact.Of[units.Bytes] {
	segments, ok := r.u32(offCwnd)
	mss, _ := r.u32(offMSS)
	window := uint64(segments) * uint64(mss)
	if !ok || mss == 0 || window > math.MaxInt64 {
		return fact.Of[units.Bytes]{}
	}
	return fact.Known(units.Bytes(window), source)
}

// micros returns the time at off. More than 292 years are not believed.
func (r reader) micros(off int) fact.Of[time.Duration] {
	us, ok := r.u64(off)
	if !ok || us > math.MaxInt64/uint64(time.Microsecond) {
		return fact.Of[time.Duration]{}
	}
	return fact.Known(time.Duration(us)*time.Microsecond, source)
}

// count returns the 32-bit number at off.
func count[T ~int | ~int64](r reader, off int) fact.Of[T] {
	n, ok := r.u32(off)
	if !ok {
		return fact.Of[T]{}
	}
	return fact.Known(T(n), source)
}

// positive is count for fields in which 0 means that the kernel does not know.
func positive[T ~int | ~int64](r reader, off int) fact.Of[T] {
	f := count[T](r, off)
	if f.Or(0) == 0 {
		return fact.Of[T]{}
	}
	return f
}
