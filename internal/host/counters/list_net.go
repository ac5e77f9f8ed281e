package counters

func ipCounters() []counter {
	var all []counter
	add := func(four, six id, name, field, unit, meaning, source string) {
		all = pair(all, four, six, counter{name: name, group: GroupIP, key: "Ip." + field, unit: unit, meaning: meaning, source: source}, "Ip6"+field)
	}
	add(ipInDiscards, ip6InDiscards, "ip_in_discards", "InDiscards", "packets", "received, valid, and dropped by the IP layer, mostly for lack of memory", "net/ipv4/ip_input.c")
	add(ipOutDiscards, ip6OutDiscards, "ip_out_discards", "OutDiscards", "packets", "dropped on the way out below the socket: no memory, or the queue in front of the interface was full", "net/ipv4/ip_output.c ip_send_skb")
	add(ipReassembly, ip6Reassembly, "ip_reassembly_failures", "ReasmFails", "datagrams", "fragments that never became whole", "net/ipv4/ip_fragment.c")
	add(ipFragment, ip6Fragment, "ip_fragment_failures", "FragFails", "packets", "too large for the interface, and not to be fragmented", "net/ipv4/ip_output.c")
	add(ipNoRoute, ip6NoRoute, "ip_out_no_route", "OutNoRoutes", "packets", "nowhere to send them", "net/ipv4/route.c")
	return all
}

func udpCounters() []counter {
	const udp = "net/ipv4/udp.c, net/ipv6/udp.c"
	var all []counter
	add := func(four, six id, name, field, meaning string) {
		all = pair(all, four, six, counter{name: name, group: GroupUDP, key: "Udp." + field, unit: "datagrams", meaning: meaning, source: udp}, "Udp6"+field)
	}
	add(udpIn, udp6In, "udp_in_datagrams", "InDatagrams", "delivered to programs; a joined train counts once")
	add(udpOut, udp6Out, "udp_out_datagrams", "OutDatagrams", "sent; a train of UDP_SEGMENT counts once")
	add(udpNoPort, udp6NoPort, "udp_no_port", "NoPorts", "arrived for a port without a listener")
	add(udpInErrors, udp6InErrors, "udp_in_errors", "InErrors", "dropped at the socket for any reason, the next ones included")
	add(udpReceiveBuffer, udp6ReceiveBuffer, "udp_receive_buffer_errors", "RcvbufErrors", "dropped because the socket's receive buffer was full; a joined train counts once")
	add(udpSendBuffer, udp6SendBuffer, "udp_send_buffer_errors", "SndbufErrors", "sends that found no room: in the socket, where the program may try again, or in the queue of the interface")
	add(udpChecksum, udp6Checksum, "udp_checksum_errors", "InCsumErrors", "dropped for a wrong checksum")
	add(udpMemory, udp6Memory, "udp_memory_errors", "MemErrors", "dropped because all UDP sockets together used too much memory (net.ipv4.udp_mem)")
	return all
}

