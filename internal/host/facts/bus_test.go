package facts

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// config returns a configuration space with a status and, at 0x80 after a power management
// capability at 0x40, a PCI-X capability with its status; size is how much of it can be read.
func config(size int, status byte, pcix uint32) string {
	b := make([]byte, 256)
	b[statusAt] = status
	b[capabilitiesAt] = 0x40
	b[0x40], b[0x41] = 1, 0x80 // power management, next
	if pcix == 0 {
		b[0x41] = 0
	} else {
		b[0x80] = capabilityPCIX
		binary.LittleEndian.PutUint32(b[0x84:], pcix)
	}
	return string(b[:size])
}

// pcie returns the files of a PCIe device, in the form of Linux drivers/pci/pci-sysfs.c (5.7
// and later).
func pcie(dir, address, vendor, speed, width, maxSpeed, maxWidth string) map[string]string {
	at := "sys/devices/" + dir + "/"
	return map[string]string{
		"sys/bus/pci/devices/" + address: "-> ../../../devices/" + dir,
		at + "vendor":                    vendor + "\n", at + "device": "0x1528\n", at + "subsystem_vendor": "0x1028\n",
		at + "current_link_speed": speed + "\n", at + "current_link_width": width + "\n",
		at + "max_link_speed": maxSpeed + "\n", at + "max_link_width": maxWidth + "\n", at + "numa_node": "1\n",
	}
}

func about(got, want units.BitRate) bool { return math.Abs(float64(got/want)-1) < 1e-6 }

// TestReadPCI reads devices as in sysfs. The rates are those of diagnosis tables: 250, 500,
// 985, 1969, 3938 MB/s per lane.
func TestReadPCI(t *testing.T) {
	const port, card = "pci0000:00/0000:00:1c.4", "pci0000:00/0000:00:1c.4/0000:03:00.0"
	for name, c := range map[string]struct {
		files            []map[string]string
		kind             string
		allows, most     units.BitRate // 0 is unknown
		width, widthMost int
		narrowest        string
	}{
		"x8 of 5 GT/s": {[]map[string]string{pcie(card, "0000:03:00.0", "0x8086", "5.0 GT/s PCIe", "8", "5.0 GT/s PCIe", "8")}, "pcie", 32e9, 32e9, 8, 8, ""},
		"x4 slot":      {[]map[string]string{pcie(card, "0000:03:00.0", "0x8086", "8.0 GT/s PCIe", "4", "8.0 GT/s PCIe", "8")}, "pcie", 8e9 * 128 / 130 * 4, 8e9 * 128 / 130 * 8, 4, 8, ""},
		"before 5.7":   {[]map[string]string{pcie(card, "0000:03:00.0", "0x8086", "2.5 GT/s", "1", "2.5 GT/s", "1")}, "pcie", 2e9, 2e9, 1, 1, ""},
		"16 GT/s":      {[]map[string]string{pcie(card, "0000:03:00.0", "0x15b3", "16.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16")}, "pcie", 16e9 * 128 / 130 * 16, 32e9 * 128 / 130 * 16, 16, 16, ""},
		"64 GT/s":      {[]map[string]string{pcie(card, "0000:03:00.0", "0x15b3", "64.0 GT/s PCIe", "16", "64.0 GT/s PCIe", "16")}, "pcie", 64e9 * 236 / 256 * 16, 64e9 * 236 / 256 * 16, 16, 16, ""},
		"virtual function": {
			[]map[string]string{pcie(card, "0000:03:00.0", "0x8086", "Unknown", "0", "Unknown", "0")}, "pcie", 0, 0, 0, 0, ""},
		"narrow bridge": {[]map[string]string{
			pcie(port, "0000:00:1c.4", "0x8086", "5.0 GT/s PCIe", "2", "8.0 GT/s PCIe", "4"),
			pcie(card, "0000:03:00.0", "0x8086", "8.0 GT/s PCIe", "8", "8.0 GT/s PCIe", "8"),
		}, "pcie", 8e9, 8e9 * 128 / 130 * 8, 8, 8, "0000:00:1c.4"},
		"virtio": {[]map[string]string{pcie(card, "0000:03:00.0", "0x1af4", "2.5 GT/s PCIe", "1", "2.5 GT/s PCIe", "1")}, "virtual", 0, 0, 0, 0, ""},
	} {
		b := readPCI(tree(c.files...), "0000:03:00.0")
		must.True(t, b.Kind.Or("") == c.kind && b.Address.Or("") == "0000:03:00.0" && b.NUMA.Or(-1) == 1 && b.Narrowest == c.narrowest, "%s: %+v", name, b)
		must.True(t, (c.allows != 0 || !b.Allows.IsKnown() && b.Allows.Reason() != "") && (c.allows == 0 || about(b.Allows.Or(0), c.allows)),
			"%s allows %v, want %v", name, b.Allows, c.allows)
		must.True(t, (c.most != 0 || !b.AllowsMax.IsKnown()) && (c.most == 0 || about(b.AllowsMax.Or(0), c.most)),
			"%s allows at most %v, want %v", name, b.AllowsMax, c.most)
		must.True(t, b.Width.Or(0) == c.width && b.WidthMax.Or(0) == c.widthMost, "%s: width %v of %v", name, b.Width, b.WidthMax)
	}
}

