package model

import (
	"fmt"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Machine is the computer that a host runs on.
type Machine struct {
	Vendor  fact.Of[string]      `json:"vendor"`
	Product fact.Of[string]      `json:"product"`
	Virtual fact.Of[string]      `json:"virtual"` // the hypervisor, "kvm"; NotVirtual on bare metal; NoName where it does not tell which
	CPU     fact.Of[string]      `json:"cpu"`     // the processor's name
	Sockets fact.Of[int]         `json:"sockets"`
	Cores   fact.Of[int]         `json:"cores"`   // of all sockets
	Threads fact.Of[int]         `json:"threads"` // of all cores, in use
	NUMA    fact.Of[int]         `json:"numa_nodes"`
	Memory  fact.Of[units.Bytes] `json:"memory"`
}

// What Machine.Virtual says of a machine without a hypervisor, and of one whose
// hypervisor does not say its name.
const (
	NotVirtual = "none"
	NoName     = "unnamed"
)

// NIC is one network interface of a host.
type NIC struct {
	Name      string          `json:"name" bound:"name"`
	Kind      fact.Of[string] `json:"kind"` // "device", "loopback", "wireless", or what made it: "bridge", "bond", "vlan", "veth"
	Up        fact.Of[bool]   `json:"up"`   // carries data now
	MAC       fact.Of[string] `json:"mac"`
	Addresses []string        `json:"addresses,omitempty" bound:"64"` // with the length of the prefix, "192.0.2.1/24"

	MTU    fact.Of[int] `json:"mtu"`     // bytes
	MTUMin fact.Of[int] `json:"mtu_min"` // what the driver takes, not what the wire carries
	MTUMax fact.Of[int] `json:"mtu_max"`

	Driver   fact.Of[string]    `json:"driver"`
	Version  fact.Of[string]    `json:"driver_version"`
	Firmware fact.Of[string]    `json:"firmware"`
	Bus      Bus                `json:"bus"`
	Media    Media              `json:"media"`
	Radio    *Radio             `json:"radio,omitempty"` // of a wireless interface
	Offloads fact.Of[[]Offload] `json:"offloads" bound:"256"`
	Qdisc    fact.Of[string]    `json:"qdisc"`

	Master fact.Of[string] `json:"master"`                     // the bridge or bond that it is part of, "" for none
	Below  []string        `json:"below,omitempty" bound:"64"` // what it is made of: parts of a bridge or bond, parent of a VLAN
	VLAN   fact.Of[int]    `json:"vlan"`                       // its number
	Bond   fact.Of[string] `json:"bond"`                       // how a bond spreads packets, "802.3ad"

	// Settings are the current values of the link's knobs, those that it has; of
	// links made by software they are not read. The interface that leads to the peer has its own in HostFacts.Knobs.
	Settings map[KnobID]fact.Of[string] `json:"settings,omitempty" bound:"1024"`
}

// Media is the link mode of an interface. Modes are named as by Linux
// ("1000baseT/Full"), or as the system does.
type Media struct {
	Speed      fact.Of[units.BitRate] `json:"speed"`
	Duplex     fact.Of[string]        `json:"duplex"` // "full" or "half"
	Autoneg    fact.Of[bool]          `json:"autoneg"`
	Supported  fact.Of[[]string]      `json:"supported" bound:"256"`
	Advertised fact.Of[[]string]      `json:"advertised" bound:"256"`
	Partner    fact.Of[[]string]      `json:"partner" bound:"256"` // advertised by the other end of the wire
}

// Radio is the connection of a wireless interface. Rates are those of frames in the air,
// of which the payload of TCP is about half, and change with every frame.
type Radio struct {
	Role         fact.Of[string]        `json:"role"` // "station", "access point"
	FrequencyMHz fact.Of[int]           `json:"frequency_mhz"`
	WidthMHz     fact.Of[int]           `json:"width_mhz"` // of the channel
	SignalDBm    fact.Of[int]           `json:"signal_dbm" bound:"-128..127"`
	Transmit     fact.Of[units.BitRate] `json:"transmit"` // of the last data frames that it sent
	Receive      fact.Of[units.BitRate] `json:"receive"`
	Expected     fact.Of[units.BitRate] `json:"expected"` // payload that the system's rate control expects to send
	PowerSave    fact.Of[bool]          `json:"power_save"`
}

// String lists what is known of r.
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

// Bus is how an interface is attached to its machine.
type Bus struct {
	Kind    fact.Of[string] `json:"kind"`    // "pcie", "pci", "usb", "virtual"
	Address fact.Of[string] `json:"address"` // "0000:03:00.0"
	Device  fact.Of[string] `json:"device"`  // numbers of vendor and device, "8086:1533"
	NUMA    fact.Of[int]    `json:"numa_node"`

	Width    fact.Of[int]     `json:"width"` // lanes of PCIe, bits of PCI
	WidthMax fact.Of[int]     `json:"width_max"`
	Clock    fact.Of[float64] `json:"clock"` // per lane of PCIe in GT/s, of PCI in MHz
	ClockMax fact.Of[float64] `json:"clock_max"`

	// Allows is what the narrowest link between the device and the processor
	// carries now, after its line code and before packet headers: in each
	// direction of PCIe, in both together of PCI and USB.
	Allows    fact.Of[units.BitRate] `json:"allows"`
	AllowsMax fact.Of[units.BitRate] `json:"allows_max"`          // what the device itself could do
	Narrowest string                 `json:"narrowest,omitempty"` // where that link is, if not the device's own
}

// Offload is one thing that a driver can do in place of the stack. What it
// cannot is not listed.
type Offload struct {
	Name  string `json:"name" bound:"name"` // the system's: "tx-tcp-segmentation"
	On    bool   `json:"on"`
	Fixed bool   `json:"fixed,omitempty"` // cannot be changed
}

// Route is the way from a host to its peer.
type Route struct {
	Peer      string          `json:"peer" bound:"address"`
	Interface fact.Of[string] `json:"interface"`
	Source    fact.Of[string] `json:"source"`  // address that packets leave with
	Gateway   fact.Of[string] `json:"gateway"` // "" where the peer is on the link
	MTU       fact.Of[int]    `json:"mtu"`     // of the route or learnt for the path; the interface's where the route has none
	// Metrics are what else the route prescribes, under the system's names:
	// "initcwnd", "advmss".
	Metrics map[string]string `json:"metrics,omitempty" bound:"64,value"`
}

// Public returns what somebody without a key is told of a host: what a
// measurement needs to be judged, and nothing by which the host, its hardware or
// its network could be recognized. It is a list of what is told: a new field is
// not, until it is added here. Why something is unknown is not told either, since
// reasons name files and interfaces.
//
// Told are: the system and its architecture, the number of processors, linerate's
// version, the address that the session's own path ends at, MTU, rate and queueing
// discipline of its link, the congestion control, and PublicKnobs.
func (f HostFacts) Public() HostFacts {
	p := HostFacts{
		Host: f.Host, OS: f.OS, Arch: f.Arch, CPUs: f.CPUs, Version: f.Version, Address: f.Address,
		Kernel: fact.Unknown[string](untold), Interface: fact.Unknown[string](untold),
		MTU: told(f.MTU), LinkRate: told(f.LinkRate), Congestion: told(f.Congestion), Qdisc: told(f.Qdisc),
		Knobs: map[KnobID]fact.Of[string]{},
	}
	for _, id := range PublicKnobs() {
		if v, ok := f.Knobs[id]; ok {
			p.Knobs[id] = told(v)
		}
	}
	return p
}

// PublicKnobs are the settings that bound a single flow, whose values Public
// tells: without them nobody could say what held a measurement back.
func PublicKnobs() []KnobID {
	return []KnobID{
		"tcp.congestion_control", "tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.window_scaling", "tcp.sack", "tcp.timestamps", "link.mtu",
	}
}

// untold is the reason of what Public leaves out.
const untold = "not told without a key"

// told is a value without where it came from, or why it is missing.
func told[T any](f fact.Of[T]) fact.Of[T] {
	if v, known := f.Get(); known {
		return fact.Known(v, "the host")
	}
	return fact.Unknown[T]("not known")
}
