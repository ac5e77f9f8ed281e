package manager

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// hooks reads what runs beside the programs that own an interface: rules of udev, scripts of
// ifup and of dispatchers, units and scripts that run once at boot.
func (s *search) hooks() {
	if s.link != "" {
		s.rules()
		s.scripts(model.ManagerIfupdown, turnLink, "whenever ifup brings an interface up", s.interfaces.File != "", "etc/network/if-pre-up.d", "etc/network/if-up.d")
		s.scripts(model.ManagerNetworkManager, turnLease, "whenever a connection changes", s.keyfile.File != "",
			"usr/lib/NetworkManager/dispatcher.d", "etc/NetworkManager/dispatcher.d", "usr/lib/NetworkManager/dispatcher.d/pre-up.d", "etc/NetworkManager/dispatcher.d/pre-up.d")
		for _, state := range []string{"carrier", "degraded", "configured", "routable"} {
			s.scripts(model.ManagerNetworkd, turnLease, "whenever networkd-dispatcher sees the link change", s.tree.Exists("usr/bin/networkd-dispatcher"),
				"usr/lib/networkd-dispatcher/"+state+".d", "etc/networkd-dispatcher/"+state+".d")
		}
	}
	s.units()
	s.script(source{turn: turnProfile, manager: model.ManagerScript, when: "at the end of the start", active: atStart()}, "etc/rc.local", "etc/rc.d/rc.local", "etc/init.d/boot.local")
}

// scripts reads the programs of a folder that another program runs, if it is used at all.
func (s *search) scripts(by model.Manager, t turn, when string, used bool, dirs ...string) {
	for _, dir := range dirs {
		for _, name := range s.tree.Visible("", dir) {
			if used {
				s.script(source{turn: t, manager: by, when: when, active: atStart()}, name)
			}
		}
	}
}

// variables hold the name of the interface in scripts of ifup, of NetworkManager and
// networkd-dispatcher, and in rules of udev.
var variables = []string{"$IFACE", "${IFACE}", "$DEVICE_IFACE", "${DEVICE_IFACE}", "$INTERFACE", "${INTERFACE}", "$1", "${1}", "%k", "$kernel", "$name", "%E{INTERFACE}", "$env{INTERFACE}"}

// named puts the name of the interface in the place of variables.
func (s *search) named(text string) string {
	words := strings.Fields(strings.NewReplacer(`"`, " ", "'", " ").Replace(text))
	for i, w := range words {
		if slices.Contains(variables, w) {
			words[i] = s.link
		}
	}
	return strings.Join(words, " ")
}

// script reads the commands in executable text files, line by line.
func (s *search) script(from source, names ...string) {
	for _, name := range names {
		if info, err := fs.Stat(s.tree.Root, name); err != nil || info.Mode()&0o111 == 0 {
			continue
		}
		for _, l := range s.tree.Lines(name, "#") {
			s.sayCommand(from, l, s.named(l.Text))
		}
	}
}

// units reads the commands of units of the administrator that systemd starts at boot.
func (s *search) units() {
	const dir = "etc/systemd/system"
	from := source{turn: turnProfile, manager: model.ManagerScript, when: "when systemd starts that unit", active: atStart()}
	wants, err := fs.ReadDir(s.tree.Root, dir)
	if err != nil {
		return
	}
	for _, e := range wants {
		if !strings.HasSuffix(e.Name(), ".wants") {
			continue
		}
		for _, name := range s.tree.Visible(".service", path.Join(dir, e.Name())) {
			file := path.Join(dir, path.Base(name)) // what is enabled is a link to it
			for _, e := range s.tree.INI(file).Section("Service") {
				if strings.HasPrefix(e.Key, "ExecStart") {
					s.sayCommand(from, e.FileLine, s.named(strings.TrimLeft(e.Text, "@-:+!")))
				}
			}
		}
	}
}

// rules reads the rules of udev that set attributes of the interface, or run commands:
//
//	ACTION=="add", SUBSYSTEM=="net", KERNEL=="eth*", ATTR{tx_queue_len}="10000"
//	SUBSYSTEM=="net", DRIVERS=="ixgbe", RUN+="/sbin/ethtool -G %k rx 4096"
func (s *search) rules() {
	after := source{turn: turnDevice, manager: model.ManagerUdev, when: "when the device appears", active: atStart()}
	for _, name := range s.tree.Visible(".rules", "etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d") {
		for _, l := range s.tree.Joined(name, "#", tree.Interfaces) {
			parts := udevParts(l.Text)
			if !slices.ContainsFunc(parts, func(p [3]string) bool { return p[0] == "SUBSYSTEM" && p[1] == "==" && p[2] == "net" }) || !s.ruleMatches(parts) {
				continue
			}
			from := after
			if path.Base(name) < "80-net-setup-link.rules" { // which applies the .link file
				from.turn = turnBeforeLinkFile
			}
			for _, p := range parts {
				key, _, _ := strings.Cut(p[0], "{")
				switch {
				case p[1] == "==" || p[1] == "!=":
				case p[0] == "ATTR{mtu}":
					s.say(from, "link.mtu", l, p[2])
				case p[0] == "ATTR{tx_queue_len}":
					s.say(from, "txqueuelen", l, p[2])
				case key == "RUN" || key == "PROGRAM":
					s.sayCommand(after, l, s.named(p[2]))
				}
			}
		}
	}
}

// ruleMatches reports whether a rule may be for the interface: conditions that are not known
// here count as met.
func (s *search) ruleMatches(parts [][3]string) bool {
	for _, p := range parts {
		text := map[string]string{"KERNEL": s.device.KernelName, "NAME": s.device.Name, "ENV{INTERFACE}": s.device.Name, "DRIVERS": s.device.Driver, "ATTR{address}": s.device.MAC, "ACTION": "add"}[p[0]]
		if text == "" || p[1] != "==" && p[1] != "!=" {
			continue
		}
		fits := slices.ContainsFunc(strings.Split(p[2], "|"), func(pattern string) bool { return device.OneOf(text, []string{pattern}) == device.Yes })
		if fits != (p[1] == "==") {
			return false
		}
	}
	return true
}

// udevParts splits a rule of udev(7) into its parts: key, operator, value.
func udevParts(rule string) (all [][3]string) {
	for rule != "" {
		i := strings.IndexByte(rule, '"')
		if i < 0 {
			break
		}
		key := strings.Trim(rule[:i], " \t,")
		end := strings.IndexByte(rule[i+1:], '"')
		if end < 0 {
			break
		}
		name := strings.TrimRight(key, "=!+-: ")
		all = append(all, [3]string{name, strings.TrimSpace(key[len(name):]), rule[i+1 : i+1+end]})
		rule = rule[i+end+2:]
	}
	return all
}

// atStart is the activity of what the system runs by itself.
func atStart() fact.Of[bool] { return fact.Known(true, "called at every start") }
