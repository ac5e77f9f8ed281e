package facts

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// pcieRate returns what one lane carries in each direction after its line code, at gt GT/s; 0
// for a speed that PCIe does not have. 2.5 and 5 GT/s use 8b/10b (PCI Express Base
// Specification 2.0 section 4.2.1), 8 to 32 GT/s 128b/130b (3.0 section 4.2.2), and 64 GT/s
// frames of 256 bytes of which 236 hold packets (6.0 section 4.2.3).
func pcieRate(gt float64) units.BitRate {
	bits := units.BitRate(gt * 1e9)
	switch gt {
	case 2.5, 5:
		return bits * 8 / 10
	case 8, 16, 32:
		return bits * 128 / 130
	case 64:
		return bits * 236 / 256
	}
	return 0
}

// pciClock returns the exact clock of a nominal one in MHz: thirds (PCI Local Bus
// Specification 3.0 section 4.2.3.1).
func pciClock(nominal float64) float64 {
	switch nominal {
	case 33, 66, 133:
		return (nominal*3 + 1) / 3
	}
	return nominal
}

// pciAddress matches domain, bus, device and function (Linux
// Documentation/ABI/testing/sysfs-bus-pci).
var pciAddress = regex.New(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]$`)

// pciChain returns the PCI addresses in a device's path in sysfs, the one nearest to the CPU
// first:
//
//	devices/pci0000:00/0000:00:1c.4/0000:03:00.0/net/eth0
func pciChain(devicePath string) []string {
	var chain []string
	for part := range strings.SplitSeq(devicePath, "/") {
		if pciAddress.MatchString(part) {
			chain = append(chain, part)
		}
	}
	return chain
}

// virtualVendor reports whether a PCI vendor makes only virtual devices: Red Hat (virtio,
// QEMU), VMware, Amazon, Google, Microsoft, Xen, VirtualBox.
func virtualVendor(id string) bool {
	return slices.Contains([]string{"1af4", "1b36", "15ad", "1d0f", "1ae0", "1414", "5853", "80ee"}, id)
}

// unknownBus returns a bus with all facts unknown, for one reason.
func unknownBus(why string) (b model.Bus) {
	fact.Explain(&b, why)
	return b
}

// readPCI reads the PCI device at an address from sysfs under root.
func readPCI(root fs.FS, address string) model.Bus {
	const source = "sysfs"
	dir := "sys/bus/pci/devices/" + address + "/"
	b := unknownBus("the kernel does not report it")
	b.Address = fact.Known(address, source)
	vendor, device := hexID(fileText(root, dir+"vendor")), hexID(fileText(root, dir+"device"))
	if vendor != "" && device != "" {
		b.Device = fact.Known(vendor+":"+device, source)
	}
	if n, err := strconv.Atoi(fileText(root, dir+"numa_node")); err == nil {
		b.NUMA = fact.If(n >= 0, n, source, "the firmware names none")
	}
	if _, err := fs.Stat(root, dir+"current_link_speed"); err == nil {
		readPCIe(root, dir, &b)
	} else {
		readConventional(root, dir, address, &b)
	}
	if virtualVendor(vendor) || virtualVendor(hexID(fileText(root, dir+"subsystem_vendor"))) || emulated(root, b) {
		const why = "a device that does not exist has no bus"
		none := unknownBus(why)
		none.Kind, none.Address, none.Device, none.NUMA = fact.Known("virtual", source), b.Address, b.Device, b.NUMA
		return none
	}
	narrowest(root, address, &b)
	return b
}

// emulated reports whether b is a parallel PCI bus inside a virtual machine: the hypervisor
// emulates such cards, whatever vendor they name. A device passed through from a real machine
// is PCIe.
func emulated(root fs.FS, b model.Bus) bool {
	v, known := linuxVirtual(root).Get()
	return known && v != model.NotVirtual && b.Kind.Or("") == "pci"
}

// hexID takes the prefix off "0x8086".
func hexID(s string) string {
	id, ok := strings.CutPrefix(s, "0x")
	if !ok || len(id) != 4 {
		return ""
	}
	return id
}

// readPCIe reads a link's width and speed (Linux drivers/pci/pci-sysfs.c
// current_link_speed_show): "8.0 GT/s PCIe", before 5.7 "8 GT/s", and "Unknown"; widths are
// "8", and "0" or "255" if unknown.
func readPCIe(root fs.FS, dir string, b *model.Bus) {
	b.Kind = fact.Known("pcie", "sysfs")
	b.Clock, b.ClockMax = transfers(fileText(root, dir+"current_link_speed")), transfers(fileText(root, dir+"max_link_speed"))
	b.Width, b.WidthMax = lanes(fileText(root, dir+"current_link_width")), lanes(fileText(root, dir+"max_link_width"))
	b.Allows, b.AllowsMax = pcieAllows(b.Width, b.Clock), pcieAllows(b.WidthMax, b.ClockMax)
}

func transfers(s string) fact.Of[float64] {
	number, _, ok := strings.Cut(s, " GT/s")
	gt, err := strconv.ParseFloat(number, 64)
	return fact.If(ok && err == nil && pcieRate(gt) > 0, gt, "sysfs", "the device does not report its link speed")
}

func lanes(s string) fact.Of[int] {
	n, err := strconv.Atoi(s)
	return fact.If(err == nil && n > 0 && n <= 32, n, "sysfs", "the device does not report its link width")
}

func pcieAllows(width fact.Of[int], gt fact.Of[float64]) fact.Of[units.BitRate] {
	n, known := width.Get()
	speed, too := gt.Get()
	return fact.If(known && too, units.BitRate(n)*pcieRate(speed), width.Source(), cmp.Or(width.Reason(), gt.Reason()))
}

// readConventional reads a device on a conventional PCI bus. A card does not report the clock
// of its slot; some slots do (Linux drivers/pci/slot.c cur_bus_speed: "66 MHz PCI", "133 MHz
// PCI-X").
func readConventional(root fs.FS, dir, address string, b *model.Bus) {
	b.Kind = fact.Known("pci", "sysfs")
	config, _ := fs.ReadFile(root, dir+"config") // nil is reported as unknown
	setConventional(config, b)
	if mhz, ok := slotClock(root, address); ok {
		b.Clock = fact.Known(mhz, "slot")
	}
	b.Allows, b.AllowsMax = pciAllows(b.Width, b.Clock), pciAllows(b.WidthMax, b.ClockMax)
}

// slotClock returns the clock of the slot of a device.
func slotClock(root fs.FS, address string) (mhz float64, ok bool) {
	slots, err := fs.Glob(root, "sys/bus/pci/slots/*/address")
	if err != nil {
		return 0, false
	}
	for _, s := range slots { // "0000:02:01", without the function
		if at := fileText(root, s); at == "" || !strings.HasPrefix(address, at+".") {
			continue
		}
		text := fileText(root, strings.TrimSuffix(s, "address")+"cur_bus_speed")
		number, rest, cut := strings.Cut(text, " MHz PCI")
		if n, err := strconv.ParseFloat(number, 64); cut && err == nil && n > 0 && n < 1000 && (rest == "" || strings.HasPrefix(rest, "-X")) {
			return n, true
		}
	}
	return 0, false
}

// pciAllows returns what a parallel bus carries, shared by all its devices and both
// directions.
func pciAllows(width fact.Of[int], mhz fact.Of[float64]) fact.Of[units.BitRate] {
	bits, known := width.Get()
	clock, too := mhz.Get()
	return fact.If(known && too, units.BitRate(bits)*units.BitRate(pciClock(clock)*1e6), mhz.Source(), cmp.Or(width.Reason(), mhz.Reason()))
}

// narrowest lowers what the bus allows to the narrowest PCIe link on the path to the CPU.
func narrowest(root fs.FS, address string, b *model.Bus) {
	to, err := fs.ReadLink(root, "sys/bus/pci/devices/"+address)
	if err != nil && !errors.Is(err, fs.ErrInvalid) {
		return
	}
	own, known := b.Allows.Get()
	if !known {
		return // the links above it would be no more than a bound
	}
	for _, at := range pciChain(to) {
		dir := "sys/bus/pci/devices/" + at + "/"
		// A bridge's own link leads towards the CPU, but that of a root port leads down, to a
		// device whose link was checked already.
		up := pcieAllows(lanes(fileText(root, dir+"current_link_width")), transfers(fileText(root, dir+"current_link_speed")))
		rate, ok := up.Get()
		if !ok || at == address || rate >= own {
			continue
		}
		own = rate
		b.Allows, b.Narrowest = up, at
	}
}

// busOf finds the bus of an interface from the place that its driver reports and from its
// device in sysfs, either of which may be "". The driver reports a PCI address,
// "usb-0000:00:14.0-3" (Linux drivers/usb/core/usb.c usb_make_path), or anything else.
func busOf(root fs.FS, info, devicePath string) model.Bus {
	chain := pciChain(devicePath)
	switch {
	case strings.HasPrefix(info, "usb-") || strings.Contains(devicePath, "/usb"):
		return readUSB(root, info, devicePath)
	case pciAddress.MatchString(info):
		return readPCI(root, info)
	case len(chain) > 0:
		return readPCI(root, chain[len(chain)-1])
	case strings.Contains(devicePath, "/platform/"):
		b := unknownBus("part of the chip")
		b.Kind = fact.Known("platform", "sysfs")
		return b
	case strings.Contains(devicePath, "devices/virtual/"), info == "tap", info == "tun", info == "N/A":
		b := unknownBus("made by software")
		b.Kind = fact.Known("virtual", "sysfs")
		return b
	}
	return unknownBus("the driver does not report it")
}

// usbPort matches a device's name on its bus, "1-1.2" (Linux drivers/usb/core/usb.c
// usb_alloc_dev).
var usbPort = regex.New(`^[0-9]+-[0-9]+(\.[0-9]+)*$`)

// readUSB reads the rate of the USB link, one of 1.5, 12, 480, 5000, 10000 and
// 20000 Mbit/s (Linux Documentation/ABI/testing/sysfs-bus-usb, file speed).
func readUSB(root fs.FS, info, devicePath string) model.Bus {
	b := unknownBus("the kernel does not report it")
	b.Kind = fact.Known("usb", "sysfs")
	port := ""
	for part := range strings.SplitSeq(devicePath, "/") {
		if usbPort.MatchString(part) {
			port = part
		}
	}
	if port == "" {
		b.Address = fact.Known(info, "driver")
		return b
	}
	dir := "sys/bus/usb/devices/" + port + "/"
	b.Address = fact.Known(port, "sysfs")
	if v, d := fileText(root, dir+"idVendor"), fileText(root, dir+"idProduct"); v != "" && d != "" {
		b.Device = fact.Known(v+":"+d, "sysfs")
	}
	if mbit, err := strconv.ParseFloat(fileText(root, dir+"speed"), 64); err == nil && mbit > 0 && mbit < 1e6 {
		b.Allows = fact.Known(usbRate(mbit), "sysfs")
	}
	return b
}

// usbRate returns what a USB link of so many Mbit/s carries after its line code: 8b/10b at 5
// Gbit/s, 128b/132b above (USB 3.2 specification sections 3.2 and 6.3). Slower ones stuff
// bits depending on the data.
func usbRate(mbit float64) units.BitRate {
	bits := units.BitRate(mbit * 1e6)
	switch {
	case mbit > 5000:
		return bits * 128 / 132
	case mbit == 5000:
		return bits * 8 / 10
	}
	return bits
}
