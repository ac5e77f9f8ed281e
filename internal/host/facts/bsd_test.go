package facts

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// answers returns a function that answers from a table, with an error for missing entries.
func answers(table map[string]string) func(string) (string, error) {
	return func(name string) (string, error) {
		if v, ok := table[name]; ok {
			return v, nil
		}
		return "", errors.New("no " + name)
	}
}

// machine is a system that answers from tables; attributes are "em0 active".
func machine(name string, sysctl, attributes map[string]string) bsd {
	return bsd{
		name: name, sysctl: answers(sysctl), kenv: answers(sysctl),
		attribute: func(device, name string) (string, error) { return answers(attributes)(device + " " + name) },
		config:    func(pciPlace) ([]byte, error) { return nil, errors.New("permission denied") },
		addresses: func(net.Interface) []string { return []string{"192.0.2.5/24"} },
	}
}

// freebsd is a server with FreeBSD 14 as sysctl(8) and kenv(1) print it (names
// and forms of sys/kern/subr_bus.c, subr_smp.c, subr_param.c, sys/net/iflib.c
// and share/man/man4/em.4).
func freebsdTable() map[string]string {
	return map[string]string{
		"hw.model": "Intel(R) Xeon(R) CPU E3-1230 v6 @ 3.50GHz", "hw.ncpu": "8", "kern.smp.cores": "4", "vm.ndomains": "1", "hw.physmem": "17012121600",
		"kern.vm_guest": "none", "smbios.system.maker": "Dell Inc.", "smbios.system.product": "PowerEdge T130",
		"dev.em.0.%location":            `slot=0 function=0 dbsf=pci0:3:0:0 handle=\_SB_.PCI0.RP05.PXSX`,
		"dev.em.0.%pnpinfo":             "vendor=0x8086 device=0x10d3 subvendor=0x1028 subdevice=0x0732 class=0x020000",
		"dev.em.0.%domain":              "0",
		"dev.em.0.iflib.driver_version": "7.7.8-fbsd", "dev.em.0.fw_version": "EEPROM V1.8-0",
		"dev.vtnet.0.%location": "", "dev.vmx.0.%location": `slot=0 function=0 dbsf=pci0:11:0:0`, "dev.vmx.0.%pnpinfo": "vendor=0x15ad device=0x07b0 class=0x020000",
	}
}

func TestFreeBSDMachine(t *testing.T) {
	m := machine("freebsd", freebsdTable(), nil).freebsdMachine()
	must.True(t, m.Vendor.Or("") == "Dell Inc." && m.Product.Or("") == "PowerEdge T130" && m.Virtual.Or("") == model.NotVirtual, "%+v", m)
	must.True(t, m.Cores.Or(0) == 4 && m.Threads.Or(0) == 8 && m.NUMA.Or(0) == 1 && m.Memory.Or(0) == 17012121600 && !m.Sockets.IsKnown(), "%+v", m)
	for guest, want := range map[string]string{"kvm": "kvm", "hv": "hyperv", "vbox": "virtualbox", "generic": "unnamed", "bhyve": "bhyve"} {
		m := machine("freebsd", map[string]string{"kern.vm_guest": guest}, nil).freebsdMachine()
		must.True(t, m.Virtual.Or("") == want, "%s: %v", guest, m.Virtual)
	}
	none := machine("freebsd", nil, nil).freebsdMachine()
	must.True(t, !none.CPU.IsKnown() && none.CPU.Reason() != "" && !none.Memory.IsKnown() && none.Memory.Reason() != "" && none.Virtual.Reason() != "", "%+v", none)
}

// TestDarwinMachine reads a laptop and two guests by the names of xnu
// bsd/kern/kern_mib.c.
func TestDarwinMachine(t *testing.T) {
	table := map[string]string{
		"hw.model": "MacBookPro18,3", "machdep.cpu.brand_string": "Apple M1 Pro", "hw.packages": "1", "hw.physicalcpu": "8", "hw.logicalcpu": "8",
		"hw.memsize": "17179869184", "kern.hv_vmm_present": "0",
	}
	m := machine("darwin", table, nil).darwinMachine()
	must.True(t, m.Vendor.Or("") == "Apple" && m.Product.Or("") == "MacBookPro18,3" && m.CPU.Or("") == "Apple M1 Pro" && m.Memory.Or(0) == 16<<30 && m.Virtual.Or("") == model.NotVirtual, "%+v", m)
	must.True(t, m.Sockets.Or(0) == 1 && m.Cores.Or(0) == 8 && m.Threads.Or(0) == 8 && !m.NUMA.IsKnown(), "%+v", m)
	for product, want := range map[string]string{"VirtualMac2,1": "apple", "VMware7,1": "vmware", "Parallels-ARM": "parallels", "Other1,1": "unnamed"} {
		m := machine("darwin", map[string]string{"hw.model": product, "kern.hv_vmm_present": "1"}, nil).darwinMachine()
		must.Equal(t, m.Virtual.Or(""), want, "%s: %v", product, m.Virtual)
	}
	m = machine("darwin", nil, nil).darwinMachine()
	must.True(t, !m.Virtual.IsKnown() && m.Virtual.Reason() != "", "%+v", m)
}

