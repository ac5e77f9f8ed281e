package device

import (
	"cmp"
	"strings"
)

// WakeOnLAN returns what ethtool calls the events that wake a machine, such as "magic" or
// "ucast,magic", in the words of WakeOnLan= in systemd.link(5); "none" is "off". An event
// that it has no word for, as "filter", is left out: whole is false then.
func WakeOnLAN(modes string) (text string, whole bool) {
	words := map[string]string{
		"none": "off", "phy": "phy", "ucast": "unicast", "mcast": "multicast", "bcast": "broadcast", "arp": "arp", "magic": "magic", "magicsecure": "secureon",
	}
	var out []string
	all := strings.Split(modes, ",")
	for _, one := range all {
		if w := words[one]; w != "" {
			out = append(out, w)
		}
	}
	return cmp.Or(strings.Join(out, " "), "off"), len(out) == len(all)
}