func tcpCounters() []counter {
	const in, out, timer, ipv4 = "net/ipv4/tcp_input.c", "net/ipv4/tcp_output.c", "net/ipv4/tcp_timer.c", "net/ipv4/tcp_ipv4.c"
	const cubic = "net/ipv4/tcp_cubic.c"
	var all []counter
	add := func(i id, name, key, unit, meaning, source string) {
		all = append(all, counter{id: i, name: name, group: GroupTCP, key: key, unit: unit, meaning: meaning, source: source})
	}
	add(tcpIn, "tcp_in_segments", "Tcp.InSegs", "segments", "received, broken ones included", ipv4)
	add(tcpOut, "tcp_out_segments", "Tcp.OutSegs", "segments", "sent, without those that only repeat", out)
	add(tcpRetransmitted, "tcp_retransmitted", "Tcp.RetransSegs", "segments", "sent again", out)
	add(tcpInErrors, "tcp_in_errors", "Tcp.InErrs", "segments", "received broken", ipv4)
	add(tcpListenOverflows, "tcp_listen_overflows", "TcpExt.ListenOverflows", "connections", "refused because the accept queue was full", ipv4)
	add(tcpListenDrops, "tcp_listen_drops", "TcpExt.ListenDrops", "connections", "refused by a listening socket for any reason", ipv4)
	add(tcpLostRetransmits, "tcp_lost_retransmits", "TcpExt.TCPLostRetransmit", "segments", "lost once more after being sent again", in)
	add(tcpTimeouts, "tcp_timeouts", "TcpExt.TCPTimeouts", "times", "the retransmission timer ran out", timer)
	add(tcpFastRetransmits, "tcp_fast_retransmits", "TcpExt.TCPFastRetrans", "segments", "sent again because later ones were acknowledged", out)
	add(tcpSlowStartRetransmits, "tcp_slow_start_retransmits", "TcpExt.TCPSlowStartRetrans", "segments", "sent again after a timeout", out)
	add(tcpSynRetransmits, "tcp_syn_retransmits", "TcpExt.TCPSynRetrans", "segments", "SYN or SYN-ACK sent again", out)
	add(tcpTailProbes, "tcp_tail_probes", "TcpExt.TCPLossProbes", "times", "the last segment was sent again to learn of a loss", out)
	add(tcpSpuriousTimeouts, "tcp_spurious_timeouts", "TcpExt.TCPSpuriousRTOs", "times", "a timeout that proved needless", in)
	add(tcpCollapsed, "tcp_receive_collapsed", "TcpExt.TCPRcvCollapsed", "buffers", "joined in a receive queue for lack of memory", in)
	add(tcpPruneCalled, "tcp_prune_called", "TcpExt.PruneCalled", "times", "a receive queue was over its memory", in)
	add(tcpPruned, "tcp_receive_pruned", "TcpExt.RcvPruned", "segments", "dropped from a receive queue for lack of memory", in)
	add(tcpOrderPruned, "tcp_out_of_order_pruned", "TcpExt.OfoPruned", "segments", "dropped from an out-of-order queue for lack of memory", in)
	add(tcpBacklogDropped, "tcp_backlog_dropped", "TcpExt.TCPBacklogDrop", "segments", "dropped while the program held the socket", ipv4)
	add(tcpQueueDropped, "tcp_receive_queue_dropped", "TcpExt.TCPRcvQDrop", "segments", "dropped because the receive queue was full", in)
	add(tcpZeroWindowDropped, "tcp_zero_window_dropped", "TcpExt.TCPZeroWindowDrop", "segments", "came while the announced window was zero", in)
	add(tcpZeroWindowWanted, "tcp_zero_window_wanted", "TcpExt.TCPWantZeroWindowAdv", "times", "the window should have shrunk to zero and could not", out)
	add(tcpZeroWindowAnnounced, "tcp_zero_window_announced", "TcpExt.TCPToZeroWindowAdv", "times", "the window shrank to zero: the program reads slowly", out)
	add(tcpMemoryPressures, "tcp_memory_pressures", "TcpExt.TCPMemoryPressures", "times", "all TCP sockets together used too much memory (net.ipv4.tcp_mem)", "net/ipv4/tcp.c")
	add(tcpMemoryAborts, "tcp_aborted_for_memory", "TcpExt.TCPAbortOnMemory", "connections", "closed for lack of memory", timer)
	add(tcpOutOfOrder, "tcp_out_of_order", "TcpExt.TCPOFOQueue", "segments", "received before an earlier one", in)
	add(tcpOutOfOrderDropped, "tcp_out_of_order_dropped", "TcpExt.TCPOFODrop", "segments", "received before an earlier one and dropped for lack of room", in)
	add(tcpReordering, "tcp_reordering", "TcpExt.TCPSACKReorder", "times", "acknowledgements showed that the path reorders", in)
	add(tcpDuplicateSACK, "tcp_duplicate_sacks", "TcpExt.TCPDSACKRecv", "times", "the peer said that something was sent twice", in)
	add(tcpTimeReordering, "tcp_reordering_seen_late", "TcpExt.TCPTSReorder", "times", "timestamps showed that the path reorders, after something was sent again", in)
	add(tcpPlainReordering, "tcp_reordering_without_sack", "TcpExt.TCPRenoReorder", "times", "the path reorders, as far as a connection without selective acknowledgements can see", in)
	add(tcpSACKRecoveries, "tcp_recoveries", "TcpExt.TCPSackRecovery", "times", "losses that made a sender slow down once, however many segments they were", in)
	add(tcpPlainRecoveries, "tcp_recoveries_without_sack", "TcpExt.TCPRenoRecovery", "times", "the same on connections without selective acknowledgements", in)
	add(tcpFullUndo, "tcp_undone_whole", "TcpExt.TCPFullUndo", "times", "slowing down was taken back: all had arrived", in)
	add(tcpPartialUndo, "tcp_undone_early", "TcpExt.TCPPartialUndo", "times", "slowing down was taken back in the middle of a recovery", in)
	add(tcpDuplicateUndo, "tcp_undone_by_duplicates", "TcpExt.TCPDSACKUndo", "times", "slowing down was taken back: the peer had received everything twice", in)
	add(tcpDelayExits, "tcp_slow_start_left_by_delay", "TcpExt.TCPHystartDelayDetect", "times", "CUBIC left slow start because round trips grew, before anything got lost", cubic)
	add(tcpDelayWindows, "tcp_slow_start_left_windows", "TcpExt.TCPHystartDelayCwnd", "segments", "the congestion windows at which it did so, added up", cubic)
	add(tcpTimeoutUndo, "tcp_undone_timeouts", "TcpExt.TCPLossUndo", "times", "slowing down after a timeout was taken back", in)
	return all
}

