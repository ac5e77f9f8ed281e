package knob

// receiveKnobs are the queues and budgets between card and stack.
func receiveKnobs() []Knob {
	core := func(name string) map[string]Native { return sysctls("net.core."+name, "", "") }
	boot := func(name string) map[string]Native {
		return only("freebsd", Native{Mechanism: Sysctl, Name: name, Effect: EffectBoot})
	}
	irq := func(name string) map[string]Native { return only("linux", Native{Mechanism: IRQ, Name: name}) }
	return []Knob{
		detail("rx.backlog", "packets that may wait in front of the stack, per processor", "packets", 0, 10_000_000, EffectNow, RiskWaste, map[string]Native{
			"linux":   {Mechanism: Sysctl, Name: "net.core.netdev_max_backlog"},
			"freebsd": {Mechanism: Sysctl, Name: "net.inet.ip.intr_queue_maxlen", Note: "at most netisr.queue_max"},
		}, defaults("linux", "1000", "freebsd", "256"), "[E18] [B13 ip_input.c] [K]"),
		detail("rx.budget", "packets of one round of input processing", "packets", 1, 1_000_000, EffectNow, RiskSlow, map[string]Native{
			"linux": {Mechanism: Sysctl, Name: "net.core.netdev_budget"},
		}, defaults("linux", "300"), "[L6.1 net.rst] [E18]"),
		detail("rx.budget_usecs", "time of one round of input processing", "µs", 1, 10_000_000, EffectNow, RiskSlow,
			core("netdev_budget_usecs"), defaults("linux", "two jiffies: 8000 at 250 Hz, 2000 at 1000 Hz"), "[L6.1 net.rst] [E18]"),
		setting("rx.driver_budget", "packets of one round of a driver's input", "packets", 0, 65535, EffectNow, RiskSlow, map[string]Native{
			"freebsd": {Mechanism: Sysctl, Name: "dev.{dev}.iflib.rx_budget"},
		}, defaults("freebsd", "0, which is 16"), "[B12 iflib]"),
		detail("rx.napi_weight", "packets that one device may deliver at a time", "packets", 1, 65535, EffectNow, RiskSlow,
			core("dev_weight"), defaults("linux", "64"), "[L6.1 net.rst]"),
		detail("rx.napi_weight_rx_bias", "factor of it for receiving", "times", 1, 1000, EffectNow, RiskSlow, core("dev_weight_rx_bias"), defaults("linux", "1"), "[L6.1 net.rst]"),
		detail("rx.napi_weight_tx_bias", "factor of it for transmitting", "times", 1, 1000, EffectNow, RiskSlow, core("dev_weight_tx_bias"), defaults("linux", "1"), "[L6.1 net.rst]"),
		setting("rx.gro_flush_timeout", "how long joined segments may wait for more", "ns", 0, 1_000_000_000, EffectNow, RiskSlow,
			irq("gro_flush_timeout"), defaults("linux", "0"), "[L6.1 net-sysfs.c] [K]"),
		setting("rx.napi_defer_hard_irqs", "empty rounds before interrupts are on again", "rounds", 0, most, EffectNow, RiskSlow,
			irq("napi_defer_hard_irqs"), defaults("linux", "0"), "[L6.1 net-sysfs.c] [K]"),
		detail("busy_poll", "how long poll and select spin for packets", "µs", 0, 1_000_000, EffectNow, RiskWaste, core("busy_poll"), defaults("linux", "0"), "[L6.1 net.rst]"),
		detail("busy_read", "how long reads spin for packets", "µs", 0, 1_000_000, EffectNow, RiskWaste, core("busy_read"), defaults("linux", "0"), "[L6.1 net.rst]"),
		{
			ID: "polling", Summary: "the driver is asked in turn and does not interrupt", Scope: ScopeLink, Type: TypeBool, Effect: EffectNow, Risk: RiskWaste,
			Native: map[string]Native{
				"freebsd": {Mechanism: IfIoctl, Name: "cap.polling", Also: []string{"DEVICE_POLLING"}, Encoding: Group, Note: "a kernel with DEVICE_POLLING only; at most HZ × burst_max packets a second"},
				"darwin":  {Mechanism: Sysctl, Name: "net.link.generic.system.rxpoll", Encoding: Switch},
			}, Defaults: defaults("freebsd", "0", "darwin", "by driver"), Source: "[B12 polling] [X dlil_sysctl.c]",
		},
		detail("polling.burst_max", "packets of one tick of polling", "packets", 1, 30_000, EffectNow, RiskSlow,
			sysctls("", "kern.polling.burst_max", ""), defaults("freebsd", "150"), "[B12 polling]"),
		detail("polling.user_frac", "share of time left to programs while polling", "%", 1, 99, EffectNow, RiskSlow,
			sysctls("", "kern.polling.user_frac", ""), defaults("freebsd", "50"), "[B12 polling]"),
		flag("polling.idle", "poll when the processor has nothing else to do", EffectNow, RiskWaste,
			sysctls("", "kern.polling.idle_poll", ""), defaults("freebsd", "0"), "[B12 polling]"),
		detail("polling.hz", "clock ticks a second: how often a polled driver is asked", "ticks", 8, 137_438, EffectBoot, RiskWaste,
			only("freebsd", Native{Mechanism: Sysctl, Name: "kern.hz", Also: []string{"HZ"}, Effect: EffectBoot, Note: "the kernel option HZ is its default"}),
			defaults("freebsd", "1000; 100 in a virtual machine"), "[B13 subr_param.c HZ_MINIMUM, HZ_MAXIMUM]"),
		{
			ID: "netisr.dispatch", Summary: "when received packets are processed: direct, hybrid or deferred", Scope: ScopeHost, Type: TypeName,
			Effect: EffectNow, Risk: RiskSlow, Native: sysctls("", "net.isr.dispatch", ""), Defaults: defaults("freebsd", "direct"), Source: "[B13, B14 netisr.c]",
		},
		detail("netisr.threads", "threads for deferred processing; -1 is one per processor", "threads", -1, 1024, EffectBoot, RiskSlow,
			boot("net.isr.maxthreads"), defaults("freebsd", "1"), "[B14 netisr.c]"),
		flag("netisr.bind", "those threads stay on their processor", EffectBoot, RiskSlow, boot("net.isr.bindthreads"), defaults("freebsd", "0"), "[B14 netisr.c]"),
		detail("netisr.queue", "packets that may wait for them", "packets", 1, 1_000_000, EffectBoot, RiskWaste, boot("net.isr.defaultqlimit"), defaults("freebsd", "256"), "[B13 netisr.c]"),
		detail("netisr.queue_max", "most packets that may wait for them", "packets", 1, 1_000_000, EffectBoot, RiskWaste, boot("net.isr.maxqlimit"), defaults("freebsd", "10240"), "[B13 netisr.c]"),
	}
}

