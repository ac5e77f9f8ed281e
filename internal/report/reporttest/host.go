package reporttest

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// describe adds everything that an agent reports about its machine, with some facts unknown.
func describe(f *model.HostFacts) {
	s := func(v string) fact.Of[string] { return fact.Known(v, "sysfs") }
	n := func(v int) fact.Of[int] { return fact.Known(v, "sysfs") }
	f.Machine = &model.Machine{
		Vendor: s("Example Ltd."), Product: s("Workstation 1"), Virtual: s(model.NotVirtual), CPU: s("8 cores of an example"),
		Sockets: n(1), Cores: n(8), Threads: n(8), NUMA: fact.Unknown[int]("the kernel has none"), Memory: fact.Known(units.Bytes(32<<30), "meminfo"),
	}
	f.Route = &model.Route{
		Peer: "192.0.2.2", Interface: s("eth0"), Source: s("192.0.2.1"), Gateway: s(""), MTU: n(1500), Metrics: map[string]string{"initcwnd": "20"},
	}
	modes := fact.Known([]string{"100baseT/Full", "1000baseT/Full"}, "ethtool")
	f.NICs = []model.NIC{{
		Name: "eth0", Kind: s("device"), Up: fact.Known(true, "rtnetlink"), MAC: s("02:00:00:00:00:01"), Addresses: []string{"192.0.2.1/24"},
		MTU: n(1500), MTUMin: n(68), MTUMax: n(9194), Driver: s("r8169"), Version: s("6.8.0"), Firmware: fact.Unknown[string]("the driver does not report it"),
		Bus: model.Bus{
			Kind: s("pcie"), Address: s("0000:03:00.0"), Device: s("10ec:8168"), NUMA: fact.Unknown[int]("the firmware names none"),
			Width: n(1), WidthMax: n(1), Clock: fact.Known(2.5, "sysfs"), ClockMax: fact.Known(2.5, "sysfs"),
			Allows: fact.Known(units.BitRate(2e9), "sysfs"), AllowsMax: fact.Known(units.BitRate(2e9), "sysfs"), Narrowest: "0000:00:1c.0",
		},
		Media: model.Media{
			Speed: fact.Known(units.BitRate(1e9), "ethtool"), Duplex: s("full"), Autoneg: fact.Known(true, "ethtool"),
			Supported: modes, Advertised: modes, Partner: fact.Unknown[[]string]("the driver does not report it"),
		},
		Offloads: fact.Known([]model.Offload{{Name: "rx-gro", On: true}, {Name: "highdma", On: true, Fixed: true}}, "ethtool"),
		Qdisc:    s("fq_codel"), Master: s("br0"), VLAN: fact.Unknown[int]("not a VLAN"), Bond: fact.Unknown[string]("not a bond"),
	}, {
		Name: "br0", Kind: s("bridge"), Below: []string{"eth0"}, Settings: map[model.KnobID]fact.Of[string]{"txqueuelen": s("1000")},
	}, {
		Name: "wlan0", Kind: s("wireless"), Radio: &model.Radio{Role: s("station"), SignalDBm: n(-61), Transmit: fact.Known(units.BitRate(866.7e6), "nl80211")},
	}}
}
