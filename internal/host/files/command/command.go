// Package command parses the settings of links and of the kernel that a shell command makes:
// ethtool(8), ip-link(8), ifconfig(8), tc(8), sysctl(8).
package command

import (
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// Setting is a knob and the text that a file sets it to.
type Setting struct {
	Knob model.KnobID
	Text string // native, or canonical if the file has its own words
}

// Settings returns the settings of links that a shell command makes for link. Commands that
// it does not understand are ignored. Variables of hooks stand for link: $IFACE of
// interfaces(5), ${DEVICE} of ifcfg files.
func Settings(text, link string) []Setting {
	var all []Setting
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";&|\n", r) }) {
		words := strings.Fields(strings.NewReplacer(`"`, "", "'", "").Replace(part))
		for i, w := range words {
			if slices.Contains([]string{"$IFACE", "${IFACE}", "$DEVICE", "${DEVICE}", "%i"}, w) {
				words[i] = link
			}
		}
		if len(words) < 3 {
			continue
		}
		switch path.Base(words[0]) {
		case "ethtool":
			all = append(all, ethtool(words[1:], link)...)
		case "ip":
			all = append(all, ipLink(words[1:], link)...)
		case "ifconfig":
			if words[1] == link {
				all = append(all, pairs(words[2:], map[string]model.KnobID{"mtu": "link.mtu", "txqueuelen": "txqueuelen"})...)
			}
		case "tc": // tc qdisc replace dev eth0 root fq
			i := slices.Index(words, "root")
			if dev := slices.Index(words, "dev"); words[1] == "qdisc" && dev > 0 && dev+1 < len(words) && words[dev+1] == link && i > 0 && i+1 < len(words) {
				all = append(all, Setting{"qdisc", words[len(words)-1]})
			}
		}
	}
	return all
}

// Sysctls returns the values that a sysctl(8) command sets, by native name.
func Sysctls(text string) map[string]string {
	all := make(map[string]string)
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";&|\n", r) }) {
		command, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
		if path.Base(command) != "sysctl" {
			continue
		}
		for key, value := range assignments(rest) {
			all[name(key)] = value
		}
	}
	return all
}

// assignments parses NAME=VALUE words, with quotes around a word or a value:
// net.ipv4.tcp_rmem="4096 1 2".
func assignments(s string) map[string]string {
	all := make(map[string]string)
	var word strings.Builder
	quote := rune(0)
	end := func() {
		if key, value, ok := strings.Cut(word.String(), "="); ok && key != "" {
			all[key] = value
		}
		word.Reset()
	}
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote = r
		case r == ' ' || r == '\t':
			end()
		default:
			word.WriteRune(r)
		}
	}
	end()
	return all
}

// ethtool parses "-G eth0 rx 4096".
func ethtool(words []string, link string) []Setting {
	if words[1] != link {
		return nil
	}
	group, ok := map[string]string{
		"-C": "coalesce", "--coalesce": "coalesce", "-A": "pause", "--pause": "pause", "-G": "ring", "--set-ring": "ring",
		"-L": "channels", "--set-channels": "channels", "-K": "features", "--features": "features", "--offload": "features",
	}[words[0]]
	switch {
	case ok:
		return EthtoolWords(group, words[2:])
	case words[0] == "-s" || words[0] == "--change":
		all := pairs(words[2:], map[string]model.KnobID{
			"speed": "nic.media.speed", "duplex": "nic.media.duplex", "autoneg": "nic.media.autoneg", "wol": "nic.wol",
		})
		for i, one := range all {
			switch one.Knob {
			case "nic.media.autoneg":
				all[i].Text = Truth(one.Text)
			case "nic.wol":
				all[i].Text = wakeOnLAN(one.Text)
			}
		}
		return all
	case words[0] == "--set-eee":
		all := pairs(words[2:], map[string]model.KnobID{"eee": "nic.eee"})
		for i := range all {
			all[i].Text = Truth(all[i].Text)
		}
		return all
	}
	return nil
}

// wakeOnLAN parses the letters of ethtool(8) -s wol.
func wakeOnLAN(letters string) string {
	var all []string
	for _, r := range letters {
		name, ok := map[rune]string{
			'p': "phy", 'u': "ucast", 'm': "mcast", 'b': "bcast", 'a': "arp", 'g': "magic", 's': "magicsecure", 'f': "filter", 'd': "none",
		}[r]
		if !ok {
			return letters
		}
		all = append(all, name)
	}
	return strings.Join(all, ",")
}

