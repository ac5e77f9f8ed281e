package networkmanager

import (
	"path"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// conf is a file of NetworkManager.conf(5).
type conf struct {
	File string
	tree.INI
}

// configuration reads the files of NetworkManager.conf(5) in order; those in /etc replace
// others of the same name. A file may turn itself off: enable=false of [.config].
func configuration(t tree.Tree) []conf {
	names := slices.DeleteFunc(append(t.ByName(".conf", "usr/lib/NetworkManager/conf.d"), t.ByName(".conf", "run/NetworkManager/conf.d")...), func(name string) bool {
		return t.Exists("etc/NetworkManager/conf.d/" + path.Base(name))
	})
	names = append(append(names, "etc/NetworkManager/NetworkManager.conf"), t.ByName(".conf", "etc/NetworkManager/conf.d")...)
	all := lists.Each(append(names, "var/lib/NetworkManager/NetworkManager-intern.conf"), func(name string) conf {
		text, _ := t.Keyfile(name)
		return conf{"/" + name, text}
	})
	return slices.DeleteFunc(all, func(c conf) bool { return command.Switch(c.Text(".config", "enable")) == "0" })
}

// State returns managed=true or false as NetworkManager recorded it for a device. Text is ""
// if there is no record.
func State(t tree.Tree, d device.Device) (l model.FileLine) {
	if d.Index != "" {
		state, _ := t.Keyfile("run/NetworkManager/devices/" + d.Index)
		if managed := state.Get("device", "managed"); managed != nil {
			l = *managed
		}
	}
	return l
}

// Configured returns whether NetworkManager.conf(5) has NetworkManager manage a device, and
// the line that says so. interfaces is where interfaces(5) defines the device.
//
//	[keyfile]
//	unmanaged-devices=mac:00:22:68:1c:59:b1;interface-name:eth2
//	[device-lab]
//	match-device=interface-name:lab*
//	managed=0
//	[ifupdown]
//	managed=false
func Configured(t tree.Tree, d device.Device, interfaces model.FileLine) (managed fact.Of[bool], at model.FileLine) {
	var list, section model.FileLine
	plugins, ifupdown := "", false
	for _, c := range configuration(t) {
		for _, e := range c.INI {
			switch e.Section + "." + e.Key {
			case "keyfile.unmanaged-devices":
				list = e.FileLine
			case "keyfile.unmanaged-devices+":
				before := list.Text
				list = e.FileLine
				list.Text = before + ";" + list.Text
			case "main.plugins":
				plugins = e.Text
			case "ifupdown.managed":
				ifupdown = command.Switch(e.Text) == "1"
			}
		}
		if l := c.section(d); l.Text != "" {
			section = l
		}
	}
	known := func(managed bool, l model.FileLine) (fact.Of[bool], model.FileLine) {
		return fact.Known(managed, l.File), l
	}
	switch {
	case list.Text != "" && DeviceList(list.Text, d) == device.Yes: // strict, whatever else is set
		return known(false, list)
	case section.Text != "":
		return known(command.Switch(section.Text) == "1", section)
	case !ifupdown && strings.Contains(plugins, "ifupdown") && interfaces.File != "":
		return known(false, interfaces)
	case command.Switch(d.Properties["NM_UNMANAGED"]) == "1":
		return known(false, model.FileLine{File: "/run/udev/data/n" + d.Index})
	}
	return fact.Unknown[bool]("no configuration says so"), at
}

// section looks for managed= in the [device…] sections that match: the first one counts,
// [device] itself last.
func (c conf) section(d device.Device) model.FileLine {
	var order []string
	for _, e := range c.INI {
		if strings.HasPrefix(e.Section, "device-") && !slices.Contains(order, e.Section) {
			order = append(order, e.Section)
		}
	}
	for _, section := range append(order, "device") {
		match := c.Text(section, "match-device")
		if l := c.Get(section, "managed"); l != nil && (match == "" || DeviceList(match, d) == device.Yes) {
			return *l
		}
	}
	return model.FileLine{}
}

// defaultMTU returns the MTU that the sections [connection…] set for a device whose profile
// has none. several means that they disagree.
func defaultMTU(all []conf, d device.Device) (l model.FileLine, found, several bool) {
	for _, c := range all {
		for _, e := range c.INI {
			if e.Section != "connection" && !strings.HasPrefix(e.Section, "connection-") || e.Key != "ethernet.mtu" {
				continue
			}
			if match := c.Text(e.Section, "match-device"); match != "" && DeviceList(match, d) == device.No {
				continue
			}
			several = several || found && l.Text != e.Text
			l, found = e.FileLine, true
		}
	}
	return l, found, several
}