// steeringKnobs assign work to processors.
func steeringKnobs() []Knob {
	cpus := func(id, summary, name, note string) Knob {
		return Knob{
			ID: knobID(id), Summary: summary, Scope: ScopeLink, Type: TypeWords, Effect: EffectNow, Risk: RiskSlow,
			Native:   only("linux", Native{Mechanism: IRQ, Name: name, Encoding: Parts, Note: note}),
			Defaults: defaults("linux", "none, or by driver"), Source: "[L6.1 Documentation/networking/scaling.rst]",
		}
	}
	affinity := cpus("nic.irq_affinity", "processors for the card's interrupts, one list for all vectors or one each with semicolons", "smp_affinity_list",
		"irqbalance moves them back unless they are banned there; vectors that the kernel manages refuse")
	affinity.Native["freebsd"] = Native{Name: "cpuset -l CPU -x IRQ", Note: "per interrupt number of vmstat -ai, not yet by linerate"}
	affinity.Native["windows"] = Native{Mechanism: WinTCP, Name: "*RssBaseProcNumber", Note: "the first processor, not a list"}
	return []Knob{
		affinity,
		cpus("rps", "processors that may process received packets, one list for all queues or one each", "rps_cpus", ""),
		cpus("xps", "processors that use a transmit queue, one list for all queues or one each", "xps_cpus", "a single queue has none"),
		detail("rfs", "flows whose processor is remembered, on all queues together", "flows", 0, 1<<29, EffectNow, RiskSlow,
			sysctls("net.core.rps_sock_flow_entries", "", ""), defaults("linux", "0"), "[L6.1 scaling.rst]; a power of two, 32768 suggested"),
		setting("rfs.flows", "flows whose processor is remembered, per queue", "flows", 0, 1<<29, EffectNow, RiskSlow,
			only("linux", Native{Mechanism: IRQ, Name: "rps_flow_cnt", Encoding: Parts, Note: "times the queues it should be rfs"}), defaults("linux", "0"), "[L6.1 scaling.rst]"),
		{
			ID: "nic.rss", Summary: "the card spreads flows over its queues", Scope: ScopeLink, Type: TypeBool, Effect: EffectBounce, Risk: RiskSlow,
			Native: only("windows", Native{Mechanism: WinTCP, Name: "*RSS"}), Defaults: defaults("windows", "1"), Source: "[W]",
		},
		flag("nic.rss.global", "cards may spread flows over their queues", EffectNow, RiskSlow,
			only("windows", Native{Mechanism: WinTCP, Name: "ReceiveSideScaling", Encoding: Enabled}), defaults("windows", "1"), "[W Set-NetOffloadGlobalSetting]"),
		setting("nic.rss.processors", "most processors that the card spreads to", "processors", 1, 1024, EffectBounce, RiskSlow,
			only("windows", Native{Mechanism: WinTCP, Name: "*MaxRssProcessors"}), defaults("windows", "by driver"), "[W]"),
		detail("nic.rss.bits", "how many flows the stack tells apart, as a power of two", "bits", 0, 31, EffectBoot, RiskSlow,
			only("freebsd", Native{Mechanism: Sysctl, Name: "net.inet.rss.bits", Effect: EffectBoot, Note: "a kernel with option RSS only"}), defaults("freebsd", "by processors"), "[B13 rss_config.c]"),
		{
			ID: "nic.rss.indirection", Summary: "which flow goes to which queue", Scope: ScopeLink, Type: TypeWords, Effect: EffectNow, Risk: RiskSlow,
			Native: only("linux", Native{Name: "ethtool -X", Note: "the table's form and length are the driver's: not yet by linerate"}), Defaults: defaults("linux", "even"), Source: "[K]",
		},
		{
			ID: "numa.placement", Summary: "memory node that the card is attached to", Scope: ScopeLink, Type: TypeInt, Unit: "node", Min: 0, Max: 1023,
			Named:  []Choice{{Value: "-1", Meaning: "none"}},
			Effect: EffectNow, Risk: RiskSlow, ReadOnly: true, Native: map[string]Native{
				"linux":   {Mechanism: IRQ, Name: "numa_node", Note: "processes are moved with sched_setaffinity"},
				"windows": {Mechanism: WinTCP, Name: "NumaNode"},
			}, Source: "[L6.1 sysfs-bus-pci] [W Get-NetAdapterHardwareInfo]",
		},
	}
}
