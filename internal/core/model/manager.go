package model

import (
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/fact"
)

// Manager is a program, or a kind of message, that changes settings.
type Manager string

// The managers that linerate looks for.
const (
	ManagerKernel              Manager = "kernel-command-line"
	ManagerSystemdSysctl       Manager = "systemd-sysctl"
	ManagerProcpsSysctl        Manager = "procps-sysctl" // sysctl --system, on systems without systemd-sysctl
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
	ManagerScript              Manager = "script" // a script or a unit of the administrator that runs at boot
	ManagerFreeBSDRC           Manager = "freebsd-rc"
	ManagerFreeBSDLoader       Manager = "freebsd-loader"
	ManagerDevd                Manager = "devd"
	ManagerLaunchDaemon        Manager = "macos-launch-daemon"
	ManagerMacNetworkService   Manager = "macos-network-service"
	ManagerGroupPolicy         Manager = "windows-group-policy"
	ManagerLinerate            Manager = "linerate" // another linerate, which reverts its changes
)

// Claim says that a manager sets a knob, or may set it.
type Claim struct {
	Knob    KnobID        `json:"knob"`
	Link    string        `json:"link,omitempty"` // the interface concerned; "" for the whole machine
	Manager Manager       `json:"manager" bound:"name"`
	Sets    string        `json:"sets,omitempty" bound:"value"`      // native text that it will set, canonical if the manager has its own words for it; "" if unknown
	When    string        `json:"when,omitempty" bound:"text"`       // when it sets it again: "whenever the connection comes up"
	File    string        `json:"file,omitempty" bound:"value"`      // absolute path of the file that says so; "" if there is none
	Line    int           `json:"line,omitempty" bound:"2147483647"` // 1…; 0 if no single line says so
	Active  fact.Of[bool] `json:"active"`                            // whether the manager is active: its process runs, or the system calls it by itself
}

// String formats the claim as a sentence, without a final period.
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

// AtWork reports whether a manager sets its settings also while the machine runs, not only at
// boot.
func (n Manager) AtWork() bool {
	return !slices.Contains([]Manager{ManagerKernel, ManagerSystemdSysctl, ManagerProcpsSysctl, ManagerScript, ManagerFreeBSDRC, ManagerFreeBSDLoader, ManagerLaunchDaemon}, n)
}

// managesLinks reports whether a manager owns interfaces.
func (n Manager) managesLinks() bool {
	return slices.Contains([]Manager{ManagerNetworkManager, ManagerNetworkd, ManagerNetplan, ManagerIfupdown, ManagerNetworkScripts, ManagerWicked, ManagerMacNetworkService}, n)
}

// Title returns the manager's usual name.
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
	case ManagerScript:
		return "a script of the administrator"
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
