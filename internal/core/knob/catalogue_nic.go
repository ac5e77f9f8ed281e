package knob

import "cmp"

// setting returns a knob of a link's driver: a number in a range.
func setting(id, summary, unit string, low, high int64, effect Effect, risk Risk, native map[string]Native, def []Default, source string) Knob {
	k := detail(id, summary, unit, low, high, effect, risk, native, def, source)
	k.Scope = ScopeLink
	return k
}

// mediaKnobs are the link modes and their negotiation.
func mediaKnobs() []Knob {
	media := func(linux, bsd, windows Encoding) map[string]Native {
		m := map[string]Native{}
		if linux != "" {
			m["linux"] = Native{Mechanism: Ethtool, Name: "linkmodes.mode", Encoding: linux, Keep: "AutoNegotiation=, BitsPerSecond=, Duplex=, Advertise= of a .link file"}
		}
		if bsd != "" {
			plain := bsd
			if bsd == MediaDuplex {
				plain = MediaHalf
			}
			m["freebsd"] = Native{Mechanism: IfIoctl, Name: "media", Encoding: plain, Keep: "/etc/start_if.{if}: ifconfig {if} media VALUE || :", Also: []string{"SIOCSIFMEDIA"},
				Note: "where mediaopt is left out a fixed medium is half duplex"}
			m["darwin"] = Native{Mechanism: IfIoctl, Name: "media", Encoding: bsd, Keep: "networksetup -setMedia {if} VALUE", Also: []string{"SIOCSIFMEDIA"}}
		}
		if windows != "" {
			m["windows"] = Native{Mechanism: WinTCP, Name: "*SpeedDuplex", Encoding: windows}
		}
		return m
	}
	def := defaults("ethernet", "negotiated")
	source := "[L6.1 net/ethtool/linkmodes.c] [B13 if_media.h] [W enumeration-keywords]"
	link := func(k Knob) Knob {
		k.Scope, k.Effect, k.Risk, k.NeedsBoth = ScopeLink, EffectBounce, RiskConnection, true
		if k.Defaults == nil {
			k.Defaults = def
		}
		k.Source = cmp.Or(k.Source, source)
		return k
	}
	all := []Knob{
		link(Knob{ID: "nic.media.autoneg", Summary: "both ends agree on the link mode", Type: TypeBool, Native: media(ModeAutoneg, MediaAutoneg, DuplexAutoneg)}),
		link(Knob{ID: "nic.media.speed", Summary: "fixed rate of the link", Type: TypeInt, Unit: "Mbit/s", Min: 10, Max: 1_600_000, Zero: "auto",
			Native: media(ModeSpeed, MediaSpeed, DuplexSpeed)}),
		link(Knob{ID: "nic.media.duplex", Summary: "fixed duplex of the link", Type: TypeEnum,
			Choices: []Choice{{duplexAuto, "negotiated"}, {duplexHalf, "one direction at a time"}, {duplexFull, "both directions at once"}},
			Native:  media(ModeDuplex, MediaDuplex, DuplexDuplex)}),
		link(Knob{ID: "nic.media.advertise", Summary: "link modes that are offered to the other end", Type: TypeWords, Native: media(ModeAdvertise, "", "")}),
		link(Knob{ID: "nic.pause.rx", Summary: "stop sending when the other end asks (IEEE 802.3 annex 31B)", Type: TypeBool, Native: map[string]Native{
			"linux":   {Mechanism: Ethtool, Name: "pause.rx", Keep: "RxFlowControl= of a .link file"},
			"freebsd": {Mechanism: IfIoctl, Name: "media", Encoding: MediaRxPause, Note: "some drivers have dev.X.N.fc instead"},
			"darwin":  {Mechanism: IfIoctl, Name: "media", Encoding: MediaFlow, Note: "both directions together"},
			"windows": {Mechanism: WinTCP, Name: "*FlowControl", Encoding: FlowRx},
		}, Source: "[L6.1 net/ethtool/pause.c] [B13 if_media.h IFM_ETH_RXPAUSE] [W]"}),
		link(Knob{ID: "nic.pause.tx", Summary: "ask the other end to stop when this one is full", Type: TypeBool, Native: map[string]Native{
			"linux":   {Mechanism: Ethtool, Name: "pause.tx", Keep: "TxFlowControl= of a .link file"},
			"freebsd": {Mechanism: IfIoctl, Name: "media", Encoding: MediaTxPause},
			"windows": {Mechanism: WinTCP, Name: "*FlowControl", Encoding: FlowTx},
		}, Source: "[L6.1 net/ethtool/pause.c] [B13 if_media.h IFM_ETH_TXPAUSE] [W]"}),
		link(Knob{ID: "nic.pause.autoneg", Summary: "both ends agree on flow control", Type: TypeBool, Native: only("linux",
			Native{Mechanism: Ethtool, Name: "pause.autoneg", Keep: "AutoNegotiationFlowControl= of a .link file", Note: "on, rx and tx are only what is offered"}),
			Source: "[L6.1 net/ethtool/pause.c]"}),
		link(Knob{ID: "nic.eee", Summary: "the link sleeps between packets (IEEE 802.3az)", Type: TypeBool, Native: map[string]Native{
			"linux":   {Mechanism: Ethtool, Name: "eee.enabled"},
			"freebsd": {Name: "hw.{driver}.eee_setting", Note: "another name in every driver, and at boot only"},
			"darwin":  {Mechanism: IfIoctl, Name: "media", Encoding: MediaEEE},
			"windows": {Mechanism: WinTCP, Name: "*EEE"},
		}, Defaults: defaults("ethernet", "by driver"), Source: "[L6.1 net/ethtool/eee.c] [B12 em] [W]"}),
	}
	all = append(all,
		readOnly("nic.media.port", "connector of the link: tp, aui, mii, fibre, bnc, da, none, other", TypeName, "",
			only("linux", Native{Mechanism: Ethtool, Name: "linkinfo.port"}), "[L6.1 ethtool.h PORT_TP]"),
		Knob{ID: "nic.wol", Summary: "what wakes the machine: phy, ucast, mcast, bcast, arp, magic, magicsecure, filter; or none",
			Scope: ScopeLink, Type: TypeWords, Effect: EffectNow, Risk: RiskWaste, Native: map[string]Native{
				"linux":   {Mechanism: Ethtool, Name: "wol.modes", Keep: "WakeOnLan= of a .link file"},
				"freebsd": {Mechanism: IfIoctl, Name: "wol", Note: "ucast, mcast and magic; some drivers go down and up"},
				"windows": {Mechanism: WinTCP, Name: "*WakeOnMagicPacket", Also: []string{"*WakeOnPattern"}, Encoding: Plain, ReadOnly: true, Note: "shown as 0 or 1; power management cmdlets set it"},
			}, Defaults: defaults("linux", "by driver"), Source: "[L6.1 ethtool.h WAKE_PHY] [B13 if.h IFCAP_WOL_MAGIC] [K]"},
	)
	return all
}

