package limits

import (
	"errors"
	"fmt"
	"math"

	"linerate/internal/core/units"
)

// Bytes that a frame occupies on the wire apart from its payload, by IEEE
// 802.3-2022 section 3.1.1 and, for the gap, 4.4.2.
const (
	preambleBytes = 8  // preamble 7, start of frame delimiter 1
	macBytes      = 14 // two addresses 12, type or length 2
	fcsBytes      = 4  // frame check sequence
	gapBytes      = 12 // interpacket gap of 96 bit times
	vlanBytes     = 4  // per tag, IEEE 802.1Q-2022 section 9.3
	frameBytes    = preambleBytes + macBytes + fcsBytes + gapBytes

	// minFrameBytes is the least payload and tags of a frame: minFrameSize of 64 without the
	// addresses, the type and the FCS. IEEE 802.1Q-2022 annex G.2.3 allows tags to count toward
	// it.
	minFrameBytes = 46
)

// Headers inside the frame.
const (
	ipv4Bytes       = 20 // RFC 791 section 3.1, without options
	ipv6Bytes       = 40 // RFC 8200 section 3
	tcpBytes        = 20 // RFC 9293 section 3.1, without options
	timestampsBytes = 12 // RFC 7323 appendix A: option of 10, padded by two NOPs
	udpBytes        = 8  // RFC 768
)

// The range of an MTU.
const (
	minMTU4 = 68   // RFC 791 section 3.2: what every link must carry
	minMTU6 = 1280 // RFC 8200 section 5
	maxMTU  = 65535
)

// maxVLANTags is a customer and a service tag (IEEE 802.1ad).
const maxVLANTags = 2

// Wire is an Ethernet link as one flow of full-sized packets uses it.
type Wire struct {
	Rate       units.BitRate // of the link, per direction, more than 0
	MTU        int           // bytes of the IP packet: 68 (IPv6: 1280) to 65535
	VLANTags   int           // 0 to 2
	IPv6       bool          // without extension headers
	Timestamps bool          // the TCP option of RFC 7323 is in use; no effect on UDP
	UDP        bool          // instead of TCP
}

// Validate reports every value of w that is out of range, joined.
func (w Wire) Validate() error {
	var errs []error
	if !(w.Rate > 0) || math.IsInf(float64(w.Rate), 1) {
		errs = append(errs, fmt.Errorf("link rate %v is not a positive number", w.Rate))
	}
	least := minMTU4
	if w.IPv6 {
		least = minMTU6
	}
	if w.MTU < least || w.MTU > maxMTU {
		errs = append(errs, fmt.Errorf("mtu %d is outside %d to %d", w.MTU, least, maxMTU))
	}
	if w.VLANTags < 0 || w.VLANTags > maxVLANTags {
		errs = append(errs, fmt.Errorf("%d vlan tags: a frame carries 0 to %d", w.VLANTags, maxVLANTags))
	}
	return errors.Join(errs...)
}

// Payload returns the bytes of application data in a full-sized packet: for TCP the MSS minus
// the options that every segment carries.
func (w Wire) Payload() (int, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	return w.MTU - w.headerBytes(), nil
}

// PayloadShare returns the share of the link's bits that are application data,
// between 0 and 1, when full-sized packets follow each other without a pause:
// (M-40-T)/(M+38+V) for TCP over IPv4.
func (w Wire) PayloadShare() (float64, error) {
	payload, err := w.Payload()
	if err != nil {
		return 0, err
	}
	return float64(payload) / float64(w.packetBytes()), nil
}

// Goodput returns the most application data that the link can carry in one
// direction: Rate times PayloadShare.
func (w Wire) Goodput() (units.BitRate, error) {
	share, err := w.PayloadShare()
	return w.Rate * units.BitRate(share), err
}

// PacketsPerSecond returns how many full-sized packets fill the link.
func (w Wire) PacketsPerSecond() (float64, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	return float64(w.Rate) / 8 / float64(w.packetBytes()), nil
}

// HalfDuplex returns the ceiling of Goodput if both directions share the wire, so that
// acknowledgments take their part of it. Collisions cost more on top; expect 60 to 85 % of the
// link rate.
func (w Wire) HalfDuplex() (units.BitRate, error) {
	payload, err := w.Payload()
	if err != nil || w.UDP {
		g, err := w.Goodput()
		return g, err
	}
	return w.Rate * units.BitRate(2*payload) / units.BitRate(2*w.packetBytes()+w.ackBytes()), nil
}

// packetBytes returns the bytes that a full-sized packet occupies on the wire.
func (w Wire) packetBytes() int { return w.MTU + frameBytes + w.VLANTags*vlanBytes }

// headerBytes returns the bytes of IP and transport headers in each packet.
func (w Wire) headerBytes() int {
	n := ipv4Bytes
	if w.IPv6 {
		n = ipv6Bytes
	}
	switch {
	case w.UDP:
		return n + udpBytes
	case w.Timestamps:
		return n + tcpBytes + timestampsBytes
	}
	return n + tcpBytes
}

// ackBytes returns the bytes that a segment without payload occupies on the wire: 90 with
// timestamps over IPv4.
func (w Wire) ackBytes() int {
	return max(w.headerBytes()+w.VLANTags*vlanBytes, minFrameBytes) + frameBytes
}

// maxDatagram is the largest payload of a UDP datagram over IPv4: 65535 bytes minus the headers
// (RFC 768, RFC 791 section 3.1).
const maxDatagram = 65507

// fragmentUnit divides the data length of all fragments but the last (RFC 791 section 3.2, RFC
// 8200 section 4.5).
const fragmentUnit = 8

// fragmentBytes is the extension header of an IPv6 fragment (RFC 8200 section 4.5).
const fragmentBytes = 8

// DatagramGoodput returns the most application data that the link can carry in one direction in
// UDP datagrams of payload bytes, 0 to 65507: each is one frame of at least 64 bytes or, above
// the MTU, several fragments.
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