// EthtoolWords parses the pairs after ethtool's -C, -A, -G, -L and -K: the groups "coalesce",
// "pause", "ring", "channels" and "features".
func EthtoolWords(group string, words []string) []Setting {
	var all []Setting
	for i := 0; i+1 < len(words); i += 2 {
		if group == "features" {
			if id, ok := Features()[words[i]]; ok {
				all = append(all, Setting{id, Truth(words[i+1])})
			}
		} else if s, ok := Options()[group+" "+words[i]]; ok {
			all = append(all, Setting{s.Knob, s.Text(words[i+1])})
		}
	}
	return all
}

// ipLink parses "link set dev eth0 mtu 9000".
func ipLink(words []string, link string) []Setting {
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		words = words[1:]
	}
	if len(words) < 3 || !strings.HasPrefix("link", words[0]) || words[1] != "set" {
		return nil
	}
	words = words[2:]
	if words[0] == "dev" {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != link {
		return nil
	}
	return pairs(words[1:], map[string]model.KnobID{
		"mtu": "link.mtu", "txqueuelen": "txqueuelen", "txqlen": "txqueuelen", "qlen": "txqueuelen",
		"gso_max_size": "nic.gso_max_size", "gro_max_size": "nic.gro_max_size",
	})
}

// pairs returns the words that follow the words of table.
func pairs(words []string, table map[string]model.KnobID) []Setting {
	var all []Setting
	for i := 0; i+1 < len(words); i++ {
		if id, ok := table[words[i]]; ok {
			all = append(all, Setting{id, words[i+1]})
			i++
		}
	}
	return all
}

// Option is a setting for a word of ethtool(8).
type Option struct {
	Knob model.KnobID
	Text func(value string) string // canonical text of the word's value
}

// Options returns the words of ethtool(8) -C, -A, -G and -L, after their group's name in
// NetworkManager and TuneD.
func Options() map[string]Option {
	return map[string]Option{
		"coalesce rx-usecs":    {"nic.coalesce.rx_usecs", same},
		"coalesce tx-usecs":    {"nic.coalesce.tx_usecs", same},
		"coalesce rx-frames":   {"nic.coalesce.rx_frames", same},
		"coalesce tx-frames":   {"nic.coalesce.tx_frames", same},
		"coalesce adaptive-rx": {"nic.coalesce.adaptive_rx", Truth},
		"coalesce adaptive-tx": {"nic.coalesce.adaptive_tx", Truth},
		"pause autoneg":        {"nic.pause.autoneg", Truth},
		"pause rx":             {"nic.pause.rx", Truth},
		"pause tx":             {"nic.pause.tx", Truth},
		"ring rx":              {"nic.ring.rx", same},
		"ring rx-jumbo":        {"nic.ring.rx_jumbo", same},
		"ring tx":              {"nic.ring.tx", same},
		"channels rx":          {"nic.queues.rx", same},
		"channels tx":          {"nic.queues.tx", same},
		"channels combined":    {"nic.queues.combined", same},
	}
}

// Features returns the short and long words of ethtool(8) -K.
func Features() map[string]model.KnobID {
	return map[string]model.KnobID{
		"rx": "nic.offload.rx_csum", "rx-checksumming": "nic.offload.rx_csum",
		"tx": "nic.offload.tx_csum", "tx-checksumming": "nic.offload.tx_csum",
		"tso": "nic.offload.tso", "tcp-segmentation-offload": "nic.offload.tso",
		"gso": "nic.offload.gso", "generic-segmentation-offload": "nic.offload.gso",
		"gro": "nic.offload.gro", "generic-receive-offload": "nic.offload.gro",
		"lro": "nic.offload.lro", "large-receive-offload": "nic.offload.lro",
		"rx-gro-hw": "nic.offload.gro_hw",
		"rxvlan":    "nic.offload.vlan_rx", "rx-vlan-offload": "nic.offload.vlan_rx",
		"txvlan": "nic.offload.vlan_tx", "tx-vlan-offload": "nic.offload.vlan_tx",
	}
}

// Truth returns a switch in canonical form, or s if it is not one.
func Truth(s string) string {
	if w := Switch(s); w != "" {
		return w
	}
	return s
}

func same(s string) string { return s }

// Switch returns a switch in canonical form, "" if s is not one.
func Switch(s string) string {
	switch s = strings.ToLower(s); {
	case slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, s):
		return "1"
	case slices.Contains([]string{"0", "no", "n", "false", "f", "off"}, s):
		return "0"
	}
	return ""
}

// name turns the slashes of sysctl(8) into dots: if a slash comes first, it swaps dots and
// slashes.
func name(s string) string {
	if i := strings.IndexAny(s, "./"); i >= 0 && s[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(s)
	}
	return s
}
