package knob

import (
	"path"
	"strconv"
	"strings"
)

// linuxLine returns a guide line for Linux.
func linuxLine(sets ...guideSet) guideLine { return guideLine{system: "linux", sets: sets} }

// named returns an effect of a command besides its settings, which OutsideNames explains by
// name.
func named(name string) guideSet { return guideSet{native: name, word: name} }

// fileLine parses a value that a guide writes into a file of /sys or /proc/irq.
func fileLine(file, value string) guideLine {
	name := path.Base(file)
	s := guideSet{native: name, word: name, value: value}
	switch name {
	case "mtu":
		s.id = "link.mtu"
	case "tx_queue_len":
		s.id = "txqueuelen"
	case "smp_affinity":
		s.id = "nic.irq_affinity"
		fallthrough
	case "rps_cpus", "xps_cpus":
		s.value, _ = CPUsOfMask(value) // an invalid mask has no value
	}
	return linuxLine(s)
}

// cpupowerLine parses cpupower-frequency-set(1) -g and cpupower-idle-set(1) -D, which disables
// idle states of that latency and longer.
func cpupowerLine(words []string) guideLine {
	l := linuxLine()
	pairs := words
	if len(pairs) > 0 {
		pairs = pairs[:len(pairs)-1]
	}
	for i, w := range pairs {
		switch value := words[i+1]; w {
		case "-g", "--governor":
			l.sets = append(l.sets, guideSet{id: "cpu.governor", word: "governor", value: value})
		case "-D", "--disable-by-latency":
			if usecs, err := strconv.Atoi(value); err == nil {
				value = strconv.Itoa(max(0, usecs-1))
			}
			l.sets = append(l.sets, guideSet{id: "cpu.cstate_latency", word: w, value: value})
		}
	}
	return l
}

// moduleLine parses the options of a kernel module, from modprobe.d(5) or modprobe(8), or the
// module that modprobe loads.
func moduleLine(words []string) guideLine {
	l := linuxLine()
	for _, w := range words {
		if name, value, ok := strings.Cut(w, "="); ok {
			value, _, _ = strings.Cut(value, ",") // one value a port
			ids := map[string]string{"rxdescriptors": "nic.ring.rx", "txdescriptors": "nic.ring.tx", "lro": "nic.offload.lro", "rss": "nic.queues.combined"}
			l.sets = append(l.sets, guideSet{id: knobID(ids[strings.ToLower(name)]), native: name, word: name, value: value})
		}
	}
	if len(words) == 1 && len(l.sets) == 0 {
		l.sets = append(l.sets, guideSet{native: "modprobe " + words[0], word: words[0]})
	}
	return l
}

// kldloadLine parses kldload(8) of one module.
func kldloadLine(words []string) guideLine {
	if len(words) != 1 {
		return guideLine{}
	}
	return guideLine{system: "freebsd", sets: []guideSet{named("kldload " + words[0])}}
}

// setpciLine parses a write to the Device Control register of PCI Express, whose bits 12 to 14
// hold the largest read request: 128 bytes shifted left (Linux 6.1
// include/uapi/linux/pci_regs.h PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_READRQ). It is 8 bytes after its
// capability: at 68h on cards that have it at 60h.
func setpciLine(words []string) guideLine {
	const readRequest = 0x7000
	l := linuxLine()
	for _, w := range words {
		register, text, ok := strings.Cut(strings.ToLower(w), "=")
		if !ok {
			continue
		}
		s := guideSet{word: w}
		text, mask, masked := strings.Cut(text, ":")
		bits, err := strconv.ParseUint(text, 16, 16)
		only, maskErr := strconv.ParseUint(mask, 16, 16)
		switch {
		case register != "68.w" && register != "cap_exp+8.w" || err != nil:
		case masked && (maskErr != nil || only&readRequest != readRequest):
		default:
			s.id, s.value = "pcie.max_read_request", strconv.FormatUint(128<<(bits&readRequest>>12), 10)
		}
		l.sets = append(l.sets, s)
	}
	return l
}

// affinityLine parses the scripts of card vendors that assign each interrupt of a card to one
// processor in turn, those of a list if the script takes one.
func affinityLine(words []string) guideLine {
	s := guideSet{id: "nic.irq_affinity", word: "affinity"}
	if len(words) == 2 {
		s.value = inTurn(words[0])
	}
	return linuxLine(s, named("set_irq_affinity.sh"))
}

// inTurn converts a list of processors to one per interrupt: 0-2,8 is 0;1;2;8. It returns ""
// for an invalid list.
func inTurn(list string) string {
	var all []string
	for span := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(span, "-")
		low, err := strconv.ParseUint(first, 10, 16)
		high := low
		if err == nil && isRange {
			high, err = strconv.ParseUint(last, 10, 16)
		}
		if err != nil {
			return ""
		}
		for ; low <= high; low++ {
			all = append(all, strconv.FormatUint(low, 10))
		}
	}
	return strings.Join(all, ";")
}

// mlnxLine parses mlnx_tune of mlnx-tools. Its profile HIGH_THROUGHPUT sets the governor;
// OutsideNames explains the rest.
func mlnxLine(words []string) guideLine {
	l := linuxLine(named("mlnx_tune"))
	if strings.HasSuffix(strings.Join(words, " "), "HIGH_THROUGHPUT") {
		l.sets = append(l.sets, performance())
	}
	return l
}

// performance sets the governor that keeps processors at their highest clock.
func performance() guideSet {
	return guideSet{id: "cpu.governor", word: "governor", value: "performance"}
}

// tunedLine parses tuned-adm(8): the network settings of the usual TuneD profiles (its
// profiles/*/tuned.conf; older versions start receive buffers at 87380 bytes).
func tunedLine(words []string) guideLine {
	l := linuxLine(named("tuned-adm"))
	sysctl := func(name, value string) guideSet { return guideSet{native: "net." + name, word: name, value: value} }
	for _, profile := range words {
		switch profile {
		case "network-throughput":
			l.sets = append(l.sets, performance(), sysctl("ipv4.tcp_rmem", "4096 131072 16777216"), sysctl("ipv4.tcp_wmem", "4096 16384 16777216"))
		case "network-latency":
			l.sets = append(l.sets, performance(), sysctl("core.busy_read", "50"), sysctl("core.busy_poll", "50"), sysctl("ipv4.tcp_fastopen", "3"))
		case "throughput-performance", "latency-performance":
			l.sets = append(l.sets, performance())
		}
	}
	return l
}

// serviceLine parses systemctl(1) and service(8) for the services that OutsideNames lists.
func serviceLine(words []string) guideLine {
	l := linuxLine()
	for _, w := range words {
		if name := strings.TrimSuffix(w, ".service"); name == "irqbalance" || name == "tuned" {
			l.sets = append(l.sets, named(name))
		}
	}
	return l
}
