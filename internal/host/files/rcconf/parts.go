package rcconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/tree"
	"linerate/internal/regex"
)

// part says that rc.conf builds one interface on another. Both are named as in variables.
type part struct {
	whole, of string
	vlan      bool // a VLAN; else a lagg or a bridge, and one of its ports
	line      model.FileLine
}

// parts parses the options laggport, addm and vlandev of ifconfig(8), and vlans_IF of
// rc.conf(5).
func parts(rc map[string]model.FileLine) (all []part) {
	for _, name := range slices.Sorted(maps.Keys(rc)) {
		words := strings.Fields(rc[name].Text)
		if parent, ok := strings.CutPrefix(name, "vlans_"); ok {
			for _, w := range words {
				if _, err := strconv.Atoi(w); err == nil {
					w = parent + "_" + w
				}
				all = append(all, part{inVariable(w), parent, true, rc[name]})
			}
			continue
		}
		kind, whole, _ := strings.Cut(name, "_")
		if whole, _, _ = strings.Cut(whole, "_alias"); kind != "ifconfig" {
			continue
		}
		for i, w := range words[:max(0, len(words)-1)] {
			if slices.Contains([]string{"laggport", "addm", "vlandev"}, w) {
				all = append(all, part{whole, inVariable(words[i+1]), w == "vlandev", rc[name]})
			}
		}
	}
	return all
}

// mtuOf returns the MTU that the files give an interface, and the line; ok is false if none
// does.
func mtuOf(t tree.Tree, rc map[string]model.FileLine, link string) (mtu int, l model.FileLine, ok bool) {
	var lines []model.FileLine
	for _, file := range t.ByName("", "etc") {
		if name, is := strings.CutPrefix(file, "etc/start_if."); is && inVariable(name) == link {
			lines = append(lines, t.Lines(file, "#")...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rc)) {
		if name == "ifconfig_"+link || strings.HasPrefix(name, "ifconfig_"+link+"_alias") {
			lines = append(lines, rc[name])
		}
	}
	for _, line := range lines {
		words := strings.Fields(line.Text)
		if i := slices.Index(words, "mtu") + 1; i > 0 && i < len(words) {
			if n, err := strconv.Atoi(words[i]); err == nil {
				mtu, l, ok = n, line, true
			}
		}
	}
	return mtu, l, ok
}

// etherMTU is the MTU of an Ethernet interface without one in a file (ETHERMTU of
// sys/net/ethernet.h).
const etherMTU = 1500

// alone refuses an MTU that would change other interfaces at the next boot, or would itself
// be changed. The first port of a lagg or a bridge gives it its MTU, and a later port with
// another MTU is changed or kept out (lagg_port_create of sys/net/if_lagg.c, bridge_ioctl_add
// of if_bridge.c). A VLAN takes the MTU of its parent when it gets it (vlan_config of
// if_vlan.c), and refuses one before that or above it (vlan_ioctl).
func alone(t tree.Tree, rc map[string]model.FileLine, link string, mtu int) error {
	self := inVariable(link)
	for _, p := range parts(rc) {
		own, line, given := mtuOf(t, rc, p.whole)
		parent, _, known := mtuOf(t, rc, p.of)
		if !known {
			parent = etherMTU
		}
		switch {
		case p.whole != self && p.of != self:
		case !p.vlan:
			return files.Refuse(p.line, eachPort(strconv.Itoa(mtu)), "%s", oneMTU(p.whole))
		case p.of == self && !given:
			return files.Refuse(p.line, fmt.Sprintf("give it its own: mtu %d in ifconfig_%s", min(mtu, etherMTU), p.whole), "%s would take this MTU from %s", p.whole, link)
		case p.of == self && own > mtu:
			return files.Refuse(line, "lower it first", "%s has %d, which is above that of %s: ifconfig(8) would refuse the line", p.whole, own, link)
		case p.whole == self && strings.Contains(p.line.Text, "vlandev"):
			return files.Refuse(p.line, fmt.Sprintf("write mtu %d behind it", mtu), "%s gets its parent only here, behind /etc/start_if.%s, and its MTU with it", link, link)
		case p.whole == self && mtu > parent:
			return files.Refuse(p.line, fmt.Sprintf("write mtu %d into ifconfig_%s first", mtu, p.of), "%s cannot be above %s, which has %d", link, p.of, parent)
		}
	}
	return nil
}

func oneMTU(whole string) string {
	return whole + " and all its ports have one MTU, that of the first port"
}

func eachPort(mtu string) string {
	return "write mtu " + mtu + " into the ifconfig_ line of each port, by hand"
}

// made matches the name of an interface that ifconfig(8) builds on others.
var made = regex.New(`^(lagg|bridge|vlan)[0-9]+$`)

// unseen judges an MTU by the name of the interface alone, as alone does by the files: it
// returns why the MTU is omitted, or what to check first.
func unseen(link, mtu string) (omit, note string) {
	parent, _, tagged := strings.Cut(link, ".")
	switch m := made.FindStringSubmatch(link); {
	case m != nil && m[1] == "vlan":
		return fmt.Sprintf("%s has an MTU only with its parent: write mtu %s behind vlandev in %s, by hand", link, mtu, variable(link)), ""
	case m != nil:
		return oneMTU(link) + ": " + eachPort(mtu), ""
	case tagged:
		return "", fmt.Sprintf("%s cannot be above %s: write mtu %s into %s first", link, parent, mtu, variable(parent))
	}
	return "", fmt.Sprintf("where %s is a port of a lagg or a bridge, %s; a VLAN on it takes this MTU unless it has its own", link, eachPort(mtu))
}
