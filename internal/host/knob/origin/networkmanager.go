package origin

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// keyfileDirs are where NetworkManager keeps connections, the strongest first
// (NetworkManager.conf(5), plugin keyfile).
var keyfileDirs = [...]string{"etc/NetworkManager/system-connections", "run/NetworkManager/system-connections", "usr/lib/NetworkManager/system-connections"}

// keyfiles reads the connection of the interface, nm-settings-keyfile(5): the
// one that is up, or the one that would come up first.
//
//	[connection]
//	interface-name=eth0
//	[ethernet]
//	mtu=9000
func (f *finder) keyfiles() {
	file, all := f.connection()
	if file == "" {
		return
	}
	first := model.FileLine{File: "/" + file, Number: 1}
	if len(all) > 0 {
		first.Number = all[0].Number
	}
	f.define(Keyfile, first, "")
	table := keyfileKeys()
	for _, e := range all {
		section := e.Section
		if section == "802-3-ethernet" {
			section = "ethernet"
		}
		s, ok := table[section+" "+e.Key]
		if !ok || e.Text == "" || e.Key == "mtu" && e.Text == "0" || e.Key == "speed" && e.Text == "0" { // 0 is "by itself"
			continue
		}
		f.say(Keyfile, s.knob, e.FileLine, s.text(e.Text))
		if e.Key == "speed" && all.Text(e.Section, "duplex") != "" && all.Text(e.Section, "auto-negotiate") == "" { // false is not written
			f.say(Keyfile, "nic.media.autoneg", e.FileLine, "0")
		}
	}
}

// connection chooses among keyfiles.
func (f *finder) connection() (string, tree.INI) {
	type candidate struct {
		file     string
		all      tree.INI
		priority int
	}
	active := ""
	if f.dev.Index != "" { // connection-uuid=… in the state of a managed device
		active = f.tree.INI("run/NetworkManager/devices/"+f.dev.Index).Text("device", "connection-uuid")
	}
	var found []candidate
	for _, file := range f.tree.ByName(".nmconnection", keyfileDirs[:]...) {
		all := f.tree.INI(file)
		uuid := all.Text("connection", "uuid")
		if active != "" && uuid == active {
			return file, all
		}
		if active == "" && command.Switch(all.Text("connection", "autoconnect")) != "0" && f.forConnection(all) == device.Yes {
			priority, err := strconv.Atoi(all.Text("connection", "autoconnect-priority"))
			if err != nil {
				priority = 0 // its default
			}
			found = append(found, candidate{file, all, priority})
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.priority, a.priority) })
	return found[0].file, found[0].all
}

// forConnection says whether a connection is for the device. One that names
// no device is for any of its type: which one it takes is not known.
func (f *finder) forConnection(all tree.INI) device.Answer {
	answer, named := device.Yes, false
	and := func(a device.Answer) { answer, named = device.And(answer, a), true }
	if name := all.Text("connection", "interface-name"); name != "" {
		and(is(f.dev.Name == name))
	}
	if names := all.Text("match", "interface-name"); names != "" {
		and(device.OneOf(f.dev.Name, strings.FieldsFunc(names, func(r rune) bool { return r == ';' || r == ' ' })))
	}
	mac := all.Text("ethernet", "mac-address")
	if mac == "" {
		mac = all.Text("802-3-ethernet", "mac-address")
	}
	if mac != "" {
		address := cmp.Or(f.dev.PermanentMAC, f.dev.MAC)
		and(device.HasMAC(address, []string{mac}))
	}
	if !named {
		return device.Maybe
	}
	return answer
}

// ifcfg reads the files of RHEL before 10 and of SUSE:
//
//	DEVICE=eth0
//	HWADDR=00:11:22:33:44:55
//	MTU=9000
//	ETHTOOL_OPTS="-G ${DEVICE} rx 4096; -A ${DEVICE} autoneg off"
func (f *finder) ifcfg() {
	for _, dir := range []string{"etc/sysconfig/network-scripts", "etc/sysconfig/network"} {
		for _, name := range f.tree.ByName("", dir) {
			suffix, ok := strings.CutPrefix(name, dir+"/ifcfg-")
			if !ok || strings.ContainsAny(suffix, "~.") && suffix != f.link { // backups
				continue
			}
			all := f.tree.Assignments(name)
			switch device, given := all["DEVICE"]; {
			case given && device.Text != f.link:
				continue
			case !given && suffix != f.link && !f.hasAddress(all["HWADDR"].Text):
				continue
			case all["HWADDR"].Text != "" && f.dev.MAC != "" && !f.hasAddress(all["HWADDR"].Text):
				continue
			}
			f.ifcfgFile(name, all)
		}
	}
}

func (f *finder) hasAddress(text string) bool {
	return device.HasMAC(f.dev.MAC, []string{text}) == device.Yes
}

func (f *finder) ifcfgFile(name string, all map[string]model.FileLine) {
	f.define(Ifcfg, model.FileLine{File: "/" + name, Number: 1}, "")
	if l, ok := all["MTU"]; ok && l.Text != "" {
		f.say(Ifcfg, "link.mtu", l, l.Text)
	}
	for _, key := range []string{"ETHTOOL_OPTS", "ETHTOOL_OPTIONS"} {
		for part := range strings.SplitSeq(all[key].Text, ";") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if !strings.HasPrefix(part, "-") {
				part = "-s " + f.link + " " + part // "speed 100 duplex full autoneg off"
			}
			f.command(Ifcfg, all[key], "ethtool "+part)
		}
	}
}
