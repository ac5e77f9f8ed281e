package facts

import (
	"encoding/binary"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/must"
)

// TestSlotInTheLog: what drivers log of the bus that they found.
func TestSlotInTheLog(t *testing.T) {
	for line, want := range map[string]slotBus{
		"e1000 0000:00:04.0 eth0: (PCI:33MHz:32-bit) 52:54:00:00:00:00":                                                {32, 33, "kernel log"},
		"e1000 0000:00:04.0 eth1: (PCI-X:133MHz:64-bit) 00:04:23:aa:bb:cc":                                             {64, 133, "kernel log"},
		"tg3 0000:00:04.0 eth0: Tigon3 [partno(BCM95704) rev 2003] (PCIX:100MHz:64-bit) MAC address 00:10:18:aa:bb:cc": {64, 100, "kernel log"},
		"e1000 0000:00:05.0 eth0: (PCI:33MHz:32-bit) 52:54:00:00:00:00":                                                {}, // another card
		"e1000e 0000:00:04.0 eth1: (PCI Express:2.5GT/s:Width x1) 52:54:00:00:00:01":                                   {},
		"e1000 0000:00:04.0 eth0: (PCI:9999MHz:32-bit) 52:54:00:00:00:00":                                              {},
		"somebody says 0000:00:04.0 (PCI:33MHz:16-bit)":                                                                {},
	} {
		got, ok := slotOf(line, "0000:00:04.0")
		must.True(t, got == want && ok == (want != slotBus{}), "%q: %+v, %t", line, got, ok)
	}
}

// TestSlotInTheRegisters: the first status is that of an 82540EM in a machine of package
// lab/machine, of which ethtool -d says PCI, 33MHz, 32-bit.
func TestSlotInTheRegisters(t *testing.T) {
	const of82540 = 1<<24 | 3<<16 | 0x100e
	for name, c := range map[string]struct {
		version, status uint32
		want            slotBus
	}{
		"33 MHz, 32 bit":         {of82540, 0x80080783, slotBus{32, 33, "registers"}},
		"66 MHz, 64 bit":         {of82540, 0x80080783 | 1<<11 | 1<<12, slotBus{64, 66, "registers"}},
		"PCI-X 66":               {of82540, 1<<13 | 1<<12, slotBus{64, 66, "registers"}},
		"PCI-X 100":              {of82540, 1<<13 | 1<<12 | 1<<14, slotBus{64, 100, "registers"}},
		"PCI-X 133":              {of82540, 1<<13 | 1<<12 | 2<<14, slotBus{64, 133, "registers"}},
		"PCI-X reserved":         {of82540, 1<<13 | 3<<14, slotBus{}},
		"82542 has no such bits": {1<<24 | 0x1000, 0x80080783, slotBus{}},
		"another layout":         {2<<24 | 0x100e, 0x80080783, slotBus{}},
	} {
		dump := make([]byte, e1000Registers)
		binary.NativeEndian.PutUint32(dump[4:], c.status)
		got, ok := slotOfRegisters(c.version, dump)
		must.True(t, ok == (c.want != slotBus{}) && (!ok || got == c.want), "%s: %+v, %t", name, got, ok)
	}
	_, ok := slotOfRegisters(of82540, make([]byte, 8))
	must.True(t, !ok, "a dump that is cut short tells something")
}

// TestSlotOfACardThatIsMade: a card of a hypervisor tells a clock, and is not limited
// by it.
func TestSlotOfACardThatIsMade(t *testing.T) {
	for kind, limits := range map[string]bool{"pci": true, "virtual": false} {
		b := unknownBus("nobody tells")
		b.Kind = fact.Known(kind, "sysfs")
		slotBus{32, 33, "kernel log"}.take(&b)
		rate, known := b.Allows.Get()
		must.True(t, b.Width.Or(0) == 32 && b.Clock.Or(0) == 33 && known == limits && (!limits || !(rate < 1.066e9) && !(rate > 1.067e9)), "%s: %+v", kind, b)
	}
}
