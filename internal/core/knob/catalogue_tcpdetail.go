package knob

// detail returns a rarely used knob of one stack: a number in a range, or an amount of data if
// the unit is bytes.
func detail(id, summary, unit string, low, high int64, effect Effect, risk Risk, native map[string]Native, def []Default, source string) Knob {
	k := Knob{
		ID: knobID(id), Summary: summary, Scope: ScopeHost, Type: TypeInt, Unit: unit, Min: low, Max: high,
		Effect: effect, Risk: risk, Native: native, Defaults: def, Source: source,
	}
	if unit == "bytes" {
		k.Type, k.Unit = TypeBytes, ""
	}
	return k
}

// naming returns k with the meanings of some of its numbers.
func (k Knob) naming(all ...Choice) Knob {
	k.Named = all
	return k
}

// flag returns such a knob that is on or off.
func flag(id, summary string, effect Effect, risk Risk, native map[string]Native, def []Default, source string) Knob {
	return Knob{
		ID: knobID(id), Summary: summary, Scope: ScopeHost, Type: TypeBool,
		Effect: effect, Risk: risk, Native: native, Defaults: def, Source: source,
	}
}

func tcpDetailKnobs() []Knob {
	win := func(name string, low, high int64) map[string]Native {
		return only("windows", Native{Mechanism: WinTCP, Name: name, Min: low, Max: high})
	}
	linux := func(name string) map[string]Native { return sysctls("net.ipv4."+name, "", "") }
	return []Knob{
		detail("tcp.initial_cwnd", "segments of the first burst", "segments", 1, 1000, EffectNew, RiskSlow, map[string]Native{
			"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.initcwnd_segments", Min: 1, Max: 1000},
			"windows": {Mechanism: WinTCP, Name: "InitialCongestionWindowMss", Min: 2, Max: 64, Note: "even numbers; not on clients"},
		}, defaults("freebsd", "10", "windows", "10"), "[B12 tcp] [W]; RFC 6928; on Linux it belongs to a route: route.initcwnd"),
		detail("tcp.initial_cwnd_local", "segments of the first burst to hosts on the link", "segments", 1, 1000, EffectNew, RiskSlow,
			sysctls("", "", "net.inet.tcp.local_slowstart_flightsize"), defaults("darwin", "8"), "[X]"),
		detail("tcp.rcvbuf_low_rtt", "round trip below which receive buffers grow slowly", "µs", 0, 1_000_000, EffectNow, RiskSlow,
			linux("tcp_rcvbuf_low_rtt"), defaults("linux, newest", "1000"), "[Ldoc]"),
		detail("tcp.notsent_lowat", "unsent bytes above which a socket is not writable", "bytes", 0, 1<<32-1, EffectNow, RiskSlow,
			linux("tcp_notsent_lowat"), defaults("linux", "4294967295"), "[Ldoc tcp_notsent_lowat]").naming(Choice{"4294967295", "no limit"}),
		detail("tcp.limit_output", "bytes of one connection in queues below TCP", "bytes", 4096, most, EffectNow, RiskSlow,
			linux("tcp_limit_output_bytes"), defaults("linux", "1048576", "linux 6.18", "4194304"), "[L6.1] [E18]"),
		detail("tcp.reordering", "segments of reordering that are expected at first", "segments", 1, 127, EffectNew, RiskSlow,
			linux("tcp_reordering"), defaults("linux", "3"), "[Ldoc]"),
		detail("tcp.max_reordering", "segments of reordering that are learned at most", "segments", 1, 10_000, EffectNow, RiskSlow,
			linux("tcp_max_reordering"), defaults("linux", "300"), "[Ldoc]"),
		detail("tcp.fastopen", "TCP fast open, a bit mask: 1 client, 2 server, 4 without cookie", "as a bit mask", 0, 0x7ff, EffectNew, RiskSlow,
			linux("tcp_fastopen"), defaults("linux", "1"), "[L6.1 ip-sysctl.rst]; RFC 7413").
			naming(Choice{"0", "off"}, Choice{"1", "as client"}, Choice{"2", "as server"}, Choice{"3", "as client and server"}),
		detail("tcp.pacing_ss_ratio", "pacing rate in slow start", "% of the current rate", 1, 1000, EffectNow, RiskSlow,
			linux("tcp_pacing_ss_ratio"), defaults("linux", "200"), "[L6.1 ip-sysctl.rst]"),
		detail("tcp.pacing_ca_ratio", "pacing rate in congestion avoidance", "% of the current rate", 1, 1000, EffectNow, RiskSlow,
			linux("tcp_pacing_ca_ratio"), defaults("linux", "120"), "[L6.1 ip-sysctl.rst]"),
		detail("tcp.msl", "how long a segment may live: a closed connection is remembered for twice that", "ms", 10, 600_000, EffectNow, RiskWaste,
			sysctls("", "net.inet.tcp.msl", "net.inet.tcp.msl"), defaults("freebsd", "30000", "darwin", "15000"), "RFC 9293 section 3.4.1 [B13 tcp_timer.c] [X tcp_timer.c]; the ends are linerate's"),
		detail("tcp.listen_queue", "connections that may wait for accept", "connections", 1, 65535, EffectNew, RiskWaste, map[string]Native{
			"linux":   {Mechanism: Sysctl, Name: "net.core.somaxconn"},
			"freebsd": {Mechanism: Sysctl, Name: "kern.ipc.soacceptqueue"},
			"darwin":  {Mechanism: Sysctl, Name: "kern.ipc.somaxconn"},
		}, defaults("linux since 5.4", "4096", "linux before 5.4", "128", "freebsd", "128", "darwin", "128"), "[L6.1] [B13 uipc_socket.c] [E18]; macOS [K]"),
		detail("tcp.syn_queue", "half-open connections of a listener", "connections", 1, most, EffectNew, RiskWaste,
			linux("tcp_max_syn_backlog"), defaults("linux", "by memory"), "[L6.1] [E18]"),
		detail("socket.ancillary_max", "bytes of options of one socket", "bytes", 1024, most, EffectNew, RiskWaste,
			sysctls("net.core.optmem_max", "", ""), defaults("linux", "20480", "linux 6.18", "131072"), "[E18] [K]"),
		detail("udp.recv_buffer_min", "receive buffer that a UDP socket keeps when memory is short", "bytes", 1, most, EffectNow, RiskWaste,
			linux("udp_rmem_min"), defaults("linux", "4096"), "[L6.1 ip-sysctl.rst] [E18]"),
		detail("udp.datagram_max", "largest UDP datagram that may be sent", "bytes", 1, 65535, EffectNow, RiskSlow,
			sysctls("", "net.inet.udp.maxdgram", "net.inet.udp.maxdgram"), defaults("freebsd", "9216", "darwin", "9216"), "[B13 udp_usrreq.c] [K]"),
		detail("udp.mem_limit", "pages that all UDP sockets together may use", "pages", 16, most, EffectNow, RiskSlow,
			only("linux", Native{Mechanism: Sysctl, Name: "net.ipv4.udp_mem", Encoding: Ceiling}), defaults("linux", "by memory"), "[L6.1 ip-sysctl.rst]"),
		detail("tcp.min_rto", "shortest retransmission time-out", "ms", 20, 300, EffectNew, RiskSlow, win("MinRtoMs", 20, 300),
			defaults("windows", "300, or 20 in the Datacenter template"), "[W Set-NetTCPSetting]; steps of 10; not on clients"),
		detail("tcp.initial_rto", "first retransmission time-out", "ms", 300, 3000, EffectNew, RiskSlow, win("InitialRtoMs", 300, 3000),
			defaults("windows", "1000 or 3000"), "[W Set-NetTCPSetting]; steps of 10"),
		detail("tcp.delayed_ack_timeout", "how long an acknowledgement may wait", "ms", 10, 600, EffectNew, RiskSlow, map[string]Native{
			"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.delacktime"},
			"windows": {Mechanism: WinTCP, Name: "DelayedAckTimeoutMs", Note: "steps of 10; not on clients"},
		}, defaults("freebsd before 13", "100", "freebsd since 13", "40", "windows", "40, or 10 in the Datacenter template"), "[B13], seen on 12.1 [W Set-NetTCPSetting] [K]"),
		detail("tcp.delayed_ack_frequency", "segments per acknowledgement", "segments", 1, 255, EffectNew, RiskSlow, win("DelayedAckFrequency", 1, 255),
			defaults("windows", "2"), "[W Set-NetTCPSetting] [K]"),
		detail("tcp.syn_retries", "how often an opening segment is repeated", "times", 1, 127, EffectNew, RiskSlow, map[string]Native{
			"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_syn_retries"},
			"windows": {Mechanism: WinTCP, Name: "MaxSynRetransmissions", Min: 2, Max: 8},
		}, defaults("linux", "6", "windows", "2 or 4"), "[Ldoc] [W Set-NetTCPSetting] [K]"),
		{
			ID: "tcp.delayed_ack", Summary: "acknowledgements may wait for data", Scope: ScopeHost, Type: TypeEnum,
			Choices: []Choice{{"0", "off"}, {"1", "on"}, {"2", "every other segment"}, {"3", "adaptive"}}, Effect: EffectNow, Risk: RiskSlow,
			Native: map[string]Native{
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.delayed_ack", Encoding: Switch},
				"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.delayed_ack"},
			}, Defaults: defaults("freebsd", "1", "darwin", "3"), Source: "[B13] [X tcp_input.c]",
		},
		{
			ID: "tcp.memory_pressure_protection", Summary: "closes idle connections when memory is short", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native:   map[string]Native{"windows": {Mechanism: WinTCP, Name: "MemoryPressureProtection", Encoding: Enabled}},
			Defaults: defaults("windows", "off"), Source: "[W Set-NetTCPSetting]",
		},
		{
			ID: "tcp.force_window_scaling", Summary: "scaling again when the first attempt had none", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native:   map[string]Native{"windows": {Mechanism: WinTCP, Name: "ForceWS", Encoding: Enabled}},
			Defaults: defaults("windows", "by template"), Source: "[W Set-NetTCPSetting]",
		},
		{
			ID: "tcp.non_sack_rtt_resiliency", Summary: "round trips of peers without SACK are handled with care", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native:   map[string]Native{"windows": {Mechanism: WinTCP, Name: "NonSackRttResiliency", Encoding: Enabled}},
			Defaults: defaults("windows", "off"), Source: "[W Set-NetTCPSetting]",
		},
		flag("tcp.metrics_cache", "TCP remembers thresholds and round trips of a peer", EffectNew, RiskSlow, map[string]Native{
			"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_no_metrics_save", Encoding: Inverted},
			"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.hostcache.enable"},
		}, defaults("linux", "1", "freebsd", "1"), "[Ldoc tcp_no_metrics_save] [B13]"),
		flag("tcp.ssthresh_cache", "the slow start threshold is remembered too", EffectNew, RiskSlow, map[string]Native{
			"linux": {Mechanism: Sysctl, Name: "net.ipv4.tcp_no_ssthresh_metrics_save", Encoding: Inverted},
		}, defaults("linux", "0"), "[Ldoc tcp_no_ssthresh_metrics_save]"),
		detail("tcp.metrics_expire", "how long a peer is remembered", "s", 1, 1_000_000, EffectNow, RiskWaste,
			sysctls("", "net.inet.tcp.hostcache.expire", ""), defaults("freebsd", "3600"), "[B13] [ES]"),
	}
}