// conventional returns a device on a conventional bus: its directory has no link files (Linux
// drivers/pci/pci-sysfs.c pcie_dev_attrs_are_visible).
func conventional(config string) map[string]string {
	const at = "sys/devices/pci0000:00/0000:00:1e.0/0000:02:01.0/"
	return map[string]string{
		"sys/bus/pci/devices/0000:02:01.0": "-> ../../../devices/pci0000:00/0000:00:1e.0/0000:02:01.0",
		at + "vendor":                      "0x8086\n", at + "device": "0x1026\n", at + "config": config, at + "numa_node": "-1\n",
	}
}

// TestEmulatedCards: a conventional card in a virtual machine has no bus, whatever vendor it
// names; one that was passed through has.
func TestEmulatedCards(t *testing.T) {
	guest := map[string]string{"proc/cpuinfo": "vendor_id : GenuineIntel\nflags : fpu hypervisor sse\n", "sys/class/dmi/id/sys_vendor": "QEMU\n"}
	e100 := conventional(config(64, statusList, 0x10000))
	b := readPCI(tree(e100, guest), "0000:02:01.0")
	must.True(t, b.Kind.Or("") == "virtual" && !b.Clock.IsKnown(), "in a virtual machine: %+v", b)
	b = readPCI(tree(e100), "0000:02:01.0")
	must.True(t, b.Kind.Or("") == "pci" && b.Clock.IsKnown(), "in a real one: %+v", b)
	through := pcie("pci0000:00/0000:03:00.0", "0000:03:00.0", "0x8086", "8.0 GT/s PCIe", "8", "8.0 GT/s PCIe", "8")
	b = readPCI(tree(through, guest), "0000:03:00.0")
	must.True(t, b.Kind.Or("") == "pcie", "passed through: %+v", b)
}

func slot(speed string) map[string]string {
	return map[string]string{"sys/bus/pci/slots/5/address": "0000:02:01\n", "sys/bus/pci/slots/5/cur_bus_speed": speed + "\n"}
}

func TestReadConventional(t *testing.T) {
	for name, c := range map[string]struct {
		files           []map[string]string
		clock, clockMax float64 // 0 is unknown
		width, widthMax int
		allows          units.BitRate
	}{
		"33 MHz, as a user sees it": {[]map[string]string{conventional(config(64, statusList, 0x10000))}, 33, 33, 0, 0, 0},
		"66 MHz, no slot":           {[]map[string]string{conventional(config(64, statusList|status66, 0))}, 0, 66, 0, 0, 0},
		"PCI-X card, no slot":       {[]map[string]string{conventional(config(256, statusList|status66, pcixStatus64|pcixStatus133))}, 0, 133, 0, 64, 0},
		"PCI-X card, slow slot":     {[]map[string]string{conventional(config(256, statusList|status66, pcixStatus64|pcixStatus133)), slot("66 MHz PCI")}, 66, 133, 0, 64, 0},
		"32 bits, slot of 33":       {[]map[string]string{conventional(config(256, statusList|status66, 1)), slot("33 MHz PCI")}, 33, 66, 32, 32, 32 * 100e6 / 3},
		"slot that tells nothing":   {[]map[string]string{conventional(config(256, statusList, 1)), slot("Unknown")}, 33, 33, 32, 32, 32 * 100e6 / 3},
		"no registers":              {[]map[string]string{conventional("")}, 0, 0, 0, 0, 0},
	} {
		b := readPCI(tree(c.files...), "0000:02:01.0")
		must.True(t, b.Kind.Or("") == "pci" && b.Clock.Or(0) == c.clock && b.ClockMax.Or(0) == c.clockMax && b.Width.Or(0) == c.width && b.WidthMax.Or(0) == c.widthMax, "%s: %+v", name, b)
		must.True(t, (c.allows != 0 || !b.Allows.IsKnown()) && (c.allows == 0 || about(b.Allows.Or(0), c.allows)), "%s allows %v, want %v", name, b.Allows, c.allows)
		must.True(t, !b.NUMA.IsKnown(), "%s is on node %v", name, b.NUMA)
	}
}