// express returns a configuration space with a PCI Express capability at 0x50 after a power
// management capability at 0x40.
func express(speed, width, maxSpeed, maxWidth uint32) []byte {
	b := []byte(config(256, statusList, 0))
	b[0x41] = 0x50
	b[0x50] = capabilityPCIe
	binary.LittleEndian.PutUint32(b[0x50+linkCapsAt:], maxSpeed|maxWidth<<4)
	binary.LittleEndian.PutUint16(b[0x50+linkStatusAt:], uint16(speed|width<<4))
	return b
}

func TestFreeBSDNIC(t *testing.T) {
	attributes := map[string]string{
		"em0 up": "1", "em0 media": "autoselect", "em0 active": "1000baseT,full-duplex,rxpause,txpause",
		"em0 cap.tso": "tso4=on tso6=off", "em0 cap.lro": "lro=off(fixed)", "em0 cap.rxcsum": "rxcsum=on rxcsum6=on(fixed)",
	}
	b := machine("freebsd", freebsdTable(), attributes)
	b.config = func(p pciPlace) ([]byte, error) {
		if p != (pciPlace{0, 3, 0, 0}) {
			return nil, errors.New("another device")
		}
		return express(1, 1, 1, 4), nil
	}
	n := b.nic(net.Interface{Name: "em0", MTU: 1500, Flags: net.FlagUp, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}})
	must.True(t, n.Driver.Or("") == "em" && n.Version.Or("") == "7.7.8-fbsd" && n.Firmware.Or("") == "EEPROM V1.8-0" && n.Up.Or(false) && n.Kind.Or("") == "device", "%+v", n)
	must.True(t, n.Bus.Kind.Or("") == "pcie" && n.Bus.Address.Or("") == "0000:03:00.0" && n.Bus.Device.Or("") == "8086:10d3" &&
		n.Bus.NUMA.Or(-1) == 0 && n.Bus.Width.Or(0) == 1 && n.Bus.WidthMax.Or(0) == 4 && about(n.Bus.Allows.Or(0), 2e9) &&
		about(n.Bus.AllowsMax.Or(0), 8e9), "%+v", n.Bus)
	must.True(t, n.Media.Speed.Or(0) == 1e9 && n.Media.Duplex.Or("") == "full" && n.Media.Autoneg.Or(false) && !n.Media.Partner.IsKnown(), "%+v", n.Media)
	want := []model.Offload{{Name: "rxcsum", On: true}, {Name: "rxcsum6", On: true, Fixed: true}, {Name: "tso4", On: true}, {Name: "tso6"}}
	must.True(t, slices.Equal(n.Offloads.Or(nil), want), "%+v, %s", n.Offloads, n.Offloads.Reason())
	must.True(t, !n.MTUMax.IsKnown() && n.MTUMax.Reason() != "" && n.MAC.Or("") == "02:00:00:00:00:01" && slices.Equal(n.Addresses, []string{"192.0.2.5/24"}), "%+v", n)

	// ordinary users see the address but not the registers
	plain := machine("freebsd", freebsdTable(), attributes).nic(net.Interface{Name: "em0", MTU: 1500})
	must.True(t, plain.Bus.Address.Or("") == "0000:03:00.0" && plain.Bus.Device.Or("") == "8086:10d3" && !plain.Bus.Allows.IsKnown() && plain.Bus.Allows.Reason() == "read the device's registers: permission denied", "%+v", plain.Bus)
	v := machine("freebsd", freebsdTable(), nil).nic(net.Interface{Name: "vmx0"})
	must.True(t, v.Bus.Kind.Or("") == "virtual" && v.Bus.Address.Or("") == "0000:0b:00.0" && !v.Media.Speed.IsKnown(), "%+v", v.Bus)
	for name, kind := range map[string]string{"lo0": "loopback", "bridge0": "bridge", "lagg1": "bond", "vlan7": "vlan", "epair0b": "", "lan": "", "wlan0": "wireless"} {
		n := machine("freebsd", nil, nil).nic(net.Interface{Name: name})
		must.True(t, n.Kind.Or("") == kind, "%s: %v", name, n.Kind)
	}
}

