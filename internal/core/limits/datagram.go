package limits

import (
	"fmt"

	"linerate/internal/core/units"
)

// maxDatagram is the most payload of a UDP datagram over IPv4: 65535 bytes less
// the headers (RFC 768, RFC 791 section 3.1).
const maxDatagram = 65507

// fragmentUnit is what the data of all fragments but the last is a multiple of
// (RFC 791 section 3.2, RFC 8200 section 4.5).
const fragmentUnit = 8

// fragmentBytes is the extension header of an IPv6 fragment (RFC 8200 section 4.5).
const fragmentBytes = 8

// DatagramGoodput returns the most application data that the link can carry in
// one direction in UDP datagrams of payload bytes, 0 to 65507: each of them is
// one frame, of at least 64 bytes, or, where it is larger than the MTU, several
// fragments.
func (w Wire) DatagramGoodput(payload int) (units.BitRate, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	if payload < 0 || payload > maxDatagram {
		return 0, fmt.Errorf("datagram of %d bytes: 0 to %d are possible", payload, maxDatagram)
	}
	header := ipv4Bytes
	if w.IPv6 {
		header = ipv6Bytes
	}
	onWire := func(data int) int {
		return max(header+data+w.VLANTags*vlanBytes, minFrameBytes) + frameBytes
	}
	left := payload + udpBytes
	if header+left <= w.MTU {
		return w.Rate * units.BitRate(float64(payload)/float64(onWire(left))), nil
	}
	if w.IPv6 {
		header += fragmentBytes
	}
	each := (w.MTU - header) / fragmentUnit * fragmentUnit
	total := 0
	for ; left > w.MTU-header; left -= each {
		total += onWire(each)
	}
	return w.Rate * units.BitRate(float64(payload)/float64(total+onWire(left))), nil
}