// TestBusOf: the driver's answer comes first, since sysfs may show another namespace.
func TestBusOf(t *testing.T) {
	root := tree(pcie("pci0000:00/0000:00:1c.4/0000:03:00.0", "0000:03:00.0", "0x8086", "5.0 GT/s PCIe", "8", "5.0 GT/s PCIe", "8"), map[string]string{
		"sys/bus/usb/devices/1-1.2/speed": "480\n", "sys/bus/usb/devices/1-1.2/idVendor": "0bda\n", "sys/bus/usb/devices/1-1.2/idProduct": "8153\n",
		"sys/bus/usb/devices/2-3/speed": "5000\n", "sys/bus/usb/devices/3-1/speed": "10000\n",
	})
	const usb = "../../devices/pci0000:00/0000:00:14.0/usb"
	for _, c := range []struct {
		info, path, kind, address string
		allows                    units.BitRate
	}{
		{"0000:03:00.0", "", "pcie", "0000:03:00.0", 32e9},
		{"", "../../devices/pci0000:00/0000:00:1c.4/0000:03:00.0/net/eth0", "pcie", "0000:03:00.0", 32e9},
		{"usb-0000:00:14.0-1.2", usb + "1/1-1/1-1.2/1-1.2:1.0/net/eth1", "usb", "1-1.2", 480e6},
		{"usb-0000:00:14.0-3", usb + "2/2-3/2-3:1.0/net/eth1", "usb", "2-3", 4e9},
		{"usb-0000:00:14.0-3", usb + "3/3-1/3-1:1.0/net/eth1", "usb", "3-1", 10e9 * 128 / 132},
		{"usb-0000:00:14.0-3", "", "usb", "usb-0000:00:14.0-3", 0},
		{"fe300000.ethernet", "../../devices/platform/scb/fd580000.ethernet/net/eth0", "platform", "", 0},
		{"", "../../devices/virtual/net/tap0", "virtual", "", 0},
		{"", "", "", "", 0},
	} {
		b := busOf(root, c.info, c.path)
		must.True(t, b.Kind.Or("") == c.kind && b.Address.Or("") == c.address && (c.allows != 0 || !b.Allows.IsKnown()) && (c.allows == 0 || about(b.Allows.Or(0), c.allows)), "%s, %s: %+v", c.info, c.path, b)
	}
}

func TestPCIChain(t *testing.T) {
	must.Same(t, pciChain("../../devices/pci0000:00/0000:00:1c.4/0000:03:00.0/net/eth0"), []string{"0000:00:1c.4", "0000:03:00.0"})
}

func FuzzDecodeConventional(f *testing.F) {
	f.Add([]byte(config(256, statusList|status66, pcixStatus64)))
	f.Add([]byte(config(64, statusList, 0)))
	loop := []byte(config(256, statusList, 1))
	loop[0x41] = 0x40
	f.Add(loop)
	f.Fuzz(func(t *testing.T, b []byte) {
		width, clock := decodeConventional(b)
		must.True(t, slices.Contains([]int{0, 32, 64}, width) && slices.Contains([]float64{0, 33, 66, 133}, clock), "%d bits at %v MHz", width, clock)
	})
}

