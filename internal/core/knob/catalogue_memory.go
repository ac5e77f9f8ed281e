package knob

// memoryKnobs are the packet buffers of FreeBSD and macOS.
func memoryKnobs() []Knob {
	pool := func(id, summary, name, def, darwin string) Knob {
		k := detail(id, summary, "clusters", 1, most, EffectNow, RiskWaste,
			only("freebsd", Native{Mechanism: Sysctl, Name: name, Note: "may grow while the system runs; it shrinks at boot only, with /boot/loader.conf"}),
			defaults("freebsd", def), "[B13 kern_mbuf.c]")
		if darwin != "" {
			k.Native["darwin"] = Native{Mechanism: Sysctl, Name: darwin, ReadOnly: true, Note: "boot argument ncl, in nvram, with reduced security"}
			k.Defaults = append(k.Defaults, Default{"darwin", "by memory"})
			k.Source += " [X unix_startup.c]"
		}
		return k
	}
	return []Knob{
		pool("mbuf.clusters", "packet buffers of 2 KiB", "kern.ipc.nmbclusters", "a quarter of the buffer memory", "kern.ipc.nmbclusters"),
		pool("mbuf.jumbo_p", "packet buffers of a page", "kern.ipc.nmbjumbop", "a quarter of the buffer memory", ""),
		pool("mbuf.jumbo9", "packet buffers of 9 KiB", "kern.ipc.nmbjumbo9", "a sixth of the buffer memory", ""),
		pool("mbuf.jumbo16", "packet buffers of 16 KiB", "kern.ipc.nmbjumbo16", "a sixth of the buffer memory", ""),
		pool("mbuf.total", "packet headers, at least as many as buffers of all sizes", "kern.ipc.nmbufs", "by memory", ""),
		{
			ID: "mbuf.memory", Summary: "memory for all packet buffers", Scope: ScopeHost, Type: TypeBytes, Min: 1 << 20, Max: 1 << 40, Effect: EffectBoot, Risk: RiskWaste,
			Native:   only("freebsd", Native{Mechanism: Sysctl, Name: "kern.ipc.maxmbufmem", Effect: EffectBoot}),
			Defaults: defaults("freebsd", "half of the kernel's memory"), Source: "[B13 kern_mbuf.c]",
		},
	}
}

// powerKnobs are the clock and sleep states of processors, and the bus.
func powerKnobs() []Knob {
	return []Knob{
		{
			ID: "cpu.governor", Summary: "who chooses the clock of the processors", Scope: ScopeHost, Type: TypeName, Effect: EffectNow, Risk: RiskWaste,
			Native: map[string]Native{
				"linux":   {Mechanism: IRQ, Name: "scaling_governor", Encoding: Parts, Choices: "scaling_available_governors"},
				"freebsd": {Name: "powerd", Also: []string{"dev.cpu.0.freq"}, Note: "a daemon's flags, not a setting"},
				"windows": {Name: "powercfg /setactive", Note: "a power plan of the whole machine, not yet by linerate"},
			}, Defaults: defaults("linux", "schedutil or powersave"), Source: "[K]",
		},
		{
			ID: "cpu.cstate_latency", Summary: "longest wake-up time that processors may need", Scope: ScopeHost, Type: TypeInt, Unit: "µs", Min: 0, Max: most, Effect: EffectNow, Risk: RiskWaste,
			Native: map[string]Native{
				"linux":   {Name: "/dev/cpu_dma_latency", Note: "holds as long as a process keeps the file open: not a setting that can be left behind"},
				"freebsd": {Name: "hw.acpi.cpu.cx_lowest", Also: []string{"dev.cpu.0.cx_lowest"}, Note: "a state by name (C1), not a time"},
			}, Defaults: defaults("linux", "none"), Source: "[K]",
		},
		{
			ID: "pcie.max_read_request", Summary: "bytes that the card asks the memory for at a time", Scope: ScopeLink, Type: TypeBytes, Min: 128, Max: 4096, Effect: EffectNow, Risk: RiskConnection,
			Native: map[string]Native{
				"linux":   {Mechanism: IRQ, Name: "max_read_request", Also: []string{"setpci CAP_EXP+8.w"}, ReadOnly: true, Note: "a register of the card, which root reads: a wrong value stops the machine; 68.w of setpci is it only where lspci -vv shows the card's Express capability at [60]"},
				"freebsd": {Name: "pciconf -w", Note: "a register of the card: a wrong value stops the machine"},
			}, Defaults: defaults("all", "512 or 4096"), Source: "PCI Express Base Specification 3.0 section 7.8.4",
		},
		readOnly("pcie.speed", "speed of the card's bus link", TypeName, "", only("linux", Native{Mechanism: IRQ, Name: "current_link_speed"}), "[L6.1 sysfs-bus-pci]"),
		readOnly("pcie.width", "lanes of the card's bus link", TypeInt, "lanes", only("linux", Native{Mechanism: IRQ, Name: "current_link_width"}), "[L6.1 sysfs-bus-pci]"),
		readOnly("pcie.speed_max", "most that the card could do", TypeName, "", only("linux", Native{Mechanism: IRQ, Name: "max_link_speed"}), "[L6.1 sysfs-bus-pci]"),
		readOnly("pcie.width_max", "most lanes that the card has", TypeInt, "lanes", only("linux", Native{Mechanism: IRQ, Name: "max_link_width"}), "[L6.1 sysfs-bus-pci]"),
	}
}

