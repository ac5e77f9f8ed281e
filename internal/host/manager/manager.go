// Package manager finds the programs that set a machine's settings by themselves.
//
// A setting that somebody changes by hand lasts until such a program sets it
// again: when an interface comes up, a lease is renewed, a profile is switched
// or the machine starts. Everything here reads files and the list of running
// programs; nothing is started, asked or changed.
package manager

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/knob/origin"
)

// Name is a program, or a kind of message, that sets settings.
type Name string

// The managers that are looked for.
const (
	Kernel              Name = "kernel-command-line"
	SystemdSysctl       Name = "systemd-sysctl"
	ProcpsSysctl        Name = "procps-sysctl" // sysctl --system, where no systemd does it
	Udev                Name = "systemd-udevd" // .link files
	Networkd            Name = "systemd-networkd"
	NetworkManager      Name = "networkmanager"
	Netplan             Name = "netplan"
	Ifupdown            Name = "ifupdown"
	NetworkScripts      Name = "network-scripts" // ifcfg files without NetworkManager
	Wicked              Name = "wicked"
	CloudInit           Name = "cloud-init"
	TuneD               Name = "tuned"
	BPFTune             Name = "bpftune"
	IRQBalance          Name = "irqbalance"
	PowerProfiles       Name = "power-profiles-daemon"
	DHCP                Name = "dhcp"
	RouterAdvertisement Name = "router-advertisement"
	Docker              Name = "docker"
	CNI                 Name = "cni"
	FreeBSDRC           Name = "freebsd-rc"
	FreeBSDLoader       Name = "freebsd-loader"
	Devd                Name = "devd"
	LaunchDaemon        Name = "macos-launch-daemon"
	MacNetworkService   Name = "macos-network-service"
	GroupPolicy         Name = "windows-group-policy"
)

// Claim says that a manager sets a knob, or may.
type Claim struct {
	Knob    model.KnobID
	Link    string // interface that it is about; "" for the whole machine
	Manager Name
	Sets    string        // native text that it will set, canonical where the manager has words of its own; "" where that is not known
	When    string        // when it sets it again: "whenever the connection comes up"
	File    string        // absolute path of the file that says so; "" where none does
	Line    int           // 1…; 0 where no single line says so
	Active  fact.Of[bool] // whether it is at work: its process runs, or the system calls it by itself
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
func (n Name) AtWork() bool {
	return !slices.Contains([]Name{Kernel, SystemdSysctl, ProcpsSysctl, FreeBSDRC, FreeBSDLoader, LaunchDaemon}, n)
}

// managesLinks reports whether a manager has interfaces that are its own.
func (n Name) managesLinks() bool {
	return slices.Contains([]Name{NetworkManager, Networkd, Netplan, Ifupdown, NetworkScripts, Wicked, MacNetworkService}, n)
}

// Title returns the name as people write it.
func (n Name) Title() string {
	switch n {
	case NetworkManager:
		return "NetworkManager"
	case TuneD:
		return "TuneD"
	case DHCP:
		return "DHCP"
	case RouterAdvertisement:
		return "a router advertisement"
	case Docker:
		return "Docker"
	case CNI:
		return "a CNI plugin"
	case FreeBSDRC:
		return "rc(8)"
	case FreeBSDLoader:
		return "loader(8)"
	case LaunchDaemon:
		return "a launch daemon"
	case MacNetworkService:
		return "the network service"
	case GroupPolicy:
		return "Group Policy"
	case ProcpsSysctl:
		return "sysctl --system"
	case Kernel:
		return "the kernel's command line"
	default:
		return string(n)
	}
}

// Registry reads values of the Windows registry.
type Registry interface {
	// Values returns the values of a key below HKEY_LOCAL_MACHINE by name, as
	// text. It wraps fs.ErrNotExist where there is no such key.
	Values(ctx context.Context, key string) (map[string]string, error)
}

// Machine is a machine as it is searched. It is safe for concurrent use where
// its functions are.
type Machine struct {
	Root     fs.FS                                              // root of its files, with /proc, /sys and /run on Linux
	System   string                                             // GOOS
	Running  func(ctx context.Context) (map[string]bool, error) // names of processes, on Linux as in /proc/PID/comm (at most 15 bytes); nil: not known
	Registry Registry                                           // of Windows; nil: not known
}

// Merge returns lines with those of claims in their place where a claim names a
// file and is, as far as known, at work. Claims stand as Claims returned them.
func Merge(lines map[model.KnobID]origin.Line, claims []Claim) map[model.KnobID]origin.Line {
	all := make(map[model.KnobID]origin.Line, len(lines))
	maps.Copy(all, lines)
	for _, c := range claims {
		if c.File != "" && c.Line > 0 && c.Active.Or(true) {
			all[c.Knob] = origin.Line{File: c.File, Number: c.Line, Text: c.Sets}
		}
	}
	return all
}
