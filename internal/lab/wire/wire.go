// Package wire emulates a full or half duplex Ethernet link between two
// virtual hosts: rate, queue, delay, jitter, loss, reordering, duplication and
// a path MTU, each per direction, frame by frame.
//
// One direction works in this order, as a real path does:
//
//  1. A frame arrives from the sending host. Where a policer has no tokens left for
//     it, or the bytes that wait for the link, with this frame, exceed Queue, it is
//     dropped (drop-tail).
//  2. Where there is a bus, it passes that, after all frames of either direction
//     before it: what a host adapter does whose bus is slower than its link. Where
//     there is a slower stage, it passes that, which is of its own direction.
//  3. It is serialised at Rate, as Swing has it at that moment, after all frames
//     before it. It occupies the link for its own bytes and 24 more: preamble and
//     start delimiter 8, frame check sequence 4, gap between packets 12 (IEEE
//     802.3-2022 clauses 3.1.1 and 4.4.2).
//  4. On the way it may be lost, or vanish because it is above PathMTU. It has
//     used the link by then.
//  5. It arrives Delay plus a random part of Jitter later, never before a
//     frame that left earlier unless Reorder held that one back.
//  6. It is handed to the receiving host, twice if duplicated.
//
// Time is virtual: the moments are computed from arrival times, not from
// when a thread happened to run, so a late thread delays frames and does not
// lower the rate. A frame never arrives earlier than the parameters say.
package wire

import (
	"time"

	"linerate/internal/core/units"
)

// Overhead is what a frame occupies on the link beyond its bytes from
// destination address to payload: preamble 8, FCS 4, gap 12 (IEEE 802.3-2022).
const Overhead = 24

// HeaderBytes is the length of an Ethernet header without tags.
const HeaderBytes = 14

// ReorderDistance is how many later frames overtake a frame that is held back.
// Three is the duplicate acknowledgement threshold of RFC 5681 section 3.2, the
// least distance that TCP without RACK takes for a loss.
const ReorderDistance = 3

// ReorderHold is the longest time that a frame is held back when no later
// frames come to overtake it.
const ReorderHold = 5 * time.Millisecond

// PoliceBurst is the most that a policer of rate lets pass at once: what it carries
// in 10 ms, and at least 16 KiB, so that frames of any size fit.
func PoliceBurst(rate units.BitRate) units.Bytes {
	return max(16*1024, units.Bytes(float64(rate)/8*0.010))
}

// Path is one direction of a wire. The zero value is a wire that does nothing
// to frames.
type Path struct {
	Rate      units.BitRate `json:"rate,omitempty"`      // of the link with all framing; 0 is unlimited
	Swing     Swing         `json:"swing,omitzero"`      // of Rate, which is the mean then
	Queue     units.Bytes   `json:"queue,omitempty"`     // frame bytes that may wait for the link; 0 is unlimited
	Delay     time.Duration `json:"delay_ns,omitempty"`  // one way, after serialisation
	Jitter    time.Duration `json:"jitter_ns,omitempty"` // extra delay, uniform in [0, Jitter], order kept
	Loss      units.Percent `json:"loss,omitempty"`      // of frames, independent
	Reorder   units.Percent `json:"reorder,omitempty"`   // of frames, held back by ReorderDistance frames
	Duplicate units.Percent `json:"duplicate,omitempty"` // of frames, delivered twice back to back
	PathMTU   int           `json:"path_mtu,omitempty"`  // IP bytes; longer packets vanish silently; 0 is no limit
	Stage     units.BitRate `json:"stage,omitempty"`     // of frames, behind the queue: a link on the way that is slower than Rate and that nobody tells of; 0 is none
	Police    units.BitRate `json:"police,omitempty"`    // of frames, before the queue: what comes faster is dropped; 0 is none
}

// Answers is what becomes of the ICMP errors that a router makes itself and sends into a
// wire. What it forwards passes at once, in order.
type Answers struct {
	Silent bool          `json:"silent,omitempty"`  // they are dropped, and counted nowhere
	Late   time.Duration `json:"late_ns,omitempty"` // they come into the wire so much later at most, uniform from 0
}

// Counters are the truth about one direction since the wire started.
type Counters struct {
	Frames     uint64 `json:"frames"`      // taken from the sending host
	Bytes      uint64 `json:"bytes"`       // of Frames, Ethernet header included, FCS not
	Delivered  uint64 `json:"delivered"`   // handed to the receiving host, duplicates included
	OutBytes   uint64 `json:"out_bytes"`   // of Delivered
	Lost       uint64 `json:"lost"`        // dropped by Loss
	QueueDrops uint64 `json:"queue_drops"` // dropped because the queue was full
	MTUDrops   uint64 `json:"mtu_drops"`   // vanished because they were above PathMTU
	Policed    uint64 `json:"policed"`     // dropped by Police
	Duplicated uint64 `json:"duplicated"`  // delivered twice
	Reordered  uint64 `json:"reordered"`   // held back
	Missed     uint64 `json:"missed"`      // dropped by the kernel before the wire saw them: the truth is damaged if not 0
	Refused    uint64 `json:"refused"`     // not accepted by the receiving host's interface
	Wakes      uint64 `json:"wakes"`       // times that the thread of this direction woke up
}

// Then are the counters of a direction that leads over two links, c being the first one.
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

// Kind says how frames are exchanged with the kernel.
type Kind string

// The kinds of a wire.
const (
	Auto   Kind = ""       // Packet, and TAP where the kernel has no veth or AF_PACKET
	TAP    Kind = "tap"    // a TAP device in each host (needs /dev/net/tun)
	Packet Kind = "packet" // veth pairs, the far ends on AF_PACKET rings
)
