package knob

import (
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
)

// Dead is a setting that old guides name but that does nothing, or something else, on current
// systems.
type Dead struct {
	Names   []string       `json:"-"`      // native, the best known first; a final * matches any ending
	System  string         `json:"system"` // GOOS
	Lived   string         `json:"lived"`  // where it had an effect: "FreeBSD 4.6 to 8"
	Was     string         `json:"was"`    // what it did
	Now     string         `json:"now"`    // what replaced it
	Instead []model.KnobID `json:"instead,omitempty"`
	Advice  string         `json:"advice,omitempty"` // what to do, if no knob is the answer or more needs saying
	Source  string         `json:"source"`
}

// DeadNames returns every dead setting that linerate knows (knobs.md section 8). The caller
// owns the slice.
func DeadNames() []Dead {
	return append(append(deadBSD(), deadLinux()...), deadWindows()...)
}

func deadBSD() []Dead {
	return []Dead{
		{[]string{"net.inet.tcp.inflight.enable", "net.inet.tcp.inflight_enable", "net.inet.tcp.inflight.*", "net.inet.tcp.inflight_*"}, "freebsd", "FreeBSD 4.7 to 8",
			"limited the data in flight to the measured bandwidth delay product", "removed with modular congestion control",
			ids("tcp.congestion_control"), "queues: dummynet", "[K]; old guides turn it off"},
		{[]string{"net.inet.tcp.recvbuf_inc"}, "freebsd", "FreeBSD 7 to 12", "step of receive buffer growth",
			"absent in 13: the buffer grows by half of itself", ids("tcp.recv_buffer_max"), "", "[B13 tcp_input.c]"},
		{[]string{"kern.polling.enable"}, "freebsd", "FreeBSD 4.5 to 6", "device polling for the whole machine",
			"polling is a capability of each interface: ifconfig IF polling", ids("polling"), "a card with message signalled interrupts needs none", "[B12 polling]"},
		{[]string{"net.isr.enable", "net.isr.direct", "net.isr.direct_force"}, "freebsd", "FreeBSD 5 to 8 and 9", "processing received packets at once instead of in a queue",
			"replaced by one setting with three words", ids("netisr.dispatch"), "", "[B13 netisr.c]"},
		{[]string{"kern.ipc.somaxconn"}, "freebsd", "FreeBSD to 9", "length of the listen queue", "an alias since 10", ids("tcp.listen_queue"), "", "[B13 uipc_socket.c]"},
		{[]string{"net.inet.tcp.maxtcptw", "net.inet.tcp.nolocaltimewait", "net.inet.tcp.per_cpu_timers"}, "freebsd", "FreeBSD to 13", "how closed connections are kept",
			"gone in 14", nil, "nothing: they did not limit throughput", "[K]"},
		{[]string{"NMBCLUSTERS", "maxusers", "kern.maxusers"}, "freebsd", "FreeBSD 4, as a kernel option", "how many packet buffers there are",
			"the pools are sized from memory", ids("mbuf.clusters", "mbuf.jumbo_p", "mbuf.jumbo9", "mbuf.jumbo16"), "", "[B13 kern_mbuf.c]; tuning(7) of 4.x"},
		{[]string{"net.inet.ip.check_interface"}, "freebsd", "FreeBSD 4.6 to 13", "dropped packets for an address of another interface",
			"renamed to net.inet.ip.rfc1122_strong_es in 14", nil, "nothing: off is the default, and it is about security, not about throughput", "[B14 ip_input.c ip_strong_es]"},
		{[]string{"net.inet.tcp.rfc1323"}, "darwin", "macOS to 10.x", "window scaling and timestamps", "removed: scaling is always on",
			ids("tcp.timestamps", "tcp.window_scale_min"), "", "[X]"},
		{[]string{"/etc/sysctl.conf"}, "darwin", "macOS to 10.x", "settings for the next boot", "not read any more", nil,
			"a property list in /Library/LaunchDaemons that runs sysctl", "[K]"},
		{[]string{"kern.ipc.nmbclusters"}, "darwin", "never writable in sysctl.conf", "how many packet buffers there are", "read-only while the system runs",
			ids("mbuf.clusters"), "the boot argument ncl", "[X unix_startup.c]"},
		{[]string{"hw.{driver}.rxd"}, "freebsd", "FreeBSD to 11", "receive descriptors of one driver", "replaced by a name that all drivers of iflib share",
			ids("nic.ring.rx"), "", "[B12 iflib]"},
		{[]string{"hw.{driver}.txd"}, "freebsd", "FreeBSD to 11", "transmit descriptors of one driver", "replaced by a name that all drivers of iflib share",
			ids("nic.ring.tx"), "", "[B12 iflib]"},
		{[]string{"hw.ix.rx_process_limit", "hw.ix.tx_process_limit", "hw.ixgbe.rx_process_limit", "hw.igb.rx_process_limit"}, "freebsd", "FreeBSD to 11",
			"packets that the driver processed at a time; -1 was without limit", "replaced by a budget that all drivers of iflib share", ids("rx.driver_budget"), "", "[B14 ix.4] [B12 iflib]"},
		{[]string{"hw.ena.rx_budget"}, "freebsd", "nowhere, though guides name it", "received packets of one round of ena", "not read: it is 256 in the driver", nil,
			"nothing: rx.driver_budget works for drivers of iflib, and ena does not use iflib", "[B14 ena.h RX_BUDGET]"},
	}
}

