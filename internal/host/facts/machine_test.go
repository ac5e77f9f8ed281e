package facts

import (
	"encoding/binary"
	"io/fs"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/knob/linkid"
	"linerate/internal/must"
)

// tree returns a file system of texts.
func tree(files ...map[string]string) fstest.MapFS {
	t := fstest.MapFS{}
	for _, set := range files {
		for name, text := range set {
			if to, ok := strings.CutPrefix(text, "-> "); ok {
				t[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
				continue
			}
			t[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return t
}

// processors returns the topology files of count CPUs; place returns socket, die and core of
// each.
func processors(count int, place func(n int) (socket, die, core int)) map[string]string {
	files := map[string]string{"sys/devices/system/cpu/online": "0-" + strconv.Itoa(count-1) + "\n"}
	for n := range count {
		s, d, c := place(n)
		dir := "sys/devices/system/cpu/cpu" + strconv.Itoa(n) + "/topology/"
		files[dir+"physical_package_id"] = strconv.Itoa(s) + "\n"
		files[dir+"die_id"] = strconv.Itoa(d) + "\n"
		files[dir+"core_id"] = strconv.Itoa(c) + "\n"
	}
	return files
}

// server is a two-socket Intel server in the form of Linux 5.15 (arch/x86/
// kernel/cpu/proc.c show_cpuinfo, Documentation/admin-guide/cputopology.rst):
// threads of a core are n and n+count/2, core numbers repeat on each socket and
// have gaps.
func server() map[string]string {
	files := processors(40, func(n int) (int, int, int) { return n % 20 / 10, 0, []int{0, 1, 2, 3, 4, 8, 9, 10, 11, 12}[n%10] })
	files["proc/cpuinfo"] = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 79\n" +
		"model name\t: Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz\nflags\t\t: fpu vme de pse tsc msr pae mce cx8 apic\n\nprocessor\t: 1\nmodel name\t: second\n"
	files["proc/meminfo"] = "MemTotal:       65836360 kB\nMemFree:        61170416 kB\n"
	files["sys/devices/system/node/online"] = "0-1\n"
	files["sys/class/dmi/id/sys_vendor"] = "Dell Inc.\n"
	files["sys/class/dmi/id/product_name"] = "PowerEdge R730\n"
	return files
}

func TestLinuxMachine(t *testing.T) {
	m := linuxMachine(tree(server()))
	must.True(t, m.Vendor.Or("") == "Dell Inc." && m.Product.Or("") == "PowerEdge R730" && m.Virtual.Or("") == model.NotVirtual,
		"made by %v %v, virtual %v", m.Vendor, m.Product, m.Virtual)
	must.True(t, m.CPU.Or("") == "Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz" && m.Memory.Or(0) == units.Bytes(65836360)<<10, "cpu %v, memory %v", m.CPU, m.Memory)
	must.True(t, m.Sockets.Or(0) == 2 && m.Cores.Or(0) == 20 && m.Threads.Or(0) == 40 && m.NUMA.Or(0) == 2,
		"topology %v %v %v %v, want 2 20 40 2", m.Sockets, m.Cores, m.Threads, m.NUMA)
}

// TestLinuxMachineOfABoard is a board without BIOS, in the form of a Raspberry
// Pi 4 with Linux 6.1: a device tree whose strings end with a zero, no DMI, no
// NUMA, and no names of processors.
func TestLinuxMachineOfABoard(t *testing.T) {
	m := linuxMachine(tree(processors(4, func(n int) (int, int, int) { return 0, 0, n }), map[string]string{
		"proc/cpuinfo":           "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd evtstrm crc32 cpuid\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n",
		"proc/meminfo":           "MemTotal:        3883388 kB\n",
		"proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\x00",
	}))
	must.True(t, m.Product.Or("") == "Raspberry Pi 4 Model B Rev 1.4" && !m.Vendor.IsKnown() && m.Virtual.Or("") == model.NotVirtual,
		"made by %v %v, virtual %v", m.Vendor, m.Product, m.Virtual)
	must.True(t, m.CPU.Or("") == "implementer 0x41 part 0xd08" && m.Cores.Or(0) == 4 && !m.NUMA.IsKnown() && m.NUMA.Reason() != "",
		"cpu %v, cores %v, nodes %v", m.CPU, m.Cores, m.NUMA)
}

func TestNothingIsKnownOfNothing(t *testing.T) {
	m := linuxMachine(tree())
	for name, reason := range map[string]string{
		"vendor": m.Vendor.Reason(), "product": m.Product.Reason(), "virtual": m.Virtual.Reason(), "cpu": m.CPU.Reason(),
		"sockets": m.Sockets.Reason(), "cores": m.Cores.Reason(), "threads": m.Threads.Reason(), "numa": m.NUMA.Reason(), "memory": m.Memory.Reason(),
	} {
		must.True(t, reason != "", "%s is known, or unknown without a reason", name)
	}
}

func TestLinuxVirtual(t *testing.T) {
	x86 := func(hypervisor string) string { return "processor\t: 0\nflags\t\t: fpu vme " + hypervisor + "\n" }
	dmi := func(vendor, product string) map[string]string {
		return map[string]string{"sys/class/dmi/id/sys_vendor": vendor + "\n", "sys/class/dmi/id/product_name": product + "\n"}
	}
	arm := map[string]string{"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n"}
	guest := map[string]string{"proc/cpuinfo": x86("hypervisor")}
	for name, c := range map[string]struct {
		files []map[string]string
		want  string
	}{
		// The vendor's and product's names are those of systemd's detect-virt and of the hypervisors' own tables.
		"kvm by QEMU":       {[]map[string]string{guest, dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)")}, "qemu"},
		"kvm by Red Hat":    {[]map[string]string{guest, dmi("Red Hat", "KVM")}, "kvm"},
		"VMware":            {[]map[string]string{guest, dmi("VMware, Inc.", "VMware Virtual Platform")}, "vmware"},
		"VirtualBox":        {[]map[string]string{guest, dmi("innotek GmbH", "VirtualBox")}, "virtualbox"},
		"Hyper-V":           {[]map[string]string{guest, dmi("Microsoft Corporation", "Virtual Machine")}, "hyperv"},
		"Amazon":            {[]map[string]string{guest, dmi("Amazon EC2", "m5.large")}, "kvm"},
		"Amazon, no guest":  {[]map[string]string{{"proc/cpuinfo": x86("")}, dmi("Amazon EC2", "m5.metal")}, model.NotVirtual},
		"Xen":               {[]map[string]string{guest, dmi("Xen", "HVM domU"), {"sys/hypervisor/type": "xen\n"}}, "xen"},
		"only a clock":      {[]map[string]string{guest, {"sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc \n"}}, "kvm"},
		"nothing but a bit": {[]map[string]string{guest}, "unnamed"},
		"ARM guest":         {[]map[string]string{arm, {"proc/device-tree/hypervisor/compatible": "linux,kvm\x00"}}, "kvm"},
		"ARM of Xen":        {[]map[string]string{arm, {"proc/device-tree/hypervisor/compatible": "xen,xen-4.11\x00xen,xen\x00"}}, "xen"},
		"ARM server":        {[]map[string]string{arm, dmi("Ampere", "Mt. Jade")}, model.NotVirtual},
		"no sign":           {[]map[string]string{arm}, ""},
	} {
		got := linuxVirtual(tree(c.files...))
		must.True(t, got.Or("") == c.want, "%s: %q (%s), want %q", name, got.Or(""), got.Reason(), c.want)
	}
}

func TestUnfilledFirmware(t *testing.T) {
	got := dmi(tree(map[string]string{"sys/class/dmi/id/product_name": "To Be Filled By O.E.M.\n"}), "product_name")
	must.True(t, !got.IsKnown() && strings.Contains(got.Reason(), "unfilled"), "%v, %s", got, got.Reason())
}

func TestTopologyThatTheKernelDoesNotKnow(t *testing.T) {
	s, c, n := linuxTopology(tree(processors(2, func(int) (int, int, int) { return -1, 0, 0 })))
	must.True(t, !s.IsKnown() && !c.IsKnown() && n.Or(0) == 2, "%v %v %v", s, c, n)
}

func TestParseList(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-3,8": {0, 1, 2, 3, 8}, "0,2-2\n": {0, 2}, "": nil, "3-1": nil, "a": nil, "0-99999999": nil, "-1": nil} {
		got, ok := parseList(text)
		must.True(t, slices.Equal(got, want) && ok == (want != nil), "parseList(%q) = %v, %v", text, got, ok)
	}
}

func FuzzLinuxMachine(f *testing.F) {
	f.Add("model name\t: x\nflags\t: hypervisor\n", "MemTotal: 1 kB\n", "0-3,7", "xen,xen-4\x00")
	f.Fuzz(func(t *testing.T, info, memory, list, compatible string) {
		m := linuxMachine(tree(map[string]string{
			"proc/cpuinfo": info, "proc/meminfo": memory, "sys/devices/system/cpu/online": list, "sys/devices/system/node/online": list,
			"proc/device-tree/hypervisor/compatible": compatible,
		}))
		must.True(t, m.Memory.Or(1) > 0 && m.NUMA.Or(1) >= 1 && m.Threads.Or(1) >= 1, "%+v", m)
	})
}

func TestReadToLoopback(t *testing.T) {
	f := Read(t.Context(), nil, model.Far, "127.0.0.1:5299", "1.2.3")
	must.True(t, f.Host == model.Far && f.OS == runtime.GOOS && f.Arch == runtime.GOARCH && f.CPUs >= 1 && f.Version == "1.2.3" && f.Knobs == nil, "Read = %+v", f)
	if k, ok := f.Kernel.Get(); k == "" || !ok {
		t.Errorf("kernel unknown: %s", f.Kernel.Reason())
	}
	must.Equal(t, f.Address, "127.0.0.1", "address")
	if name, ok := f.Interface.Get(); !ok || !strings.HasPrefix(strings.ToLower(name), "lo") {
		t.Errorf("interface %q, unknown because %q", name, f.Interface.Reason())
	}
	mtu, ok := f.MTU.Get()
	must.True(t, mtu >= 1280 && ok, "MTU %d, unknown because %q", mtu, f.MTU.Reason())
	must.True(t, !f.LinkRate.IsKnown() && f.LinkRate.Reason() != "", "a loopback has a link rate: %v", f.LinkRate)
}

func TestReadWithoutPath(t *testing.T) {
	for peer, why := range map[string]string{"": "no peer", "name.invalid": "find the peer"} {
		f := Read(t.Context(), nil, model.Near, peer, "")
		must.True(t, !f.Interface.IsKnown() && strings.Contains(f.Interface.Reason(), why) && !f.MTU.IsKnown() && !f.Qdisc.IsKnown() && !f.LinkRate.IsKnown(), "peer %q: %+v", peer, f)
	}
}

func TestResolve(t *testing.T) {
	for peer, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "2001:db8::1": "2001:db8::1", "[2001:db8::1]:80": "2001:db8::1",
		"fe80::1%eth0": "fe80::1%eth0", "::ffff:192.0.2.1": "192.0.2.1",
	} {
		got, err := resolve(t.Context(), peer)
		must.True(t, got.String() == want && err == nil, "resolve(%q) = %v, %v, want %s", peer, got, err, want)
	}
}

func TestPortablePath(t *testing.T) {
	p := portablePath(t.Context(), netip.MustParseAddr("127.0.0.1"))
	must.True(t, p.address == "127.0.0.1" && p.device.IsKnown() && p.mtu.IsKnown() && !p.rate.IsKnown(), "portablePath = %+v", p)
	must.Fail(t, must.Err(linkid.Owner(netip.MustParseAddr("192.0.2.77"))), "an interface has an address for documentation (RFC 5737)")
}

func TestPathRate(t *testing.T) {
	nic := func(name string, rate fact.Of[units.BitRate]) []model.NIC {
		return []model.NIC{{Name: name, Media: model.Media{Speed: rate}}}
	}
	gigabit, none := fact.Known(units.BitRate(1e9), "media"), fact.Unknown[units.BitRate]("why")
	for name, c := range map[string]struct {
		p    path
		nics []model.NIC
		want units.BitRate
	}{
		"the path knows":         {path{device: fact.Known("em0", ""), rate: fact.Known(units.BitRate(1e8), "")}, nic("em0", gigabit), 1e8},
		"the interface knows":    {path{device: fact.Known("em0", ""), rate: none}, nic("em0", gigabit), 1e9},
		"another interface":      {path{device: fact.Known("em0", ""), rate: none}, nic("em1", gigabit), 0},
		"nobody knows":           {path{device: fact.Known("em0", ""), rate: none}, nic("em0", none), 0},
		"no interfaces are told": {path{device: fact.Known("em0", ""), rate: none}, nil, 0},
		"a radio":                {path{device: fact.Known("wl0", ""), rate: none}, []model.NIC{{Name: "wl0", Kind: fact.Known("wireless", ""), Media: model.Media{Speed: gigabit}}}, 0},
		"no path":                {unknownPath("why"), nic("em0", gigabit), 0},
	} {
		got := pathRate(c.p, c.nics)
		must.True(t, got.Or(0) == c.want && (got.IsKnown() || got.Reason() != ""), "%s: %v, %s", name, got, got.Reason())
	}
}

// record returns one record of GetLogicalProcessorInformationEx: relation, size, a body of
// zeros with the count of groups at 30 and a mask for each group from 32 on (winnt.h
// SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX).
func record(relation uint32, masks ...uint64) []byte {
	b := make([]byte, 32+16*len(masks))
	binary.LittleEndian.PutUint32(b, relation)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
	binary.LittleEndian.PutUint16(b[30:], uint16(len(masks)))
	for i, m := range masks {
		binary.LittleEndian.PutUint64(b[32+16*i:], m)
	}
	return b
}

// twoSockets is a machine of two sockets with two cores of two threads each.
func twoSockets() []byte {
	var b []byte
	for i := range 4 {
		b = append(b, record(relationCore, 3<<(2*i))...)
	}
	b = append(b, record(relationNode, 0xf)...)
	b = append(b, record(relationNode, 0xf0)...)
	b = append(b, record(2, 0xff)...) // a cache
	b = append(b, record(relationPackage, 0xf)...)
	b = append(b, record(relationPackage, 0xf0)...)
	return append(b, record(4, 0xff)...) // the group
}

func TestDecodeTopology(t *testing.T) {
	must.Equal(t, must.Get(decodeTopology(twoSockets()))(t), (ntTopology{sockets: 2, cores: 4, threads: 8, nodes: 2}))
	whole := twoSockets()
	for n := range whole {
		if n%48 != 0 || n == 0 {
			must.Fail(t, must.Err(decodeTopology(whole[:n])), "%d of %d bytes are accepted", n, len(whole))
		}
	}
}

func TestParseLocation(t *testing.T) {
	for text, want := range map[string]string{
		"@System32\\drivers\\pci.sys,#65536;PCI bus %1, device %2, function %3;(0,31,6)": "0000:00:1f.6",
		"@System32\\drivers\\pci.sys,#65536;PCI bus %1, device %2, function %3;(3,0,1)":  "0000:03:00.1",
		"Port_#0003.Hub_#0001": "", "(1,32,0)": "", "(256,0,0)": "", "(0,0,9)": "", "": "",
	} {
		got, ok := parseLocation(text)
		must.True(t, got == want && ok == (want != ""), "%q: %q, %v", text, got, ok)
	}
}

// intel returns the class key of an adapter of Windows 10, as filled in by e1d68x64.inf, with
// the ranges below Ndi\params.
func intel() map[string]string {
	return map[string]string{
		"DriverDesc": "Intel(R) Ethernet Connection (5) I219-LM", "DriverVersion": "12.19.1.37", "MatchingDeviceId": `pci\ven_8086&dev_15e3`,
		"*SpeedDuplex": "0", "*LsoV2IPv4": "1", "*LsoV2IPv6": "0", "*TCPChecksumOffloadIPv4": "3",
		`Ndi\params\*JumboPacket\min`: "1514", `Ndi\params\*JumboPacket\max`: "9014",
	}
}

func device(values map[string]string, location string, link map[uint32]uint32) ntDevice {
	return ntDevice{
		value: func(name string) string { return values[name] }, location: location,
		link: func(p uint32) (uint32, bool) { v, ok := link[p]; return v, ok },
	}
}

func TestWindowsDevice(t *testing.T) {
	n := model.NIC{Media: unknownMedia("x")}
	device(intel(), "PCI bus %1, device %2, function %3;(0,31,6)", map[uint32]uint32{pciCurrentSpeed: 1, pciCurrentWidth: 1, pciMaxSpeed: 2, pciMaxWidth: 4}).fill(&n)
	must.True(t, n.Driver.Or("") == "Intel(R) Ethernet Connection (5) I219-LM" && n.Version.Or("") == "12.19.1.37" && n.MTUMin.Or(0) == 1500 && n.MTUMax.Or(0) == 9000 && n.Media.Autoneg.Or(false), "%+v", n)
	b := n.Bus
	must.True(t, b.Kind.Or("") == "pcie" && b.Address.Or("") == "0000:00:1f.6" && b.Device.Or("") == "8086:15e3" && about(b.Allows.Or(0), 2e9) && about(b.AllowsMax.Or(0), 16e9), "%+v", b)
	want := []model.Offload{{Name: "*LsoV2IPv4", On: true}, {Name: "*LsoV2IPv6"}, {Name: "*TCPChecksumOffloadIPv4", On: true}}
	must.True(t, slices.Equal(n.Offloads.Or(nil), want), "%+v", n.Offloads)
	for id, want := range map[string]string{`pci\ven_8086&dev_1026`: "pci", `PCI\VEN_1AF4&DEV_1000`: "virtual", `USB\VID_0BDA&PID_8153`: "usb", `VMBUS\{f8615163-df3e-46c5-913f-f2d2f965ed0e}`: "virtual", "": "", "vms_mp": ""} {
		b := device(map[string]string{"MatchingDeviceId": id}, "", nil).bus()
		must.True(t, b.Kind.Or("") == want && !b.Allows.IsKnown() && b.Allows.Reason() != "", "%q: %+v", id, b)
	}
	bare := model.NIC{Media: unknownMedia("x")}
	device(nil, "", nil).fill(&bare)
	must.True(t, !bare.Driver.IsKnown() && !bare.MTUMax.IsKnown() && !bare.Offloads.IsKnown() && !bare.Media.Autoneg.IsKnown() && bare.MTUMax.Reason() != "", "%+v", bare)
}

func TestWindowsWords(t *testing.T) {
	must.True(t, ntSpeed(1e9).Or(0) == 1e9 && !ntSpeed(0).IsKnown() && !ntSpeed(1<<64-1).IsKnown(), "speeds")
	must.True(t, ntKind(6) == "device" && ntKind(71) == "wireless" && ntKind(53) == "type 53", "kinds")
	must.True(t, ntVirtual("Microsoft Corporation", "Virtual Machine").Or("") == "hyperv" && ntVirtual("LENOVO", "20KH").Or("") == model.NotVirtual && !ntVirtual("", "").IsKnown(), "hypervisors")
}

func TestWindowsAddress(t *testing.T) {
	for text, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "0.0.0.0": "", "::": "", "fe80::1%3": "fe80::1"} {
		must.Equal(t, must.Get(decodeNTAddress(encodeNTAddress(netip.MustParseAddr(text))))(t), want, "%s", text)
	}
	must.Fail(t, must.Err(decodeNTAddress([ntAddressSize]byte{1})), "an address of no family is accepted")
}

func FuzzDecodeTopology(f *testing.F) {
	f.Add(twoSockets())
	f.Add(record(relationCore, 1, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeTopology(b)
		must.True(t, err != nil || got.threads >= 1 && got.cores >= 1, "%+v", got)
	})
}

func FuzzWindowsDevice(f *testing.F) {
	f.Add(`pci\ven_8086&dev_15e3`, "(0,31,6)", "1514", "9014", uint32(3), uint32(8))
	f.Fuzz(func(t *testing.T, id, location, low, high string, speed, width uint32) {
		n := model.NIC{}
		device(map[string]string{"MatchingDeviceId": id, `Ndi\params\*JumboPacket\min`: low, `Ndi\params\*JumboPacket\max`: high}, location,
			map[uint32]uint32{pciCurrentSpeed: speed, pciCurrentWidth: width}).fill(&n)
		must.True(t, n.Bus.Allows.Or(1) > 0 && n.MTUMax.Or(1) > 0, "%+v", n)
	})
}
