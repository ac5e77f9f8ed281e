// Package wire emulates a full or half duplex Ethernet link between two virtual hosts: rate,
// queue, delay, jitter, loss, reordering, duplication and a path MTU, each per direction, frame
// by frame.
//
// One direction works in this order, as on a real path:
//
//  1. A frame arrives from the sending host. It is dropped (drop-tail) if a policer has no
//     tokens left for it, or if the bytes waiting for the link, including this frame, exceed
//     Queue.
//  2. If there is a bus, the frame crosses it, after all earlier frames of either direction:
//     this models a host adapter whose bus is slower than its link. If there is a slower stage,
//     the frame crosses it; each direction has its own.
//  3. It is serialised at Rate, modulated by Swing, after all frames before it. It occupies the
//     link for its own bytes and 24 more: preamble and start delimiter 8, frame check sequence
//     4, gap between packets 12 (IEEE 802.3-2022 clauses 3.1.1 and 4.4.2).
//  4. On the link it may be lost, or vanish because it exceeds PathMTU. It has used the link by
//     then.
//  5. It arrives Delay plus a random part of Jitter later, never before a frame that left
//     earlier unless Reorder held that one back.
//  6. It is passed to the receiving host, twice if duplicated.
//
// Time is virtual: times are computed from arrival times, not from when a thread happened to
// run, so a late thread delays frames and does not lower the rate. A frame never arrives
// earlier than the parameters allow.
package wire

import (
	"time"

	"linerate/internal/core/units"
)

// Overhead is what a frame occupies on the link beyond its bytes from destination address to
// payload: preamble 8, FCS 4, gap 12 (IEEE 802.3-2022).
const Overhead = 24

// HeaderBytes is the length of an Ethernet header without tags.
const HeaderBytes = 14

// ReorderDistance is how many later frames overtake a frame that is held back. Three is the
// duplicate acknowledgement threshold of RFC 5681 section 3.2, the shortest distance that TCP
// without RACK takes for a loss.
const ReorderDistance = 3

// ReorderHold is the longest time that a frame is held back if no later frames overtake it.
const ReorderHold = 5 * time.Millisecond

// PoliceBurst returns the most that a policer of rate passes at once: what it carries in 10 ms,
// and at least 16 KiB, so that frames of any size fit.
func PoliceBurst(rate units.BitRate) units.Bytes {
	return max(16*1024, units.Bytes(float64(rate)/8*0.010))
}

// Path is one direction of a wire. The zero value does nothing to frames.
type Path struct {
	Rate      units.BitRate `json:"rate,omitempty"`      // of the link with all framing; 0 is unlimited
	Swing     Swing         `json:"swing,omitzero"`      // of Rate, which is then the mean
	Queue     units.Bytes   `json:"queue,omitempty"`     // frame bytes that may wait for the link; 0 is unlimited
	Delay     time.Duration `json:"delay_ns,omitempty"`  // one way, after serialisation
	Jitter    time.Duration `json:"jitter_ns,omitempty"` // extra delay, uniform in [0, Jitter], order kept
	Loss      units.Percent `json:"loss,omitempty"`      // of frames, independent
	Reorder   units.Percent `json:"reorder,omitempty"`   // of frames, held back by ReorderDistance frames
	Duplicate units.Percent `json:"duplicate,omitempty"` // of frames, delivered twice back to back
	PathMTU   int           `json:"path_mtu,omitempty"`  // IP bytes; longer packets vanish silently; 0 is no limit
	Stage     units.BitRate `json:"stage,omitempty"`     // of frames, after the queue: a link on the path that is slower than Rate and invisible to the hosts; 0 if none
	Police    units.BitRate `json:"police,omitempty"`    // of frames, before the queue: faster traffic is dropped; 0 if none
}

// Answers is what happens to the ICMP errors that a router itself sends into a wire. Forwarded
// frames pass at once, in order.
type Answers struct {
	Silent bool          `json:"silent,omitempty"`  // they are dropped, and not counted
	Late   time.Duration `json:"late_ns,omitempty"` // maximum delay before they enter the wire, uniform from 0
}

// Counters are the exact counters of one direction since the wire started.
type Counters struct {
	Frames     uint64 `json:"frames"`      // taken from the sending host
	Bytes      uint64 `json:"bytes"`       // of Frames, Ethernet header included, FCS not
	Delivered  uint64 `json:"delivered"`   // passed to the receiving host, duplicates included
	OutBytes   uint64 `json:"out_bytes"`   // of Delivered
	Lost       uint64 `json:"lost"`        // dropped by Loss
	QueueDrops uint64 `json:"queue_drops"` // dropped because the queue was full
	MTUDrops   uint64 `json:"mtu_drops"`   // vanished because they were above PathMTU
	Policed    uint64 `json:"policed"`     // dropped by Police
	Duplicated uint64 `json:"duplicated"`  // delivered twice
	Reordered  uint64 `json:"reordered"`   // held back
	Missed     uint64 `json:"missed"`      // dropped by the kernel before the wire saw them: the counters are incomplete if not 0
	Refused    uint64 `json:"refused"`     // not accepted by the receiving host's interface
	Wakes      uint64 `json:"wakes"`       // times that the thread of this direction woke up
}

// Then returns the counters of a direction over two links, c being the first one.
func (c Counters) Then(next Counters) Counters {
	c.Delivered, c.OutBytes = next.Delivered, next.OutBytes
	c.Lost += next.Lost
	c.QueueDrops += next.QueueDrops
	c.MTUDrops += next.MTUDrops
	c.Policed += next.Policed
	c.Duplicated += next.Duplicated
	c.Reordered += next.Reordered
	c.Missed += next.Missed
	c.Refused += next.Refused
	c.Wakes += next.Wakes
	return c
}

// Kind is how frames are exchanged with the kernel.
type Kind string

// The kinds of a wire.
const (
	Auto   Kind = ""       // Packet, or TAP if the kernel has no veth or AF_PACKET
	TAP    Kind = "tap"    // a TAP device in each host (needs /dev/net/tun)
	Packet Kind = "packet" // veth pairs, the far ends on AF_PACKET rings
)
