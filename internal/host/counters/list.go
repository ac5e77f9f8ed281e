package counters

import (
	"slices"
	"sync"
)

// Group is the interface of the system that a counter is read from. The counters of a group
// are known or unknown together.
type Group string

// The groups.
const (
	GroupCPU     Group = "cpu"     // of the machine
	GroupSoftnet Group = "softnet" // of the machine: queues between driver and stack
	GroupIP      Group = "ip"      // of the network namespace
	GroupUDP     Group = "udp"     // of the network namespace
	GroupTCP     Group = "tcp"     // of the network namespace
	GroupNIC     Group = "nic"     // of the watched interface
	GroupDriver  Group = "driver"  // of the watched interface, with the driver's own names
	GroupRadio   Group = "radio"   // of the watched interface, if it is wireless
	GroupQdisc   Group = "qdisc"   // of the watched interface
	GroupThread  Group = "thread"  // of the measuring process: its busiest thread
	GroupCgroup  Group = "cgroup"  // of the control groups that the measuring process is in
	GroupQueue   Group = "queue"   // of the watched interface: its transmit queues, one by one
	GroupECN     Group = "ecn"     // of the network namespace: marks of received packets
	GroupTrack   Group = "track"   // of the network namespace: tracking of connections
	GroupMbuf    Group = "mbuf"    // of the machine: network buffers of FreeBSD
	GroupLog     Group = "log"     // of the machine: the kernel's log
	GroupSelf    Group = "self"    // of the watching itself
)

// Kind is the kind of a counter's number.
type Kind string

// The kinds.
const (
	Count Kind = "count" // the change: in a sample over its interval, in a counter over the window
	Level Kind = "level" // the value at the end of the interval; samples only
	Share Kind = "share" // seconds per second; samples only
	Time  Kind = "time"  // milliseconds; counters only
)

// Definition explains one name of samples or counters of package counters.
type Definition struct {
	Name    string // of the metric and of the counter
	Group   Group
	Kind    Kind
	Unit    string
	Meaning string
	Source  string // where the system counts it; Linux 6.x if not stated
}

// Names that are not plain counters.
const (
	cpuBusy    = "cpu_busy"
	cpuUser    = "cpu_user"
	cpuSystem  = "cpu_system"
	cpuIRQ     = "cpu_irq"
	cpuSoftIRQ = "cpu_softirq"
	cpuSteal   = "cpu_steal"

	cpuBusyTime    = "cpu_busy_ms"
	cpuSoftIRQTime = "cpu_softirq_ms"
	cpuStealTime   = "cpu_steal_ms"
	cpuWindow      = "cpu_window_ms"

	cgroupQuota = "cgroup_quota_ms"

	threadRun  = "thread_run_ms"
	threadWait = "thread_wait_ms"

	softnetProcessed = "softnet_processed"
	softnetDropped   = "softnet_dropped"
	softnetSqueezed  = "softnet_squeezed"
	softnetLimited   = "softnet_flow_limited"

	radioSignalLevel   = "radio_signal"
	radioTransmitLevel = "radio_tx_rate"
	radioReceiveLevel  = "radio_rx_rate"
	radioExpectedLevel = "radio_expected"

	nicDriver    = "nic_driver"
	qdiscBacklog = "qdisc_backlog"
	queueSent    = "queue_tx_packets"
	countersRead = "counters_read"
)

