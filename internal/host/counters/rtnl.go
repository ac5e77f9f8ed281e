package counters

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// The requests and answers of rtnetlink (Linux include/uapi/linux/ netlink.h, rtnetlink.h,
// if_link.h, gen_stats.h).
const (
	nlHeader = 16 // struct nlmsghdr: length, type, flags, sequence, port
	nlError  = 2  // NLMSG_ERROR
	nlDone   = 3  // NLMSG_DONE

	rtmNewLink  = 16
	rtmGetLink  = 18
	rtmNewQdisc = 36
	rtmGetQdisc = 38
	rtmNewStats = 92
	rtmGetStats = 94 // Linux 4.7

	nlRequest = 1     // NLM_F_REQUEST
	nlDump    = 0x300 // NLM_F_DUMP

	linkHeader      = 16 // struct ifinfomsg: family, padding, type, index, flags, change
	linkCarrierDown = 48 // IFLA_CARRIER_DOWN_COUNT, Linux 4.16
	linkExtMask     = 29 // IFLA_EXT_MASK
	skipStats       = 8  // RTEXT_FILTER_SKIP_STATS: statsRequest returns wider ones

	statsHeader = 12 // struct if_stats_msg: family, padding, ifindex, filter_mask
	statsLink64 = 1  // IFLA_STATS_LINK_64

	qdiscHeader = 20         // struct tcmsg: family, padding, ifindex, handle, parent, info
	qdiscRoot   = 0xffffffff // TC_H_ROOT
	tcaKind     = 1          // TCA_KIND
	tcaStats2   = 7          // TCA_STATS2
	statsQueue  = 3          // TCA_STATS_QUEUE

	attrMask = 0x3fff // NLA_TYPE_MASK: without the flags for nesting and byte order
)

// linkFields is struct rtnl_link_stats64 in order; -1 for unused fields. Kernels append to
// it: rx_nohandler in 4.6, rx_otherhost_dropped in 5.19.
func linkFields() []id {
	return []id{
		nicRxPackets, nicTxPackets, nicRxBytes, nicTxBytes, nicRxErrors, nicTxErrors, nicRxDropped, nicTxDropped,
		-1 /* multicast */, nicCollisions,
		nicRxLength, nicRxOver, nicRxCRC, nicRxFrame, nicRxFIFO, nicRxMissed,
		-1 /* aborted */, nicTxCarrier, nicTxFIFO, -1 /* heartbeat */, -1 /* window */, -1, -1, /* compressed */
		nicRxUnhandled,
	}
}

// statsRequest requests the statistics of interface index.
func statsRequest(index int) []byte {
	b := header(rtmGetStats, nlRequest, statsHeader)
	binary.NativeEndian.PutUint32(b[nlHeader+4:], uint32(index))
	binary.NativeEndian.PutUint32(b[nlHeader+8:], 1<<(statsLink64-1))
	return b
}

// linkRequest requests the attributes of interface index, without its statistics.
func linkRequest(index int) []byte {
	b := header(rtmGetLink, nlRequest, linkHeader+8)
	binary.NativeEndian.PutUint32(b[nlHeader+4:], uint32(index))
	mask := b[nlHeader+linkHeader:]
	binary.NativeEndian.PutUint16(mask, 8)
	binary.NativeEndian.PutUint16(mask[2:], linkExtMask)
	binary.NativeEndian.PutUint32(mask[4:], skipStats)
	return b
}

// qdiscRequest requests all queueing disciplines. A request for a single one would notify
// every listener of the group RTNLGRP_TC, once a second (net/sched/sch_api.c
// qdisc_get_notify).
func qdiscRequest() []byte { return header(rtmGetQdisc, nlRequest|nlDump, qdiscHeader) }

func header(kind, flags uint16, payload int) []byte {
	b := make([]byte, nlHeader+payload)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flags)
	return b
}

// message cuts the first message off b and returns its type and payload. An error message
// becomes its errno.
func message(b []byte) (kind uint16, payload, rest []byte, err error) {
	if len(b) < nlHeader {
		return 0, nil, nil, fmt.Errorf("rtnetlink: %d bytes: %w", len(b), errShape)
	}
	size := binary.NativeEndian.Uint32(b)
	if size < nlHeader || uint64(size) > uint64(len(b)) {
		return 0, nil, nil, fmt.Errorf("rtnetlink: message of %d bytes in %d: %w", size, len(b), errShape)
	}
	kind, payload = binary.NativeEndian.Uint16(b[4:]), b[nlHeader:size]
	if kind == nlError && len(payload) >= 4 {
		if e := -int32(binary.NativeEndian.Uint32(payload)); e != 0 {
			return 0, nil, nil, fmt.Errorf("rtnetlink: %w", syscall.Errno(e))
		}
	}
	return kind, payload, b[min(uint64(len(b)), (uint64(size)+3)&^3):], nil
}

