package model

import (
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/fact"
)

// Manager is a program, or a kind of message, that sets settings.
type Manager string

// The managers that are looked for.
const (
	ManagerKernel              Manager = "kernel-command-line"
	ManagerSystemdSysctl       Manager = "systemd-sysctl"
	ManagerProcpsSysctl        Manager = "procps-sysctl" // sysctl --system, where no systemd does it
	ManagerUdev                Manager = "systemd-udevd" // .link files
	ManagerNetworkd            Manager = "systemd-networkd"
	ManagerNetworkManager      Manager = "networkmanager"
	ManagerNetplan             Manager = "netplan"
	ManagerIfupdown            Manager = "ifupdown"
	ManagerNetworkScripts      Manager = "network-scripts" // ifcfg files without NetworkManager
	ManagerWicked              Manager = "wicked"
	ManagerCloudInit           Manager = "cloud-init"
	ManagerTuneD               Manager = "tuned"
	ManagerBPFTune             Manager = "bpftune"
	ManagerIRQBalance          Manager = "irqbalance"
	ManagerPowerProfiles       Manager = "power-profiles-daemon"
	ManagerDHCP                Manager = "dhcp"
	ManagerRouterAdvertisement Manager = "router-advertisement"
	ManagerDocker              Manager = "docker"
	ManagerCNI                 Manager = "cni"
	ManagerFreeBSDRC           Manager = "freebsd-rc"
	ManagerFreeBSDLoader       Manager = "freebsd-loader"
	ManagerDevd                Manager = "devd"
	ManagerLaunchDaemon        Manager = "macos-launch-daemon"
	ManagerMacNetworkService   Manager = "macos-network-service"
	ManagerGroupPolicy         Manager = "windows-group-policy"
	ManagerLinerate            Manager = "linerate" // another one, which puts its changes back
)

// Claim says that a manager sets a knob, or may.
type Claim struct {
	Knob    KnobID        `json:"knob"`
	Link    string        `json:"link,omitempty"` // interface that it is about; "" for the whole machine
	Manager Manager       `json:"manager" bound:"name"`
	Sets    string        `json:"sets,omitempty" bound:"value"`      // native text that it will set, canonical where the manager has words of its own; "" where that is not known
	When    string        `json:"when,omitempty" bound:"text"`       // when it sets it again: "whenever the connection comes up"
	File    string        `json:"file,omitempty" bound:"value"`      // absolute path of the file that says so; "" where none does
	Line    int           `json:"line,omitempty" bound:"2147483647"` // 1…; 0 where no single line says so
	Active  fact.Of[bool] `json:"active"`                            // whether it is at work: its process runs, or the system calls it by itself
}

// String returns the claim as a sentence for people, without a final period.
func (c Claim) String() string {
	var b strings.Builder
	what := string(c.Knob)
	if active, known := c.Active.Get(); known && !active {
		if c.Link != "" {
			what += " of " + c.Link
		}
		if c.Sets != "" {
			what += " to " + c.Sets
		}
		b.WriteString(c.Manager.Title() + " would set " + what + ", but is not at work now")
	} else {
		b.WriteString(c.Manager.Title())
		switch {
		case c.Link != "" && c.Manager.managesLinks():
			b.WriteString(" manages " + c.Link + " and")
		case c.Link != "":
			what += " of " + c.Link
		}
		b.WriteString(" may set " + what + " again")
		if c.Sets != "" {
			b.WriteString(", to " + c.Sets)
		}
	}
	if c.When != "" {
		b.WriteString(": " + c.When)
	}
	switch {
	case c.File != "" && c.Line > 0:
		fmt.Fprintf(&b, " (%s:%d)", c.File, c.Line)
	case c.File != "":
		fmt.Fprintf(&b, " (%s)", c.File)
	}
	return b.String()
}

// AtWork reports whether a manager also sets its settings while the machine runs,
// and not only when it starts.
func (n Manager) AtWork() bool {
	return !slices.Contains([]Manager{ManagerKernel, ManagerSystemdSysctl, ManagerProcpsSysctl, ManagerFreeBSDRC, ManagerFreeBSDLoader, ManagerLaunchDaemon}, n)
}

// managesLinks reports whether a manager has interfaces that are its own.
func (n Manager) managesLinks() bool {
	return slices.Contains([]Manager{ManagerNetworkManager, ManagerNetworkd, ManagerNetplan, ManagerIfupdown, ManagerNetworkScripts, ManagerWicked, ManagerMacNetworkService}, n)
}

// Title returns the name as people write it.
func (n Manager) Title() string {
	switch n {
	case ManagerNetworkManager:
		return "NetworkManager"
	case ManagerTuneD:
		return "TuneD"
	case ManagerDHCP:
		return "DHCP"
	case ManagerRouterAdvertisement:
		return "a router advertisement"
	case ManagerDocker:
		return "Docker"
	case ManagerCNI:
		return "a CNI plugin"
	case ManagerFreeBSDRC:
		return "rc(8)"
	case ManagerFreeBSDLoader:
		return "loader(8)"
	case ManagerLaunchDaemon:
		return "a launch daemon"
	case ManagerMacNetworkService:
		return "the network service"
	case ManagerGroupPolicy:
		return "Group Policy"
	case ManagerLinerate:
		return "another linerate"
	case ManagerProcpsSysctl:
		return "sysctl --system"
	case ManagerKernel:
		return "the kernel's command line"
	default:
		return string(n)
	}
}
