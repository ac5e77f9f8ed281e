package knob

// pathKnobs are how TCP finds the packet size of a path.
func pathKnobs() []Knob {
	linux := func(name string) map[string]Native { return sysctls("net.ipv4."+name, "", "") }
	return []Knob{
		flag("tcp.pmtud", "path MTU discovery (RFC 1191)", EffectNew, RiskSlow, map[string]Native{
			"linux":   {Mechanism: Sysctl, Name: "net.ipv4.ip_no_pmtu_disc", Encoding: Inverted},
			"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.path_mtu_discovery"},
			"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.path_mtu_discovery", Note: "the name is [K]"},
			"windows": {Mechanism: WinReg, Name: tcpipParameters + `\EnablePMTUDiscovery`, Effect: EffectBoot, Absent: "1",
				Note: "off, every packet that leaves the local network has 576 bytes"},
		}, defaults("linux", "1", "freebsd", "1", "windows", "1"), "[L6.1] [B13] [W]"),
		detail("tcp.base_mss", "segment size at which probing starts", "bytes", 48, 65495, EffectNew, RiskSlow,
			linux("tcp_base_mss"), defaults("linux", "1024"), "[L6.1 tcp.h] [E18]"),
		detail("tcp.mtu_probe_floor", "segment size below which probing does not go", "bytes", 48, 65495, EffectNew, RiskSlow,
			linux("tcp_mtu_probe_floor"), defaults("linux", "48"), "[L6.1] [E18]"),
		detail("tcp.min_snd_mss", "smallest segment size that a peer may ask for", "bytes", 48, 65535, EffectNew, RiskSlow,
			linux("tcp_min_snd_mss"), defaults("linux", "48"), "[L6.1 ip-sysctl.rst tcp_min_snd_mss] [E18]"),
		detail("tcp.probe_interval", "time between probes for a larger path MTU", "s", 1, 1_000_000, EffectNow, RiskSlow,
			linux("tcp_probe_interval"), defaults("linux", "600"), "[Ldoc]"),
		detail("tcp.probe_threshold", "search range at which probing stops", "bytes", 1, 65535, EffectNow, RiskSlow,
			linux("tcp_probe_threshold"), defaults("linux", "8"), "[Ldoc]"),
		detail("tcp.blackhole_mss", "segment size after a black hole was noticed", "bytes", 216, 65495, EffectNow, RiskSlow,
			sysctls("", "net.inet.tcp.pmtud_blackhole_mss", "net.inet.tcp.pmtud_blackhole_mss"),
			defaults("freebsd", "1200", "darwin", "1200"), "[B13 tcp_timer.c] [X tcp_timer.c]"),
		detail("tcp.blackhole_mss6", "the same for IPv6", "bytes", 216, 65495, EffectNow, RiskSlow,
			sysctls("", "net.inet.tcp.v6pmtud_blackhole_mss", ""), defaults("freebsd", "1220"), "[B13 tcp_timer.c] [K]"),
		detail("tcp.default_mss", "segment size to peers that do not say theirs", "bytes", 64, 65495, EffectNew, RiskSlow,
			sysctls("", "net.inet.tcp.mssdflt", "net.inet.tcp.mssdflt"), defaults("freebsd", "536", "darwin", "512"), "[B13] [X]"),
		detail("tcp.default_mss6", "the same for IPv6", "bytes", 64, 65495, EffectNew, RiskSlow,
			sysctls("", "net.inet.tcp.v6mssdflt", "net.inet.tcp.v6mssdflt"), defaults("freebsd", "1220", "darwin", "1024"), "[B13] [X] [K]"),
		detail("tcp.min_mss", "smallest segment size that a peer may ask for", "bytes", 0, 65495, EffectNew, RiskSlow,
			sysctls("", "net.inet.tcp.minmss", "net.inet.tcp.minmss"), defaults("freebsd", "216", "darwin", "216"), "[B13] [X] [K]"),
		detail("pmtu.expires", "how long a path MTU is remembered", "s", 1, 1_000_000, EffectNow, RiskSlow,
			linux("route.mtu_expires"), defaults("linux", "600"), "[E18]"),
		detail("pmtu.min", "smallest path MTU that is believed", "bytes", 68, 65535, EffectNow, RiskSlow,
			linux("route.min_pmtu"), defaults("linux", "552"), "[E18]; RFC 791 for the 68"),
	}
}
