package facts

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// tree makes a file system of texts.
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

// processors makes the topology files of count processors; place tells socket,
// die and core of each.
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
	must.True(t, m.CPU.Or("") == "Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz" && m.Memory.Or(0) == units.Bytes(65836360)<<10,
		"cpu %v, memory %v", m.CPU, m.Memory)
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
