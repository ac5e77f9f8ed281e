package facts

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// bsd is FreeBSD or macOS as functions that query it, so that recorded answers can be tested
// on every system.
type bsd struct {
	name      string                                    // GOOS
	sysctl    func(name string) (string, error)         // text of sysctl(8) -n
	kenv      func(name string) (string, error)         // kenv(1) of FreeBSD
	attribute func(device, name string) (string, error) // package ifioctl
	config    func(address pciPlace) ([]byte, error)    // PCI configuration space, as much as is readable
	addresses func(i net.Interface) (all []string)
}

func (b bsd) text(name string) fact.Of[string] {
	s, err := b.sysctl(name)
	if err != nil {
		return fact.Unknown[string](err.Error())
	}
	s = strings.TrimSpace(s)
	return fact.If(s != "", s, name, "sysctl "+name+" is empty")
}

// number reads a count above zero.
func (b bsd) number(name string) fact.Of[int] {
	text := b.text(name)
	s, ok := text.Get()
	if !ok {
		return fact.Unknown[int](text.Reason())
	}
	n, err := strconv.Atoi(s)
	return fact.If(err == nil && n >= 1, n, name, fmt.Sprintf("sysctl %s is %q", name, s))
}

func (b bsd) memory(name string) fact.Of[units.Bytes] {
	n := b.number(name)
	v, ok := n.Get()
	return fact.If(ok, units.Bytes(v), name, n.Reason())
}

// freebsdMachine reads a machine by sysctl(8) and kenv(1).
func (b bsd) freebsdMachine() model.Machine {
	m := model.Machine{
		Vendor: b.firmware("smbios.system.maker"), Product: b.firmware("smbios.system.product"),
		CPU: b.text("hw.model"), Sockets: fact.Unknown[int]("FreeBSD does not report it"),
		Cores: b.number("kern.smp.cores"), Threads: b.number("hw.ncpu"), NUMA: b.number("vm.ndomains"), Memory: b.memory("hw.physmem"),
	}
	m.Virtual = b.text("kern.vm_guest") // sys/kern/subr_param.c vm_guest_sysctl_names
	if guest, ok := m.Virtual.Get(); ok {
		if other, ok := map[string]string{"hv": "hyperv", "vbox": "virtualbox", "generic": model.NoName}[guest]; ok {
			m.Virtual = fact.Known(other, "kern.vm_guest")
		}
	}
	return m
}

func (b bsd) firmware(name string) fact.Of[string] {
	s, err := b.kenv(name)
	if err != nil {
		return fact.Unknown[string]("the loader does not report it: " + err.Error())
	}
	return fact.Known(strings.TrimSpace(s), "kenv")
}

// darwinMachine reads a machine by sysctl(8) (xnu bsd/kern/kern_mib.c).
func (b bsd) darwinMachine() model.Machine {
	m := model.Machine{
		Vendor: fact.Known("Apple", "macOS"), Product: b.text("hw.model"), CPU: b.text("machdep.cpu.brand_string"),
		Sockets: b.number("hw.packages"), Cores: b.number("hw.physicalcpu"), Threads: b.number("hw.logicalcpu"),
		NUMA: fact.Unknown[int]("macOS has none"), Memory: b.memory("hw.memsize"),
	}
	m.Virtual = fact.Unknown[string]("macOS before 11 does not report it")
	switch guest, _ := b.text("kern.hv_vmm_present").Get(); guest {
	case "0":
		m.Virtual = fact.Known(model.NotVirtual, "kern.hv_vmm_present")
	case "1":
		name := namedHypervisor(m.Product.Or("")) // "VMware7,1", "VirtualMac2,1"
		if strings.HasPrefix(m.Product.Or(""), "VirtualMac") {
			name = "apple"
		}
		m.Virtual = fact.Known(cmp.Or(name, model.NoName), "kern.hv_vmm_present")
	}
	return m
}

// bsdDevice matches an interface name of driver name and unit, "em0".
var bsdDevice = regex.New(`^([a-z][a-z0-9_]*?)([0-9]+)$`)

// softwareKind returns the kind of an interface without a device, by the driver's name
// (FreeBSD share/man/man4, xnu bsd/net).
func softwareKind(driver string) string {
	return map[string]string{
		"lo": "loopback", "bridge": "bridge", "lagg": "bond", "bond": "bond", "vlan": "vlan", "epair": "epair", "tap": "tap", "tun": "tun", "utun": "tun",
		"gif": "gif", "gre": "gre", "stf": "stf", "vxlan": "vxlan", "wg": "wg", "pflog": "pflog", "pfsync": "pfsync", "enc": "enc", "ipfw": "ipfw",
		"awdl": "awdl", "llw": "llw", "anpi": "anpi", "ap": "ap", "feth": "feth", "vmenet": "vmenet", "wlan": "wireless",
	}[driver]
}

