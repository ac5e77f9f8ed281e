package native

import (
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/ifupdown"
	"linerate/internal/host/files/netplan"
	"linerate/internal/host/files/networkd"
	"linerate/internal/host/files/networkmanager"
	"linerate/internal/host/files/rcconf"
	"linerate/internal/host/files/sysctl"
)

// Formats returns the formats that prove what they write for f: that of the
// kernel's settings, and that of the owner of an interface. There is none for what
// Render alone writes.
func Formats(f model.FileFormat) []files.Format {
	switch f {
	case model.FormatLinuxSysctl:
		return []files.Format{sysctl.Format{}}
	case model.FormatIfupdown:
		return []files.Format{sysctl.Format{}, ifupdown.Format{}}
	case model.FormatNetworkManager:
		return []files.Format{sysctl.Format{}, networkmanager.Format{}}
	case model.FormatSystemdNetworkd:
		return []files.Format{sysctl.Format{}, networkd.Format{}}
	case model.FormatNetplan:
		return []files.Format{sysctl.Format{}, netplan.Format{}}
	case model.FormatFreeBSD:
		return []files.Format{rcconf.Format{}}
	case model.FormatMacOS, model.FormatWindowsReg, model.FormatWindowsPowerShell, model.FormatAnsible:
	}
	return nil
}
