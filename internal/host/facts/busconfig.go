package facts

import (
	"encoding/binary"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// The PCI Express capability (PCI Express Base Specification 3.0 section 7.8):
// link capabilities at 12, link status at 18, speeds in the low four bits and
// widths in the next six.
const (
	capabilityPCIe = 0x10
	linkCapsAt     = 12
	linkStatusAt   = 18
)

// linkSpeed returns the speed of a four-bit code in GT/s (table 7-15 and its successors); 0
// for none.
func linkSpeed(code uint32) float64 {
	speeds := []float64{0, 2.5, 5, 8, 16, 32, 64}
	if int(code) < len(speeds) {
		return speeds[code]
	}
	return 0
}

// decodeConfig decodes a device's bus from its configuration space, where no system does that
// for us.
func decodeConfig(config []byte) model.Bus {
	const source, why = "configuration space", "the device does not report it"
	config = config[:min(len(config), maxConfiguration)]
	b := unknownBus("the device's registers cannot be read")
	if len(config) < 0x40 {
		return b
	}
	b = unknownBus(why)
	at := findCapability(config, capabilityPCIe)
	if at == 0 || at+linkStatusAt+2 > len(config) {
		b.Kind = fact.Known("pci", source)
		setConventional(config, &b)
		return b
	}
	b.Kind = fact.Known("pcie", source)
	caps := binary.LittleEndian.Uint32(config[at+linkCapsAt:])
	status := uint32(binary.LittleEndian.Uint16(config[at+linkStatusAt:]))
	setLink(status&0xf, status>>4&0x3f, &b.Clock, &b.Width)
	setLink(caps&0xf, caps>>4&0x3f, &b.ClockMax, &b.WidthMax)
	b.Allows, b.AllowsMax = pcieAllows(b.Width, b.Clock), pcieAllows(b.WidthMax, b.ClockMax)
	return b
}

// setLink sets the speed and the width of a link from their codes.
func setLink(speed, width uint32, clock *fact.Of[float64], lanes *fact.Of[int]) {
	const source = "configuration space"
	if gt := linkSpeed(speed); gt > 0 {
		*clock = fact.Known(gt, source)
	}
	if width > 0 && width <= 32 {
		*lanes = fact.Known(int(width), source)
	}
}

// Offsets and bits of a device's configuration (PCI Local Bus Specification 3.0
// sections 6.1 and 6.2.3; PCI-X Addendum 2.0 section 7.2.4).
const (
	statusAt         = 6
	statusList       = 1 << 4 // there are capabilities
	status66         = 1 << 5 // can run at 66 MHz; without it the bus runs at 33
	capabilitiesAt   = 0x34
	capabilityPCIX   = 7
	pcixStatus64     = 1 << 16 // of the status at offset 4 of the capability
	pcixStatus133    = 1 << 17
	maxConfiguration = 256
)

// decodeConventional returns the width in bits and the clock in MHz that a device is made
// for, from its configuration space, of which ordinary users see the first 64 bytes; 0 is
// unknown.
func decodeConventional(config []byte) (width int, clock float64) {
	config = config[:min(len(config), maxConfiguration)]
	if len(config) <= statusAt {
		return 0, 0
	}
	clock = 33
	if config[statusAt]&status66 != 0 {
		clock = 66
	}
	at := findCapability(config, capabilityPCIX)
	if at == 0 || at+8 > len(config) {
		return 0, clock
	}
	status := binary.LittleEndian.Uint32(config[at+4:])
	width = 32
	if status&pcixStatus64 != 0 {
		width = 64
	}
	if status&pcixStatus133 != 0 {
		clock = 133
	}
	return width, clock
}

// findCapability returns the offset of a capability in a configuration space, or 0.
func findCapability(config []byte, id byte) int {
	if len(config) <= capabilitiesAt || config[statusAt]&statusList == 0 {
		return 0
	}
	at := int(config[capabilitiesAt]) &^ 3
	for range maxConfiguration / 4 { // also ends a circular list
		if at < 0x40 || at+2 > len(config) {
			return 0
		}
		if config[at] == id {
			return at
		}
		at = int(config[at+1]) &^ 3
	}
	return 0
}

// setConventional sets what the configuration space of a conventional PCI device says about
// its bus.
func setConventional(config []byte, b *model.Bus) {
	const source, why = "configuration space", "a PCI device does not report its width"
	b.Width, b.WidthMax = fact.Unknown[int](why), fact.Unknown[int](why)
	b.Clock, b.ClockMax = fact.Unknown[float64]("only the slot could tell"), fact.Unknown[float64]("the device's registers cannot be read")
	width, clock := decodeConventional(config)
	if width > 0 {
		b.WidthMax = fact.Known(width, source)
	}
	if width == 32 {
		b.Width = b.WidthMax // no slot makes it wider
	}
	if clock > 0 {
		b.ClockMax = fact.Known(clock, source)
	}
	if clock == 33 {
		b.Clock = b.ClockMax
	}
	b.Allows, b.AllowsMax = pciAllows(b.Width, b.Clock), pciAllows(b.WidthMax, b.ClockMax)
}
