package manager

import (
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/ifupdown"
	"linerate/internal/host/files/netplan"
	"linerate/internal/host/files/networkd"
	"linerate/internal/host/files/networkmanager"
	"linerate/internal/host/files/sysctl"
	"linerate/internal/host/files/tuned"
)

// linux checks every manager of Linux.
func (s *search) linux() {
	s.kernelCommandLine()
	profile := tuned.Read(s.tree)
	s.sysctlFiles(profile)
	s.linkFiles()
	s.networkManager()
	s.cloudInit()
	s.leases()
	s.advertisements()
	s.tuned(profile)
	s.hooks()
	s.containers()
	s.daemons()
}

// linkFiles reads the files about the interface, in the order in which they apply at boot.
func (s *search) linkFiles() {
	if s.link == "" {
		return
	}
	s.linkFile()
	s.ifupdown()
	s.ifcfg()
	s.keyfiles()
	s.networkFile()
	s.netplanFiles()
}

// sysctlFiles reads sysctl.d(5) and sysctl.conf(5) by the rules of package files/sysctl.
// Lines of /etc/sysctl.conf that systemd-sysctl does not read are reported as unread.
func (s *search) sysctlFiles(profile tuned.Profile) {
	boot := sysctl.Read(s.tree.Root)
	from := source{manager: model.ManagerSystemdSysctl, when: "at the start of the machine, and at each sysctl --system", active: atStart()}
	if !boot.BySystemd {
		from.manager = model.ManagerProcpsSysctl
	}
	say := func(from source, key string, l model.FileLine) {
		from.turn = turnFiles
		// TuneD applies SYSCTL_CONFIG_DIRS of its sysctl plugin, and /etc/sysctl.conf, over
		// its profile; without TuneD only the order of the files counts.
		if admin := strings.HasPrefix(l.File, "/etc/") || strings.HasPrefix(l.File, "/run/"); admin && profile.Reapplies && profile.SetsSysctls && s.mayRun("tuned") {
			from.turn = turnAgain
		}
		s.sysctlLine(from, key, l)
	}
	for key := range s.names {
		counts, counted := boot.Counting(key)
		for _, l := range boot.Lines {
			if l.Key == key && !l.Bare && l != counts {
				say(from, key, l.FileLine)
			}
		}
		if counted {
			say(from, key, counts.FileLine)
		}
	}
	if !boot.BySystemd {
		return
	}
	never := source{manager: model.ManagerProcpsSysctl, when: "only at sysctl --system or sysctl -p: systemd-sysctl does not read this file",
		active: fact.Known(false, "not called by the system"), unread: true}
	if profile.Reapplies && profile.SetsSysctls {
		never.manager, never.when, never.active = model.ManagerTuneD, "whenever it starts or switches profiles: it applies this file then", s.runs("tuned")
	}
	s.sysctlConf(func(key string, l model.FileLine) { say(never, key, l) })
}

// sysctlConf calls say for the lines of /etc/sysctl.conf if no program reads it.
func (s *search) sysctlConf(say func(key string, l model.FileLine)) {
	for _, l := range sysctl.Lines(s.tree, "etc/sysctl.conf") {
		if !l.Bare {
			say(l.Key, l.FileLine)
		}
	}
}

// sysctlLine adds what the kernel makes of a line, or the raw text if it refuses the line.
func (s *search) sysctlLine(from source, key string, l model.FileLine) {
	text, err := sysctl.Kernel(key, l.Text)
	if err != nil {
		text = l.Text
	}
	s.saySysctl(from, key, l, text)
}

// linkFile reads the .link file of the interface, systemd.link(5).
func (s *search) linkFile() {
	u, sure := networkd.Winner(s.tree, s.device, networkd.LinkFile)
	if u.File == "" || !sure {
		return
	}
	from := source{turn: turnDevice, manager: model.ManagerUdev, when: "when the device appears: at the start, or when its driver is bound again", active: atStart()}
	for _, e := range u.Section("Link") {
		if id, value, ok := networkd.Read(e.Key, e.Text); ok && e.Text != "" {
			s.say(from, id, e.FileLine, value)
		}
	}
}