// nicKnobs are rings, queues and interrupt moderation.
func nicKnobs() []Knob {
	ethtool := func(name, keep string) Native { return Native{Mechanism: Ethtool, Name: name, Keep: keep} }
	iflib := func(name string) Native {
		return Native{Mechanism: Sysctl, Name: "dev.{dev}.iflib." + name, Encoding: Chosen, Effect: EffectBoot, Keep: "/boot/loader.conf: dev.{dev}.iflib." + name + "=\"VALUE\"",
			Note: "powers of two, a comma list where there are several; 0 is the driver's own choice"}
	}
	keyword := func(name string) Native { return Native{Mechanism: WinTCP, Name: name} }
	driver := defaults("all", "by driver")
	coalesce := func(id, summary, unit, name, freebsd string) Knob {
		n := ethtool("coalesce."+name, "RxCoalesceSec=, UseAdaptiveRxCoalesce= and their like in a .link file")
		if DriverHasModes(n.Name) {
			n.Encoding, n.Note = OfDriver, "of e1000, e1000e and igb 1, 3 and 4 are modes of the driver, and no microseconds"
		}
		m := only("linux", n)
		if freebsd != "" {
			m["freebsd"] = Native{Name: freebsd, Note: "another name and unit in every driver; em: a value above zero can hang old cards"}
		}
		return setting(id, summary, unit, 0, 1_000_000, EffectBounce, RiskSlow, m, driver, "[L6.1 net/ethtool/coalesce.c] [B12 em, re, fxp, bce, sk, msk]")
	}
	adaptive := func(id, summary, name string) Knob {
		k := flag(id, summary, EffectBounce, RiskSlow, only("linux", ethtool("coalesce."+name, "UseAdaptiveRxCoalesce= of a .link file")), driver, "[L6.1 net/ethtool/coalesce.c]")
		k.Scope = ScopeLink
		return k
	}
	return []Knob{
		setting("nic.ring.rx", "receive descriptors", "descriptors", 1, 1<<20, EffectBounce, RiskConnection, map[string]Native{
			"linux": ethtool("rings.rx", "RxBufferSize= of a .link file"), "freebsd": iflib("override_nrxds"), "windows": keyword("*ReceiveBuffers"),
		}, driver, "[L6.1 net/ethtool/rings.c] [B12 iflib] [W]"),
		setting("nic.ring.tx", "transmit descriptors", "descriptors", 1, 1<<20, EffectBounce, RiskConnection, map[string]Native{
			"linux": ethtool("rings.tx", "TxBufferSize= of a .link file"), "freebsd": iflib("override_ntxds"), "windows": keyword("*TransmitBuffers"),
		}, driver, "[L6.1 net/ethtool/rings.c] [B12 iflib] [W]; the documentation of Windows calls its value bytes: the range tells"),
		setting("nic.ring.rx_jumbo", "receive descriptors of a second ring, for the rest of large packets", "descriptors", 1, 1<<20, EffectBounce, RiskConnection,
			only("linux", ethtool("rings.rx-jumbo", "RxJumboBufferSize= of a .link file")), driver, "[L6.1 net/ethtool/rings.c]; drivers round it: vmxnet3 to 32"),
		readOnly("nic.ring.rx_max", "most receive descriptors", TypeInt, "descriptors", only("linux", ethtool("rings.rx-max", "")), "[L6.1 net/ethtool/rings.c]"),
		readOnly("nic.ring.tx_max", "most transmit descriptors", TypeInt, "descriptors", only("linux", ethtool("rings.tx-max", "")), "[L6.1 net/ethtool/rings.c]"),
		setting("nic.queues.rx", "receive queues", "queues", 1, 1024, EffectBounce, RiskConnection, map[string]Native{
			"linux": ethtool("channels.rx", "RxChannels= of a .link file"), "freebsd": iflib("override_nrxqs"), "windows": keyword("*NumRssQueues"),
		}, driver, "[L6.1 net/ethtool/channels.c] [B12 iflib] [W]; resets spreading and affinity"),
		setting("nic.queues.tx", "transmit queues", "queues", 1, 1024, EffectBounce, RiskConnection, map[string]Native{
			"linux": ethtool("channels.tx", "TxChannels= of a .link file"), "freebsd": iflib("override_ntxqs"),
		}, driver, "[L6.1 net/ethtool/channels.c] [B12 iflib]"),
		setting("nic.queues.combined", "queues that receive and transmit", "queues", 1, 1024, EffectBounce, RiskConnection, map[string]Native{
			"linux": ethtool("channels.combined", "CombinedChannels= of a .link file"),
		}, driver, "[L6.1 net/ethtool/channels.c]"),
		readOnly("nic.ring.rx_jumbo_max", "most receive descriptors of the second ring", TypeInt, "descriptors", only("linux", ethtool("rings.rx-jumbo-max", "")), "[L6.1 net/ethtool/rings.c]"),
		readOnly("nic.queues.rx_max", "most receive queues", TypeInt, "queues", only("linux", ethtool("channels.rx-max", "")), "[L6.1 net/ethtool/channels.c]"),
		readOnly("nic.queues.tx_max", "most transmit queues", TypeInt, "queues", only("linux", ethtool("channels.tx-max", "")), "[L6.1 net/ethtool/channels.c]"),
		readOnly("nic.queues.combined_max", "most queues of both kinds", TypeInt, "queues", only("linux", ethtool("channels.combined-max", "")), "[L6.1 net/ethtool/channels.c]"),
		coalesce("nic.coalesce.rx_usecs", "delay of receive interrupts", "µs", "rx-usecs", "dev.{dev}.int_rx_mod"),
		coalesce("nic.coalesce.tx_usecs", "delay of transmit interrupts", "µs", "tx-usecs", "hw.em.tx_int_delay"),
		coalesce("nic.coalesce.rx_frames", "packets that a receive interrupt waits for", "packets", "rx-frames", "dev.fxp.{unit}.bundle_max"),
		coalesce("nic.coalesce.tx_frames", "packets that a transmit interrupt waits for", "packets", "tx-frames", ""),
		adaptive("nic.coalesce.adaptive_rx", "the driver finds the receive delay itself", "adaptive-rx"),
		adaptive("nic.coalesce.adaptive_tx", "the driver finds the transmit delay itself", "adaptive-tx"),
		{
			ID: "nic.coalesce.moderation", Summary: "interrupt moderation", Scope: ScopeLink, Type: TypeBool, Effect: EffectBounce, Risk: RiskSlow,
			Native: only("windows", keyword("*InterruptModeration")), Defaults: defaults("windows", "1"), Source: "[W enumeration-keywords]; the rate is a vendor's keyword",
		},
	}
}
