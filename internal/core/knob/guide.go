package knob

import (
	"encoding/csv"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// guideLine is a parsed command of a tuning guide.
type guideLine struct {
	system string
	sets   []guideSet
}

// guideSet is one value that a command sets: of the knob id, or of the knob with the native
// name.
type guideSet struct {
	id     model.KnobID
	native string
	word   string // as written in the command, for display
	value  string // "" if the command does not give it
}

// IsGuideCommand reports whether word begins a command of a tuning guide.
func IsGuideCommand(word string) bool {
	_, ok := guideCommands()[commandName(word)]
	return ok || strings.Contains(strings.ToLower(word), "-net") && strings.IndexByte(word, '-') > 0
}

// commandName returns the name of a command that may have a path: "/sbin/ifconfig".
func commandName(word string) string { return strings.ToLower(path.Base(word)) }

// guideCommands maps each command to the parser of its arguments.
func guideCommands() map[string]func([]string) guideLine {
	return map[string]func([]string) guideLine{
		"ethtool": ethtoolLine, "ip": ipLine, "tc": tcLine, "ifconfig": ifconfigLine, "netsh": netshLine,
		"networksetup": networksetupLine, "cpupower": cpupowerLine, "options": moduleLine, "modprobe": moduleLine,
		"setpci": setpciLine, "mlnx_tune": mlnxLine, "tuned-adm": tunedLine, "systemctl": serviceLine, "service": serviceLine,
		"irqbalance": func([]string) guideLine { return linuxLine(named("irqbalance")) }, "kldload": kldloadLine,
		"set_irq_affinity.sh": affinityLine, "set_irq_affinity_bynode.sh": affinityLine, "set_irq_affinity_cpulist.sh": affinityLine,
	}
}

// guide parses a line of a guide. For an unknown command the result sets nothing.
func guide(text string) guideLine {
	words := shellWords(text)
	if len(words) > 0 && words[0] == "sudo" {
		words = words[1:]
	}
	if len(words) == 0 {
		return guideLine{}
	}
	if name, rest, ok := strings.Cut(text, "="); ok && strings.HasPrefix(name, "ifconfig_") { // rc.conf(5)
		return ifconfigLine(append([]string{""}, shellWords(strings.Trim(rest, `"'`))...))
	}
	if words[0] == "options" && len(words) < 3 { // options of a FreeBSD kernel; those of modprobe.d(5) name a module first
		return guideLine{}
	}
	if read, ok := guideCommands()[commandName(words[0])]; ok {
		return read(words[1:])
	}
	if IsGuideCommand(words[0]) {
		return cmdletLine(words)
	}
	return guideLine{}
}

// shellWords splits a line at blanks outside of quotes.
func shellWords(text string) []string {
	r := csv.NewReader(strings.NewReader(strings.ReplaceAll(strings.TrimSpace(text), "'", `"`)))
	r.Comma, r.LazyQuotes = ' ', true
	words, _ := r.Read() // with lazy quotes its only error is an empty text
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

// pairsOf splits words into names and their values.
func pairsOf(words []string, set func(name, value string)) {
	for i := 0; i+1 < len(words); i += 2 {
		set(words[i], words[i+1])
	}
}

// ethtoolLine parses ethtool(8) -G, -C, -K, -A, -L, -s, -X and --set-eee. It names -N and
// --set-priv-flags, which OutsideNames explains.
func ethtoolLine(words []string) guideLine {
	l := guideLine{system: "linux"}
	if len(words) < 2 {
		return l
	}
	switch words[0] {
	case "-X", "--rxfh", "--set-rxfh-indir":
		return linuxLine(guideSet{id: "nic.rss.indirection", word: words[0]})
	case "-N", "--config-nfc", "-U", "--config-ntuple":
		return linuxLine(named("ethtool -N"))
	case "--set-priv-flags":
		return linuxLine(named("ethtool --set-priv-flags"))
	}
	group := map[string]string{
		"-G": "rings", "--set-ring": "rings", "-C": "coalesce", "--coalesce": "coalesce", "-A": "pause", "--pause": "pause",
		"-L": "channels", "--set-channels": "channels", "-K": "features", "--features": "features", "--offload": "features",
	}[words[0]]
	pairsOf(words[2:], func(name, value string) {
		s := guideSet{word: name, value: value}
		switch {
		case group == "features":
			s.native = group + "." + featureName(name)
		case group != "":
			s.native = group + "." + name
		case words[0] == "--set-eee" && name == "eee":
			s.id = "nic.eee"
		case (words[0] == "-s" || words[0] == "--change") && slices.Contains([]string{"speed", "duplex", "autoneg"}, name):
			s.id = knobID("nic.media." + name)
		}
		l.sets = append(l.sets, s)
	})
	return l
}

// featureName returns ethtool's short name of a feature.
func featureName(name string) string {
	short, ok := map[string]string{
		"rx": "rx-checksum", "rx-checksumming": "rx-checksum", "tx": "tx-checksum", "tx-checksumming": "tx-checksum",
		"tcp-segmentation-offload": "tso", "generic-segmentation-offload": "gso", "generic-receive-offload": "gro",
		"large-receive-offload": "lro", "rx-gro-hw": "gro-hw", "rxvlan": "rx-vlan", "rx-vlan-offload": "rx-vlan",
		"rx-vlan-hw-parse": "rx-vlan", "txvlan": "tx-vlan", "tx-vlan-offload": "tx-vlan", "tx-vlan-hw-insert": "tx-vlan",
	}[name]
	if ok {
		return short
	}
	return name
}

// ipLine parses ip-link(8) set and the metrics of ip-route(8).
func ipLine(words []string) guideLine {
	l := guideLine{system: "linux"}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.HasPrefix(w, "-") || w == "lock" })
	if len(words) < 2 {
		return l
	}
	for i := 2; i+1 < len(words); i++ {
		s := guideSet{word: words[i], value: words[i+1]}
		switch {
		case strings.HasPrefix("link", words[0]):
			s.id = map[string]model.KnobID{"mtu": "link.mtu", "txqueuelen": "txqueuelen", "txqlen": "txqueuelen", "gso_max_size": "nic.gso_max_size", "gro_max_size": "nic.gro_max_size"}[words[i]]
		case strings.HasPrefix("route", words[0]) && slices.Contains([]string{"mtu", "advmss", "window", "initcwnd", "initrwnd", "cwnd", "ssthresh", "rto_min", "quickack"}, words[i]):
			s.id, s.value = knobID("route."+words[i]), strings.TrimSuffix(words[i+1], "ms")
		}
		if s.id != "" {
			l.sets = append(l.sets, s)
			i++
		}
	}
	return l
}

