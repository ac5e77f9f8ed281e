package facts

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"linerate/internal/core/units"
	"linerate/internal/must"
)

// config makes a configuration space with a status and, at 0x80 behind a power
// management capability at 0x40, a PCI-X capability with its status; size is
// how much of it can be read.
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

// pcie makes the files of a PCIe device, in the form of Linux drivers/pci/
// pci-sysfs.c (5.7 and later).
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

// TestReadPCI reads devices as they stand in sysfs. The rates are those of
// diagnosis tables: 250, 500, 985, 1969, 3938 MB/s per lane.
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
		must.True(t, b.Kind.Or("") == c.kind && b.Address.Or("") == "0000:03:00.0" && b.NUMA.Or(-1) == 1 && b.Narrowest == c.narrowest,
			"%s: %+v", name, b)
		must.True(t, (c.allows != 0 || !b.Allows.IsKnown() && b.Allows.Reason() != "") && (c.allows == 0 || about(b.Allows.Or(0), c.allows)),
			"%s allows %v, want %v", name, b.Allows, c.allows)
		must.True(t, (c.most != 0 || !b.AllowsMax.IsKnown()) && (c.most == 0 || about(b.AllowsMax.Or(0), c.most)),
			"%s allows at most %v, want %v", name, b.AllowsMax, c.most)
		must.True(t, b.Width.Or(0) == c.width && b.WidthMax.Or(0) == c.widthMost, "%s: width %v of %v", name, b.Width, b.WidthMax)
	}
}

// conventional makes a device on an old bus: its directory has no link files
// (Linux drivers/pci/pci-sysfs.c pcie_dev_attrs_are_visible).
func conventional(config string) map[string]string {
	const at = "sys/devices/pci0000:00/0000:00:1e.0/0000:02:01.0/"
	return map[string]string{
		"sys/bus/pci/devices/0000:02:01.0": "-> ../../../devices/pci0000:00/0000:00:1e.0/0000:02:01.0",
		at + "vendor":                      "0x8086\n", at + "device": "0x1026\n", at + "config": config, at + "numa_node": "-1\n",
	}
}

// TestEmulatedCards: a card of the old kind in a virtual machine has no bus, whoever it
// says that it is from; one that was passed through has.
func TestEmulatedCards(t *testing.T) {
	guest := map[string]string{"proc/cpuinfo": "vendor_id : GenuineIntel\nflags : fpu hypervisor sse\n", "sys/class/dmi/id/sys_vendor": "QEMU\n"}
	e100 := conventional(config(64, statusList, 0x10000))
	b := readPCI(tree(e100, guest), "0000:02:01.0")
	must.True(t, b.Kind.Or("") == "virtual" && !b.Clock.IsKnown(), "in a virtual machine: %+v", b)
	if b := readPCI(tree(e100), "0000:02:01.0"); b.Kind.Or("") != "pci" || !b.Clock.IsKnown() {
		t.Errorf("in a real one: %+v", b)
	}
	through := pcie("pci0000:00/0000:03:00.0", "0000:03:00.0", "0x8086", "8.0 GT/s PCIe", "8", "8.0 GT/s PCIe", "8")
	if b := readPCI(tree(through, guest), "0000:03:00.0"); b.Kind.Or("") != "pcie" {
		t.Errorf("passed through: %+v", b)
	}
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
		must.True(t, (c.allows != 0 || !b.Allows.IsKnown()) && (c.allows == 0 || about(b.Allows.Or(0), c.allows)),
			"%s allows %v, want %v", name, b.Allows, c.allows)
		must.True(t, !b.NUMA.IsKnown(), "%s is on node %v", name, b.NUMA)
	}
}

// TestBusOf: the driver's words first, since sysfs may show another namespace.
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
	got := pciChain("../../devices/pci0000:00/0000:00:1c.4/0000:03:00.0/net/eth0")
	must.True(t, slices.Equal(got, []string{"0000:00:1c.4", "0000:03:00.0"}), "%q", got)
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
