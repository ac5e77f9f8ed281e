package knob

func linkKnobs() []Knob {
	return []Knob{
		{
			// C-07: at least 576 bytes, 1280 with IPv6 (RFC 791, RFC 8200 section 5); the
			// device's own range is checked before a change.
			ID: "link.mtu", Summary: "largest IP packet on the link",
			Scope: ScopeLink, Type: TypeBytes, Min: 576, Max: 65535, Effect: EffectBounce, Risk: RiskConnection, NeedsBoth: true,
			Native: map[string]Native{
				"linux":   {Mechanism: Link, Name: "mtu", Keep: "MTUBytes= of a .link file, or the owner of the interface (netplan mtu:, NetworkManager 802-3-ethernet.mtu, ifupdown mtu)"},
				"freebsd": {Mechanism: IfIoctl, Name: "mtu", Also: []string{"SIOCSIFMTU"}, Keep: "/etc/start_if.{if}: ifconfig {if} mtu VALUE || :", Note: "the driver's largest shows by trial only"},
				"darwin":  {Mechanism: IfIoctl, Name: "mtu", Also: []string{"SIOCSIFMTU"}, Keep: "networksetup -setMTU {if} VALUE"},
				"windows": {Mechanism: WinTCP, Name: "NlMtuBytes", Keep: "netsh interface ipv4 set subinterface \"{if}\" mtu=VALUE store=persistent", Note: "the driver's frame, link.frame_mtu, has to allow it first"},
			},
			Defaults: defaults("ethernet", "1500"), Source: "[L6.1 net/core/dev.c dev_validate_mtu; if_ether.h] [B13 if.c] [X] [W]",
		},
		{
			ID: "link.frame_mtu", Summary: "largest IP packet for which the driver has frames; the keyword counts 14 bytes more",
			Scope: ScopeLink, Type: TypeBytes, Min: 1500, Max: 65521, Effect: EffectBounce, Risk: RiskConnection, NeedsBoth: true, Stage: StageLimit,
			Native:   map[string]Native{"windows": {Mechanism: WinTCP, Name: "*JumboPacket", Encoding: Frame, Note: "9014 is 9000 and 4088 is 4074, whatever the vendor calls it"}},
			Defaults: defaults("windows", "1500"), Source: "[W keywords-that-can-be-edited]; the arithmetic is linerate's",
		},
		readOnly("link.mtu_min", "smallest MTU that the driver takes", TypeBytes, "", map[string]Native{
			"linux": {Mechanism: Link, Name: "min_mtu"}, "darwin": {Mechanism: IfIoctl, Name: "mtu_min"},
		}, "[L6.1 if_link.h IFLA_MIN_MTU] [X sockio.h SIOCGIFDEVMTU]"),
		readOnly("link.mtu_max", "largest MTU that the driver takes; 0 is that it does not say", TypeBytes, "", map[string]Native{
			"linux": {Mechanism: Link, Name: "max_mtu"}, "darwin": {Mechanism: IfIoctl, Name: "mtu_max"},
		}, "[L6.1 if_link.h IFLA_MAX_MTU] [X sockio.h SIOCGIFDEVMTU]"),
		readOnly("link.up", "the link is up and carries", TypeBool, "", map[string]Native{
			"linux": {Mechanism: Link, Name: "up"}, "freebsd": {Mechanism: IfIoctl, Name: "up"}, "darwin": {Mechanism: IfIoctl, Name: "up"},
			"windows": {Mechanism: WinTCP, Name: "MediaConnectionState"},
		}, "[L6.1 if_link.h IFLA_OPERSTATE, IFLA_CARRIER; RFC 2863] [B13 if_media.h] [W Get-NetAdapter]"),
		readOnly("link.speed", "rate at which the link runs now", TypeInt, "Mbit/s", map[string]Native{
			"linux":   {Mechanism: Ethtool, Name: "linkmodes.speed"},
			"freebsd": {Mechanism: IfIoctl, Name: "active", Encoding: MediaSpeed}, "darwin": {Mechanism: IfIoctl, Name: "active", Encoding: MediaSpeed},
		}, "[L6.1 ethtool_netlink.h ETHTOOL_A_LINKMODES_SPEED] [B13 if_media.h ifm_active]"),
		{
			ID: "txqueuelen", Summary: "packets that may wait in front of the device",
			Scope: ScopeLink, Type: TypeInt, Unit: "packets", Min: 0, Max: 1_000_000, Effect: EffectNow, Risk: RiskSlow,
			Native: map[string]Native{
				"linux":   {Mechanism: Link, Name: "txqlen", Keep: "TransmitQueueLength= of a .link file"},
				"freebsd": {Mechanism: Sysctl, Name: "net.link.ifqmaxlen", Effect: EffectBoot},
			},
			Defaults: defaults("linux", "1000; 0 or 1000 on virtual devices", "freebsd", "50"),
			Source:   "[L6.1 include/net/pkt_sched.h DEFAULT_TX_QUEUE_LEN] [B13 if.c]; the upper end is linerate's, far above any use",
		},
		{
			ID: "qdisc", Summary: "scheduler of packets that leave the link",
			Scope: ScopeLink, Type: TypeName, Effect: EffectNow, Risk: RiskSlow,
			Native: map[string]Native{
				"linux":   {Mechanism: Qdisc, Name: "root", Encoding: Kind, Keep: "net.core.default_qdisc, or the owner of the interface", Note: "a scheduler with classes or filters is not replaced: it could not be restored exactly"},
				"freebsd": {Name: "dummynet", Also: []string{"ALTQ"}, Note: "pipes and rules of a firewall, not a setting of the link"},
				"windows": {Name: "QoS packet scheduler", Note: "policies, not a setting of the link"},
			},
			Defaults: defaults("linux", "pfifo_fast in the kernel, fq_codel in most distributions, noqueue on virtual devices"),
			Source:   "[L6.1 net/sched/sch_api.c, sch_generic.c]",
		},
		{
			ID: "qdisc.default", Summary: "scheduler that new links get", Scope: ScopeHost, Type: TypeName, Effect: EffectNow, Risk: RiskSlow,
			Native:   sysctls("net.core.default_qdisc", "", ""),
			Defaults: defaults("linux", "pfifo_fast in the kernel, fq_codel in most distributions"), Verify: "the scheduler of a link that was made afterwards",
			Source: "[L6.1 net.rst] [K]",
		},
	}
}

// readOnly returns a read-only knob.
func readOnly(id, summary string, t Type, unit string, native map[string]Native, source string) Knob {
	return Knob{
		ID: knobID(id), Summary: summary, Scope: ScopeLink, Type: t, Unit: unit, Min: 0, Max: 1<<32 - 1,
		Effect: EffectNow, ReadOnly: true, Native: native, Source: source,
	}
}

// pathKnobs control how TCP finds the packet size of a path.
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