func TestDarwinNIC(t *testing.T) {
	n := machine("darwin", nil, map[string]string{
		"en7 up": "1", "en7 media": "autoselect", "en7 active": "1000baseT,full-duplex,flow-control,energy-efficient-ethernet", "en7 mtu_min": "68", "en7 mtu_max": "9000",
	}).nic(net.Interface{Name: "en7", MTU: 1500})
	must.True(t, n.MTUMin.Or(0) == 68 && n.MTUMax.Or(0) == 9000 && n.Media.Speed.Or(0) == 1e9 && !n.Driver.IsKnown() && !n.Bus.Kind.IsKnown() && n.Bus.Kind.Reason() != "", "%+v", n)
}

func TestMediaRate(t *testing.T) {
	for medium, want := range map[string]units.BitRate{
		"10baseT/UTP": 10e6, "100baseTX": 100e6, "1000baseT": 1e9, "2500Base-T": 2.5e9, "10Gbase-SR": 10e9, "25GBase-CR": 25e9, "100GBase-CR4": 100e9,
		"autoselect": 0, "none": 0, "0x15": 0, "": 0, "100": 0, "99999baseT": 0,
	} {
		got, ok := mediaRate(medium)
		must.True(t, got == want && ok == (want > 0), "%s: %v, %v", medium, got, ok)
	}
}

func TestDecodeConfig(t *testing.T) {
	b := decodeConfig(express(3, 8, 4, 16))
	must.True(t, b.Clock.Or(0) == 8 && b.ClockMax.Or(0) == 16 && b.Width.Or(0) == 8 && b.WidthMax.Or(0) == 16, "%+v", b)
	b = decodeConfig(express(0, 0, 3, 8))
	must.True(t, !b.Allows.IsKnown() && b.Allows.Reason() != "" && b.AllowsMax.IsKnown(), "a function without a link of its own: %+v", b)
	b = decodeConfig([]byte(config(256, statusList, 1)))
	must.True(t, b.Kind.Or("") == "pci" && b.Width.Or(0) == 32 && b.Clock.Or(0) == 33, "%+v", b)
	b = decodeConfig(nil)
	must.True(t, !b.Kind.IsKnown() && b.Kind.Reason() != "", "%+v", b)
}

func TestOrderInterfaces(t *testing.T) {
	list := []net.Interface{{Name: "lo0", Flags: net.FlagLoopback | net.FlagUp}, {Name: "em0"}, {Name: "em1", Flags: net.FlagUp}, {Name: "em2", Flags: net.FlagUp}}
	got := lists.Each(orderInterfaces(list, "em2"), func(i net.Interface) string { return i.Name })
	must.True(t, slices.Equal(got, []string{"em2", "em1", "em0", "lo0"}), "%q", got)
	must.Equal(t, len(orderInterfaces(make([]net.Interface, 2*maxNICs), "")), maxNICs, "interfaces")
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add(express(1, 1, 3, 8))
	f.Add([]byte(config(256, statusList, pcixStatus64)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := decodeConfig(b)
		must.True(t, got.Allows.Or(1) > 0 && got.AllowsMax.Or(1) > 0, "%+v", got)
	})
}

func FuzzFreeBSDNIC(f *testing.F) {
	f.Add("slot=0 function=0 dbsf=pci0:3:0:0", "vendor=0x8086 device=0x10d3", "1000baseT,full-duplex", "tso4=on tso6=off(fixed)")
	f.Fuzz(func(t *testing.T, location, pnp, media, capability string) {
		b := machine("freebsd", map[string]string{"dev.em.0.%location": location, "dev.em.0.%pnpinfo": pnp},
			map[string]string{"em0 active": media, "em0 cap.tso": capability})
		n := b.nic(net.Interface{Name: "em0"})
		must.True(t, n.Media.Speed.Or(1) > 0, "%+v", n)
	})
}