// networkFile reads the .network file of the interface, systemd.network(5).
func (s *search) networkFile() {
	u, sure := networkd.Winner(s.tree, s.device, networkd.NetworkFile)
	if u.File == "" || !sure || command.Switch(u.Text("Link", "Unmanaged")) == "1" {
		return
	}
	s.network = model.FileLine{File: u.File, Number: 1}
	if l := u.Get("Link", "MTUBytes"); l != nil {
		_, value, _ := networkd.Read("MTUBytes", l.Text)
		s.say(source{turn: turnLink, manager: model.ManagerNetworkd, when: "whenever the link comes up, or networkctl reload is called", active: s.networkd()}, "link.mtu", *l, value)
	}
}

// networkd reports whether systemd-networkd runs; the kernel truncates its name.
func (s *search) networkd() fact.Of[bool] { return s.runs("systemd-network", "systemd-networkd") }

// netplanFiles reads netplan(5).
func (s *search) netplanFiles() {
	for _, d := range netplan.Read(s.tree) {
		if d.IsFor(s.device) != device.Yes {
			continue
		}
		if s.netplan.Last.File == "" {
			s.netplan = *d
		}
		from := source{turn: turnLink, manager: model.ManagerNetplan, when: "at the start of the machine and by netplan apply, through " + d.Renderer, active: s.networkd()}
		if d.Renderer == "NetworkManager" {
			from.active = s.runs("NetworkManager")
		}
		for key, l := range d.Words {
			if id, value, ok := netplan.Setting(key, l.Text); ok {
				s.say(from, id, l, value)
			}
		}
	}
}

// keyfiles reads the connection of the interface, nm-settings-keyfile(5): the active one, or
// the one that would come up first.
//
//	[connection]
//	interface-name=eth0
//	[ethernet]
//	mtu=9000
func (s *search) keyfiles() {
	p, _, ok := networkmanager.Owning(s.tree, s.device)
	if !ok {
		return
	}
	s.keyfile = p.INI[0].FileLine
	from := source{turn: turnLink, manager: model.ManagerNetworkManager, when: "whenever the connection comes up again", active: s.runs("NetworkManager")}
	for _, one := range p.Settings() {
		s.say(from, one.Knob, one.FileLine, one.Text)
	}
}

// ifupdown reads interfaces(5).
func (s *search) ifupdown() {
	c := ifupdown.Read(s.tree.Root)
	if i := slices.IndexFunc(c.Stanzas, func(one ifupdown.Stanza) bool { return one.Link == s.link }); i >= 0 {
		s.interfaces = c.Stanzas[i].At
	}
	from := source{turn: turnLink, manager: model.ManagerIfupdown, when: "whenever ifup brings the interface up", active: s.ifstate()}
	for _, one := range c.Statements(s.link) {
		if one.Sysctl != "" {
			s.saySysctl(from, one.Sysctl, one.FileLine, one.Text)
			continue
		}
		s.say(from, one.Knob, one.FileLine, one.Text)
	}
}

// ifstate reports whether ifup has brought the interface up: /run/network/ifstate holds
// "eth0=eth0", interfaces(5).
func (s *search) ifstate() fact.Of[bool] {
	for _, name := range []string{"run/network/ifstate", "run/network/ifstate." + s.link} {
		for _, l := range s.tree.Lines(name, "#") {
			if iface, _, _ := strings.Cut(l.Text, "="); iface == s.link {
				return fact.Known(true, "/"+name)
			}
		}
	}
	return fact.If(s.tree.Exists("run/network/ifstate"), false, "/run/network/ifstate", "there is no /run/network/ifstate")
}

