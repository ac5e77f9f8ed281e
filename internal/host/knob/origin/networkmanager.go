package origin

import (
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/networkmanager"
)

// keyfiles reads the connection of the interface, nm-settings-keyfile(5): the
// one that is up, or the one that would come up first.
//
//	[connection]
//	interface-name=eth0
//	[ethernet]
//	mtu=9000
func (f *finder) keyfiles() {
	p, _, ok := networkmanager.Owning(f.tree, f.dev)
	if !ok {
		return
	}
	first := model.FileLine{File: p.File, Number: 1}
	if len(p.INI) > 0 {
		first.Number = p.INI[0].Number
	}
	f.define(Keyfile, first, "")
	for _, s := range p.Settings() {
		f.say(Keyfile, s.Knob, s.FileLine, s.Text)
	}
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
