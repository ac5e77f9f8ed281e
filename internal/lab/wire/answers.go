package wire

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// answers delays or drops the ICMP errors of the router that sends into a wire.
type answers struct {
	Answers

	rng  *rand.Rand
	held []entry // until left, in order of time
}

// newAnswers returns nil if a wire need not inspect its frames.
func newAnswers(a Answers, seed, stream uint64) *answers {
	if a == (Answers{}) {
		return nil
	}
	return &answers{Answers: a, rng: rand.New(rand.NewPCG(seed, stream))}
}

// hold delays the frame in slot, which arrived at now.
func (a *answers) hold(now int64, slot int32, size int) {
	e := entry{left: now + a.rng.Int64N(int64(a.Late)+1), slot: slot, size: int32(size)}
	i, _ := slices.BinarySearchFunc(a.held, e.left+1, func(h entry, at int64) int { return cmp.Compare(h.left, at) })
	a.held = slices.Insert(a.held, i, e)
}

// defaultTTL is the time to live of a router's own packets: IPDEFTTL of include/uapi/linux/ip.h
// and IPV6_DEFAULT_HOPLIMIT of include/net/ipv6.h.
const defaultTTL = 64

// Offsets in an Ethernet frame without tags, from RFC 791 section 3.1 and RFC 8200
// section 3.
const (
	atType       = 12
	atIP         = HeaderBytes
	atFragment   = atIP + 6
	atTTL        = atIP + 8
	atProtocol   = atIP + 9
	atNextHeader = atIP + 6
	atHopLimit   = atIP + 7
	header6      = 40
)

// ownError reports whether a frame is an ICMP error of the router itself, according to its time
// to live: a forwarded one has less left.
func ownError(frame []byte) bool {
	if len(frame) < atIP+20 {
		return false
	}
	switch binary.BigEndian.Uint16(frame[atType:]) {
	case 0x0800: // IPv4
		at := atIP + int(frame[atIP]&15)*4
		if frame[atProtocol] != 1 || frame[atTTL] != defaultTTL || binary.BigEndian.Uint16(frame[atFragment:])&0x1fff != 0 || len(frame) <= at {
			return false
		}
		return frame[at] == 3 || frame[at] == 11 // unreachable, time exceeded: RFC 792
	case 0x86dd: // IPv6
		const at = atIP + header6
		return len(frame) > at && frame[atNextHeader] == 58 && frame[atHopLimit] == defaultTTL &&
			frame[at] >= 1 && frame[at] <= 3 // unreachable, too big, time exceeded: RFC 4443
	}
	return false
}