// Definitions returns the closed list of names, in the order of docs/counters.md.
func Definitions() []Definition {
	const stat, softnet = "fs/proc/stat.c", "net/core/dev.c, net/core/net-procfs.c"
	all := []Definition{
		{cpuBusy, GroupCPU, Share, "s/s", "time in which the core did anything: user, system, interrupts; not steal, not waiting for disks", stat},
		{cpuUser, GroupCPU, Share, "s/s", "programs, nice ones too; whole machine only", stat},
		{cpuSystem, GroupCPU, Share, "s/s", "the kernel on behalf of programs; whole machine only", stat},
		{cpuIRQ, GroupCPU, Share, "s/s", "interrupt handlers; whole machine only", stat},
		{cpuSoftIRQ, GroupCPU, Share, "s/s", "deferred interrupt work, most of the receive path; DPCs on Windows", stat},
		{cpuSteal, GroupCPU, Share, "s/s", "the hypervisor ran another guest while this core had work", stat},
		{cpuBusyTime, GroupCPU, Time, "ms", "cpu_busy over the window", stat},
		{cpuSoftIRQTime, GroupCPU, Time, "ms", "cpu_softirq over the window", stat},
		{cpuStealTime, GroupCPU, Time, "ms", "cpu_steal over the window", stat},
		{cpuWindow, GroupCPU, Time, "ms", "the window: the time between the two readings, and what one core can spend in it", "internal/host/counters"},
		{softnetProcessed, GroupSoftnet, Count, "packets", "taken from drivers or from another core's queue; a joined train counts once", softnet},
		{softnetDropped, GroupSoftnet, Count, "packets", "dropped because a core's backlog was full (net.core.netdev_max_backlog)", softnet},
		{softnetSqueezed, GroupSoftnet, Count, "times", "receive work stopped with packets left: budget or time was used up (net.core.netdev_budget)", softnet},
		{softnetLimited, GroupSoftnet, Count, "packets", "of softnet_dropped, those of a flow that took more than its part of the backlog (net.core.flow_limit_cpu_bitmap)", softnet},
	}
	seen := map[string]bool{}
	for _, c := range counters() {
		if !seen[c.name] {
			seen[c.name] = true
			all = append(all, Definition{c.name, c.group, Count, c.unit, c.meaning, c.source})
		}
	}
	at := slices.IndexFunc(all, func(d Definition) bool { return d.Group == GroupCgroup })
	all = slices.Insert(all, at, Definition{cgroupQuota, GroupCgroup, Time, "ms", "processor time that the smallest quota of the groups gives in the window: 200 ms in a second are 0.2 processors", "kernel/sched/core.c: cpu.max, and cpu.cfs_quota_us over cpu.cfs_period_us of version 1"})
	at = slices.IndexFunc(all, func(d Definition) bool { return d.Group == GroupRadio })
	all = slices.Insert(all, at,
		Definition{radioSignalLevel, GroupRadio, Level, "dBm", "how strongly the radio hears the other end, on average", nl80211},
		Definition{radioTransmitLevel, GroupRadio, Level, "bit/s", "rate in the air at which the radio sent its last data frames", nl80211 + "; wlanapi"},
		Definition{radioReceiveLevel, GroupRadio, Level, "bit/s", "rate in the air at which it received its last data frames", nl80211 + "; wlanapi"},
		Definition{radioExpectedLevel, GroupRadio, Level, "bit/s", "payload that the rate control expects to send", nl80211},
	)
	const sched = "kernel/sched/stats.h, /proc/PID/task/*/schedstat"
	return append(all,
		Definition{qdiscBacklog, GroupQdisc, Level, "bytes", "waiting in front of the interface", "net/core/gen_stats.c"},
		Definition{nicDriver, GroupDriver, Count, "count", "a counter of the driver whose name speaks of loss, errors or pauses; its name is in Of", "ethtool -S: ethtool_ops.get_ethtool_stats"},
		Definition{queueSent, GroupQueue, Count, "packets", "sent through one transmit queue; the interface and the number of the queue are in Of; counters only", "ethtool -S: names such as tx_queue_3_packets, tx3_packets, tx-3.packets, queue_3_tx_cnt, [3]: tx_ucast_packets"},
		Definition{threadRun, GroupThread, Time, "ms", "processor time of the thread of the measuring process that ran or waited to run the longest", sched},
		Definition{threadWait, GroupThread, Time, "ms", "how long that thread could have run and had no processor: others had it, or a quota was used up", sched},
		Definition{countersRead, GroupSelf, Count, "count", "how many counters of the group in Of were known at both ends of the window: a counter of a group that was read and is not listed did not move", "internal/host/counters"},
	)
}

// id is the index of a plain counter in a snapshot. The order is that of counters.
type id int

