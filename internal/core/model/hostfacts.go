package model

import (
	"fmt"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Machine is the hardware of a host.
type Machine struct {
	Vendor  fact.Of[string]      `json:"vendor"`
	Product fact.Of[string]      `json:"product"`
	Virtual fact.Of[string]      `json:"virtual"` // the hypervisor, "kvm"; NotVirtual on bare metal; NoName if it does not say which
	CPU     fact.Of[string]      `json:"cpu"`     // the processor's name
	Sockets fact.Of[int]         `json:"sockets"`
	Cores   fact.Of[int]         `json:"cores"`   // of all sockets
	Threads fact.Of[int]         `json:"threads"` // of all cores, in use
	NUMA    fact.Of[int]         `json:"numa_nodes"`
	Memory  fact.Of[units.Bytes] `json:"memory"`
}

// Values of Machine.Virtual for a machine without a hypervisor, and for one with an unnamed
// hypervisor.
const (
	NotVirtual = "none"
	NoName     = "unnamed"
)

// NIC is one network interface of a host.
type NIC struct {
	Name      string          `json:"name" bound:"name"`
	Kind      fact.Of[string] `json:"kind"` // "device", "loopback", "wireless", or the software that made it: "bridge", "bond", "vlan", "veth"
	Up        fact.Of[bool]   `json:"up"`   // carries data now
	MAC       fact.Of[string] `json:"mac"`
	Addresses []string        `json:"addresses,omitempty" bound:"64"` // with the length of the prefix, "192.0.2.1/24"

	MTU    fact.Of[int] `json:"mtu"`     // bytes
	MTUMin fact.Of[int] `json:"mtu_min"` // what the driver accepts, not what the wire carries
	MTUMax fact.Of[int] `json:"mtu_max"`

	Driver   fact.Of[string]    `json:"driver"`
	Version  fact.Of[string]    `json:"driver_version"`
	Firmware fact.Of[string]    `json:"firmware"`
	Bus      Bus                `json:"bus"`
	Media    Media              `json:"media"`
	Radio    *Radio             `json:"radio,omitempty"` // of a wireless interface
	Offloads fact.Of[[]Offload] `json:"offloads" bound:"256"`
	Qdisc    fact.Of[string]    `json:"qdisc"`

	Master fact.Of[string] `json:"master"`                     // the bridge or bond that it belongs to, "" for none
	Below  []string        `json:"below,omitempty" bound:"64"` // the interfaces below it: parts of a bridge or bond, parent of a VLAN
	VLAN   fact.Of[int]    `json:"vlan"`                       // its ID
	Bond   fact.Of[string] `json:"bond"`                       // how a bond spreads packets, "802.3ad"

	// Settings are the current values of the knobs that the link has; they are not read for
	// software links. The interface that leads to the peer has its values in HostFacts.Knobs.
	Settings map[KnobID]fact.Of[string] `json:"settings,omitempty" bound:"1024"`
}

// Media is the link mode of an interface. Modes have the names of Linux ("1000baseT/Full"), or
// the system's own.
type Media struct {
	Speed      fact.Of[units.BitRate] `json:"speed"`
	Duplex     fact.Of[string]        `json:"duplex"` // "full" or "half"
	Autoneg    fact.Of[bool]          `json:"autoneg"`
	Supported  fact.Of[[]string]      `json:"supported" bound:"256"`
	Advertised fact.Of[[]string]      `json:"advertised" bound:"256"`
	Partner    fact.Of[[]string]      `json:"partner" bound:"256"` // advertised by the other end of the wire
}

// Radio is the connection of a wireless interface. Rates are those of frames in the air: about
// twice the payload of TCP, and different with every frame.
type Radio struct {
	Role         fact.Of[string]        `json:"role"` // "station", "access point"
	FrequencyMHz fact.Of[int]           `json:"frequency_mhz"`
	WidthMHz     fact.Of[int]           `json:"width_mhz"` // of the channel
	SignalDBm    fact.Of[int]           `json:"signal_dbm" bound:"-128..127"`
	Transmit     fact.Of[units.BitRate] `json:"transmit"` // of the last data frames sent
	Receive      fact.Of[units.BitRate] `json:"receive"`
	Expected     fact.Of[units.BitRate] `json:"expected"` // payload rate that the system's rate control expects
	PowerSave    fact.Of[bool]          `json:"power_save"`
}

// String lists the known values of r.
func (r Radio) String() string {
	var all []string
	add := func(known bool, format string, args ...any) {
		if known {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(r.Role.IsKnown(), "%s", r.Role.Or(""))
	add(r.Transmit.IsKnown(), "sends at %s", r.Transmit.Or(0))
	add(r.Receive.IsKnown(), "receives at %s", r.Receive.Or(0))
	add(r.Expected.IsKnown(), "expects to carry %s", r.Expected.Or(0))
	add(r.SignalDBm.IsKnown(), "%d dBm", r.SignalDBm.Or(0))
	add(r.FrequencyMHz.IsKnown(), "%d MHz", r.FrequencyMHz.Or(0))
	add(r.WidthMHz.IsKnown(), "%d MHz wide", r.WidthMHz.Or(0))
	add(r.PowerSave.Or(false), "power save")
	return strings.Join(all, ", ")
}

// Bus describes how an interface is attached to its machine.
type Bus struct {
	Kind    fact.Of[string] `json:"kind"`    // "pcie", "pci", "usb", "virtual"
	Address fact.Of[string] `json:"address"` // "0000:03:00.0"
	Device  fact.Of[string] `json:"device"`  // vendor and device numbers, "8086:1533"
	NUMA    fact.Of[int]    `json:"numa_node"`

	Width    fact.Of[int]     `json:"width"` // lanes of PCIe, bits of PCI
	WidthMax fact.Of[int]     `json:"width_max"`
	Clock    fact.Of[float64] `json:"clock"` // per lane of PCIe in GT/s, of PCI in MHz
	ClockMax fact.Of[float64] `json:"clock_max"`

	// Allows is the present rate of the narrowest link between the device and the processor,
	// after its line code and before packet headers: per direction for PCIe, for both together
	// on PCI and USB.
	Allows    fact.Of[units.BitRate] `json:"allows"`
	AllowsMax fact.Of[units.BitRate] `json:"allows_max"`          // what the device itself supports
	Narrowest string                 `json:"narrowest,omitempty"` // location of that link, if not the device's own
}

// Offload is one task that a driver can take over from the stack. Unsupported ones are not
// listed.
type Offload struct {
	Name  string `json:"name" bound:"name"` // the system's: "tx-tcp-segmentation"
	On    bool   `json:"on"`
	Fixed bool   `json:"fixed,omitempty"` // cannot be changed
}

// Route is the route from a host to its peer.
type Route struct {
	Peer      string          `json:"peer" bound:"address"`
	Interface fact.Of[string] `json:"interface"`
	Source    fact.Of[string] `json:"source"`  // source address of packets
	Gateway   fact.Of[string] `json:"gateway"` // "" if the peer is on the link
	MTU       fact.Of[int]    `json:"mtu"`     // of the route or learnt for the path; the interface's if the route has none
	// Metrics are the route's other metrics, under the system's names: "initcwnd", "advmss".
	Metrics map[string]string `json:"metrics,omitempty" bound:"64,value"`
}

// LargestPacket returns the largest IP packet that the host sends to the other one, in bytes; 0 if
// unknown. The MTU of the route takes precedence over that of the interface.
func (f HostFacts) LargestPacket() int {
	n := f.MTU.Or(0)
	if f.Route != nil {
		if m := f.Route.MTU.Or(0); m > 0 && m < n {
			n = m
		}
	}
	return n
}

// Public returns the facts for a peer without a key: what it needs to judge a measurement, and
// nothing that identifies the host, its hardware or its network. Public is an allow-list: a new
// field stays out until it is added here. Reasons for unknown values stay out too, since they
// name files and interfaces.
//
// Included are: the system and its architecture, the number of processors, linerate's version,
// the address at the end of the session's own path, MTU, rate and queueing discipline of its
// link, the congestion control, and PublicKnobs.
func (f HostFacts) Public() HostFacts {
	p := HostFacts{
		Host: f.Host, OS: f.OS, Arch: f.Arch, CPUs: f.CPUs, Version: f.Version, Address: f.Address,
		Kernel: fact.Unknown[string](untold), Interface: fact.Unknown[string](untold),
		MTU: withoutSource(f.MTU), LinkRate: withoutSource(f.LinkRate), Congestion: withoutSource(f.Congestion), Qdisc: withoutSource(f.Qdisc),
		Knobs: map[KnobID]fact.Of[string]{},
	}
	for _, id := range PublicKnobs() {
		if v, ok := f.Knobs[id]; ok {
			p.Knobs[id] = withoutSource(v)
		}
	}
	return p
}

// PublicKnobs returns the settings that limit a single flow, which Public includes: without
// them a peer could not tell what limited a measurement.
func PublicKnobs() []KnobID {
	return []KnobID{
		"tcp.congestion_control", "tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.window_scaling", "tcp.sack", "tcp.timestamps", "link.mtu",
	}
}

// untold is the reason given for everything that Public leaves out.
const untold = "not reported without a key"

// withoutSource returns a value without its source or the reason why it is missing.
func withoutSource[T any](f fact.Of[T]) fact.Of[T] {
	if v, known := f.Get(); known {
		return fact.Known(v, "the host")
	}
	return fact.Unknown[T]("not known")
}