func FuzzBusOf(f *testing.F) {
	f.Add("0000:03:00.0", "../../devices/pci0000:00/0000:03:00.0/net/e", "8.0 GT/s PCIe", "8")
	f.Add("usb-0000:00:14.0-1", "/usb1/1-1/net/e", "480", "x")
	f.Fuzz(func(t *testing.T, info, path, speed, width string) {
		root := tree(pcie("pci0000:00/0000:03:00.0", "0000:03:00.0", "0x8086", speed, width, speed, width),
			map[string]string{"sys/bus/usb/devices/1-1/speed": speed})
		b := busOf(root, info, path)
		must.True(t, b.Allows.Or(1) > 0 && b.Allows.Or(1) <= 1e13, "%+v", b)
	})
}

// TestSlotInTheLog: what drivers log about the bus that they found.
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

// TestSlotOfACardThatIsMade: an emulated card reports a clock, and is not limited by it.
func TestSlotOfACardThatIsMade(t *testing.T) {
	for kind, limits := range map[string]bool{"pci": true, "virtual": false} {
		b := unknownBus("nobody tells")
		b.Kind = fact.Known(kind, "sysfs")
		slotBus{32, 33, "kernel log"}.take(&b)
		rate, known := b.Allows.Get()
		must.True(t, b.Width.Or(0) == 32 && b.Clock.Or(0) == 33 && known == limits && (!limits || !(rate < 1.066e9) && !(rate > 1.067e9)), "%s: %+v", kind, b)
	}
}

// TestMII: what a transceiver's registers say about its link. The first ones are those of the
// card tulip in a machine of package lab/machine.
func TestMII(t *testing.T) {
	for name, c := range map[string]struct {
		registers [miiCount]uint16
		speed     units.BitRate
		duplex    string
		autoneg   bool
		best      string // that is offered
		fails     bool
	}{
		"negotiated":         {registers: [miiCount]uint16{0x3100, 0x702c, 0, 0, 0x0501, 0x4181}, speed: 100e6, duplex: "full", autoneg: true, best: "100baseT/Full"},
		"half is common":     {registers: [miiCount]uint16{0x3100, 0x782d, 0, 0, 0x01e1, 0x40a1}, speed: 100e6, duplex: "half", autoneg: true, best: "100baseT/Full"},
		"10 only over there": {registers: [miiCount]uint16{0x1000, 0x782d, 0, 0, 0x01e1, 0x0021}, speed: 10e6, duplex: "half", autoneg: true, best: "100baseT/Full"},
		"gigabit":            {registers: [miiCount]uint16{0x1140, 0x796d, 0, 0, 0x01e1, 0xc1e1, 0, 0, 0, 0x0300, 0x3800}, speed: 1000e6, duplex: "full", autoneg: true, best: "1000baseT/Full"},
		"gigabit one-sided":  {registers: [miiCount]uint16{0x1140, 0x796d, 0, 0, 0x01e1, 0xc1e1, 0, 0, 0, 0x0300, 0x0000}, speed: 100e6, duplex: "full", autoneg: true, best: "1000baseT/Full"},
		"forced 10 half":     {registers: [miiCount]uint16{0x0000, 0x780d, 0, 0, 0x01e1}, speed: 10e6, duplex: "half", best: "100baseT/Full"},
		"forced 100 full":    {registers: [miiCount]uint16{0x2100, 0x780d, 0, 0, 0x01e1}, speed: 100e6, duplex: "full", best: "100baseT/Full"},
		"no link":            {registers: [miiCount]uint16{0x3100, 0x7809, 0, 0, 0x01e1}, autoneg: true, best: "100baseT/Full"},
		"negotiating still":  {registers: [miiCount]uint16{0x3100, 0x780d, 0, 0, 0x01e1, 0x41e1}, autoneg: true, best: "100baseT/Full"},
		"nobody answers":     {registers: [miiCount]uint16{0xffff, 0xffff}, fails: true},
		"no transceiver":     {fails: true},
	} {
		m, err := decodeMII(c.registers)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.fails {
			continue
		}
		offered := m.Advertised.Or(nil)
		must.True(t, m.Speed.Or(0) == c.speed && m.Speed.IsKnown() == (c.speed != 0) && m.Duplex.Or("") == c.duplex &&
			m.Autoneg.Or(!c.autoneg) == c.autoneg && len(offered) != 0 && offered[len(offered)-1] == c.best &&
			slices.Contains(m.Supported.Or(nil), "100baseT/Full"), "%s: %+v", name, m)
	}
}
