package facts

import (
	"encoding/binary"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/regex"
)

// A parallel bus as the driver of a card reports it.
type slotBus struct {
	bits   int
	mhz    float64
	source string
}

// slotText matches how drivers log the bus of a card (Linux 6.1 drivers/net/ethernet/intel/
// e1000/e1000_main.c e1000_probe, broadcom/tg3.c tg3_bus_string), after the address of their
// device:
//
//	e1000 0000:00:04.0 eth0: (PCI:33MHz:32-bit) 52:54:00:00:00:00
//	e1000 0000:02:01.0 eth1: (PCI-X:133MHz:64-bit) 00:04:23:aa:bb:cc
//	tg3 0000:02:02.0 eth0: Tigon3 [partno(BCM95704) rev 2003] (PCIX:100MHz:64-bit) MAC address 00:10:18:aa:bb:cc
var slotText = regex.New(`\((?:PCI|PCI-X|PCIX):(\d{2,3})MHz:(32|64)-bit\)`)

// slotOf parses a line of the kernel log about the device at an address.
func slotOf(line, address string) (slotBus, bool) {
	if !strings.Contains(line, " "+address+" ") {
		return slotBus{}, false
	}
	found := slotText.FindStringSubmatch(line)
	if found == nil {
		return slotBus{}, false
	}
	mhz, _ := strconv.ParseFloat(found[1], 64) // digits, by the pattern
	bits, _ := strconv.Atoi(found[2])
	return slotBus{bits, mhz, "kernel log"}, true
}

// Bits of the device status register of Intel's 8254x (PCI/PCI-X Family of Gigabit
// Ethernet Controllers Software Developer's Manual, 317453, section 13.4.2), which the
// driver e1000 dumps as its second word (Linux 6.1 e1000_ethtool.c e1000_get_regs).
const (
	status8254xAt    = 4
	status8254x66    = 1 << 11
	status8254x64    = 1 << 12
	status8254xX     = 1 << 13 // the slot is PCI-X
	status8254xRate  = 14      // of PCI-X, two bits
	e1000Registers   = 128     // bytes, E1000_REGS_LEN
	e1000Version     = 1       // in the highest byte of the dump's version
	quadPort82546    = 0x1099  // E1000_DEV_ID_82546GB_QUAD_COPPER: a bridge of its own
	quadPort82546EB  = 0x101d
	first82542       = 0x1000 // this one has none of these bits
	deviceOfRegister = 0xffff
)

// slotOfRegisters decodes the register dump of the driver e1000; version is that of the dump.
func slotOfRegisters(version uint32, dump []byte) (slotBus, bool) {
	device := version & deviceOfRegister
	if version>>24 != e1000Version || len(dump) < e1000Registers || device == first82542 || device == quadPort82546 || device == quadPort82546EB {
		return slotBus{}, false
	}
	status := binary.NativeEndian.Uint32(dump[status8254xAt:])
	s := slotBus{32, 33, "registers"}
	if status&status8254x64 != 0 {
		s.bits = 64
	}
	switch {
	case status&status8254xX == 0 && status&status8254x66 != 0:
		s.mhz = 66
	case status&status8254xX != 0:
		rates := []float64{66, 100, 133, 0}
		s.mhz = rates[status>>status8254xRate&3]
	}
	return s, s.mhz > 0
}

// take sets what the driver reports. An emulated card reports a bus too, but that bus does
// not limit it.
func (s slotBus) take(b *model.Bus) {
	b.Width, b.Clock = fact.Known(s.bits, s.source), fact.Known(s.mhz, s.source)
	if b.Kind.Or("") == "pci" {
		b.Allows = pciAllows(b.Width, b.Clock)
	}
}