func nicCounters() []counter {
	const link, sched = "include/uapi/linux/if_link.h, the driver", "net/sched, net/core/gen_stats.c"
	var all []counter
	add := func(i id, name, unit, meaning string) {
		all = append(all, counter{id: i, name: name, group: GroupNIC, unit: unit, meaning: meaning, source: link})
	}
	add(nicRxPackets, "nic_rx_packets", "packets", "received by the interface")
	add(nicTxPackets, "nic_tx_packets", "packets", "sent by the interface; a train counts once where software cuts it")
	add(nicRxBytes, "nic_rx_bytes", "bytes", "received by the interface")
	add(nicTxBytes, "nic_tx_bytes", "bytes", "sent by the interface")
	add(nicRxErrors, "nic_rx_errors", "packets", "received broken, for any reason")
	add(nicTxErrors, "nic_tx_errors", "packets", "not sent because of an error")
	add(nicRxDropped, "nic_rx_dropped", "packets", "received and dropped by driver or stack, a full backlog (softnet_dropped) and unknown protocols included; nic_rx_missed not")
	add(nicTxDropped, "nic_tx_dropped", "packets", "dropped on the way out by the driver, or for lack of a queue")
	add(nicCollisions, "nic_collisions", "times", "collisions on a half-duplex link")
	add(nicRxLength, "nic_rx_length_errors", "packets", "of a length that the interface does not take")
	add(nicRxOver, "nic_rx_over_errors", "packets", "lost because the interface had no room; drivers differ")
	add(nicRxCRC, "nic_rx_crc_errors", "packets", "with a wrong checksum on the wire: cable, optics, duplex")
	add(nicRxFrame, "nic_rx_frame_errors", "packets", "not aligned: cable, duplex")
	add(nicRxFIFO, "nic_rx_fifo_errors", "packets", "lost because the interface's own queue was full; drivers differ")
	add(nicRxMissed, "nic_rx_missed", "packets", "lost because the host gave no receive buffer in time: the ring was too short or the core too slow")
	add(nicTxCarrier, "nic_tx_carrier_errors", "packets", "not sent because the link was lost")
	add(nicCarrierDown, "nic_carrier_down", "times", "the link was lost: cable, port, or the other end's card; also when the interface is taken down")
	add(nicTxFIFO, "nic_tx_fifo_errors", "packets", "not sent because the bus did not deliver in time")
	add(nicRxUnhandled, "nic_rx_unhandled", "packets", "dropped because the interface is an inactive part of another one")
	for _, c := range []counter{
		{id: qdiscDropped, name: "qdisc_dropped", unit: "packets", meaning: "dropped by the queueing discipline at the root of the interface and all below it; a train counts once"},
		{id: qdiscOverlimits, name: "qdisc_overlimits", unit: "times", meaning: "the queueing discipline held a packet back to keep its rate"},
		{id: qdiscRequeues, name: "qdisc_requeues", unit: "times", meaning: "the driver was full and took a packet later"},
	} {
		c.group, c.source = GroupQdisc, sched
		all = append(all, c)
	}
	return all
}

func cgroupCounters() []counter {
	all := []counter{
		{id: cgroupThrottled, name: "cgroup_throttled_ms", unit: "ms",
			meaning: "the groups of the measuring process had used up their quota of processor time and stood still, added up over processors: two that stand still for a second are two seconds"},
		{id: cgroupPeriods, name: "cgroup_periods", unit: "periods", meaning: "their quotas were given out anew while they had work"},
		{id: cgroupStopped, name: "cgroup_periods_throttled", unit: "periods", meaning: "in which the quota was used up, so that they stood still on one processor or more"},
	}
	for i := range all {
		all[i].group, all[i].source = GroupCgroup, "kernel/sched/fair.c, cpu.stat of the groups"
	}
	return all
}