func deadLinux() []Dead {
	return []Dead{
		{[]string{"net.ipv4.tcp_low_latency"}, "linux", "Linux to 4.13", "processed segments in the reader's place", "has no effect",
			ids("busy_poll", "busy_read"), "", "[Ldoc tcp_low_latency]"},
		{[]string{"net.ipv4.tcp_fack"}, "linux", "Linux to 4.14", "forward acknowledgement", "has no effect: loss detection by time (RACK) is built in", ids("tcp.sack"), "", "[K]"},
		{[]string{"net.ipv4.tcp_adv_win_scale"}, "linux", "Linux to 6.5", "share of the buffer that is no window",
			"obsolete since 6.6: the share is measured", ids("tcp.recv_buffer_max"), "plan a ceiling of twice the bandwidth delay product", "[Ldoc tcp_adv_win_scale]"},
		{[]string{"net.ipv4.tcp_app_win"}, "linux", "Linux to 6.5", "share of the window for the application", "obsolete with tcp_adv_win_scale", ids("tcp.recv_buffer_max"), "", "[Ldoc]"},
		{[]string{"net.ipv4.tcp_tw_recycle"}, "linux", "Linux to 4.11", "reused closed connections by their timestamps; it broke clients behind address translation",
			"removed in 4.12", nil, "nothing: leave net.ipv4.tcp_tw_reuse as it is", "[K]"},
		{[]string{"net.ipv4.tcp_bic", "net.ipv4.tcp_westwood", "net.ipv4.tcp_vegas_*"}, "linux", "Linux 2.4 and early 2.6", "switched one congestion control on",
			"removed: one setting names the algorithm", ids("tcp.congestion_control"), "", "[K]"},
		{[]string{"net.ipv4.tcp_recovery"}, "linux", "bit 1 cleared: to the newest kernels", "loss detection by counting duplicates",
			"bit 1 is ignored: detection by time is the only one", nil, "nothing", "[Ldoc tcp_recovery]"},
		{[]string{"net.ipv4.udp_wmem_min"}, "linux", "nowhere", "send buffer that a UDP socket keeps", "has no effect", nil, "nothing", "[L6.1 ip-sysctl.rst]"},
		{[]string{"net.core.rmem_max for autotuning"}, "linux", "nowhere, though articles say so", "limit of autotuned receive buffers", "never limited them",
			ids("tcp.recv_buffer_max"), "socket.recv_buffer_max is for programs that set SO_RCVBUF themselves", "[Lpatch Dumazet Aug 2025]"},
	}
}

func deadWindows() []Dead {
	vista := "Windows 2000 to XP and 2003"
	return []Dead{
		{[]string{"TcpWindowSize", `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\TcpWindowSize`}, "windows", vista, "receive window, up to 0x3FFFFFFF with scaling",
			"ignored since Vista", ids("tcp.autotune_level", "tcp.recv_buffer_max"), "", "[W net-sub-performance-tuning-nics]"},
		{[]string{"GlobalMaxTcpWindowSize"}, "windows", vista, "largest window that a program may ask for", "not read since Vista", ids("tcp.autotune_level"), "", "[K]"},
		{[]string{"MaxTcpWindowSize"}, "windows", "nowhere, though guides say so", "nothing: the value that was read is TcpWindowSize", "not read",
			ids("tcp.autotune_level", "tcp.recv_buffer_max"), "", "[K]; [W 2000/2003 pages] do not list it"},
		{[]string{"NumTcbTablePartitions", "MaxHashTableSize"}, "windows", vista, "size of connection tables", "ignored since Vista", nil, "nothing: the tables grow by themselves", "[W net-sub-performance-tuning-nics]"},
		{[]string{"SackOpts", "TcpMaxDupAcks"}, "windows", vista, "selective acknowledgement and fast retransmit", "not read since Vista: both are always on", nil, "nothing", "[K]"},
		{[]string{"Tcp1323Opts"}, "windows", vista, "bit 0 window scaling, bit 1 timestamps", "not read since Vista: scaling belongs to autotuning",
			ids("tcp.timestamps", "tcp.autotune_level"), "", "[K]; [W 2000/2003 pages]"},
		{[]string{"Chimney", "EnableTCPChimney"}, "windows", "Windows 2003 SP2 to 2012 R2", "let the card do all of TCP", "deprecated since 2016: never enable it",
			ids("nic.offload.rsc", "nic.offload.tso"), "", "[W Set-NetOffloadGlobalSetting]"},
		{[]string{"NetDMA", "EnableTCPA", "IPsec task offload"}, "windows", "Windows 2008 to 2012 R2", "let other hardware copy or encrypt", "removed",
			ids("nic.offload.rsc", "nic.offload.tso"), "", "[W]"},
		{[]string{`Tcpip\Parameters\Interfaces\{GUID}\MTU`, "MTU of an interface key"}, "windows", "Windows 2000 to XP", "largest IP packet of an interface",
			"overridden by the IP layer's own setting", ids("link.mtu"), "", "[K]"},
		{[]string{"DefaultReceiveWindow", "DefaultSendWindow"}, "windows", "Windows 2000 to XP", "first buffers of sockets (AFD.sys)", "not for TCP", ids("tcp.autotune_level"), "", "[K]"},
	}
}

func ids(all ...string) []model.KnobID {
	list := lists.Each(all, knobID)
	return list
}
