package native

import (
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/ifupdown"
	"linerate/internal/host/files/netplan"
	"linerate/internal/host/files/networkd"
	"linerate/internal/host/files/networkmanager"
	"linerate/internal/host/files/rcconf"
	"linerate/internal/host/files/sysctl"
)

// Formats returns the formats that write files for f, and prove their effect: that of the
// kernel's settings, and that of the owner of an interface; none for formats that only Render
// writes.
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

// export has the formats for f write what they can.
func (r *rendering) export(f model.FileFormat) {
	req := r.request()
	for _, format := range Formats(f) {
		r.draft(format.Export(req))
	}
	for _, s := range req.Settings {
		if s.Text == "" && f == model.FormatLinuxSysctl {
			r.out.Omitted = append(r.out.Omitted, model.Omission{Knob: s.Knob, Value: s.Value,
				Reason: "not a sysctl: the owner of the interface keeps it (systemd-networkd, netplan, networkmanager, ifupdown)"})
		}
	}
}

// noOwner returns why no owner of an interface has a key for e.
func noOwner(e *entry) string {
	if e.native.Mechanism == knob.Route {
		return "belongs to a route: put it where that route is configured"
	}
	return e.native.Permanent("linux")
}
