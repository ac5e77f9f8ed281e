package knob

func tcpKnobs() []Knob {
	return []Knob{
		{
			ID: "tcp.congestion_control", Summary: "congestion control of the sender",
			Scope: ScopeHost, Type: TypeName, Effect: EffectNew, Risk: RiskSlow,
			Native: map[string]Native{
				"linux": {Mechanism: Sysctl, Name: "net.ipv4.tcp_congestion_control", Choices: "net.ipv4.tcp_available_congestion_control",
					Note: "its module has to be loaded at boot: modules-load.d"},
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.cc.algorithm", Choices: "net.inet.tcp.cc.available", Note: "loader.conf: cc_NAME_load=\"YES\""},
				"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.use_newreno", Encoding: NewReno},
				"windows": {Mechanism: WinTCP, Name: "CongestionProvider", Note: "by netsh set supplemental; the cmdlet has it read-only on clients"},
			},
			Defaults: defaults("linux", "cubic, by kernel build", "freebsd before 14", "newreno", "freebsd since 14", "cubic",
				"darwin", "cubic", "windows clients since 2017", "cubic"),
			Source: "[Ldoc tcp_congestion_control] [B12 mod_cc] [B14 cc.c] [X tcp_sysctls.c] [W]",
		},
		{
			ID: "tcp.stack", Summary: "TCP implementation that new sockets use",
			Scope: ScopeHost, Type: TypeName, Effect: EffectNew, Risk: RiskSlow,
			Native: map[string]Native{"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.functions_default",
				Note: "net.inet.tcp.functions_available lists them; kldload tcp_rack, tcp_bbr"}},
			Defaults: defaults("freebsd", "freebsd"), Source: "[B13 tcp_subr.c]",
		},
		{
			ID: "tcp.window_scaling", Summary: "TCP window scaling (RFC 7323 section 2)",
			Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_window_scaling"},
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.rfc1323", Encoding: ScaleBit, Note: "before 14 it is on and off together with timestamps"},
			},
			Defaults: defaults("linux", "1", "freebsd", "1"), Source: "[L6.1] [B14 tcp_syncache.c] [E18]; macOS has it always on, Windows ties it to autotuning",
		},
		{
			ID: "tcp.window_scale_min", Summary: "least window scale that is offered",
			Scope: ScopeHost, Type: TypeInt, Unit: "bits", Min: 0, Max: 14, Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native: sysctls("", "", "net.inet.tcp.win_scale_factor"), Defaults: defaults("darwin", "3"), Source: "[X tcp_subr.c]; RFC 7323 section 2.3 for the 14",
		},
		{
			ID: "tcp.timestamps", Summary: "TCP timestamps (RFC 7323 section 3)",
			Scope: ScopeHost, Type: TypeEnum, Choices: []Choice{{"0", "off"}, {"1", "on, with a random offset"}, {"2", "on, without an offset"}},
			Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_timestamps"},
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.rfc1323", Encoding: StampsBit},
				"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.do_timestamps", Encoding: Switch},
				"windows": {Mechanism: WinTCP, Name: "Timestamps", Encoding: Enabled},
			},
			Defaults: defaults("linux", "1", "freebsd", "1", "darwin", "1", "windows", "off"),
			Source:   "[Ldoc tcp_timestamps] [B14] [X] [W]",
		},
		{
			ID: "tcp.sack", Summary: "TCP selective acknowledgements (RFC 2018)",
			Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native:   sysctls("net.ipv4.tcp_sack", "net.inet.tcp.sack.enable", "net.inet.tcp.sack"),
			Defaults: defaults("linux", "1", "freebsd", "1", "darwin", "1"), Source: "[Ldoc tcp_sack] [B13] [X]; Windows has it always on",
		},
		{
			ID: "tcp.dsack", Summary: "duplicate selective acknowledgements (RFC 2883)",
			Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native: sysctls("net.ipv4.tcp_dsack", "", ""), Defaults: defaults("linux", "1"), Source: "[Ldoc tcp_dsack]",
		},
		{
			ID: "tcp.ecn", Summary: "explicit congestion notification (RFC 3168)",
			Scope: ScopeHost, Type: TypeEnum, Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Choices: onOff(Choice{"2", "when the peer asks"}, Choice{"3", "accurate ECN"}, Choice{"4", "accurate ECN when the peer asks"}, Choice{"5", "accurate ECN offered, ECN answered"}),
			Native: on(sysctls("net.ipv4.tcp_ecn", "net.inet.tcp.ecn.enable", ""),
				"windows", Native{Mechanism: WinTCP, Name: "EcnCapability", Encoding: Enabled, Note: "ignored unless EcnMarking of the interface is AppDecide"}),
			Defaults: defaults("linux", "2", "freebsd", "2", "windows", "off"), Source: "[Ldoc tcp_ecn] [B13] [W] [E18]; accurate ECN in the newest kernels only",
		},
		{
			ID: "tcp.ecn_out", Summary: "ask for ECN on outgoing connections", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native: sysctls("", "", "net.inet.tcp.ecn_initiate_out"), Defaults: defaults("darwin", "by the system"), Source: "[X tcp_output.c]",
		},
		{
			ID: "tcp.ecn_in", Summary: "agree to ECN on incoming connections", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native: sysctls("", "", "net.inet.tcp.ecn_negotiate_in"), Defaults: defaults("darwin", "by the system"), Source: "[X tcp_output.c]",
		},
		{
			ID: "tcp.ecn_accurate", Summary: "accurate ECN feedback (RFC 9768)", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native: sysctls("", "", "net.inet.tcp.accurate_ecn"), Defaults: defaults("darwin", "0"), Source: "[X tcp_output.c]",
		},
		{
			ID: "tcp.l4s", Summary: "low latency, low loss, scalable throughput (RFC 9330)", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native: sysctls("", "", "net.inet.tcp.l4s"), Defaults: defaults("darwin", "0"), Source: "[X tcp_output.c]",
		},
		{
			ID: "tcp.ecn_fallback", Summary: "try again without ECN when the first packet is lost", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native: sysctls("net.ipv4.tcp_ecn_fallback", "", ""), Defaults: defaults("linux", "1"), Source: "[Ldoc tcp_ecn_fallback]",
		},
		{
			ID: "tcp.recv_autotune", Summary: "receive buffers grow by themselves", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native:   sysctls("net.ipv4.tcp_moderate_rcvbuf", "net.inet.tcp.recvbuf_auto", "net.inet.tcp.doautorcvbuf"),
			Defaults: defaults("linux", "1", "freebsd", "1", "darwin", "1"), Source: "[Ldoc tcp_moderate_rcvbuf] [B13 tcp_input.c] [X tcp_input.c]",
		},
		{
			ID: "tcp.send_autotune", Summary: "send buffers grow by themselves", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native: sysctls("", "net.inet.tcp.sendbuf_auto", ""), Defaults: defaults("freebsd", "1"), Source: "[B13 tcp_output.c]; Linux has no switch",
		},
		{
			ID: "tcp.autotune_level", Summary: "how far receive windows may grow", Scope: ScopeHost, Type: TypeEnum,
			Choices: []Choice{{"Disabled", "64 KiB"}, {"HighlyRestricted", "256 KiB"}, {"Restricted", "1 MiB"}, {"Normal", "16 MiB"}, {"Experimental", "1 GiB"}},
			Effect:  EffectNew, Risk: RiskSlow,
			Native: map[string]Native{"windows": {Mechanism: WinTCP, Name: "AutoTuningLevelLocal", Also: []string{"AutoTuningLevelEffective", "autotuninglevel"},
				Note: "where AutoTuningLevelEffective says GroupPolicy, policy wins"}},
			Defaults: defaults("windows", "Normal"), Source: "[W Set-NetTCPSetting; net-sub-performance-tuning-nics]",
		},
		{
			ID: "tcp.autotune_heuristics", Summary: "the system may overrule the autotuning level", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native:   map[string]Native{"windows": {Mechanism: WinTCP, Name: "ScalingHeuristics", Encoding: Enabled}},
			Defaults: defaults("windows", "off"), Source: "[W Set-NetTCPSetting]; that it overrules silently is [K]",
		},
		{
			ID: "tcp.mtu_probing", Summary: "TCP finds the path MTU itself (RFC 4821)", Scope: ScopeHost, Type: TypeEnum,
			Choices: []Choice{{"0", "off"}, {"1", "after a black hole was noticed"}, {"2", "always, from tcp_base_mss up"}},
			Effect:  EffectNew, Risk: RiskWaste,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_mtu_probing"},
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.pmtud_blackhole_detection", Encoding: Switch, Note: "2 is IPv4 only, 3 IPv6 only"},
				"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.pmtud_blackhole_detection", Encoding: Switch},
				"windows": {Mechanism: WinReg, Name: tcpipParameters + `\EnablePMTUBHDetect`, Effect: EffectBoot, Encoding: Switch, Absent: "1"},
			},
			Defaults: defaults("linux", "0", "freebsd", "0", "darwin", "1", "windows since Vista", "1"),
			Source:   "[Ldoc tcp_mtu_probing] [L6.1 tcp_output.c, tcp_timer.c] [B13 tcp_timer.c] [X tcp_timer.c] [E18]",
		},
		{
			ID: "tcp.slow_start_after_idle", Summary: "TCP starts slowly again after a pause (RFC 2861)", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native: on(sysctls("net.ipv4.tcp_slow_start_after_idle", "", ""),
				"windows", Native{Mechanism: WinTCP, Name: "CwndRestart", Encoding: TrueFalse}),
			Defaults: defaults("linux", "1", "windows", "off"), Source: "[Ldoc tcp_slow_start_after_idle] [W]",
		},
		{
			ID: "tcp.mem_limit", Summary: "pages that all TCP sockets together may use", Scope: ScopeHost, Type: TypeInt, Unit: "pages", Min: 16, Max: most,
			Effect: EffectNow, Risk: RiskUnreachable,
			Native:   map[string]Native{"linux": {Mechanism: Sysctl, Name: "net.ipv4.tcp_mem", Encoding: Ceiling, Note: "lowered too far it cuts off every connection"}},
			Defaults: defaults("linux", "9.37 % of free low memory at boot"), Source: "[L6.1 tcp.c tcp_init_mem]",
		},
		{
			ID: "tcp.mem_pressure", Summary: "pages from which TCP saves memory", Scope: ScopeHost, Type: TypeInt, Unit: "pages", Min: 16, Max: most,
			Effect: EffectNow, Risk: RiskSlow,
			Native:   map[string]Native{"linux": {Mechanism: Sysctl, Name: "net.ipv4.tcp_mem", Encoding: Initial}},
			Defaults: defaults("linux", "6.25 % of free low memory at boot"), Source: "[L6.1 tcp.c tcp_init_mem]",
		},
	}
}

// tcpipParameters is the registry key of the Windows TCP/IP driver.
const tcpipParameters = `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`
