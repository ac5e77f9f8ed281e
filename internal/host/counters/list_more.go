package counters

// ecnCounters returns the counters of RFC 3168 marks in the headers of received packets; a
// merged train counts with all its packets.
func ecnCounters() []counter {
	const in = "net/ipv4/ip_input.c, net/ipv6/ip6_input.c"
	var all []counter
	add := func(four, six id, name, field, meaning string) {
		all = pair(all, four, six, counter{name: name, group: GroupECN, key: "IpExt." + field, unit: "packets", meaning: meaning, source: in}, "Ip6"+field)
	}
	add(ecnUnmarked, ecn6Unmarked, "ecn_unmarked", "InNoECTPkts", "received without a mark: the sender does not use ECN, or something took the mark away")
	add(ecnCapable, ecn6Capable, "ecn_capable", "InECT0Pkts", "received with the mark ECT(0) of a sender that uses ECN")
	add(ecnCongested, ecn6Congested, "ecn_congested", "InCEPkts", "received with the mark CE: a queue on the way was filling")
	return all
}

// nl80211 is the source of Linux' radio counters.
const nl80211 = "include/uapi/linux/nl80211.h, the driver"

func radioCounters() []counter {
	var all []counter
	add := func(i id, name, unit, meaning string) {
		all = append(all, counter{id: i, name: name, group: GroupRadio, unit: unit, meaning: meaning, source: nl80211})
	}
	add(radioSent, "radio_tx_frames", "frames", "sent to the radio at the other end")
	add(radioRetries, "radio_tx_retries", "times", "frames sent again because no acknowledgement came")
	add(radioFailed, "radio_tx_failed", "frames", "given up after too many attempts")
	add(radioChannel, "radio_channel_ms", "ms", "time on the channel")
	add(radioBusy, "radio_busy_ms", "ms", "time in which the channel was busy, whichever station sent")
	add(radioTransmitting, "radio_sending_ms", "ms", "time in which this radio sent")
	add(radioOwnNetwork, "radio_own_network_ms", "ms", "time in which it received frames of its own network")
	return all
}

func trackCounters() []counter {
	const track = "net/netfilter/nf_conntrack_core.c, /proc/net/stat/nf_conntrack"
	return []counter{
		{id: trackDropped, name: "track_dropped", group: GroupTrack, unit: "packets", source: track,
			meaning: "dropped because no entry could be made for their connection: the table is full (net.netfilter.nf_conntrack_max), or memory is short"},
		{id: trackEvicted, name: "track_evicted", group: GroupTrack, unit: "connections", source: track,
			meaning: "forgotten before their time to make room in a full table"},
	}
}

// zone is a kind of network buffer of FreeBSD (sys/kern/kern_mbuf.c). Zones without a limit
// have no waits.
type zone struct {
	name          string // in vm.uma
	what          string
	failed, waits id
	bounded       bool
}

func zones() []zone {
	return []zone{
		{name: "mbuf", what: "mbufs", failed: mbufFailed},
		{"mbuf_cluster", "clusters of 2 KiB", clusterFailed, clusterWaits, true},
		{"mbuf_jumbo_page", "clusters of one page", jumboPageFailed, jumboPageWaits, true},
		{"mbuf_jumbo_9k", "clusters of 9 KiB", jumbo9Failed, jumbo9Waits, true},
		{"mbuf_jumbo_16k", "clusters of 16 KiB", jumbo16Failed, jumbo16Waits, true},
	}
}

func mbufCounters() []counter {
	const uma = "FreeBSD 12 in vm.zone_stats, 13 and later: sys/vm/uma_core.c, "
	var all []counter
	for _, z := range zones() {
		all = append(all, counter{id: z.failed, name: "mbuf_denied", of: z.what, group: GroupMbuf, unit: "requests",
			meaning: "network buffers, of the kind in Of, that were asked for and not given", source: uma + "vm.uma.*.stats.fails"})
	}
	for _, z := range zones() {
		if z.bounded {
			all = append(all, counter{id: z.waits, name: "mbuf_delayed", of: z.what, group: GroupMbuf, unit: "requests",
				meaning: "network buffers, of the kind in Of, that were waited for at their limit", source: uma + "vm.uma.*.limit.sleeps"})
		}
	}
	return all
}

func logCounters() []counter {
	const log = "/dev/kmsg; FreeBSD: kern.msgbuf"
	return []counter{
		{id: logResets, name: "log_device_resets", group: GroupLog, unit: "lines", source: log, meaning: "the kernel said that the interface hung or was reset"},
		{id: logAllocations, name: "log_page_allocations", group: GroupLog, unit: "lines", source: log, meaning: "the kernel said that it found no memory in one piece for more than a page"},
		{id: logTableFull, name: "log_track_full", group: GroupLog, unit: "lines", source: log, meaning: "the kernel said that the table of tracked connections is full; it says so a few times in five seconds at most"},
		{id: logBuffers, name: "log_buffers_denied", group: GroupLog, unit: "lines", source: log, meaning: "the kernel said that it has no network buffers left"},
	}
}