// reply returns the answer of a routing socket: the request's header with flags, the MTU, and
// the addresses of destination and gateway.
func reply(a routeABI, flags uint32, mtu uint64, addresses ...[]byte) []byte {
	b := make([]byte, a.header)
	b[2], b[3] = routeVersion, routeGet
	binary.LittleEndian.PutUint32(b[a.flags:], flags)
	binary.LittleEndian.PutUint32(b[a.addrs:], 1<<len(addresses)-1)
	binary.LittleEndian.PutUint32(b[a.pid:], 7)
	binary.LittleEndian.PutUint32(b[a.number:], 1)
	if a.wide {
		binary.LittleEndian.PutUint64(b[a.mtu:], mtu)
	} else {
		binary.LittleEndian.PutUint32(b[a.mtu:], uint32(mtu))
	}
	for _, one := range addresses {
		b = append(b, one...)
		for (len(b)-a.header)%a.round != 0 {
			b = append(b, 0)
		}
	}
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	return b
}

func sockaddr(a routeABI, s string) []byte {
	ip := netip.MustParseAddr(s)
	if ip.Is4() {
		b := make([]byte, size4)
		b[0], b[1] = size4, family4
		copy(b[address4At:], ip.AsSlice())
		return b
	}
	b := make([]byte, size6)
	b[0], b[1] = size6, a.family6
	copy(b[address6At:], ip.AsSlice())
	return b
}

func TestRoutesOfBSD(t *testing.T) {
	for name, a := range map[string]routeABI{"freebsd": freebsdRoutes(), "darwin": darwinRoutes()} {
		scoped := sockaddr(a, "fe80::1")
		scoped[address6At+3] = 4 // interface 4, as KAME embeds it
		for what, c := range map[string]struct {
			b       []byte
			gateway string
			mtu     int
		}{
			"gateway":    {reply(a, routeGateway|1, 1500, sockaddr(a, "0.0.0.0"), sockaddr(a, "192.0.2.1")), "192.0.2.1", 1500},
			"six":        {reply(a, routeGateway|1, 1280, sockaddr(a, "::"), sockaddr(a, "2001:db8::1")), "2001:db8::1", 1280},
			"link local": {reply(a, routeGateway|1, 0, sockaddr(a, "::"), scoped), "fe80::1", 0},
			"on link":    {reply(a, 1, 9000, sockaddr(a, "192.0.2.0"), sockaddr(a, "192.0.2.7")), "", 9000},
			"no mask":    {reply(a, routeGateway, 0, make([]byte, a.round), sockaddr(a, "192.0.2.1")), "192.0.2.1", 0},
		} {
			gateway, mtu, err := a.decode(c.b)
			must.True(t, gateway == c.gateway && mtu == c.mtu && err == nil, "%s, %s: %q, %d, %v", name, what, gateway, mtu, err)
			must.True(t, a.answers(c.b, 7, 1) && !a.answers(c.b, 7, 2) && !a.answers(c.b, 8, 1) && !a.answers(c.b[:a.header-1], 7, 1),
				"%s, %s: taken for another request's", name, what)
		}
		whole := reply(a, routeGateway, 1500, sockaddr(a, "0.0.0.0"), sockaddr(a, "192.0.2.1"))
		for n := range len(whole) {
			_, _, err := a.decode(whole[:n])
			must.True(t, err != nil, "%s: %d of %d bytes are accepted", name, n, len(whole))
		}
		failed := reply(a, 0, 0)
		binary.LittleEndian.PutUint32(failed[a.fail:], 3)
		_, _, err := a.decode(failed)
		must.True(t, err != nil, "%s: an error is no error", name)
		// a request is recognized by its own fields, and has its destination
		for peer, size := range map[string]int{"198.51.100.7": size4, "2001:db8::7": (size6 + a.round - 1) / a.round * a.round} {
			r := a.request(netip.MustParseAddr(peer), 7, 1)
			got, err := a.address(r[a.header:])
			must.True(t, got == peer && err == nil && len(r) == a.header+size && a.answers(r, 7, 1) && int(binary.LittleEndian.Uint16(r)) == len(r), "%s: request for %s: %q, %v, %d bytes", name, peer, got, err, len(r))
		}
	}
}

func FuzzDecodeRoute(f *testing.F) {
	for _, a := range []routeABI{freebsdRoutes(), darwinRoutes()} {
		f.Add(reply(a, routeGateway, 1500, sockaddr(a, "0.0.0.0"), sockaddr(a, "192.0.2.1")), a.wide)
	}
	f.Fuzz(func(t *testing.T, b []byte, wide bool) {
		a := darwinRoutes()
		if wide {
			a = freebsdRoutes()
		}
		gateway, mtu, err := a.decode(b)
		_, perr := netip.ParseAddr(gateway)
		must.True(t, (err != nil || gateway == "" || perr == nil) && mtu >= 0, "%q, %d, %v", gateway, mtu, err)
	})
}