// nic reads one interface.
func (b bsd) nic(i net.Interface) model.NIC {
	const source = "interface list"
	why := "not available on " + b.name
	n := model.NIC{
		Name: i.Name, Kind: fact.Known("device", "name"), MAC: fact.Unknown[string]("has none"), Addresses: b.addresses(i),
		MTU: fact.Known(i.MTU, source), MTUMin: b.mtuBound(i.Name, "mtu_min"), MTUMax: b.mtuBound(i.Name, "mtu_max"),
		Media: b.media(i.Name), Offloads: b.offloads(i.Name), Qdisc: fact.Unknown[string](b.name + " has none that could be named"),
		Up: fact.Known(i.Flags&net.FlagRunning != 0, "flags"),
	}
	fact.Explain(&n, why)
	if len(i.HardwareAddr) > 0 {
		n.MAC = fact.Known(i.HardwareAddr.String(), source)
	}
	if up, err := b.attribute(i.Name, "up"); err == nil {
		n.Up = fact.Known(up == "1", "media")
	}
	part := bsdDevice.FindStringSubmatch(i.Name)
	if part == nil {
		n.Kind = fact.Unknown[string]("the interface was renamed")
		return n
	}
	if kind := softwareKind(part[1]); kind != "" {
		n.Kind = fact.Known(kind, "name")
		n.Bus = unknownBus("made by software")
		n.Bus.Kind = fact.Known("virtual", "name")
		n.Media.Speed = fact.Unknown[units.BitRate](i.Name + " is a virtual link")
		return n
	}
	if b.name == "freebsd" {
		b.freebsdDriver(&n, part[1], part[2])
	}
	return n
}

// freebsdDriver reads what newbus knows of a device (FreeBSD sys/kern/subr_bus.c
// device_sysctl_init):
//
//	dev.em.0.%desc: Intel(R) I219-LM SPT-H(2)
//	dev.em.0.%location: slot=31 function=6 dbsf=pci0:0:31:6 handle=\_SB_.PCI0.GLAN
//	dev.em.0.%pnpinfo: vendor=0x8086 device=0x15b7 subvendor=0x1028 subdevice=0x07a1 class=0x020000
func (b bsd) freebsdDriver(n *model.NIC, driver, unit string) {
	dev := "dev." + driver + "." + unit + "."
	n.Driver = fact.Known(driver, "name")
	n.Version, n.Firmware = b.text(dev+"iflib.driver_version"), b.text(dev+"fw_version")
	location, err := b.sysctl(dev + "%location")
	if err != nil {
		n.Bus = unknownBus(err.Error())
		return
	}
	place, onPCI := parseDBSF(location)
	if !onPCI {
		n.Bus = unknownBus("the device is on no PCI bus")
		return
	}
	config, err := b.config(place)
	n.Bus = decodeConfig(config)
	if err != nil {
		n.Bus = unknownBus("read the device's registers: " + err.Error())
	}
	n.Bus.Address = fact.Known(place.String(), "%location")
	if pnp, err := b.sysctl(dev + "%pnpinfo"); err == nil {
		if v, d := hexID(pnpField(pnp, "vendor")), hexID(pnpField(pnp, "device")); v != "" && d != "" {
			n.Bus.Device = fact.Known(v+":"+d, "%pnpinfo")
			if virtualVendor(v) {
				none := unknownBus("a device that does not exist has no bus")
				none.Kind, none.Address, none.Device = fact.Known("virtual", "%pnpinfo"), n.Bus.Address, n.Bus.Device
				n.Bus = none
			}
		}
	}
	if s, err := b.sysctl(dev + "%domain"); err == nil {
		if node, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && node >= 0 {
			n.Bus.NUMA = fact.Known(node, "%domain")
		}
	}
}

// pnpField returns the value of name in "name=value name=value".
func pnpField(s, name string) string {
	for word := range strings.FieldsSeq(s) {
		if key, value, ok := strings.Cut(word, "="); ok && key == name {
			return value
		}
	}
	return ""
}

// pciPlace is the place of a device on FreeBSD: pci0:0:31:6.
type pciPlace struct {
	domain            uint32
	bus, slot, number uint8
}

// String returns the address as Linux writes it.
func (p pciPlace) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", p.domain, p.bus, p.slot, p.number)
}