// tcLine parses the root scheduler of tc(8).
func tcLine(words []string) guideLine {
	l := guideLine{system: "linux"}
	root := slices.Index(words, "root")
	if len(words) == 0 || words[0] != "qdisc" || root < 0 {
		return l
	}
	words = words[root+1:]
	if len(words) > 1 && words[0] == "handle" {
		words = words[2:]
	}
	if len(words) > 0 {
		l.sets = append(l.sets, guideSet{id: "qdisc", word: "root", value: words[0]})
		if len(words) > 1 {
			l.sets = append(l.sets, guideSet{word: strings.Join(words[1:], " ")})
		}
	}
	return l
}

// ifconfigLine parses ifconfig(8): the interface, then words and switches.
func ifconfigLine(words []string) guideLine {
	l := guideLine{system: "freebsd"}
	for i := 1; i < len(words); i++ {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		name, off := strings.CutPrefix(words[i], "-")
		switch name {
		case "mtu":
			l.sets = append(l.sets, guideSet{id: "link.mtu", word: name, value: next})
		case "txqueuelen": // Linux only: net-tools
			l.system, l.sets = "linux", append(l.sets, guideSet{id: "txqueuelen", word: name, value: next})
		case "tso", "tso4", "tso6", "lro", "rxcsum", "txcsum", "vlanhwtag", "polling":
			value := map[bool]string{true: "off", false: "on"}[off]
			s := guideSet{native: "cap." + strings.TrimRight(name, "46"), word: words[i], value: value}
			if name == "polling" {
				s.id = "polling"
			}
			l.sets = append(l.sets, s)
		}
	}
	return l
}

// netshLine parses netsh interface tcp set and netsh interface ipv4 set subinterface.
func netshLine(words []string) guideLine {
	l := guideLine{system: "windows"}
	names := map[string]string{
		"autotuninglevel": "AutoTuningLevelLocal", "autotuning": "AutoTuningLevelLocal", "rss": "ReceiveSideScaling", "rsc": "ReceiveSegmentCoalescing", "chimney": "Chimney", "netdma": "NetDMA",
		"ecncapability": "EcnCapability", "ecn": "EcnCapability", "congestionprovider": "CongestionProvider", "ctcp": "CongestionProvider",
		"timestamps": "Timestamps", "nonsackrttresiliency": "NonSackRttResiliency", "maxsynretransmissions": "MaxSynRetransmissions",
		"initialrto": "InitialRtoMs", "minrto": "MinRtoMs", "icw": "InitialCongestionWindowMss", "mtu": "NlMtuBytes", "heuristics": "ScalingHeuristics",
	}
	for i, w := range words {
		name, value, pair := strings.Cut(w, "=")
		name = strings.ToLower(name)
		if name == "heuristics" && !pair && i+1 < len(words) {
			_, after, named := strings.Cut(words[i+1], "=") // "disabled" or "wsh=disabled"
			if value = after; !named {
				value = words[i+1]
			}
			pair = true
		}
		if name == "taskoffload" && pair { // DisableTaskOffload of Tcpip\Parameters: of every card, whatever its driver offers
			v := map[string]string{"enabled": "on", "disabled": "off"}[strings.ToLower(value)]
			for _, native := range []string{"*TCPChecksumOffloadIPv4", "*LsoV2IPv4", "*LsoV2IPv6"} {
				l.sets = append(l.sets, guideSet{native: native, word: native, value: v})
			}
		}
		if native, ok := names[name]; ok && pair {
			l.sets = append(l.sets, guideSet{native: native, word: name, value: value})
		}
	}
	return l
}

