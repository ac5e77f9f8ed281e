// Package networkd plans .network and .link files: what systemd-networkd and udev make of all
// of them after the next boot, and the drop-in that changes it.
//
// The first file that matches a device wins alone; only drop-ins of that very file add to it
// (systemd.network(5), systemd.link(5)). So a setting goes into a drop-in of the winner,
// NAME.network.d/50-linerate.conf, which never has a [Match] section: lists are appended, and
// it would match more devices.
package networkd

import (
	"path"
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// Dirs returns the folders of systemd.network(5) and systemd.link(5), in order of precedence.
func Dirs() []string {
	return []string{"etc/systemd/network", "run/systemd/network", "usr/local/lib/systemd/network", "usr/lib/systemd/network", "lib/systemd/network"}
}

// The suffixes of the files.
const (
	LinkFile    = ".link"
	NetworkFile = ".network"
	netdevFile  = ".netdev"
)

// Unit is a file with its drop-ins.
type Unit struct {
	File     string // "/etc/systemd/network/10-lan.network"; "" for none
	tree.INI        // assignments in order, those of drop-ins last
}

// ReadUnit reads a file and its drop-ins in NAME.d folders, systemd.unit(5).
func ReadUnit(t tree.Tree, file string) Unit {
	file = strings.TrimPrefix(file, "/")
	u := Unit{"/" + file, t.INI(file)}
	dirs := lists.Each(Dirs(), func(dir string) string { return path.Join(dir, path.Base(file)+".d") })
	for _, name := range t.Visible(".conf", dirs...) {
		u.INI = append(u.INI, t.INI(name)...)
	}
	return u
}

// units returns the files with one suffix in the order in which they are tried.
func units(t tree.Tree, ending string) []Unit {
	all := lists.Each(t.Visible(ending, Dirs()...), func(file string) Unit { return ReadUnit(t, file) })
	return all
}

// Winner returns the first file that matches a device, which is the only one in effect. If it
// is not known whether a file matches, the file that the running system recorded decides;
// without a record sure is false, and the unit is the first one that may match.
func Winner(t tree.Tree, d device.Device, ending string) (u Unit, sure bool) {
	return winner(units(t, ending), d, ending, recorded(t, d, ending))
}

func winner(all []Unit, d device.Device, ending, recorded string, others ...string) (Unit, bool) {
	for _, u := range all {
		answer := Matches(u.Section("Match"), d, ending)
		for _, name := range others { // net_condition_test_ifname of systemd
			renamed := d
			renamed.Name = name
			if answer == device.No {
				answer = Matches(u.Section("Match"), renamed, ending)
			}
		}
		switch answer {
		case device.Yes:
			return u, true
		case device.No:
		case device.Maybe:
			if recorded == u.File || recorded == "" {
				return u, recorded != ""
			}
		}
	}
	return Unit{}, true
}

// recorded returns the file that the running system recorded.
func recorded(t tree.Tree, d device.Device, ending string) string {
	if ending == LinkFile {
		return d.Properties["ID_NET_LINK_FILE"]
	}
	if d.Index == "" {
		return ""
	}
	return t.Assignments("run/systemd/netif/links/" + d.Index)["NETWORK_FILE"].Text
}

// match collects the lists of a [Match] section. An empty assignment clears a list. A "!"
// negates all words of its line, and stands before each of them in the result.
func match(section []tree.Entry) map[string][]string {
	of := make(map[string][]string)
	for _, e := range section {
		if e.Text == "" {
			delete(of, e.Key)
			continue
		}
		text, negated := strings.CutPrefix(e.Text, "!")
		for _, word := range words(e.Key, text) {
			if negated {
				word = "!" + word
			}
			of[e.Key] = append(of[e.Key], word)
		}
	}
	return of
}

// words splits a list. Names of interfaces have no quotes (config_parse_match_ifnames of
// systemd); other words may (config_parse_match_strv).
func words(key, text string) []string {
	if key == "Name" || key == "OriginalName" {
		return strings.Fields(text)
	}
	var all []string
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 { // between two quotes
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// Matches evaluates a [Match] section. Without a valid one systemd ignores the file, as it
// logs (link_load_one, network_verify of systemd).
func Matches(section []tree.Entry, d device.Device, ending string) device.Answer {
	all := match(section)
	if len(all) == 0 {
		return device.No
	}
	answer := device.Yes
	for key, list := range all {
		answer = device.And(answer, matchesOne(key, list, d, ending))
	}
	return answer
}

func matchesOne(key string, list []string, d device.Device, ending string) device.Answer {
	switch key {
	case "OriginalName":
		return device.OneOf(d.KernelName, list)
	case "Name":
		if ending != NetworkFile {
			return device.Maybe
		}
		return device.OneOf(d.Name, list) // winner asks again for each alternative name
	case "MACAddress":
		return device.HasMAC(d.MAC, list)
	case "PermanentMACAddress":
		if d.PermanentMAC == "" && !d.Hardware && (d.Kind != "" || d.Type == "loopback") {
			return device.No // a virtual device has none
		}
		return device.HasMAC(d.PermanentMAC, list)
	case "Driver":
		return device.OneOf(d.Driver, list)
	case "Type":
		return device.OneOf(d.Type, list)
	case "Path":
		if d.Properties["ID_PATH"] == "" && !d.Hardware {
			return device.Absent(list)
		}
		return device.OneOf(d.Properties["ID_PATH"], list)
	case "Property":
		return hasProperties(list, d)
	case "SSID", "BSSID", "WLANInterfaceType":
		if d.Type != "" && d.Type != "wlan" {
			return device.Absent(list)
		}
	case "Kind":
		if d.Hardware || d.Type == "loopback" { // neither has a kind
			return device.Absent(list)
		}
		if d.Kind != "" {
			return device.OneOf(d.Kind, list)
		}
	}
	return device.Maybe
}

// hasProperties says whether the device has every property of a list.
func hasProperties(list []string, d device.Device) device.Answer {
	if len(d.Properties) == 0 {
		return device.Maybe
	}
	answer := device.Yes
	for _, p := range list {
		p, negated := strings.CutPrefix(p, "!")
		key, value, valued := strings.Cut(p, "=")
		have, ok := d.Properties[key]
		if (ok && (!valued || tree.Match(value, have))) == negated {
			answer = device.No
		}
	}
	return answer
}

// single reports whether a [Match] section can match only one device: by its own name,
// address or path.
func (u Unit) single(ending string) bool {
	name := "Name"
	if ending == LinkFile {
		name = "OriginalName"
	}
	for key, list := range match(u.Section("Match")) {
		if slices.Contains([]string{name, "PermanentMACAddress", "MACAddress", "Path"}, key) && len(list) == 1 && !strings.ContainsAny(list[0], "*?[!") {
			return true
		}
	}
	return false
}

// matchLine returns the first line of the [Match] section.
func (u Unit) matchLine() model.FileLine {
	if all := u.Section("Match"); len(all) > 0 {
		return all[0].FileLine
	}
	return model.FileLine{File: u.File, Number: 1}
}

// ours is the name of linerate's drop-ins.
const ours = "50-linerate.conf"

// dropIn returns the path of linerate's drop-in for a file.
func dropIn(u Unit) string {
	return "/etc/systemd/network/" + path.Base(u.File) + ".d/" + ours
}

// ownLink returns linerate's own .link file of an interface, for a winner that sorts after
// it.
func ownLink(link string) string { return "/etc/systemd/network/10-linerate-" + link + ".link" }

// withoutOurs returns a host without linerate's .link file for a link.
func withoutOurs(h files.Host, link string) files.Host {
	own := strings.TrimPrefix(ownLink(link), "/")
	h.Root = files.Without(h.Root, func(name string) bool { return name == own })
	return h
}
