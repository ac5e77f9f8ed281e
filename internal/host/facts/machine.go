package facts

import (
	"context"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// ReadMachine returns what computer this is. What cannot be read is unknown, with the reason.
func ReadMachine(ctx context.Context) model.Machine { return readMachine(ctx) }

// linuxMachine reads a machine from the files of Linux under root: sysfs and
// procfs.
func linuxMachine(root fs.FS) model.Machine {
	m := model.Machine{
		Vendor:  dmi(root, "sys_vendor"),
		Product: dmi(root, "product_name"),
		Virtual: linuxVirtual(root),
		CPU:     linuxCPU(root),
		Memory:  linuxMemory(root),
		NUMA:    listLength(root, "sys/devices/system/node/online"),
	}
	// Machines without a BIOS describe themselves in a device tree (Linux
	// Documentation/ABI/testing/sysfs-firmware-ofw).
	if name := fileText(root, "proc/device-tree/model"); !m.Product.IsKnown() && name != "" {
		m.Product = fact.Known(name, "device tree")
	}
	m.Sockets, m.Cores, m.Threads = linuxTopology(root)
	return m
}

// fileText returns the text of a small file without surrounding blanks and zeros, "" if there
// is none.
func fileText(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), " \t\n\x00")
}

// dmi reads what the firmware says about the machine (Linux
// Documentation/ABI/testing/sysfs-class-dmi).
func dmi(root fs.FS, name string) fact.Of[string] {
	text := fileText(root, "sys/class/dmi/id/"+name)
	switch strings.ToLower(text) {
	case "":
		return fact.Unknown[string]("the firmware does not report it")
	case "to be filled by o.e.m.", "system manufacturer", "system product name", "default string", "not specified":
		return fact.Unknown[string]("the firmware was left unfilled: " + text)
	}
	return fact.Known(text, "DMI")
}

// hypervisors returns the words in firmware that identify a virtual machine, most specific
// first.
func hypervisors() []struct{ word, name string } {
	return []struct{ word, name string }{
		{"kvm", "kvm"}, {"openstack", "kvm"}, {"amazon ec2", "kvm"}, {"google compute engine", "kvm"}, {"kubevirt", "kvm"}, {"nutanix ahv", "kvm"},
		{"vmware", "vmware"}, {"virtualbox", "virtualbox"}, {"innotek", "virtualbox"}, {"bhyve", "bhyve"}, {"parallels", "parallels"},
		{"virtual machine", "hyperv"}, {"hvm domu", "xen"}, {"xen", "xen"}, {"apple virtualization", "apple"}, {"qemu", "qemu"}, {"bochs", "bochs"},
	}
}

// namedHypervisor returns the hypervisor whose word is in text, "" for none.
func namedHypervisor(text string) string {
	text = strings.ToLower(text)
	for _, h := range hypervisors() {
		if strings.Contains(text, h.word) {
			return h.name
		}
	}
	return ""
}

// linuxVirtual names the hypervisor. On x86 the CPU says whether there is one (flag
// "hypervisor" of /proc/cpuinfo, CPUID leaf 1 ECX bit 31), so that a cloud's bare-metal
// machine is not taken for a virtual one because of its vendor's name.
func linuxVirtual(root fs.FS) fact.Of[string] {
	info := fileText(root, "proc/cpuinfo")
	flags, x86 := cpuField(info, "flags")
	if kind := fileText(root, "sys/hypervisor/type"); kind != "" && kind != "none" {
		return fact.Known(kind, "/sys/hypervisor/type")
	}
	if x86 && !slices.Contains(strings.Fields(flags), "hypervisor") {
		return fact.Known(model.NotVirtual, "cpuinfo")
	}
	vendor, product := fileText(root, "sys/class/dmi/id/sys_vendor"), fileText(root, "sys/class/dmi/id/product_name")
	if name := namedHypervisor(vendor + " " + product); name != "" {
		return fact.Known(name, "DMI")
	}
	// "kvm-clock tsc acpi_pm": clocks that hypervisors offer to guests
	clocks := fileText(root, "sys/devices/system/clocksource/clocksource0/available_clocksource")
	for _, c := range []struct{ clock, name string }{{"kvm-clock", "kvm"}, {"hyperv", "hyperv"}, {"xen", "xen"}} {
		if strings.Contains(clocks, c.clock) {
			return fact.Known(c.name, "clock source")
		}
	}
	if text := fileText(root, "proc/device-tree/hypervisor/compatible"); text != "" {
		_, name, found := strings.Cut(text, ",") // "linux,kvm", "xen,xen-4.11\0xen,xen"
		name, _, _ = strings.Cut(name, "-")
		if found {
			return fact.Known(name, "device tree")
		}
	}
	if x86 {
		return fact.Known(model.NoName, "cpuinfo")
	}
	return fact.If(vendor != "" || fileText(root, "proc/device-tree/model") != "", model.NotVirtual, "no sign of a hypervisor", "nothing here says so")
}

