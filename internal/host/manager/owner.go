package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// Owner returns the format in which this machine should keep settings of link, and why. It
// wraps errors.ErrUnsupported if nothing on the machine keeps settings of links, and
// fs.ErrNotExist if link is "" or missing.
func (m Machine) Owner(ctx context.Context, link string) (model.FileFormat, string, error) {
	if link == "" {
		return "", "", fmt.Errorf("find who keeps the interface: no interface is named: %w", fs.ErrNotExist)
	}
	switch m.System {
	case "linux":
		s := m.search(ctx, link, nil)
		if err := ctx.Err(); err != nil {
			return "", "", err
		}
		s.linkFiles()
		return s.owner()
	case "freebsd":
		return model.FormatFreeBSD, "rc(8) configures interfaces from /etc/rc.conf", nil
	case "darwin":
		return model.FormatMacOS, "the network service of the interface keeps its settings", nil
	case "windows":
		return model.FormatWindowsPowerShell, "the registry keeps settings of adapters, which have to be restarted", nil
	}
	return "", "", fmt.Errorf("find who keeps %s: nothing is known of %s: %w", link, m.System, errors.ErrUnsupported)
}

// owner tries candidates in order of precedence: a program that generates files for others
// before those, and a running program before one that only has files.
func (s *search) owner() (model.FileFormat, string, error) {
	if s.tree.Exists("sys/class/net") && !s.tree.Exists("sys/class/net/"+s.link) {
		return "", "", fmt.Errorf("find who keeps %s: there is no such interface: %w", s.link, fs.ErrNotExist)
	}
	if at := s.netplan.Last; at.File != "" {
		return model.FormatNetplan, fmt.Sprintf("netplan defines %s (%s:%d) for %s", s.link, at.File, at.Number, s.netplan.Renderer), nil
	}
	if manages, known := s.nmManages().Get(); known && manages || !known && s.keyfile.File != "" {
		why := "NetworkManager manages " + s.link
		if s.keyfile.File != "" {
			why += " (" + s.keyfile.File + ")"
		}
		return model.FormatNetworkManager, why, nil
	}
	if why, ok := s.networkdManages().Get(); ok {
		return model.FormatSystemdNetworkd, why, nil
	}
	if at := s.interfaces; at.File != "" && s.ifstate().Or(true) {
		return model.FormatIfupdown, fmt.Sprintf("ifupdown brings %s up (%s:%d)", s.link, at.File, at.Number), nil
	}
	if slices.ContainsFunc([]string{"usr/lib/systemd/systemd-udevd", "lib/systemd/systemd-udevd", "usr/bin/udevadm", "bin/udevadm"}, s.tree.Exists) {
		return model.FormatSystemdNetworkd, "no other program manages " + s.link + ", and udev reads .link files when it appears", nil
	}
	return "", "", fmt.Errorf("find who keeps %s: neither netplan, NetworkManager, systemd, udev nor ifupdown does: %w", s.link, errors.ErrUnsupported)
}

// networkdManages returns why systemd-networkd manages the interface: by the state that it
// writes, ADMIN_STATE=configured, else by a matching file.
func (s *search) networkdManages() fact.Of[string] {
	if !s.networkd().Or(s.network.File != "") {
		return fact.Unknown[string]("systemd-networkd does not run")
	}
	if i := s.device.Index; i != "" {
		name := "run/systemd/netif/links/" + i
		switch state := s.tree.Assignments(name)["ADMIN_STATE"].Text; state {
		case "":
		case "unmanaged":
			return fact.Unknown[string]("systemd-networkd leaves it alone")
		default:
			return fact.Known("systemd-networkd manages "+s.link+" ("+state+", /"+name+")", "/"+name)
		}
	}
	return fact.If(s.network.File != "", "systemd-networkd manages "+s.link+" ("+s.network.File+")", s.network.File, "no .network file matches")
}
