package origin

import (
	"path"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// networkDirs are the folders of systemd.network(5) and systemd.link(5), the
// strongest first.
var networkDirs = [...]string{"etc/systemd/network", "run/systemd/network", "usr/local/lib/systemd/network", "usr/lib/systemd/network", "lib/systemd/network"}

// linkFile reads the .link file of the interface, systemd.link(5):
//
//	[Match]
//	MACAddress=00:11:22:33:44:55
//	[Link]
//	MTUBytes=9000
func (f *finder) linkFile() {
	file, all := f.unit(".link", f.dev.Properties["ID_NET_LINK_FILE"])
	if file == "" {
		return
	}
	f.define(LinkFile, model.FileLine{File: "/" + file, Number: 1}, "")
	settings := linkFileKeys()
	for _, e := range all.Section("Link") {
		for _, s := range settings[e.Key] {
			if e.Text != "" {
				f.say(LinkFile, s.knob, e.FileLine, s.text(e.Text))
			}
		}
	}
}

// networkFile reads the .network file of the interface, systemd.network(5).
func (f *finder) networkFile() {
	recorded := ""
	if f.dev.Index != "" { // NETWORK_FILE=/etc/systemd/network/10-lan.network
		recorded = f.tree.Assignments("run/systemd/netif/links/" + f.dev.Index)["NETWORK_FILE"].Text
	}
	file, all := f.unit(".network", recorded)
	if file == "" || command.Switch(all.Text("Link", "Unmanaged")) == "1" {
		return
	}
	f.define(NetworkFile, model.FileLine{File: "/" + file, Number: 1}, "")
	if l := all.Get("Link", "MTUBytes"); l != nil {
		f.say(NetworkFile, "link.mtu", *l, binaryBytes(l.Text))
	}
}

// unit returns the first file that matches the device, which is the only one
// that counts, and its assignments with those of its drop-ins. Where it cannot
// be known whether a file matches, the file that the running system recorded
// decides; without it, nothing that comes later is known.
func (f *finder) unit(ending, recorded string) (string, tree.INI) {
	for _, file := range f.tree.ByName(ending, networkDirs[:]...) {
		all := Unit(f.tree, file)
		switch f.matches(all.Section("Match"), ending) {
		case device.Yes:
			return file, all
		case device.No:
		case device.Maybe:
			if recorded == "/"+file {
				return file, all
			}
			if recorded == "" {
				return "", nil
			}
		}
	}
	return "", nil
}

// Unit reads a .link or .network file and what NAME.d folders add to it,
// systemd.unit(5).
func Unit(t tree.Tree, file string) tree.INI {
	all := t.INI(file)
	var dirs []string
	for _, dir := range networkDirs {
		dirs = append(dirs, path.Join(dir, path.Base(file)+".d"))
	}
	for _, name := range t.ByName(".conf", dirs...) {
		all = append(all, t.INI(name)...)
	}
	return all
}

// matches judges a [Match] section. Without a valid one the file is ignored, as
// its log says (link_load_one, network_verify of systemd).
func (f *finder) matches(section []tree.Entry, ending string) device.Answer {
	lists := make(map[string][]string)
	for _, e := range section {
		if e.Text == "" {
			delete(lists, e.Key)
			continue
		}
		lists[e.Key] = append(lists[e.Key], strings.Fields(e.Text)...)
	}
	if len(lists) == 0 {
		return device.No
	}
	answer := device.Yes
	for key, list := range lists {
		answer = device.And(answer, f.matchesOne(key, list, ending))
	}
	return answer
}

func (f *finder) matchesOne(key string, list []string, ending string) device.Answer {
	d := f.dev
	switch key {
	case "OriginalName":
		return device.OneOf(d.KernelName, list)
	case "Name":
		if ending != ".network" {
			return device.Maybe
		}
		return device.OneOf(d.Name, list)
	case "MACAddress":
		return device.HasMAC(d.MAC, list)
	case "PermanentMACAddress":
		return device.HasMAC(d.PermanentMAC, list)
	case "Driver":
		return device.OneOf(d.Driver, list)
	case "Type":
		return device.OneOf(d.Type, list)
	case "Path":
		return device.OneOf(d.Properties["ID_PATH"], list)
	case "Property":
		return f.hasProperties(list)
	case "SSID", "BSSID", "WLANInterfaceType":
		if d.Type != "" && d.Type != "wlan" {
			return device.No
		}
	case "Kind":
		if d.Hardware || d.Type == "loopback" { // neither is of a kind
			return device.No
		}
	}
	return device.Maybe
}

// hasProperties says whether the device has every property of a list.
func (f *finder) hasProperties(list []string) device.Answer {
	if len(f.dev.Properties) == 0 {
		return device.Maybe
	}
	answer := device.Yes
	for _, p := range list {
		key, value, _ := strings.Cut(p, "=")
		one := device.No
		if have, ok := f.dev.Properties[key]; ok {
			one = device.OneOf(have, []string{value})
		}
		answer = device.And(answer, one)
	}
	return answer
}
