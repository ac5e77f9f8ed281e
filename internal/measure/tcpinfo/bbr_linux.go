package tcpinfo

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Offsets in struct tcp_bbr_info: include/uapi/linux/inet_diag.h of Linux, and of the branch v3
// of github.com/google/bbr, whose versions 2 and 3 extend it. Numbers are u32.
const (
	bbrRateLow    = 0 // bytes of payload a second, the lower half
	bbrRateHigh   = 4
	bbrRTTMin     = 8  // us
	bbrPacingGain = 12 // in 256ths
	bbrBytes      = 20 // version 1
	bbrInFlight   = 44 // inflight_hi, segments; all ones if unlimited
	bbrLaterBytes = 52 // version 2 and 3

	bbrUnit = 256 // BBR_UNIT, net/ipv4/tcp_bbr.c
)

func readBBR(fd uintptr) (BBR, error) {
	var b [infoBytes]byte
	n, err := getsockopt(fd, unix.TCP_CC_INFO, b[:])
	if err != nil {
		return BBR{}, fmt.Errorf("read tcp_bbr_info: %w", err)
	}
	return parseBBR(b[:n])
}

// parseBBR parses struct tcp_bbr_info, whose version is known only from its length. Vegas and
// DCTCP answer the same option with 16 bytes.
func parseBBR(b []byte) (BBR, error) {
	if len(b) != bbrBytes && len(b) != bbrLaterBytes {
		return BBR{}, fmt.Errorf("read tcp_bbr_info: %d bytes, which is no known length: %w", len(b), errors.ErrUnsupported)
	}
	r := reader(b)
	low, _ := r.u32(bbrRateLow)
	high, _ := r.u32(bbrRateHigh)
	rtt, _ := r.u32(bbrRTTMin)
	gain, _ := r.u32(bbrPacingGain)
	out := BBR{
		Rate:   units.BitRate(uint64(high)<<32|uint64(low)) * 8,
		RTTMin: time.Duration(rtt) * time.Microsecond,
		Steady: gain == bbrUnit,
	}
	if most, ok := r.u32(bbrInFlight); ok && most != math.MaxUint32 {
		out.InFlight = fact.Known(int64(most), "TCP_CC_INFO")
	}
	return out, nil
}
