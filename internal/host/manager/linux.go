package manager

import (
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/tuned"
	"linerate/internal/host/knob/origin"
)

// linux asks every manager of Linux.
func (s *search) linux() {
	s.kernelCommandLine()
	profile := tuned.Read(s.tree)
	for _, st := range s.found.Settings {
		s.statement(st, profile)
	}
	s.networkManager()
	s.cloudInit()
	s.leases()
	s.advertisements()
	s.tuned(profile)
	s.containers()
	s.daemons()
}

// atStart is the activity of what the system calls by itself.
func atStart() fact.Of[bool] { return fact.Known(true, "called at every start") }

// statement turns a line of a permanent file into the claim of who applies it.
func (s *search) statement(st origin.Statement, profile tuned.Profile) {
	c := model.Claim{Knob: st.Knob, Sets: st.Text, File: st.File, Line: st.Number}
	t := turnLink
	switch st.Source {
	case origin.Sysctl, origin.SysctlConf:
		t = turnFiles
		if admin(st.File) && s.overProfile(profile) {
			t = turnAgain
		}
		c.Manager, c.When, c.Active = model.ManagerSystemdSysctl, "at the start of the machine, and whenever somebody calls sysctl --system", atStart()
		if !s.tree.Exists("usr/lib/systemd/systemd-sysctl") && !s.tree.Exists("lib/systemd/systemd-sysctl") {
			c.Manager = model.ManagerProcpsSysctl
		}
		if st.Never {
			c = s.neverRead(c, profile)
		}
	case origin.LinkFile:
		t, c.Manager, c.When, c.Active = turnDevice, model.ManagerUdev, "when the device appears: at the start, or when its driver is bound again", atStart()
	case origin.NetworkFile:
		c.Manager, c.When, c.Active = model.ManagerNetworkd, "whenever the link comes up, or networkctl reload is called", s.runs("systemd-network", "systemd-networkd")
	case origin.Keyfile:
		c.Manager, c.When, c.Active = model.ManagerNetworkManager, "whenever the connection comes up again", s.runs("NetworkManager")
	case origin.Netplan:
		c.Manager, c.When, c.Active = model.ManagerNetplan, "at the start of the machine and by netplan apply, through "+s.renderer(), s.runs(rendererProcess(s.renderer())...)
	case origin.Ifcfg:
		c = s.ifcfg(c)
	case origin.Interfaces:
		c.Manager, c.When, c.Active = model.ManagerIfupdown, "whenever ifup brings the interface up", s.ifstate()
	case origin.LoaderConf, origin.RCConf, origin.LaunchDaemon: // of other systems
		return
	}
	s.add(t, c)
}

// overProfile reports whether TuneD applies files of sysctl.d over its profile.
// Without it only their order counts.
func (s *search) overProfile(p tuned.Profile) bool {
	return p.Reapplies && p.SetsSysctls && s.mayRun("tuned")
}

// admin reports whether a file of sysctl.d(5) is one that TuneD applies over its
// profile: SYSCTL_CONFIG_DIRS of its sysctl plugin, and /etc/sysctl.conf.
func admin(file string) bool {
	return strings.HasPrefix(file, "/etc/") || strings.HasPrefix(file, "/run/")
}

// neverRead is about a line of /etc/sysctl.conf that systemd does not read.
func (s *search) neverRead(c model.Claim, profile tuned.Profile) model.Claim {
	c.Manager = model.ManagerProcpsSysctl
	c.When = "only when somebody calls sysctl --system or sysctl -p: systemd-sysctl does not read this file"
	c.Active = fact.Known(false, "not called by the system")
	if profile.Reapplies && profile.SetsSysctls {
		c.Manager, c.When, c.Active = model.ManagerTuneD, "whenever it starts or switches profiles: it applies this file then", s.runs("tuned")
	}
	return c
}

// renderer is who carries out what netplan says of the interface.
func (s *search) renderer() string {
	if d := s.defined(origin.Netplan); d != nil {
		return d.Renderer
	}
	return "networkd"
}

func rendererProcess(renderer string) []string {
	if renderer == "NetworkManager" {
		return []string{"NetworkManager"}
	}
	return []string{"systemd-network", "systemd-networkd"}
}

// ifcfg is who reads a file of RHEL or of SUSE.
func (s *search) ifcfg(c model.Claim) model.Claim {
	c.When = "whenever the interface is brought up"
	controlled := s.tree.Assignments(c.File)["NM_CONTROLLED"].Text
	switch {
	case strings.HasPrefix(c.File, "/etc/sysconfig/network/"):
		c.Manager, c.Active = model.ManagerWicked, s.runs("wickedd")
	case s.mayRun("NetworkManager") && !strings.EqualFold(controlled, "no"):
		c.Manager, c.Active = model.ManagerNetworkManager, s.runs("NetworkManager")
	default:
		c.Manager, c.Active = model.ManagerNetworkScripts, fact.Unknown[bool]("no process of its own")
	}
	return c
}

// ifstate says whether ifup has brought the interface up: /run/network/ifstate
// holds "eth0=eth0", interfaces(5).
func (s *search) ifstate() fact.Of[bool] {
	for _, name := range []string{"run/network/ifstate", "run/network/ifstate." + s.link} {
		for _, l := range s.tree.Lines(name, "#") {
			if iface, _, _ := strings.Cut(l.Text, "="); iface == s.link {
				return fact.Known(true, "/"+name)
			}
		}
	}
	if s.tree.Exists("run/network/ifstate") {
		return fact.Known(false, "/run/network/ifstate")
	}
	return fact.Unknown[bool]("there is no /run/network/ifstate")
}

// kernelCommandLine reads sysctl.NAME=VALUE of /proc/cmdline, which the kernel
// applies before the first program starts (kernel-parameters.txt, since 5.8).
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

// daemons are programs that watch the machine and set what they think is best.
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
