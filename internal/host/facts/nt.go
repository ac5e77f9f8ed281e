package facts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// This file decodes structures of Windows by the offsets of 64-bit processors, so that the
// decoding can be tested on every system.

// Relations of LOGICAL_PROCESSOR_RELATIONSHIP (winnt.h).
const (
	relationCore    = 0
	relationNode    = 1
	relationPackage = 3
)

var errTopology = errors.New("GetLogicalProcessorInformationEx: the answer is cut short or malformed")

// ntTopology counts the processors of a machine.
type ntTopology struct{ sockets, cores, threads, nodes int }

// decodeTopology decodes the result of GetLogicalProcessorInformationEx: records that start
// with their relation and size. That of a core, PROCESSOR_RELATIONSHIP, has a count of groups
// at 30 and their masks of 16 bytes from 32 on.
func decodeTopology(b []byte) (ntTopology, error) {
	var t ntTopology
	for len(b) > 0 {
		if len(b) < 8 {
			return t, errTopology
		}
		relation, size := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint32(b[4:]))
		if size < 8 || size > len(b) {
			return t, errTopology
		}
		switch relation {
		case relationPackage:
			t.sockets++
		case relationNode:
			t.nodes++
		case relationCore:
			t.cores++
			if size < 48 {
				return t, errTopology
			}
			groups := int(binary.LittleEndian.Uint16(b[30:]))
			if groups < 1 || 32+16*groups > size {
				return t, errTopology
			}
			for g := range groups {
				t.threads += bits.OnesCount64(binary.LittleEndian.Uint64(b[32+16*g:]))
			}
		}
		b = b[size:]
	}
	if t.cores == 0 || t.threads == 0 {
		return t, errTopology
	}
	return t, nil
}

// ntLocation matches the end of a device's LocationInformation in the registry:
//
//	@System32\drivers\pci.sys,#65536;PCI bus %1, device %2, function %3;(0,31,6)
var ntLocation = regex.New(`\((\d{1,3}),(\d{1,2}),(\d)\)$`)

// parseLocation returns the PCI address of a location, as Linux writes it.
func parseLocation(s string) (string, bool) {
	m := ntLocation.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return "", false
	}
	var n [3]uint64
	for i, most := range []uint64{255, 31, 7} {
		v, err := strconv.ParseUint(m[i+1], 10, 16)
		if err != nil || v > most {
			return "", false
		}
		n[i] = v
	}
	return fmt.Sprintf("0000:%02x:%02x.%x", n[0], n[1], n[2]), true
}

// hardwareID matches the numbers in `PCI\VEN_8086&DEV_15B7&SUBSYS_...`, or in
// `USB\VID_0BDA&PID_8153`.
var hardwareID = regex.New(`(?i)^(pci|usb|vmbus|root|swd)\\(?:(?:ven|vid)_([0-9a-f]{4})&(?:dev|pid)_([0-9a-f]{4}))?`)

// ntDevice is what the registry says about an adapter: values of its class key, REG_SZ as
// they are, numbers in decimal, "" for none.
type ntDevice struct {
	value    func(name string) string // of the class key
	location string
	link     func(property uint32) (uint32, bool) // for PCI, DEVPKEY_PciDevice_*
}

// Properties of PCI devices (pciprop.h, DEVPKEY_PciDevice_*).
const (
	pciCurrentSpeed = 9
	pciCurrentWidth = 10
	pciMaxSpeed     = 11
	pciMaxWidth     = 12
)

