package knob

// offloadKnobs are the tasks that a driver can take over from the stack.
func offloadKnobs() []Knob {
	linux := func(name, keep string) Native {
		return Native{Mechanism: Ethtool, Name: "features." + name, Encoding: Group, Keep: keep}
	}
	freebsd := func(name string) Native { return Native{Mechanism: IfIoctl, Name: "cap." + name, Encoding: Group} }
	keyword := func(name string) Native { return Native{Mechanism: WinTCP, Name: name} }
	offload := func(id, summary string, native map[string]Native, def []Default, source string) Knob {
		return Knob{
			ID: knobID("nic.offload." + id), Summary: summary, Scope: ScopeLink, Type: TypeBool, Effect: EffectBounce, Risk: RiskSlow,
			Native: native, Defaults: def, Source: source,
		}
	}
	on := defaults("all", "on where the driver can")
	features := "[L6.1 net/ethtool/features.c, netdev_features.h] "
	size := func(id, summary, name, keep string) Knob {
		return Knob{
			ID: knobID(id), Summary: summary, Scope: ScopeLink, Type: TypeBytes, Min: 1500, Max: 512 << 10, Effect: EffectNow, Risk: RiskWaste,
			Native: only("linux", Native{Mechanism: Link, Name: name, Keep: keep}), Defaults: defaults("linux", "65536"),
			Source: "[L6.1 if_link.h IFLA_GSO_MAX_SIZE, IFLA_GRO_MAX_SIZE; GSO_MAX_SIZE is 8 × 65535 since 5.19]",
		}
	}
	return []Knob{
		offload("rx_csum", "the driver checks receive checksums", map[string]Native{
			"linux": linux("rx-checksum", "ReceiveChecksumOffload= of a .link file"), "freebsd": freebsd("rxcsum"),
		}, on, features+"[B13 if.h IFCAP_RXCSUM]"),
		offload("tx_csum", "the driver makes transmit checksums", map[string]Native{
			"linux": linux("tx-checksum", "TransmitChecksumOffload= of a .link file"), "freebsd": freebsd("txcsum"),
		}, on, features+"[B13 if.h IFCAP_TXCSUM]; off, segmentation goes off with it"),
		offload("csum4", "TCP checksums over IPv4: 0 off, 1 tx, 2 rx, 3 both", map[string]Native{
			"windows": {Mechanism: WinTCP, Name: "*TCPChecksumOffloadIPv4", Encoding: Switch, Also: []string{"*TCPChecksumOffloadIPv6", "*UDPChecksumOffloadIPv4", "*UDPChecksumOffloadIPv6", "*IPChecksumOffloadIPv4"},
				ReadOnly: true, Note: "0 off, 1 tx, 2 rx, 3 both: more than a switch can say, shown only"},
		}, on, "[W enumeration-keywords]"),
		offload("tso", "the driver cuts large TCP segments", map[string]Native{
			"linux": linux("tso", "TCPSegmentationOffload=, TCP6SegmentationOffload= of a .link file"), "freebsd": freebsd("tso"),
			"windows": keyword("*LsoV2IPv4"),
		}, on, features+"[B13 if.h IFCAP_TSO4] [W]"),
		offload("tso6", "the same for IPv6, where it is a switch of its own", map[string]Native{"windows": keyword("*LsoV2IPv6")}, on, "[W]"),
		{
			ID: "tcp.tso", Summary: "TCP hands large segments to drivers that can cut them", Scope: ScopeHost, Type: TypeBool, Effect: EffectNew, Risk: RiskSlow,
			Native:   sysctls("", "net.inet.tcp.tso", "net.inet.tcp.tso"),
			Defaults: defaults("freebsd", "1", "darwin", "1"), When: "a driver that corrupts or stalls (off)", Verify: "packets per interrupt, processor time per Gbit",
			Source: "[B13] [X]",
		},
		offload("gso", "the stack cuts large segments as late as it can", map[string]Native{
			"linux": linux("gso", "GenericSegmentationOffload= of a .link file"),
		}, on, features),
		offload("gro", "the stack joins received segments", map[string]Native{
			"linux": linux("gro", "GenericReceiveOffload= of a .link file"),
		}, on, features),
		offload("gro_hw", "the card joins received segments, so that they can be parted again", map[string]Native{"linux": linux("gro-hw", "")}, defaults("linux", "by driver"), features),
		offload("lro", "the card joins received segments for good; never where the host forwards", map[string]Native{
			"linux": linux("lro", "LargeReceiveOffload= of a .link file"), "freebsd": freebsd("lro"),
		}, defaults("linux", "by driver", "freebsd", "on where the driver can"), features+"[B13 if.h IFCAP_LRO]"),
		offload("rsc", "the card joins received segments (IPv4)", map[string]Native{"windows": keyword("*RscIPv4")}, on, "[W]"),
		offload("rsc6", "the card joins received segments (IPv6)", map[string]Native{"windows": keyword("*RscIPv6")}, on, "[W]"),
		offload("vlan_rx", "the driver takes VLAN tags off", map[string]Native{
			"linux": linux("rx-vlan", ""), "freebsd": freebsd("vlanhwtag"),
		}, on, features+"[B13 if.h IFCAP_VLAN_HWTAGGING]"),
		offload("vlan_tx", "the driver puts VLAN tags on", map[string]Native{"linux": linux("tx-vlan", "")}, on, features),
		{
			ID: "nic.offload.vlan_priority", Summary: "VLAN tags and priorities in the driver: 3 is both", Scope: ScopeLink, Type: TypeEnum,
			Choices: []Choice{{"0", "neither"}, {"1", "priority"}, {"2", "tags"}, {"3", "both"}}, Effect: EffectBounce, Risk: RiskSlow,
			Native: only("windows", keyword("*PriorityVLANTag")), Defaults: defaults("windows", "3"), Source: "[W enumeration-keywords]",
		},
		size("nic.gso_max_size", "largest segment that the stack hands to the driver", "gso_max_size", "GenericSegmentationOffloadMaxBytes= of a .link file"),
		size("nic.gro_max_size", "largest segment that the stack joins", "gro_max_size", ""),
		readOnly("nic.tso_max_size", "largest segment that the driver cuts", TypeBytes, "", only("linux", Native{Mechanism: Link, Name: "tso_max_size"}), "[L6.1 if_link.h IFLA_TSO_MAX_SIZE]"),
	}
}