// cpuField returns the first field of /proc/cpuinfo with that name:
//
//	model name	: Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz
//	flags		: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr
func cpuField(info, name string) (string, bool) {
	for line := range strings.Lines(info) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// linuxCPU names the CPU. ARM cores have no name in /proc/cpuinfo, only numbers of
// implementer and part.
func linuxCPU(root fs.FS) fact.Of[string] {
	info := fileText(root, "proc/cpuinfo")
	for _, name := range []string{"model name", "cpu model", "cpu", "Model", "Hardware"} {
		if v, ok := cpuField(info, name); ok && v != "" {
			return fact.Known(v, "cpuinfo")
		}
	}
	implementer, known := cpuField(info, "CPU implementer")
	part, _ := cpuField(info, "CPU part")
	return fact.If(known, "implementer "+implementer+" part "+part, "cpuinfo", "/proc/cpuinfo names no processor")
}

// linuxMemory reads "MemTotal:       65836360 kB", whose unit is 1024 bytes.
func linuxMemory(root fs.FS) fact.Of[units.Bytes] {
	for line := range strings.Lines(fileText(root, "proc/meminfo")) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "MemTotal:" || f[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 50); err == nil && n > 0 {
			return fact.Known(units.Bytes(n)<<10, "meminfo")
		}
	}
	return fact.Unknown[units.Bytes]("/proc/meminfo does not have it")
}

// maxListed bounds the lists of CPUs and nodes, above NR_CPUS of any kernel (Linux
// arch/*/Kconfig: 8192).
const maxListed = 1 << 14

// parseList reads a list of Linux (lib/bitmap.c bitmap_parselist): "0-3,8".
func parseList(s string) ([]int, bool) {
	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		from, to, isRange := strings.Cut(part, "-")
		low, err := strconv.ParseUint(from, 10, 31)
		high := low
		if err == nil && isRange {
			high, err = strconv.ParseUint(to, 10, 31)
		}
		if err != nil || high < low || high-low >= maxListed || len(all)+int(high-low) >= maxListed {
			return nil, false
		}
		for n := low; n <= high; n++ {
			all = append(all, int(n))
		}
	}
	return all, true
}

// listLength counts the entries of a list file.
func listLength(root fs.FS, name string) fact.Of[int] {
	all, ok := parseList(fileText(root, name))
	return fact.If(ok, len(all), "sysfs", "/"+name+" does not have it")
}

// linuxTopology counts sockets, cores and threads of the CPUs that are online (Linux
// Documentation/admin-guide/cputopology.rst).
func linuxTopology(root fs.FS) (sockets, cores, threads fact.Of[int]) {
	const dir = "sys/devices/system/cpu"
	threads = listLength(root, dir+"/online")
	online, _ := parseList(fileText(root, dir+"/online"))
	type core struct{ socket, die, core string }
	seenSockets, seenCores := map[string]bool{}, map[core]bool{}
	for _, n := range online {
		at := dir + "/cpu" + strconv.Itoa(n) + "/topology"
		c := core{fileText(root, at+"/physical_package_id"), fileText(root, at+"/die_id"), fileText(root, at+"/core_id")}
		if c.socket == "" || c.core == "" || strings.HasPrefix(c.socket, "-") || strings.HasPrefix(c.core, "-") {
			why := "the kernel does not know the topology of processor " + strconv.Itoa(n)
			return fact.Unknown[int](why), fact.Unknown[int](why), threads
		}
		seenSockets[c.socket], seenCores[c] = true, true
	}
	if len(online) == 0 {
		return fact.Unknown[int](threads.Reason()), fact.Unknown[int](threads.Reason()), threads
	}
	return fact.Known(len(seenSockets), "sysfs"), fact.Known(len(seenCores), "sysfs"), threads
}