// parseDBSF parses "dbsf=pci0:0:31:6" in a location.
func parseDBSF(location string) (pciPlace, bool) {
	s, ok := strings.CutPrefix(pnpField(location, "dbsf"), "pci")
	parts := strings.Split(s, ":")
	if !ok || len(parts) != 4 {
		return pciPlace{}, false
	}
	var n [4]uint64
	for i, p := range parts {
		most := []int{32, 8, 5, 3}[i]
		v, err := strconv.ParseUint(p, 10, most)
		if err != nil {
			return pciPlace{}, false
		}
		n[i] = v
	}
	return pciPlace{uint32(n[0]), uint8(n[1]), uint8(n[2]), uint8(n[3])}, true
}

func (b bsd) mtuBound(device, name string) fact.Of[int] {
	s, err := b.attribute(device, name)
	if err != nil {
		return fact.Unknown[int](err.Error())
	}
	n, err := strconv.Atoi(s)
	return fact.If(err == nil && n > 0, n, "SIOCGIFDEVMTU", "the driver does not report it")
}

// media reads the link mode: the requested one ("autoselect", or a medium with options) and
// the active one ("1000baseT,full-duplex,rxpause").
func (b bsd) media(device string) model.Media {
	const source = "media"
	active, err := b.attribute(device, "active")
	if err != nil {
		return unknownMedia(err.Error())
	}
	m := unknownMedia("not available on " + b.name)
	words := strings.Split(active, ",")
	m.Speed, m.Duplex = fact.Unknown[units.BitRate]("the link has no speed"), fact.Unknown[string]("the driver does not report it")
	if rate, ok := mediaRate(words[0]); ok {
		m.Speed = fact.Known(rate, source)
	}
	for _, d := range []string{"full", "half"} {
		if slices.Contains(words[1:], d+"-duplex") {
			m.Duplex = fact.Known(d, source)
		}
	}
	if wanted, err := b.attribute(device, "media"); err == nil {
		m.Autoneg = fact.Known(strings.HasPrefix(wanted, "autoselect"), source)
	}
	return m
}

// mediaRate parses the rate in a medium's name: "100baseTX", "10Gbase-SR", "2500Base-T".
func mediaRate(medium string) (units.BitRate, bool) {
	digits := 0
	for digits < len(medium) && medium[digits] >= '0' && medium[digits] <= '9' {
		digits++
	}
	n, err := strconv.ParseUint(medium[:digits], 10, 16)
	if err != nil || n == 0 {
		return 0, false
	}
	switch rest := strings.ToLower(medium[digits:]); {
	case strings.HasPrefix(rest, "gbase"):
		return units.BitRate(n) * 1e9, true
	case strings.HasPrefix(rest, "base"):
		return units.BitRate(n) * 1e6, true
	}
	return 0, false
}

// offloads reads the capabilities that package ifioctl knows.
func (b bsd) offloads(device string) fact.Of[[]model.Offload] {
	all := []model.Offload{}
	why := ""
	for _, name := range []string{"rxcsum", "txcsum", "tso", "lro", "vlanmtu", "vlanhwtag", "vlanhwfilter", "vlanhwtso", "jumbomtu", "polling", "linkstate"} {
		text, err := b.attribute(device, "cap."+name)
		if err != nil {
			why = cmp.Or(why, err.Error())
			continue
		}
		all = append(all, parseCapabilities(text)...)
	}
	if len(all) == 0 && why != "" {
		return fact.Unknown[[]model.Offload](why)
	}
	return fact.Known(all, "SIOCGIFCAP")
}

// parseCapabilities parses "tso4=on tso6=off(fixed)"; it leaves out what the device lacks.
func parseCapabilities(text string) []model.Offload {
	var all []model.Offload
	for word := range strings.FieldsSeq(text) {
		name, state, _ := strings.Cut(word, "=")
		state, isFixed := strings.CutSuffix(state, "(fixed)")
		if o := (model.Offload{Name: name, On: state == "on", Fixed: isFixed}); o.On || !o.Fixed {
			all = append(all, o)
		}
	}
	return all
}

// orderInterfaces sorts the interface named first before the others, then those that are up,
// and drops the last ones if there are too many.
func orderInterfaces(all []net.Interface, first string) []net.Interface {
	rank := func(i net.Interface) int {
		switch {
		case i.Name == first:
			return 0
		case i.Flags&net.FlagLoopback != 0:
			return 3
		case i.Flags&net.FlagUp != 0:
			return 1
		}
		return 2
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b net.Interface) int { return rank(a) - rank(b) })
	return all[:min(len(all), maxNICs)]
}