// cmdletLine parses the PowerShell cmdlets that configure networks.
func cmdletLine(words []string) guideLine {
	l := guideLine{system: "windows"}
	verb, noun, _ := strings.Cut(strings.ToLower(words[0]), "-")
	given := map[string]string{}
	for i := 1; i < len(words); i++ {
		if name, ok := strings.CutPrefix(words[i], "-"); ok && name != "" {
			given[strings.ToLower(name)] = ""
			if i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
				given[strings.ToLower(name)] = strings.TrimPrefix(words[i+1], "$")
				l.sets = append(l.sets, guideSet{native: name, word: name, value: given[strings.ToLower(name)]})
			}
		}
	}
	switch noun {
	case "netadapteradvancedproperty":
		property, value := given["registrykeyword"], given["registryvalue"]
		if property == "" {
			property, value = displayName(given["displayname"]), given["displayvalue"]
		}
		number, _, _ := strings.Cut(value, " ") // "9014 Bytes"
		l.sets = []guideSet{{native: property, word: property, value: number}}
	case "netadapterlso", "netadapterrsc", "netadapterrss", "netadapterchecksumoffload":
		l.sets = adapterSwitches(verb, strings.TrimPrefix(noun, "netadapter"), given)
	default:
		about := []string{"settingname", "name", "interfacealias", "interfaceindex", "addressfamily", "confirm", "policystore"}
		l.sets = slices.DeleteFunc(l.sets, func(s guideSet) bool { return slices.Contains(about, strings.ToLower(s.word)) })
	}
	return l
}

// adapterSwitches returns what the Enable-, Disable- and Set- cmdlets of one kind switch.
func adapterSwitches(verb, kind string, given map[string]string) []guideSet {
	value := map[string]string{"enable": "on", "disable": "off"}[verb]
	families := map[string][2]string{
		"lso": {"*LsoV2IPv4", "*LsoV2IPv6"}, "rsc": {"*RscIPv4", "*RscIPv6"}, "rss": {"*RSS", ""},
		"checksumoffload": {"*TCPChecksumOffloadIPv4", ""},
	}[kind]
	parameters := [2]string{"ipv4", "ipv6"}
	var sets []guideSet
	for i, native := range families {
		if native == "" {
			continue
		}
		v, all := value, true
		for _, p := range parameters {
			_, short := given[p]
			_, long := given[p+"enabled"]
			all = all && !short && !long
		}
		_, short := given[parameters[i]]
		if set, long := given[parameters[i]+"enabled"]; long {
			v, short = onOffOf(set), true
		} else if set, ok := given["enabled"]; ok {
			v = onOffOf(set)
		}
		if v != "" && (all || short) {
			sets = append(sets, guideSet{native: native, word: native, value: v})
		}
	}
	return sets
}

func onOffOf(word string) string {
	return map[string]string{"true": "on", "false": "off"}[strings.ToLower(word)]
}

// displayName returns the keyword of a property by the name that drivers display.
func displayName(shown string) string {
	keyword, ok := map[string]string{
		"jumbo packet": "*JumboPacket", "jumbo frame": "*JumboPacket", "receive buffers": "*ReceiveBuffers", "transmit buffers": "*TransmitBuffers",
		"interrupt moderation": "*InterruptModeration", "flow control": "*FlowControl", "receive side scaling": "*RSS",
		"maximum number of rss queues": "*NumRssQueues", "speed & duplex": "*SpeedDuplex", "energy efficient ethernet": "*EEE",
		"large send offload v2 (ipv4)": "*LsoV2IPv4", "large send offload v2 (ipv6)": "*LsoV2IPv6", "recv segment coalescing (ipv4)": "*RscIPv4",
	}[strings.ToLower(shown)]
	if ok {
		return keyword
	}
	return shown
}

// networksetupLine parses networksetup(8) of macOS.
func networksetupLine(words []string) guideLine {
	l := guideLine{system: "darwin"}
	if len(words) > 2 && strings.EqualFold(words[0], "-setMTU") {
		l.sets = append(l.sets, guideSet{id: "link.mtu", word: "-setMTU", value: words[2]})
	}
	return l
}