// attribute cuts the first attribute off b; ok is false at the end.
func attribute(b []byte) (kind uint16, value, rest []byte, ok bool) {
	const size = 4
	if len(b) < size {
		return 0, nil, nil, false
	}
	n := int(binary.NativeEndian.Uint16(b))
	if n < size || n > len(b) {
		return 0, nil, nil, false
	}
	return binary.NativeEndian.Uint16(b[2:]) & attrMask, b[size:n], b[min(len(b), (n+3)&^3):], true
}

// decodeStats decodes the answer to statsRequest into v.
func decodeStats(b []byte, fields []id, v *values) error {
	kind, b, _, err := message(b)
	if err != nil {
		return err
	}
	if kind != rtmNewStats || len(b) < statsHeader {
		return fmt.Errorf("rtnetlink: message %d of %d bytes: %w", kind, len(b), errShape)
	}
	b = b[statsHeader:]
	for {
		kind, p, rest, ok := attribute(b)
		if !ok {
			return fmt.Errorf("rtnetlink: no statistics of the interface: %w", errShape)
		}
		if b = rest; kind != statsLink64 {
			continue
		}
		for _, i := range fields {
			if len(p) < 8 {
				return nil
			}
			if i >= 0 {
				v.set(i, binary.NativeEndian.Uint64(p))
			}
			p = p[8:]
		}
		return nil
	}
}

// decodeLink decodes the answer to linkRequest into v. If the kernel does not count link
// losses, their number stays unknown.
func decodeLink(b []byte, v *values) error {
	kind, b, _, err := message(b)
	if err != nil {
		return err
	}
	if kind != rtmNewLink || len(b) < linkHeader {
		return fmt.Errorf("rtnetlink: message %d of %d bytes: %w", kind, len(b), errShape)
	}
	b = b[linkHeader:]
	for {
		kind, p, rest, ok := attribute(b)
		switch {
		case !ok:
			return nil
		case kind == linkCarrierDown && len(p) >= 4:
			v.setNarrow(nicCarrierDown, binary.NativeEndian.Uint32(p))
			return nil
		}
		b = rest
	}
}

// decodeQdiscs decodes a part of the answer to qdiscRequest for the root of interface index,
// into q and v, and reports whether the answer is complete. The counters of the root include
// those of all below it: mq adds up its parts, classful disciplines count the drops of their
// children (net/sched/sch_api.c qdisc_tree_reduce_backlog).
func decodeQdiscs(b []byte, index int, q *qdiscKind, v *values) (done bool, err error) {
	for len(b) > 0 {
		kind, m, rest, err := message(b)
		if err != nil {
			return false, err
		}
		b = rest
		switch {
		case kind == nlDone:
			return true, nil
		case kind != rtmNewQdisc:
			continue
		case len(m) < qdiscHeader:
			return false, fmt.Errorf("rtnetlink: message %d of %d bytes: %w", kind, len(m), errShape)
		}
		if int32(binary.NativeEndian.Uint32(m[4:])) == int32(index) && binary.NativeEndian.Uint32(m[12:]) == qdiscRoot {
			*q = qdiscKind{handle: binary.NativeEndian.Uint32(m[8:])}
			q.decode(m[qdiscHeader:], v)
		}
	}
	return false, nil
}

// decode decodes the attributes of one queueing discipline.
func (q *qdiscKind) decode(b []byte, v *values) {
	for {
		kind, p, rest, ok := attribute(b)
		if !ok {
			return
		}
		b = rest
		switch kind {
		case tcaKind:
			copy(q.kind[:], p)
		case tcaStats2:
			q.queue(p, v)
		}
	}
}

// queue decodes struct gnet_stats_queue: length, backlog, drops, requeues, overlimits, each
// of 32 bits.
func (q *qdiscKind) queue(b []byte, v *values) {
	const size = 20
	for {
		kind, p, rest, ok := attribute(b)
		if !ok {
			return
		}
		b = rest
		if kind == statsQueue && len(p) >= size {
			q.known = true
			q.backlog = binary.NativeEndian.Uint32(p[4:])
			v.setNarrow(qdiscDropped, binary.NativeEndian.Uint32(p[8:]))
			v.setNarrow(qdiscRequeues, binary.NativeEndian.Uint32(p[12:]))
			v.setNarrow(qdiscOverlimits, binary.NativeEndian.Uint32(p[16:]))
		}
	}
}
