package device

import (
	"cmp"
	"strings"
)

// WakeOnLAN translates ethtool's wake-up events, such as "magic" or "ucast,magic", to the
// words of WakeOnLan= in systemd.link(5); "none" becomes "off". Events without such a word,
// like "filter", are left out: whole is then false.
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