// fill sets the facts of n that the registry and the bus driver have of its device.
func (d ntDevice) fill(n *model.NIC) {
	const source = "registry"
	reported := func(name string) fact.Of[string] {
		v := d.value(name)
		return fact.If(v != "", v, source, "the driver does not report it")
	}
	n.Driver, n.Version = reported("DriverDesc"), reported("DriverVersion")
	n.Firmware = fact.Unknown[string]("not available on windows")
	n.Bus = d.bus()
	frame := func(bound string) fact.Of[int] { // *JumboPacket includes the Ethernet header of 14 bytes
		v, err := strconv.Atoi(d.value(`Ndi\params\*JumboPacket\` + bound))
		return fact.If(err == nil && v > ethernetHeader, v-ethernetHeader, "*JumboPacket", "the driver has no range of *JumboPacket")
	}
	n.MTUMin, n.MTUMax = frame("min"), frame("max")
	duplex := d.value("*SpeedDuplex")
	n.Media.Autoneg = fact.If(duplex != "", duplex == "0", "*SpeedDuplex", "the driver does not report it")
	n.Offloads = d.offloads()
}

const ethernetHeader = 14

// offloads reads the standard keywords of offloads (Windows driver
// documentation, "Using registry values to enable and disable task offloading").
func (d ntDevice) offloads() fact.Of[[]model.Offload] {
	all := []model.Offload{}
	for _, name := range []string{
		"*LsoV2IPv4", "*LsoV2IPv6", "*RscIPv4", "*RscIPv6", "*RSS", "*UsoIPv4", "*UsoIPv6", "*IPChecksumOffloadIPv4",
		"*TCPChecksumOffloadIPv4", "*TCPChecksumOffloadIPv6", "*UDPChecksumOffloadIPv4", "*UDPChecksumOffloadIPv6",
	} {
		if v := d.value(name); v != "" {
			all = append(all, model.Offload{Name: name, On: v != "0"})
		}
	}
	return fact.If(len(all) != 0, all, "registry", "the driver has no keywords of offloads")
}

// bus reads the place of the device and its PCIe link.
func (d ntDevice) bus() model.Bus {
	const source = "registry"
	id := d.value("MatchingDeviceId")
	m := hardwareID.FindStringSubmatch(id)
	if m == nil {
		return unknownBus("the driver does not report it")
	}
	kind, vendor := strings.ToLower(m[1]), strings.ToLower(m[2])
	b := unknownBus("the bus does not report it")
	if m[2] != "" {
		b.Device = fact.Known(vendor+":"+strings.ToLower(m[3]), source)
	}
	if at, ok := parseLocation(d.location); ok && kind == "pci" {
		b.Address = fact.Known(at, source)
	}
	switch {
	case kind == "usb":
		b.Kind = fact.Known("usb", source)
		return b
	case kind != "pci" || virtualVendor(vendor):
		none := unknownBus("a device that does not exist has no bus")
		none.Kind, none.Device, none.Address = fact.Known("virtual", source), b.Device, b.Address
		return none
	}
	speed, known := d.link(pciCurrentSpeed)
	if !known {
		b.Kind = fact.Known("pci", source)
		return b
	}
	b.Kind = fact.Known("pcie", source)
	width, _ := d.link(pciCurrentWidth)
	setLink(speed, width, &b.Clock, &b.Width)
	most, _ := d.link(pciMaxSpeed)
	widest, _ := d.link(pciMaxWidth)
	setLink(most, widest, &b.ClockMax, &b.WidthMax)
	b.Allows, b.AllowsMax = pcieAllows(b.Width, b.Clock), pcieAllows(b.WidthMax, b.ClockMax)
	return b
}

// ntSpeed returns a link speed of MIB_IF_ROW2; all ones, and zero, mean none.
func ntSpeed(bitsPerSecond uint64) fact.Of[units.BitRate] {
	return fact.If(bitsPerSecond != 0 && bitsPerSecond < 1<<62, units.BitRate(bitsPerSecond), "GetIfEntry2", "the link has no speed")
}

// ntKind names an interface type (ipifcons.h IF_TYPE_*).
func ntKind(ifType uint32) string {
	switch ifType {
	case 6:
		return "device"
	case 24:
		return "loopback"
	case 71:
		return "wireless"
	case 131:
		return "tunnel"
	}
	return "type " + strconv.FormatUint(uint64(ifType), 10)
}

// ntVirtual names the hypervisor by words in the firmware's names.
func ntVirtual(vendor, product string) fact.Of[string] {
	if vendor == "" && product == "" {
		return fact.Unknown[string]("the firmware does not report it")
	}
	if name := namedHypervisor(vendor + " " + product); name != "" {
		return fact.Known(name, "firmware")
	}
	return fact.Known(model.NotVirtual, "no sign of a hypervisor")
}

// ntAddressSize is the size of SOCKADDR_INET (ws2ipdef.h): the family, then an IPv4 address
// at 4 or an IPv6 address at 8.
const (
	ntAddressSize = 28
	ntFamily6     = 23
)

func encodeNTAddress(a netip.Addr) (b [ntAddressSize]byte) {
	family, at := uint16(family4), address4At
	if a.Is6() {
		family, at = ntFamily6, address6At
	}
	binary.LittleEndian.PutUint16(b[:], family)
	copy(b[at:], a.WithZone("").AsSlice())
	return b
}

// decodeNTAddress returns the address of a next hop, "" for all zeros, which mean that the
// peer is on the link.
func decodeNTAddress(b [ntAddressSize]byte) (string, error) {
	var a netip.Addr
	switch family := binary.LittleEndian.Uint16(b[:]); family {
	case family4:
		a = netip.AddrFrom4([4]byte(b[address4At : address4At+4]))
	case ntFamily6:
		a = netip.AddrFrom16([16]byte(b[address6At : address6At+16]))
	default:
		return "", fmt.Errorf("next hop of address family %d", family)
	}
	if a.IsUnspecified() {
		return "", nil
	}
	return a.String(), nil
}
