package device

import "strings"

// WakeOnLAN returns what ethtool calls the events that wake a machine, such as "magic" or
// "ucast,magic", in the words of WakeOnLan= in systemd.link(5). An event that it has no
// word for is left out; "none" is "off".
func WakeOnLAN(modes string) string {
	words := map[string]string{
		"phy": "phy", "ucast": "unicast", "mcast": "multicast", "bcast": "broadcast", "arp": "arp", "magic": "magic", "magicsecure": "secureon",
	}
	var out []string
	for one := range strings.SplitSeq(modes, ",") {
		if w := words[one]; w != "" {
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		return "off"
	}
	return strings.Join(out, " ")
}