// windowsKnobs are settings that only Windows has.
func windowsKnobs() []Knob {
	global := func(id, summary, name, def, note string) Knob {
		return flag(id, summary, EffectNow, RiskSlow, only("windows", Native{Mechanism: WinTCP, Name: name, Encoding: Enabled, Note: note}),
			defaults("windows", def), "[W Set-NetOffloadGlobalSetting]")
	}
	return []Knob{
		global("nic.offload.rsc_global", "cards may join received segments", "ReceiveSegmentCoalescing", "1", ""),
		global("nic.offload.task", "cards may do any of the stack's work", "TaskOffload", "1", "a change needs a restart of the computer or the adapter"),
		global("nic.offload.packet_filter", "cards may hold back broadcasts", "PacketCoalescingFilter", "1", "clients only"),
		{
			ID: "tcp.ecn_marking", Summary: "how packets of an interface are marked", Scope: ScopeLink, Type: TypeName, Effect: EffectNew, Risk: RiskSlow,
			Native:   only("windows", Native{Mechanism: WinTCP, Name: "EcnMarking", Note: "Disabled, UseEct0, UseEct1, AppDecide"}),
			Defaults: defaults("windows", "AppDecide"), Source: "[W Set-NetIPInterface]",
		},
		detail("cpu.network_throttling", "packets a millisecond while multimedia plays; 4294967295 is without limit", "packets", 1, 1<<32-1, EffectBoot, RiskSlow,
			only("windows", Native{Mechanism: WinReg, Name: `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Multimedia\SystemProfile\NetworkThrottlingIndex`,
				Absent: "10", Effect: EffectBoot}), defaults("windows", "10"), "[K]"),
	}
}

// routeKnobs are the metrics of one route (Linux include/uapi/linux/rtnetlink.h
// RTAX_MTU and following).
func routeKnobs() []Knob {
	metric := func(name, summary, unit string, low, high int64, effect Effect, risk Risk) Knob {
		k := detail("route."+name, summary, unit, low, high, effect, risk,
			only("linux", Native{Mechanism: Route, Name: name, Keep: "the owner of the interface: [Route] of networkd, routes of netplan, an ifupdown hook"}),
			defaults("linux", "not set"), "[L6.1 include/uapi/linux/rtnetlink.h RTAX_*; net/ipv4/metrics.c]")
		k.Scope, k.Zero = ScopeRoute, "unset"
		return k
	}
	return []Knob{
		metric("mtu", "largest packet to destinations of the route", "bytes", 68, 65535, EffectNow, RiskConnection),
		metric("advmss", "segment size that is offered to the peer", "bytes", 1, 65495, EffectNew, RiskSlow),
		metric("window", "largest window that is offered to the peer", "bytes", 1, 1<<30, EffectNew, RiskSlow),
		metric("initcwnd", "segments of the first burst", "segments", 1, 1000, EffectNew, RiskSlow),
		metric("initrwnd", "segments of the first window", "segments", 1, 1000, EffectNew, RiskSlow),
		metric("cwnd", "largest congestion window; takes effect with the lock bit only", "segments", 1, 1_000_000, EffectNew, RiskSlow),
		metric("ssthresh", "first slow start threshold", "segments", 1, 1_000_000, EffectNew, RiskSlow),
		metric("rto_min", "shortest retransmission time-out", "ms", 1, 120_000, EffectNew, RiskSlow),
		metric("quickack", "acknowledge at once: 1", "flag", 0, 1, EffectNew, RiskSlow),
	}
}
