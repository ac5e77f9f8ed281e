package manager

import (
	"path"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/networkmanager"
	"linerate/internal/host/files/tree"
	"linerate/internal/host/knob/origin"
)

// networkManager says that NetworkManager resets the MTU of what it manages,
// where no keyfile names one, and takes back what it said of other managers'
// interfaces.
func (s *search) networkManager() {
	manages := s.nmManages()
	for i, c := range s.claims {
		if c.Manager == model.ManagerNetworkManager && c.File != "" && c.Active.Or(false) {
			s.claims[i].Active = manages
		}
	}
	if !manages.Or(false) || s.states(origin.Keyfile, "link.mtu") || s.states(origin.Ifcfg, "link.mtu") {
		return
	}
	c := model.Claim{Knob: "link.mtu", Manager: model.ManagerNetworkManager, Active: manages,
		When: "whenever the connection comes up again, since its profile names no MTU: to that of a DHCP lease, or to the usual one"}
	if d := s.defined(origin.Keyfile); d != nil {
		c.File = d.File
	}
	s.add(turnLink, c)
}

// nmManages says whether NetworkManager runs and manages the interface: by the
// state that it writes for the device, else by its configuration.
func (s *search) nmManages() fact.Of[bool] {
	runs := s.runs("NetworkManager")
	if s.link == "" || !runs.Or(true) {
		return runs
	}
	if i := s.found.Device.Index; i != "" {
		name := "run/NetworkManager/devices/" + i
		switch s.tree.INI(name).Text("device", "managed") {
		case "true":
			if runs.IsKnown() {
				return fact.Known(true, "/"+name)
			}
		case "false":
			return fact.Known(false, "/"+name)
		}
	}
	if managed, known := s.nmConfigured().Get(); known && !managed {
		return s.nmConfigured()
	}
	return runs
}

// nmConfigured reads NetworkManager.conf(5):
//
//	[keyfile]
//	unmanaged-devices=mac:00:22:68:1c:59:b1;interface-name:eth2
//	[device-lab]
//	match-device=interface-name:lab*
//	managed=0
//	[ifupdown]
//	managed=false
func (s *search) nmConfigured() fact.Of[bool] {
	list, listed := "", ""
	plugins, ifupdown := "", false
	var managed fact.Of[bool]
	for _, name := range s.nmFiles() {
		all := s.tree.INI(name)
		for _, e := range all {
			switch {
			case e.Section == "keyfile" && e.Key == "unmanaged-devices":
				list, listed = e.Text, name
			case e.Section == "keyfile" && e.Key == "unmanaged-devices+":
				list, listed = list+";"+e.Text, name
			case e.Section == "main" && e.Key == "plugins":
				plugins = e.Text
			case e.Section == "ifupdown" && e.Key == "managed":
				ifupdown = truth(e.Text)
			}
		}
		if m, ok := s.nmSections(all); ok {
			managed = fact.Known(m, "/"+name)
		}
	}
	switch {
	case list != "" && networkmanager.DeviceList(list, s.found.Device) == device.Yes: // strict, whatever else is said
		return fact.Known(false, "/"+listed)
	case managed.IsKnown():
		return managed
	case !ifupdown && strings.Contains(plugins, "ifupdown") && s.defined(origin.Interfaces) != nil:
		return fact.Known(false, s.defined(origin.Interfaces).File)
	case truth(s.found.Device.Properties["NM_UNMANAGED"]):
		return fact.Known(false, "udev: NM_UNMANAGED")
	}
	return fact.Unknown[bool]("no configuration says so")
}

// nmFiles are the files of NetworkManager.conf(5) in their order; those of /etc
// stand in for others of their name.
func (s *search) nmFiles() []string {
	of := func(dir string) []string { return s.tree.ByName(".conf", dir) }
	hidden := func(name string) bool { return s.tree.Exists("etc/NetworkManager/conf.d/" + path.Base(name)) }
	var all []string
	for _, name := range append(of("usr/lib/NetworkManager/conf.d"), of("run/NetworkManager/conf.d")...) {
		if !hidden(name) {
			all = append(all, name)
		}
	}
	all = append(all, "etc/NetworkManager/NetworkManager.conf")
	return append(append(all, of("etc/NetworkManager/conf.d")...), "var/lib/NetworkManager/NetworkManager-intern.conf")
}

// nmSections looks for managed= in the [device…] sections of a file that match:
// the first one, [device] itself last.
func (s *search) nmSections(all tree.INI) (managed, ok bool) {
	var order []string
	for _, e := range all {
		if strings.HasPrefix(e.Section, "device-") && (len(order) == 0 || order[len(order)-1] != e.Section) {
			order = append(order, e.Section)
		}
	}
	for _, section := range append(order, "device") {
		text := all.Text(section, "managed")
		if text == "" {
			continue
		}
		if match := all.Text(section, "match-device"); match != "" && networkmanager.DeviceList(match, s.found.Device) != device.Yes {
			continue
		}
		return truth(text), true
	}
	return false, false
}

func truth(s string) bool {
	switch strings.ToLower(s) {
	case "1", "yes", "true", "on":
		return true
	}
	return false
}
