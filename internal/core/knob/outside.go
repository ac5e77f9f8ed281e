package knob

import "linerate/internal/core/model"

// Outside is an existing setting, service or script that guides name but that linerate does not
// set or run.
type Outside struct {
	Names   []string       `json:"-"`      // native, the best known first; written as in Dead
	System  string         `json:"system"` // GOOS
	Does    string         `json:"does"`
	Instead []model.KnobID `json:"instead,omitempty"` // knobs with the same effect
	Advice  string         `json:"advice,omitempty"`
	Source  string         `json:"source"` // with the tags of docs/reference/knobs.md; [K] is from memory
}

// enaAdvice says why nic.ring and nic.queues do not apply to ena.
const enaAdvice = "linerate sets rings and queues of iflib drivers only, and ena does not use iflib; "

// OutsideNames returns the settings of guides that linerate knows by name only. The caller owns
// the slice.
func OutsideNames() []Outside {
	return []Outside{
		{[]string{"net.ipv4.tcp_shrink_window"}, "linux", "a receiver short of memory may take back window that it has offered (RFC 7323 section 2.4)",
			nil, "off is the default; it saves memory and raises no rate", "[Ldoc tcp_shrink_window]"},
		{[]string{"net.ipv4.tcp_autocorking"}, "linux", "small writes wait while earlier packets of the connection are still in a queue of this host",
			ids("nodelay"), "leave it on; it costs bulk traffic nothing", "[Ldoc tcp_autocorking]"},
		{[]string{"net.ipv4.route.flush"}, "linux", "an action, not a setting: writing it discards cached routes and the path MTU found for them",
			ids("tcp.metrics_cache"), "ip tcp_metrics flush discards what TCP remembers", "[K] net/ipv4/route.c ipv4_sysctl_rtcache_flush"},
		{[]string{"sunrpc.tcp_slot_table_entries", "tcp_slot_table_entries", "tcp_max_slot_table_entries"}, "linux", "requests of NFS and other ONC RPC clients that may be under way on one connection",
			nil, "it limits NFS clients only; linerate's traffic does not use it", "[L6.1 net/sunrpc/xprtsock.c] [K]"},
		{[]string{"iommu", "intel_iommu", "amd_iommu"}, "linux", "a parameter of the kernel's command line; iommu=pt lets the drivers of the host use memory without translation",
			nil, "takes a new boot; worth a try at 100 Gbit/s where the processor spends its time in mapping", "[K] kernel-parameters.txt iommu"},
		{[]string{"InterruptThrottleRate", "RxIntDelay", "TxIntDelay", "RxAbsIntDelay"}, "linux", "interrupt moderation, as a parameter of the driver's module",
			ids("nic.coalesce.rx_usecs", "nic.coalesce.tx_usecs"), "", "[L6.1 e1000.rst InterruptThrottleRate]"},
		{[]string{"mlnx_tune"}, "linux", "a script of a card's vendor; HIGH_THROUGHPUT sets the governor, stops irqbalance, gives each interrupt of the card a processor near it, and switches tx-nocache-copy off and hw_lro on",
			ids("nic.irq_affinity", "nic.offload.lro"), "linerate stops no service, and has no setting for tx-nocache-copy and for private flags of drivers", "mlnx-tools 062ffe6, python/mlnx_tune set_high_throughput_profile"},
		{[]string{"set_irq_affinity.sh"}, "linux", "a script of a card's vendor: it gives each interrupt of the card one processor, in turn",
			ids("nic.irq_affinity"), "stop irqbalance before, or it moves them back", "mlnx-tools 062ffe6, sbin/set_irq_affinity*.sh"},
		{[]string{"irqbalance"}, "linux", "a service that moves interrupts between processors, every 10 seconds; without it they stay where they are",
			ids("nic.irq_affinity"), "linerate stops no service: stop it, or ban the card's interrupts there (--banirq), before nic.irq_affinity is set", "irqbalance(1) --interval, --banirq"},
		{[]string{"tuned-adm", "tuned"}, "linux", "TuneD puts the settings of a profile in force, and again whenever it starts",
			nil, "tuned-adm profile_info shows a profile; a setting of it that linerate changes comes back when TuneD starts", "[T] tuned-adm(8)"},
		{[]string{"modprobe tcp_*"}, "linux", "loads the module of a congestion control; connections keep the one that they have",
			ids("tcp.congestion_control"), "setting its name loads the module too", "[L6.1 net/ipv4/tcp_cong.c tcp_ca_find_autoload] [K]"},
		{[]string{"modprobe sch_*"}, "linux", "loads the module of a scheduler; links keep the one that they have", ids("qdisc", "qdisc.default"),
			"setting its name loads the module too", "[L6.1 net/sched/sch_api.c qdisc_create] [K]"},
		{[]string{"ethtool -N"}, "linux", "which fields of a packet choose its receive queue (rx-flow-hash), or rules that choose it by flow",
			ids("nic.rss.indirection", "nic.queues.combined"), "sdfn hashes ports as well as addresses, which spreads several flows between two hosts", "ethtool(8) --config-nfc"},
		{[]string{"ethtool --set-priv-flags"}, "linux", "private flags of one driver, by names of its own", nil,
			"ethtool --show-priv-flags lists them; what they do is in the documentation of the driver", "ethtool(8) --set-priv-flags"},
		{[]string{"kldload cc_*", "cc_*"}, "freebsd", "loads the module of a congestion control; connections keep the one that they have", ids("tcp.congestion_control"),
			"kldload loads it now, and cc_NAME_load=\"YES\" in /boot/loader.conf at each boot; then set its name", "mod_cc(4), loader.conf(5)"},
		{[]string{"hw.em.rx_process_limit", "hw.vtnet.rx_process_limit"}, "freebsd", "received packets that the driver processes at a time; -1 is without limit",
			ids("rx.driver_budget"), "takes a new boot: /boot/loader.conf; rx.driver_budget works for drivers of iflib: em, and not vtnet", "[B13 if_em.c em_rx_process_limit; if_vtnet.c] [K]"},
		{[]string{"dev.ena.{unit}.rx_queue_size"}, "freebsd", "receive descriptors of each queue of ena, a power of 2; 1024 by default, and a change resets the interface",
			nil, enaAdvice + "raise it where dev.ena.N.hw_stats.rx_drops grows", "[B14 ena.4]"},
		{[]string{"dev.ena.{unit}.buf_ring_size"}, "freebsd", "packets that may wait for a transmit queue of ena, a power of 2; 4096 by default, and a change resets the interface",
			nil, enaAdvice + "raise it where bursts are dropped before they leave", "[B14 ena.4]"},
		{[]string{"dev.ena.{unit}.io_queues_nb"}, "freebsd", "queue pairs of ena; the most by default, and a change resets the interface", nil,
			enaAdvice + "fewer leave processors to programs", "[B14 ena.4]"},
		{[]string{"hw.ena.enable_9k_mbufs"}, "freebsd", "receive buffers of ena of 9 KiB instead of a page", ids("mbuf.jumbo9"),
			"takes a new boot: /boot/loader.conf; short of memory it makes the driver reset", "[B14 ena.4]"},
		{[]string{"hw.ena.force_large_llq_header*"}, "freebsd", "room of 224 instead of 96 bytes for the headers of a packet that ena sends; it halves the transmit queue",
			nil, "takes a new boot: /boot/loader.conf; for IPv6 with long headers only", "[B14 ena.4]"},
		{[]string{"net.inet.tcp.rfc6675_pipe"}, "freebsd", "counts data in flight by what was acknowledged selectively (RFC 6675)",
			nil, "it matters while lost packets are repaired", "[K] tcp_input.c"},
		{[]string{"net.inet.tcp.abc_l_var"}, "freebsd", "segments by which one acknowledgement may open the window in slow start (RFC 3465 section 2.2)",
			ids("tcp.initial_cwnd"), "more makes slow start burstier, not the rate that follows", "[B13 cc_newreno.c]"},
		{[]string{"net.inet.tcp.soreceive_stream"}, "freebsd", "a shorter way through the receiving socket code", nil, "takes a new boot: /boot/loader.conf", "[K] tcp_subr.c"},
		{[]string{"net.inet.raw.maxdgram"}, "freebsd", "largest datagram of a raw IP socket", nil, "it has no effect on TCP and UDP", "[K] raw_ip.c"},
		{[]string{"hw.{driver}.max_interrupt_rate"}, "freebsd", "most interrupts a second of one driver", ids("nic.coalesce.rx_usecs"), "takes a new boot: /boot/loader.conf", "[B13 if_ix.c]"},
		{[]string{"hw.intr_storm_threshold"}, "freebsd", "interrupts in a row after which one source is throttled", nil,
			"raise it only if the kernel's log reports an interrupt storm", "[B13 kern_intr.c]"},
		{[]string{"dev.{dev}.fc", "hw.{driver}.flow_control"}, "freebsd", "flow control of some drivers: 0 none, 1 receive, 2 transmit, 3 both",
			ids("nic.pause.rx", "nic.pause.tx"), "", "[B13 if_ix.c]"},
		{[]string{"dev.{dev}.eee_disabled", "dev.{dev}.eee_control"}, "freebsd", "energy efficient Ethernet of some drivers: 1 switches it off", ids("nic.eee"), "", "[B13 if_em.c em_sysctl_eee]"},
		{[]string{"net.inet.tcp.syncache.hashsize"}, "freebsd", "buckets of the table of half-open connections", ids("tcp.syn_queue"),
			"for servers that get floods of connections; it raises no rate", "[B13 tcp_syncache.c]"},
		{[]string{"TcpAckFrequency"}, "windows", "segments per acknowledgement, of one interface, in the registry: 0 to 255, 2 by default", ids("tcp.delayed_ack_frequency"), "", "[W registry-entry-control-tcp-acknowledgment-behavior, KB 328890]"},
		{[]string{"TCPNoDelay"}, "windows", "sends small writes at once, of Message Queuing (MSMQ) only; other programs set TCP_NODELAY themselves", ids("nodelay"), "", "[K]"},
	}
}