const (
	cgroupThrottled id = iota
	cgroupPeriods
	cgroupStopped
	ipInDiscards
	ipOutDiscards
	ipReassembly
	ipFragment
	ipNoRoute
	ip6InDiscards
	ip6OutDiscards
	ip6Reassembly
	ip6Fragment
	ip6NoRoute
	udpIn
	udpOut
	udpNoPort
	udpInErrors
	udpReceiveBuffer
	udpSendBuffer
	udpChecksum
	udpMemory
	udp6In
	udp6Out
	udp6NoPort
	udp6InErrors
	udp6ReceiveBuffer
	udp6SendBuffer
	udp6Checksum
	udp6Memory
	tcpIn
	tcpOut
	tcpRetransmitted
	tcpInErrors
	tcpListenOverflows
	tcpListenDrops
	tcpLostRetransmits
	tcpTimeouts
	tcpFastRetransmits
	tcpSlowStartRetransmits
	tcpSynRetransmits
	tcpTailProbes
	tcpSpuriousTimeouts
	tcpCollapsed
	tcpPruneCalled
	tcpPruned
	tcpOrderPruned
	tcpBacklogDropped
	tcpQueueDropped
	tcpZeroWindowDropped
	tcpZeroWindowWanted
	tcpZeroWindowAnnounced
	tcpMemoryPressures
	tcpMemoryAborts
	tcpOutOfOrder
	tcpOutOfOrderDropped
	tcpReordering
	tcpDuplicateSACK
	tcpTimeReordering
	tcpPlainReordering
	tcpSACKRecoveries
	tcpPlainRecoveries
	tcpFullUndo
	tcpPartialUndo
	tcpDuplicateUndo
	tcpDelayExits
	tcpDelayWindows
	tcpTimeoutUndo
	ecnUnmarked
	ecnCapable
	ecnCongested
	ecn6Unmarked
	ecn6Capable
	ecn6Congested
	trackDropped
	trackEvicted
	mbufFailed
	clusterFailed
	jumboPageFailed
	jumbo9Failed
	jumbo16Failed
	clusterWaits
	jumboPageWaits
	jumbo9Waits
	jumbo16Waits
	logResets
	logAllocations
	logTableFull
	logBuffers
	nicRxPackets
	nicTxPackets
	nicRxBytes
	nicTxBytes
	nicRxErrors
	nicTxErrors
	nicRxDropped
	nicTxDropped
	nicCollisions
	nicRxLength
	nicRxOver
	nicRxCRC
	nicRxFrame
	nicRxFIFO
	nicRxMissed
	nicTxCarrier
	nicTxFIFO
	nicRxUnhandled
	nicCarrierDown
	radioSent
	radioRetries
	radioFailed
	radioChannel
	radioBusy
	radioTransmitting
	radioOwnNetwork
	qdiscDropped
	qdiscOverlimits
	qdiscRequeues
	counterCount // number of counters
)

// ipv6 marks, in Of, counters that Linux keeps separately for IPv6. Other systems count both
// together, with an empty Of.
const ipv6 = "IPv6"

// counter describes a plain counter.
type counter struct {
	id      id
	name    string
	of      string // "" or ipv6; counters of an interface get its name
	group   Group
	key     string // its name on Linux: "Udp.InDatagrams" of snmp and netstat, "Udp6InDatagrams" of snmp6
	unit    string
	meaning string
	source  string
}

// counters lists the plain counters by id. Do not write to it.
var counters = sync.OnceValue(func() []counter {
	all := slices.Concat(cgroupCounters(), ipCounters(), udpCounters(), tcpCounters(), nicCounters(), radioCounters(), ecnCounters(), trackCounters(), mbufCounters(), logCounters())
	slices.SortFunc(all, func(a, b counter) int { return int(a.id - b.id) })
	return all
})

// pair appends a counter of snmp and its twin of snmp6.
func pair(all []counter, four, six id, c counter, key6 string) []counter {
	c.id = four
	all = append(all, c)
	c.id, c.of, c.key = six, ipv6, key6
	return append(all, c)
}