// ifcfg reads the files of RHEL before 10 and of SUSE:
//
//	DEVICE=eth0
//	HWADDR=00:11:22:33:44:55
//	MTU=9000
//	ETHTOOL_OPTS="-G ${DEVICE} rx 4096; -A ${DEVICE} autoneg off"
func (s *search) ifcfg() {
	const suse = "etc/sysconfig/network"
	for _, dir := range []string{"etc/sysconfig/network-scripts", suse} {
		for _, name := range s.tree.ByName("", dir) {
			suffix, ok := strings.CutPrefix(name, dir+"/ifcfg-")
			if !ok || strings.ContainsAny(suffix, "~.") && suffix != s.link { // backups
				continue
			}
			all := s.tree.Assignments(name)
			hasAddress := device.HasMAC(s.device.MAC, []string{all["HWADDR"].Text}) == device.Yes
			switch dev, given := all["DEVICE"]; {
			case given && dev.Text != s.link, !given && suffix != s.link && !hasAddress, all["HWADDR"].Text != "" && s.device.MAC != "" && !hasAddress:
				continue
			}
			from := source{turn: turnLink, manager: model.ManagerNetworkScripts, when: "whenever the interface is brought up", active: fact.Unknown[bool]("no process of its own")}
			switch {
			case dir == suse:
				from.manager, from.active = model.ManagerWicked, s.runs("wickedd")
			case s.mayRun("NetworkManager") && !strings.EqualFold(all["NM_CONTROLLED"].Text, "no"):
				from.manager, from.active = model.ManagerNetworkManager, s.runs("NetworkManager")
			}
			if l := all["MTU"]; l.Text != "" {
				s.say(from, "link.mtu", l, l.Text)
			}
			for _, key := range []string{"ETHTOOL_OPTS", "ETHTOOL_OPTIONS"} {
				for part := range strings.SplitSeq(all[key].Text, ";") {
					if part = strings.TrimSpace(part); part == "" {
						continue
					}
					if !strings.HasPrefix(part, "-") {
						part = "-s " + s.link + " " + part // "speed 100 duplex full autoneg off"
					}
					s.sayCommand(from, all[key], "ethtool "+part)
				}
			}
		}
	}
}

// kernelCommandLine reads sysctl.NAME=VALUE in /proc/cmdline, which the kernel applies before
// it starts the first program (kernel-parameters.txt, since 5.8).
func (s *search) kernelCommandLine() {
	for word := range strings.FieldsSeq(s.tree.Word("proc/cmdline")) {
		rest, ok := strings.CutPrefix(word, "sysctl.")
		if key, value, given := strings.Cut(rest, "="); ok && given {
			s.addSysctl(turnKernel, key, model.Claim{
				Manager: model.ManagerKernel, Sets: value, When: "at the start of the kernel", File: "/proc/cmdline", Line: 1, Active: atStart(),
			})
		}
	}
}

// daemons finds programs that watch the machine and change settings as they see fit.
func (s *search) daemons() {
	const watches = "as soon as traffic seems to need it; it leaves alone what was set by sysctl since it started"
	type daemon struct {
		name    model.Manager
		process []string
		when    string
		knobs   []model.KnobID
	}
	for _, d := range []daemon{
		// bpftune-tcp-buffer(8), bpftune-net-buffer(8), bpftune-udp-buffer(8),
		// bpftune-tcp-conn(8), bpftune-sysctl(8)
		{model.ManagerBPFTune, []string{"bpftune"}, watches, []model.KnobID{
			"tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.mem_limit", "tcp.mem_pressure", "udp.mem_limit",
			"socket.recv_buffer_max", "socket.recv_buffer_default", "rx.backlog", "rx.budget", "rx.budget_usecs",
		}},
		{model.ManagerBPFTune, []string{"bpftune"}, "per connection, where another algorithm promises more", []model.KnobID{"tcp.congestion_control"}},
		// irqbalance(1) --interval, --banirq
		{model.ManagerIRQBalance, []string{"irqbalance"}, "every 10 seconds, unless the interrupt is banned there", []model.KnobID{"nic.irq_affinity"}},
		{model.ManagerPowerProfiles, []string{"power-profiles-", "power-profiles-daemon", "tuned-ppd"}, "whenever the power profile or the power supply changes", []model.KnobID{"cpu.governor"}},
	} {
		active := s.runs(d.process...)
		if !active.Or(false) { // most machines have none of them
			continue
		}
		for _, id := range d.knobs {
			s.add(turnAlways, model.Claim{Knob: id, Manager: d.name, When: d.when, Active: active})
		}
	}
}
