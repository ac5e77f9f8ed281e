package knob

import "strings"

// Permanent returns how the setting is made permanent on system by hand, with
// VALUE for the native text: "/etc/sysctl.d/90-linerate.conf: NAME = VALUE".
// It is "" where the system keeps nothing of the kind (knobs.md section 1.4).
func (n Native) Permanent(system string) string {
	if n.Keep != "" {
		return n.Keep
	}
	switch {
	case n.ReadOnly:
		return ""
	case n.Mechanism == Sysctl && system == "linux":
		return "/etc/sysctl.d/90-linerate.conf: " + n.Name + " = VALUE"
	case n.Mechanism == Sysctl && system == "freebsd" && n.Effect == EffectBoot:
		return "/boot/loader.conf: " + n.Name + "=\"VALUE\""
	case n.Mechanism == Sysctl && system == "freebsd":
		return "/etc/sysctl.conf: " + n.Name + "=VALUE"
	case n.Mechanism == Sysctl && system == "darwin":
		return "/Library/LaunchDaemons/linerate.plist: /usr/sbin/sysctl " + n.Name + "=VALUE"
	case n.Mechanism == Ethtool:
		group, attribute, _ := strings.Cut(n.Name, ".")
		return "a .link file, NetworkManager's ethtool." + group + "-" + attribute + " or an ifupdown hook, by the owner of the interface"
	case n.Mechanism == IRQ:
		return "a oneshot unit or udev rule; banned in irqbalance where it moves interrupts"
	case n.Mechanism == IfIoctl && system == "freebsd":
		return "/etc/rc.conf: an option in the interface's ifconfig_ line"
	case n.Mechanism == IfIoctl:
		return "networksetup, as far as it knows the setting"
	case n.Mechanism == Link:
		return "an ifupdown or networkd-dispatcher hook: ip link set dev {if} " + n.Name + " VALUE"
	case n.Mechanism == WinTCP:
		return "the cmdlet without -PolicyStore ActiveStore, or netsh with store=persistent"
	case n.Mechanism == WinReg:
		return "the value stays in the registry"
	}
	return ""
}
